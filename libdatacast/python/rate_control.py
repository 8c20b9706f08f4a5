"""The core's rules of rate control."""

from __future__ import annotations

from itertools import count, takewhile

from ._core import ffi, lib

RULES = tuple(ffi.string(name).decode() for name in takewhile(bool, map(lib.dc_cc_name, count())))
"""Their names, as agents and sources know them (libdatacast/src/cc.c)."""
