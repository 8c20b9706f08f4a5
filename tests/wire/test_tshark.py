"""The Wireshark dissector reads the golden frames as they are meant."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from golden import read
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

FIELDS = ("mpls.label", "datacast.type", "datacast.flags", "datacast.tree", "datacast.seq", "datacast.stops")
FIELDS += ("datacast.lag", "datacast.cache", "datacast.more", "datacast.stop.ret", "datacast.stop.fwd")
FIELDS += ("datacast.payload",)
TYPE = {"interest": "1", "data": "2", "hello": "3"}


def dissect(project: Path, pcap: Path, *options: str) -> str:
    tshark = shutil.which("tshark")
    if tshark is None:
        pytest.skip("tshark is not installed (apt-get install tshark)")
    script = project / "libdatacast" / "tools" / "datacast.lua"
    done = subprocess.run(
        [tshark, "-X", f"lua_script:{script}", "-r", pcap, *options], capture_output=True, text=True, check=True
    )
    assert "Lua: Error" not in done.stderr, done.stderr
    return done.stdout


def test_the_dissector_reads_every_golden_frame(project: Path, tmp_path: Path) -> None:
    entries = read("frame")
    pcap = tmp_path / "golden.pcap"
    wrpcap(str(pcap), [Ether(entry.frame) for entry in entries])
    options = [option for name in FIELDS for option in ("-e", name)]
    rows = dissect(project, pcap, "-T", "fields", *options).rstrip("\n").split("\n")
    assert len(rows) == len(entries)
    for entry, row in zip(entries, rows, strict=True):
        labels, kind, flags, tree, seq, stops, lag, cache, more, ret, fwd, payload = row.split("\t")
        assert labels == ",".join(map(str, entry.labels)), entry.name
        assert (kind, int(flags, 16), int(tree, 16), int(seq)) == (
            TYPE[entry.value["type"]],
            entry.number("flags"),
            entry.number("tree"),
            entry.number("seq"),
        ), entry.name
        assert (int(stops), int(lag), int(cache)) == (len(entry.stops), entry.number("lag"), entry.number("cache"))
        assert int(more) == entry.number("more"), entry.name
        assert ret == ",".join(str(port) for stop in entry.stops for port in stop.ret.ports), entry.name
        assert fwd == ",".join(str(port) for stop in entry.stops for port in stop.fwd.ports), entry.name
        assert payload == ("" if entry.stops else entry.rest.hex()), entry.name


def test_the_dissector_marks_what_is_cut(project: Path, tmp_path: Path) -> None:
    cut = [e for e in read("refuse") if e.name in ("payload-cut", "route-stop-cut", "route-shorter-than-its-stops")]
    assert len(cut) == 3
    pcap = tmp_path / "cut.pcap"
    wrpcap(str(pcap), [Ether(entry.frame) for entry in cut])
    assert dissect(project, pcap, "-Y", "datacast.malformed", "-T", "fields", "-e", "frame.number").split() == [
        "1",
        "2",
        "3",
    ]
