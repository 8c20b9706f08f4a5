"""`make coverage`: tests that import this (`-p instrumented`) run the core that counts its lines, whose path is in
DATACAST_INSTRUMENTED."""

import importlib.util
import os
import sys

NAME = "datacast.core._core"
_spec = importlib.util.spec_from_file_location(NAME, os.environ["DATACAST_INSTRUMENTED"])
assert _spec and _spec.loader
sys.modules[NAME] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sys.modules[NAME])
