"""Names that lead over several levels of sites, rings of them, and names that two sites have."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from authority import Authority
from mesh import Site, mesh, until

DATA = np.random.default_rng(4).bytes(300_001)
HOSTS = {"ams": ["a0", "a1"], "sfo": ["s0", "s1"], "oak": ["o0"], "sjc": ["j0"]}
TREE = {"sfo": ["ams"], "oak": ["sfo"], "sjc": ["oak"]}
"""Each asks the one above it: a chain of four levels."""
ALL = {"a1", "sfo/s0", "sfo/s1", "sfo/oak/o0", "sfo/oak/sjc/j0"}


def having(sites: dict[str, Site], dest: str = "f") -> set[str]:
    return {host for site in sites.values() for host, it in site.fabric.hosts.items() if it.files.get(dest) == DATA}


async def sent(sites: dict[str, Site], to: list[str], **more: Any) -> dict[str, Any]:
    sites["ams"].give(DATA)
    return await sites["ams"].end(await sites["ams"].made(to, **more))


REACHED: list[tuple[list[str], set[str]]] = [
    (["all", "sfo/all"], {"a1", "sfo/s0", "sfo/s1"}),  # limited broadcast: a level, and no further
    (["*/all"], ALL),  # deep broadcast
    (["sfo/*/all"], ALL - {"a1"}),
    (["sfo/oak/*/all"], {"sfo/oak/o0", "sfo/oak/sjc/j0"}),
    (["sfo/oak/all"], {"sfo/oak/o0"}),
    (["sfo/oak/sjc/j0", "sfo/s1", "ams/a1"], {"sfo/oak/sjc/j0", "sfo/s1", "a1"}),
    (["sfo/s0", "sfo/*/all"], ALL - {"a1"}),
    (["sfo/all", "sfo/oak/all", "sfo/oak/o0"], {"sfo/s0", "sfo/s1", "sfo/oak/o0"}),
]


@pytest.mark.slow
async def test_names_reach_the_levels_that_they_say(tmp_path: Path) -> None:
    """All at once, each to a file of its own."""
    async with mesh(tmp_path, HOSTS, TREE) as sites:
        files = [f"f{number}" for number in range(len(REACHED))]
        rows = zip(REACHED, files, strict=True)
        groups = await asyncio.gather(*(sent(sites, to, dest_path=file) for (to, _), file in rows))
        for (to, reached), file, group in zip(REACHED, files, groups, strict=True):
            assert group["state"] == "done" and set(group["receivers"]) == reached, (to, group)
            assert having(sites, file) == {name.rpartition("/")[2] for name in reached}, to


@pytest.mark.slow
async def test_in_a_ring_all_hosts_get_it_once(tmp_path: Path) -> None:
    ring = {"ams": ["sfo", "oak"], "sfo": ["oak", "ams"], "oak": ["ams", "sfo"]}
    async with mesh(tmp_path, {name: HOSTS[name] for name in ring}, ring) as sites:
        group = await sent(sites, ["*/all"])
        assert group["state"] == "done", group
        assert having(sites) == {"a1", "s0", "s1", "o0"}
        assert [len(site.fabric.groups) for site in sites.values()] == [1, 1, 1]


BEYOND = [
    (["sfo/ams/a1"], "cycle", "ams/a1 leads back: the group came here from ams"),
    (["sfo/oak/sfo/all"], "cycle", "sfo/all leads back: the group came here from ams and sfo"),
    (["sfo/mars/all"], "unknown_site", "mars/all: no site mars is known at sfo"),
    (["sfo/oak/nobody"], "unknown_host", "no host 'nobody'"),
]


@pytest.mark.slow
async def test_what_a_site_further_down_cannot_do_is_told_at_the_top(tmp_path: Path) -> None:
    async with mesh(tmp_path, HOSTS, TREE) as sites:
        groups = await asyncio.gather(*(sent(sites, to) for to, _, _ in BEYOND))
        for (to, code, words), group in zip(BEYOND, groups, strict=True):
            assert group["state"] == "failed" and group["error"]["code"] == code, (to, group)
            assert words in group["error"]["message"], (to, group)
        assert having(sites) == set()


async def test_a_site_that_nobody_knows_is_refused_at_once(tmp_path: Path) -> None:
    async with mesh(tmp_path, {"ams": HOSTS["ams"], "sfo": HOSTS["sfo"]}, {"sfo": ["ams"]}) as sites:
        for to in (["mars/all"], ["sfo/all", "mars/all"], ["mars/h1", "a1"]):
            answer = await sites["ams"].order(to)
            assert (answer.status_code, answer.json()["code"]) == (422, "unknown_site"), (to, answer.text)
            assert "no site mars is known at ams" in answer.json()["detail"]


async def test_a_name_with_nothing_behind_a_slash_is_refused_at_once(tmp_path: Path) -> None:
    """The site behind it took no order any more, of whatever group, until this one was cancelled."""
    async with mesh(tmp_path, {"ams": HOSTS["ams"], "sfo": HOSTS["sfo"]}, {"sfo": ["ams"]}) as sites:
        for name in ("sfo/", "sfo/oak/", "sfo//all", "ams/"):
            answer = await sites["ams"].order([name])
            assert (answer.status_code, answer.json()["code"]) == (422, "unknown_host"), (name, answer.text)
            assert f"{name} names no host" in answer.json()["detail"]


@pytest.mark.slow
@pytest.mark.parametrize("why", ["it is away", "another authority"])
async def test_a_site_that_does_not_take_its_order_is_named_until_it_does(tmp_path: Path, why: str) -> None:
    hosts = {name: HOSTS[name] for name in ("ams", "sfo", "oak")}
    async with mesh(tmp_path, hosts, {"sfo": ["ams"], "oak": ["sfo"]}) as sites:
        oak, good = sites["oak"], sites["sfo"].file.read_text()
        if why == "it is away":
            await oak.stop()
        else:
            sites["sfo"].file.write_text(good.replace(str(oak.authority.ca), str(Authority(tmp_path / "x").ca)))

        def away() -> bool:
            peer = sites["sfo"].coordinator.peers.all["oak"]
            if why == "it is away":
                peer.asked = None  # as after a minute; what it had asked for is still being answered
            return not peer.takes_orders

        await until(away)
        sites["ams"].give(DATA)
        groups = [await sites["ams"].made(["sfo/oak/all"], dest_path=name) for name in ("f", "g")]
        for group in groups:
            while (told := await sites["ams"].now(group))["sites"]["sfo"]["error"] is None:
                await until(away)
            assert told["state"] == "starting" and told["error"]["code"] == "site_away"
            assert "site oak has not taken the order yet: it has not asked" in told["error"]["message"]
        await sites["ams"].http.post(f"/groups/{groups[1]}/cancel")
        assert (await sites["ams"].end(groups[1]))["state"] == "cancelled", "nobody waits for it to be back"
        if why == "it is away":
            oak.stack = AsyncExitStack()
            await oak.start()
        else:
            sites["sfo"].file.write_text(good)
        ended = await sites["ams"].end(groups[0])
        assert ended["state"] == "done" and ended["error"] is None, ended
        assert oak.has("o0", DATA) and not oak.has("o0", DATA, "g")


@pytest.mark.slow
async def test_two_sites_of_one_name_beneath_different_ones_are_two(tmp_path: Path) -> None:
    """sfo's oak is not the one that ams has given the group to: it is not left out, and not asked for pieces."""
    hosts = {**HOSTS, "other": ["x0"]}
    async with mesh(tmp_path, hosts, {"sfo": ["ams"], "oak": ["ams"], "other": ["sfo"]}, {"other": "oak"}) as sites:
        group = await sent(sites, ["*/all"])
        assert group["state"] == "done", group
        assert set(group["receivers"]) == {"a1", "sfo/s0", "sfo/s1", "oak/o0", "sfo/oak/x0"}
        assert having(sites) == {"a1", "s0", "s1", "o0", "x0"}
        assert next(iter(sites["sfo"].coordinator.groups.values())).others == []


@pytest.mark.slow
async def test_a_site_of_a_name_that_the_group_came_through_is_told_so(tmp_path: Path) -> None:
    hosts = {"ams": HOSTS["ams"], "sfo": HOSTS["sfo"], "oak": HOSTS["oak"], "other": ["x0"]}
    asks = {"sfo": ["ams"], "oak": ["sfo"], "other": ["oak"]}
    async with mesh(tmp_path, hosts, asks, {"other": "ams"}) as sites:
        group = await sent(sites, ["*/all"])
        assert group["state"] == "partial" and group["error"]["code"] == "two_of_a_name", group
        assert "two sites have the name ams" in group["error"]["message"]
        assert "ams > sfo > oak" in group["error"]["message"]
        assert having(sites) == {"a1", "s0", "s1", "o0"}
