"""Controllers that know each other: a group whose receivers are at several sites (docs/sites.md)."""

import sys

# httpx would load its own command, and with it rich and pygments where they are installed: 5 MB that no service has a
# use for. It makes do without.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
