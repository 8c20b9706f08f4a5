"""The fault matrix on real labs: every fault, at a source, a receiver or a branch; everybody who lives gets the file,
whole. `make test-faults` runs it; `make test` takes one row."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from lab_kit import DATACAST, free_ports, unique_name

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]

BCUBE = ("bcube:4,1", "00", "02,10,21,23,31,33")
TORUS = ("torus:3,2", "00", "01,12,21")

ROWS = [
    (BCUBE, ["link 00:0 down at 700ms"], ()),
    (BCUBE, ["link 21:0 down at 700ms", "link 21:0 up at 1500ms"], ()),
    (BCUBE, ["link s1.0:2 down at 700ms"], ()),
    (BCUBE, ["kill switch s1.1 at 700ms"], ()),
    (BCUBE, ["kill agent 21 at 700ms, restart at 2s"], ()),
    (BCUBE, ["kill agent 21 at 700ms"], ("21",)),
    (BCUBE, ["kill agent 11 at 700ms"], ()),
    (BCUBE, ["stop agent 31 for 2s at 700ms"], ()),
    (BCUBE, ["blackhole s0.0:0 at 700ms"], ()),
    (BCUBE, ["corrupt s0.0 1e-3"], ()),
    (BCUBE, ["kill master at 1s"], ()),
    (BCUBE, ["kill fabric-manager at 1s"], ()),
    (BCUBE, ["kill controller at 1s"], ()),
    (TORUS, ["link 00:0 down at 700ms"], ()),
    (TORUS, ["link 12:1 down at 700ms"], ()),
    (TORUS, ["kill master at 1s"], ()),
]
FAST = ROWS[:1]
ALL = bool(os.environ.get("DATACAST_FAULTS"))


@pytest.mark.parametrize(
    ("where", "faults", "lost"), ROWS if ALL else FAST, ids=lambda v: "+".join(v) if isinstance(v, list) else None
)
def test_those_who_live_get_the_file(where, faults, lost, tmp_path):
    topology, source, to = where
    rest, fabric = free_ports(2)
    path = tmp_path / "report.json"
    command = [str(DATACAST), "lab", "run", "--topology", topology, "--name", unique_name("fault"), "--size", "32M"]
    command += ["--rest-port", str(rest), "--fabric-port", str(fabric), "--to", to, "--json", str(path)]
    command += ["--from", source] if source else []
    for fault in faults:
        command += ["--fault", fault]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150)
    assert path.exists(), done.stderr
    report = json.loads(path.read_text())
    assert [f["spec"] for f in report["faults"] if f["error"]] == [], report["faults"]
    wrong = [name for name, r in report["receivers"].items() if not r["sha256_ok"] and name not in lost]
    assert wrong == [], (report["state"], report["error"], report["receivers"])
    assert report["state"] == ("partial" if lost else "done")
