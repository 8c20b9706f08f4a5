"""`lab run --sites`: a file over a WAN whose rate changes and whose link is cut, and what the report says of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from lab_kit import finish
from left_over import unique_name
from ports import free_ports

from datacast.lab.state import Registry

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(300)]

SITES = """
sites:
  ams: {hosts: 2}
  sfo: {hosts: 2}
  syd: {hosts: 1, nat: true}
links:
  - {between: [ams, sfo], rate: 40mbit, delay_ms: 5}
  - {between: [sfo, syd], rate: 40mbit, delay_ms: 5}
changes:
  - {at: 0s, between: [sfo, ams], rate: 20mbit}
"""
MIB = 1 << 20


def lab_run(folder: Path, *words: str, seconds: float = 200, name: str = "") -> subprocess.CompletedProcess[str]:
    (folder / "sites.yaml").write_text(SITES)
    rest, fabric = free_ports(2)
    command = [sys.executable, "-m", "datacast.cli.main", "lab", "run", "--sites", str(folder / "sites.yaml")]
    command += ["--mtu", "1500", "--no-realtime", "--json", str(folder / "report.json")]
    command += ["--rest-port", str(rest), "--fabric-port", str(fabric), "--name", name or unique_name("run"), *words]
    return finish(command, seconds)


def test_a_run_that_takes_too_long_leaves_no_lab_behind(tmp_path):
    """Another try would find it left over, and its processes would take the machine's time."""
    name = unique_name("late")
    with pytest.raises(AssertionError, match="not over after 4 s"):
        lab_run(tmp_path, "--size", "8M", seconds=4, name=name)
    assert Registry().load(name) is None


def test_every_site_gets_the_file_through_a_cut_and_each_link_carries_it_once(tmp_path):
    """The link that is cut loses its carrier, and its routers their routes: both come back."""
    done = lab_run(tmp_path, "--size", "8M", "--seed", "1", "--fault", "link sfo-gw:2 down at 1s, up at 3s")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["ok"] and report["size"] == 8 * MIB
    sites = report["sites"]
    assert {name: (one["hosts"], one["verified"]) for name, one in sites.items()} == {
        "ams": (1, 1),
        "sfo": (2, 2),
        "syd": (1, 1),
    }
    # 20 Mbit/s from the request on (1.7 s with the cable's 40), and a cut: the bound knows the file's changes, and when
    # a busy machine came to the cut. Nobody is faster than the bound.
    assert 3.4 < sites["sfo"]["ideal_s"] < 3.6
    assert sites["sfo"]["ideal_s"] < sites["syd"]["ideal_s"]
    assert all(one["finish_over_ideal"] >= 1.0 for one in sites.values()), sites
    wan = {link: one["over_file"] for link, one in report["wan"].items()}
    assert 1.0 <= wan["ams to sfo"] < 1.08 and 1.0 <= wan["sfo to syd"] < 1.15, wan
    assert wan["sfo to ams"] < 0.1 and wan["syd to sfo"] < 0.1
    assert [fault["error"] for fault in report["faults"]] == [None, None]
    assert "delivered to 4 of 4 and verified" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--topology", "bcube:4,1", "--dataplane", "ovs"], "--dataplane and --sites exclude each other"),
        (["--insecure"], "--insecure and --sites exclude each other"),
        (["--to", "syd/all"], "ams knows no site syd"),
        (["--fault", "kill controller at 1s"], "a lab of sites cannot do that"),
    ],
)
def test_what_sites_cannot_do_is_said_before_anything_starts(tmp_path, words, message):
    done = lab_run(tmp_path, "--size", "1M", *words)
    assert done.returncode == 2 and message in done.stderr, done.stdout + done.stderr
