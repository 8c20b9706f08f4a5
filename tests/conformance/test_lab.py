"""Whole labs on each data plane: a file to a group, delivered, verified, with the trees' links not stressed."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest
from conformance_kit import ROOT
from planes import PLANES

pytestmark = [pytest.mark.root, pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]
DATACAST = ROOT / ".venv" / "bin" / "datacast"
SIX = "02,10,21,23,31,33"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


def lab_run(tmp_path: Path, *options: str) -> dict:
    report = tmp_path / "report.json"
    command = [str(DATACAST), "lab", "run", "--name", f"cf{os.getpid()}", "--rest-port", str(free_port()),
               "--fabric-port", str(free_port()), "--json", str(report), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return json.loads(report.read_text())


def need(name: str) -> None:
    for part in name.split("+"):
        if lack := PLANES[part].missing():
            pytest.skip(f"{part}: {lack}")


@pytest.mark.parametrize(("name", "link", "more"), [
    ("ovs", "20mbit", ()), ("ovs+dpdk", "20mbit", ()), ("bmv2", "10mbit", ("--credits", "16"))])
def test_a_file_reaches_its_group(tmp_path: Path, name: str, link: str, more: tuple[str, ...]) -> None:
    need(name)
    report = lab_run(tmp_path, "--dataplane", name, "--link", link, "--size", "2M", "--from", "00", "--to", SIX, *more)
    assert report["ok"] and all(r["sha256_ok"] for r in report["receivers"].values()) and len(report["receivers"]) == 6
    assert report["trees"]["count"] == 2 and report["silent"] == []
    # 2 MB are too little to say much about duplicates on a machine that does other things, too.
    assert 0.99 < report["link_stress"] < 1.5


def test_segments_are_split_for_switches_that_pop_under_three_labels(tmp_path: Path) -> None:
    """Five switches in a row, no branch before the last."""
    need("ovs")
    report = lab_run(tmp_path, "--topology", "fattree:4,3", "--dataplane", "ovs", "--link", "20mbit", "--size", "1M",
                     "--from", "0000", "--to", "1111,1110")
    assert report["ok"] and report["labels"] <= 3


def test_an_unknown_data_plane_is_refused_with_those_there_are(tmp_path: Path) -> None:
    command = [str(DATACAST), "lab", "run", "--dataplane", "ovs+magic", "--size", "1M"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "magic" in done.stderr and "dpdk, ovs, bmv2" in done.stderr
