"""Ranges per receiver in a whole lab: each host has the bytes it wants, and links carry what is wanted behind them."""

from __future__ import annotations

import os

import pytest
from origin_lab import HOSTS, OriginLab, origin_lab

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]

HEADS = 1.03
"""Headers, interests and hellos beside the payload."""


@pytest.fixture(scope="module")
def its_lab(tmp_path_factory):
    with origin_lab(tmp_path_factory.mktemp("shards")) as made:
        yield made


@pytest.fixture
def it(its_lab):
    its_lab.afresh()
    return its_lab


def bytes_in(it: OriginLab, host: str) -> int:
    """That came over its cable."""
    machine = it.lab.plan.machine_of(host)
    path = f"/sys/class/net/{machine.ports[host][0].ifname}/statistics/rx_bytes"
    return int(it.lab.network.run_in(machine.name, ["cat", path]))


def test_a_scatter_brings_each_host_its_part_and_nothing_else(it: OriginLab) -> None:
    path = it.lab.host_folder("h0") / "data"
    content = os.urandom((6 << 20) + 12345)
    path.write_bytes(content)
    before = {host: bytes_in(it, host) for host in HOSTS}
    group = it.group(
        {"source": "h0", "source_path": str(path), "receivers": HOSTS[1:], "dest_path": "part", "scatter": True}
    )
    assert group["state"] == "done", group
    payload, per_block = group["report"]["payload"], group["report"]["per_block"]
    block = payload * per_block
    blocks = -(-len(content) // block)
    for k, host in enumerate(HOSTS[1:]):
        first, end = k * blocks // 4 * block, min(len(content), (k + 1) * blocks // 4 * block)
        got = (it.lab.host_folder(host) / "part").read_bytes()
        assert got == bytes(first) + content[first:end] + bytes(len(content) - end), host
        assert group["receivers"][host]["bytes"] == end - first
        carried = bytes_in(it, host) - before[host]
        assert end - first < carried < HEADS * (end - first) + 50_000, f"{host}: {carried} of {end - first}"
    assert group["report"]["dup_packets"] <= 0.01 * group["report"]["new_packets"]


def test_ranges_travel_only_where_they_are_wanted(it: OriginLab) -> None:
    path = it.lab.host_folder("h0") / "data"
    content = os.urandom(6 << 20)
    path.write_bytes(content)
    shards = {"h1": ["0-1048575"], "h2": ["0-1048575", "4194304-"], "h3": ["2/3"]}
    before = {host: bytes_in(it, host) for host in HOSTS}
    spec = {"source": "h0", "source_path": str(path), "receivers": HOSTS[1:4], "dest_path": "part", "shards": shards}
    plan = it.lab.rest_json("POST", f"/plan?size={len(content)}", spec)
    assert plan["wanted_bytes"] == {"h1": 1 << 20, "h2": 3 << 20, "h3": 2 << 20}
    group = it.group(spec)
    assert group["state"] == "done", group
    third = len(content) // 3
    wants = {"h1": [(0, 1 << 20)], "h2": [(0, 1 << 20), (4 << 20, 6 << 20)], "h3": [(third, 2 * third)]}
    for host, ranges in wants.items():
        got, carried = (it.lab.host_folder(host) / "part").read_bytes(), bytes_in(it, host) - before[host]
        for first, end in ranges:
            inner = (first, end) if host != "h3" else (first + (1 << 16), end - (1 << 16))
            assert got[slice(*inner)] == content[slice(*inner)], host
        wanted = sum(end - first for first, end in ranges)
        assert carried < HEADS * (wanted + 3 * (128 << 10)) + 50_000, f"{host}: {carried} of {wanted}"
        assert len(got) == len(content) and got.count(0) > (len(content) - wanted) * 0.9
    new = group["report"]["new_packets"] * group["report"]["payload"]
    assert new < 5 * (1 << 20) + 8 * (128 << 10), "what two want leaves the source once"
