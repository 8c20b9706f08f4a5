"""Ranges per receiver at several sites: what is wanted at a site travels to it once, and nothing else does."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mesh import Site, mesh, until

from datacast.controller.sites.wants import along, of_site, split, with_ranges
from datacast.fabric_manager.api import GroupSpec
from datacast.origins.ranges import piece_bytes
from datacast.services.problems import Problem
from datacast.services.ranges import spans
from datacast.services.sites_file import SiteError

pytestmark = pytest.mark.slow

SIZE = (8 << 20) + 77
DATA = np.random.default_rng(7).bytes(SIZE)
PIECE = piece_bytes(SIZE)
EDGE = 2 * 50_000
"""Of a range: blocks at its ends are wanted whole."""


class Came:
    """How often each byte came to a site from others."""

    def __init__(self, site: Site) -> None:
        self.times, peers = np.zeros(SIZE, np.uint8), site.coordinator.peers
        before = peers.stream

        async def stream(name: str, group: str, first: int, last: int, etag: str) -> AsyncGenerator[bytes, None]:
            at = first
            async for chunk in before(name, group, first, last, etag):
                self.times[at : at + len(chunk)] += 1
                at += len(chunk)
                yield chunk

        peers.stream = stream  # type: ignore[method-assign]

    def only(self, *ranges: str) -> None:
        """These bytes came, once, and of others at most what blocks at their ends reach into, and the first."""
        wanted, near = np.zeros(SIZE, bool), np.zeros(SIZE, bool)
        near[0] = True  # asked for to learn the size
        for first, n in spans(ranges, SIZE, 1):
            wanted[first : first + n] = True
            near[max(0, first - EDGE) : first + n + EDGE] = True
        assert self.times[wanted].min() == 1 and not self.times[~near].any()
        assert (self.times[wanted] > 1).sum() <= EDGE * 2 * len(ranges) and self.times[1:].max() <= 2


def right(site: Site, host: str, *ranges: str) -> None:
    """It has these, and holes elsewhere."""
    found = site.fabric.hosts[host].files["f"]
    assert len(found) == SIZE
    far = np.ones(SIZE, bool)
    for first, n in spans(ranges, SIZE, 1):
        assert found[first : first + n] == DATA[first : first + n]
        far[max(0, first - EDGE) : first + n + EDGE] = False
    assert not np.frombuffer(found, np.uint8)[far].any()


HOSTS = {"ams": ["a0", "a1"], "sfo": ["s0", "s1"], "oak": ["o0", "o1"]}
LOW, MID, TOP = f"0-{2 * PIECE - 1}", f"{9 * PIECE + 1000}-{11 * PIECE + 5}", f"{20 * PIECE + 3}-"


async def test_what_a_site_wants_travels_to_it_once_and_nothing_else(tmp_path: Path) -> None:
    """oak is behind sfo, and wants something of its own, something that sfo wants too, and not what a1 wants."""
    async with mesh(tmp_path, HOSTS, {"sfo": ["ams"], "oak": ["sfo"]}) as sites:
        ams, sfo, oak = sites.values()
        ams.give(DATA)
        to_sfo, to_oak = Came(sfo), Came(oak)
        shards = {"a1": [LOW], "sfo/s0": [MID], "sfo/s1": ["3000000-3100000"]}
        shards |= {"sfo/oak/o0": [MID], "sfo/oak/o1": [TOP]}
        group = await ams.end(await ams.made([*shards], shards=shards))
        assert group["state"] == "done", group
        assert group["shards"]["sfo/oak/o1"] == [f"{20 * PIECE + 3}-{SIZE - 1}"]
        right(ams, "a1", LOW)
        right(sfo, "s0", MID)
        right(sfo, "s1", "3000000-3100000")
        right(oak, "o0", MID)
        right(oak, "o1", TOP)
        to_sfo.only(MID, "3000000-3100000", TOP)  # the last to be passed on
        to_oak.only(MID, TOP)
        held = sfo.coordinator.groups[group["id"]]
        assert held.spec.shards.keys() == {"s0", "s1"} and held.parts["oak"].shards.keys() == {"o0", "o1"}


async def test_holes_in_the_files_of_hosts_that_are_done_are_read_for_no_other_site(tmp_path: Path) -> None:
    """What oak wants the hosts of sfo have in halves, and zeros beside them."""
    async with mesh(tmp_path, HOSTS, {"sfo": ["ams"], "oak": ["sfo"]}) as sites:
        ams, sfo, oak = sites.values()
        ams.give(DATA)
        oak.fabric.hold.clear()
        shards = {"sfo/s0": ["0-3999999"], "sfo/s1": ["4000000-"]}
        group = await ams.made([*shards, "sfo/oak/o0"], shards=shards)
        await until(lambda: group in sfo.coordinator.groups and sfo.coordinator.groups[group].own.state == "done")
        for site in (oak, sfo):  # what sfo has read ahead is forgotten, and what oak has
            await site.stop()
        for site in (sfo, oak):
            await site.start()
        oak.fabric.hold.set()
        ended = await ams.end(group)
        assert ended["state"] == "done" and oak.has("o0", DATA), ended
        right(sfo, "s0", "0-3999999")


async def test_what_only_a_site_behind_wants_does_not_wait_for_the_hosts_before_it(tmp_path: Path) -> None:
    async with mesh(tmp_path, HOSTS, {"sfo": ["ams"], "oak": ["sfo"]}) as sites:
        ams, sfo, oak = sites.values()
        ams.give(DATA)
        sfo.fabric.hold.clear()
        shards = {"sfo/s0": [LOW], "sfo/oak/o1": [TOP]}
        group = await ams.made([*shards], shards=shards)
        await until(lambda: group in oak.coordinator.groups and oak.coordinator.groups[group].own.state == "done")
        assert not sfo.coordinator.groups[group].own.final
        right(oak, "o1", TOP)
        sfo.fabric.hold.set()
        assert (await ams.end(group))["state"] == "done"


async def test_a_scatter_gives_each_host_of_all_sites_its_part(tmp_path: Path) -> None:
    async with mesh(tmp_path, HOSTS, {"sfo": ["ams"], "oak": ["ams"]}) as sites:
        ams, sfo, oak = sites.values()
        ams.give(DATA)
        to_sfo, to_oak = Came(sfo), Came(oak)
        to = ["ams/a1", "sfo/s0", "sfo/s1", "oak/o0"]
        group = await ams.end(await ams.made(to, scatter=True))
        assert group["state"] == "done", group
        shards = group["shards"]
        rows = [spans(shards[name], SIZE, 1) for name in ("a1", *to[1:])]
        assert [first for [(first, _)] in rows] == [0, 8 * PIECE, 16 * PIECE, 24 * PIECE]
        assert sum(n for [(_, n)] in rows) == SIZE
        right(ams, "a1", *shards["a1"])
        right(sfo, "s0", *shards["sfo/s0"])
        right(oak, "o0", *shards["oak/o0"])
        to_sfo.only(*shards["sfo/s0"], *shards["sfo/s1"])
        to_oak.only(*shards["oak/o0"])


# ---- what is meant, and what is refused ----
def spec(**more: Any) -> GroupSpec:
    return GroupSpec(source="a0", source_path="/srv/f", **{"receivers": ["a1", "sfo/s0", "sfo/oak/*/all"], **more})


@pytest.mark.parametrize(
    ("more", "what", "words"),
    [
        ({"scatter": True, "shards": {"a1": ["0-"]}}, "scatter", "says what each"),
        ({"scatter": True}, "sfo/oak/*/all", "needs their names"),
        ({"shards": {"sfo/s1": ["0-"]}}, "sfo/s1", "no receiver"),
        ({"shards": {"sfo/s0": ["5-4"]}}, "shards", "no range"),
        ({"shards": {"sfo/s0": [f"{SIZE}-"]}}, "shards", "behind the end"),
        ({"shards": {"a1": ["0-"]}, "sha256": "0" * 64}, "shards", "as a whole"),
    ],
)
def test_ranges_that_mean_nothing_are_refused(more: dict[str, Any], what: str, words: str) -> None:
    with pytest.raises(Problem, match=words) as caught:
        with_ranges(spec(**more), SIZE, False, "ams")
    assert (caught.value.code, caught.value.what, caught.value.status) == ("bad_shards", what, 422)


def test_ranges_are_bytes_by_site() -> None:
    shards = {"ams/a1": ["1/2"], "sfo/s0": ["10-", "0-4"], "sfo/oak/x/y": []}
    found = with_ranges(spec(shards=shards), SIZE, False, "ams").shards
    half = SIZE // 65536 // 2 * 65536
    assert found == {"a1": [f"0-{half - 1}"], "sfo/s0": ["0-4", f"10-{SIZE - 1}"], "sfo/oak/x/y": []}
    here, there = split(found, "ams", {"sfo": None})
    assert here == {"a1": found["a1"]} and there == {"sfo": {"s0": found["sfo/s0"], "oak/x/y": []}}
    with pytest.raises(SiteError, match="no receiver"):
        split(found, "ams", {})
    assert of_site(spec(receivers=["a1"], shards=here), SIZE) == [(0, half)]
    assert of_site(spec(receivers=["a1", "a2"], shards=here), SIZE) is None  # a2 wants all
    assert of_site(spec(receivers="all", shards=here), SIZE) is None  # who that is is not known here
    rows = [(10, 5), (20, 5)]
    assert [along(rows, at, 30) for at in (0, 10, 14, 15, 24, 25)] == [
        (False, 9), (True, 14), (True, 14), (False, 19), (True, 24), (False, 30),
    ]  # fmt: skip
