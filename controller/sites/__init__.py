"""Controllers that know each other: a group whose receivers are at several sites (docs/sites.md)."""

import importlib.util
import logging
import sys

# httpx, by which other sites are asked (peers.py). It would load its own command, and with it rich and pygments where
# they are installed: 5 MB that no service has a use for. It makes do without.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
# What it tries to import several times with each request is looked for on the disk each time, unless Python is told
# that it is not there.
if importlib.util.find_spec("sniffio") is None:
    sys.modules["sniffio"] = None  # type: ignore[assignment]
logging.getLogger("httpx").setLevel(logging.WARNING)  # it would tell of every request
