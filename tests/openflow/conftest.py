"""Shared kit on the path: the authority for certificates."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "services_kit"))
