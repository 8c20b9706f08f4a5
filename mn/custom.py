"""For `mn --custom`: gives mn the classes. mn runs under Debian's Python; Datacast's environment is found here."""

from __future__ import annotations

import importlib.util
import os
import site
import sys
from pathlib import Path
from typing import Any

if importlib.util.find_spec("datacast") is None:
    _tree = Path(sys._getframe().f_code.co_filename).resolve().parents[1]
    for _folder in sorted(_tree.glob(".venv/lib/python3*/site-packages")):
        site.addsitedir(str(_folder))
        os.environ["PATH"] += f":{_folder.parents[2] / 'bin'}"

from mininet.node import findController as _find

from datacast.mininet import DatacastNet, controllers, hosts, switches, topos

__all__ = ["Mininet", "controllers", "findController", "hosts", "switches", "topos"]

Mininet = DatacastNet
"""mn builds the network of the class that has this name."""


def findController() -> Any:
    """mn's default controller: Datacast's beside Datacast's switches."""
    chosen = any(word.split("=")[-1].startswith("datacast") for word in sys.argv[1:])
    return controllers["datacast"] if chosen else _find()
