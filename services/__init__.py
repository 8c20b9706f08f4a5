"""What the Python services share: HTTP, TLS, tokens, problems, certificates, the signalling's frames."""

import sys

# httpx would load its own command, and with it rich and pygments where they are installed: 5 MB in each process and a
# twentieth of a second that no service has a use for. It makes do without.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
