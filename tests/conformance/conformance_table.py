"""The whole table: scenarios.py's rows and the golden frames of tests/golden."""

from __future__ import annotations

import importlib.util
import itertools
import sys

import scenarios
from conformance_kit import ROOT
from scenarios import Scenario

_trees = itertools.count(1)


def _golden() -> list[Scenario]:
    spec = importlib.util.spec_from_file_location("wire_golden", ROOT / "tests" / "wire" / "golden.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["wire_golden"] = module
    spec.loader.exec_module(module)
    pops = [(e.name, e.frame, int(e.value["port"]), bytes.fromhex(e.value["out"])) for e in module.read("pop")]
    # Those about ports are written for a node of four, and this one has eight. Ordinary Ethernet is bridged by some.
    refused = [
        (e.name, e.frame)
        for e in module.read("refuse")
        if e.value["reason"] not in ("port", "ethertype") and e.frame[12:14] in (b"\x88\x47", b"\x88\xb5")
    ]
    return scenarios.golden(pops, refused)


TABLE = [
    *scenarios.label_scenarios(),
    *scenarios.size_scenarios(),
    *scenarios.ethernet_scenarios(),
    *scenarios.node_scenarios(lambda: next(_trees)),
    *_golden(),
]
