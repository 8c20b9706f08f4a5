"""Groups of several sites begin where they are written down, end wherever nobody can go on with them, and are forgotten
whole."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mesh import FINAL, TWO, Site, mesh, two, until

from datacast.controller.sites import book, coordinator, own, parents
from datacast.controller.sites.agents import Agents
from datacast.services.problems import Problem
from datacast.services.sites_file import SiteError

DATA = np.random.default_rng(6).bytes((1 << 19) + 77)
CHAIN = {"ams": ["a0"], "sfo": ["s0"], "syd": ["y0"]}
AWAY = Problem(503, "unreachable", "the answer is lost")


def loses(site: Site, name: str, times: int = 1) -> list[Problem]:
    """So many answers of its fabric manager, which does what it is asked for. What is left to lose."""
    real, left = getattr(site.fabric, name), [AWAY] * times

    async def lossy(*args: Any, **more: Any) -> Any:
        told = await real(*args, **more)
        if left:
            raise left.pop()
        return told

    setattr(site.fabric, name, lossy)
    return left


async def ids(site: Site) -> list[str]:
    return [one["id"] for one in (await site.http.get("/groups?limit=1&fields=id")).json()]


async def test_a_request_that_could_not_be_written_down_has_begun_nothing(tmp_path: Path) -> None:
    """Though the store took it: nobody was told of that group."""
    async with two(tmp_path, DATA) as (ams, sfo):
        loses(ams, "put_site_group")
        assert (await ams.order(["a1", "sfo/all"])).status_code == 503
        assert not ams.coordinator.groups
        await until(lambda: not ams.fabric.kept)
        assert not ams.fabric.groups and not sfo.coordinator.groups
        # One with a key is the same request when it comes again, in whatever moment.
        loses(ams, "put_site_group")
        assert (await ams.order(["a1", "sfo/all"], {"idempotency-key": "nightly"})).status_code == 503
        group = await ams.made(["a1", "sfo/all"], headers={"idempotency-key": "nightly"})
        assert (await ams.end(group))["state"] == "done"
        assert list(ams.fabric.kept) == [group] and len(ams.fabric.groups) == 1


@pytest.mark.parametrize("how", ["killed", "the answer is lost"])
async def test_a_group_here_is_never_begun_without_the_one_of_several_sites(tmp_path: Path, how: str) -> None:
    """Nobody knew of it, could cancel it, or was told that it ran."""
    async with two(tmp_path, DATA) as (ams, _):
        key = {"idempotency-key": "nightly"}
        if how == "killed":
            real, never = ams.fabric.create_group, asyncio.Event()

            async def create(*args: Any, **more: Any) -> None:
                await real(*args, **more)
                await never.wait()

            ams.fabric.create_group = create  # type: ignore[assignment,method-assign]
            asked = asyncio.create_task(ams.order(["a1", "sfo/all"], key))
            await until(lambda: ams.fabric.groups)
            asked.cancel()
            await ams.stop()
            ams.fabric.create_group = real  # type: ignore[method-assign]
            await ams.start()
            ((group, _),) = ams.fabric.kept.items()
            assert await ids(ams) == [group]
        else:
            loses(ams, "create_group")
            group = await ams.made(["a1", "sfo/all"], headers=key)
        assert await ams.made(["a1", "sfo/all"], headers=key) == group
        assert (await ams.end(group))["state"] == "done" and len(ams.fabric.groups) == 1


async def test_what_the_sites_own_fabric_refuses_is_refused_and_no_other_site_hears_of_it(tmp_path: Path) -> None:
    async with two(tmp_path, DATA) as (ams, sfo):
        ordered = list[str]()
        orders = ams.coordinator.orders

        async def heard(site: str, wait: float) -> Any:
            told = await orders(site, wait)
            ordered.extend(order.id for order in told.orders)
            return told

        ams.coordinator.orders = heard  # type: ignore[method-assign]
        create = ams.fabric.create_group

        async def late(*args: Any, **more: Any) -> Any:
            sfo.port.asked.clear()
            sfo.coordinator.peers.all["ams"].wake.set()
            ams.coordinator.peers.all["sfo"].wake.set()  # it asks while the answer is waited for
            await asyncio.sleep(0.1)
            return await create(*args, **more)

        ams.fabric.create_group = late  # type: ignore[method-assign]
        answer = await ams.order(["nobody", "sfo/all"])
        assert (answer.status_code, answer.json()["code"]) == (422, "unknown_host")
        await until(lambda: not ams.fabric.kept)
        assert not ams.coordinator.groups and not ordered and not sfo.coordinator.groups
        assert (await ams.end(await ams.made(["a1", "sfo/all"])))["state"] == "done" and ordered


async def test_of_two_writes_the_older_never_comes_last(tmp_path: Path) -> None:
    async with two(tmp_path, DATA) as (ams, sfo):
        sfo.fabric.hold.clear()
        group = await ams.made(["sfo/all"])
        await until(lambda: sfo.fabric.there)
        put, texts = ams.fabric.put_site_group, list[str]()
        second, first = asyncio.Event(), asyncio.Event()

        async def other_way_round(group: str, text: str) -> None:
            texts.append(text)
            if '"cancelled":true' not in text:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(second.wait(), 0.5)
                await put(group, text)
                first.set()
            else:
                await put(group, text)
                second.set()
                await first.wait()

        ams.fabric.put_site_group = other_way_round  # type: ignore[method-assign]
        one = ams.coordinator._book.put(ams.coordinator.groups[group], others=["oak"])
        saving = asyncio.create_task(ams.coordinator._book.save(one))
        await until(lambda: texts)
        assert (await ams.http.post(f"/groups/{group}/cancel")).status_code == 202
        await saving
        assert '"cancelled":true' in ams.fabric.kept[group]


async def test_a_group_whose_forgetting_was_not_answered_is_forgotten_with_the_next_request(tmp_path: Path) -> None:
    """That one said 404, and the group was told of until the next start."""
    async with two(tmp_path, DATA) as (ams, _):
        group = await ams.made(["sfo/all"])
        await ams.end(group)
        loses(ams, "delete_site_group")
        assert (await ams.http.delete(f"/groups/{group}")).status_code == 503
        assert (await ams.http.delete(f"/groups/{group}")).status_code == 200
        assert (await ams.http.get(f"/groups/{group}")).status_code == 404 and not ams.fabric.kept


async def test_a_part_is_not_forgotten_before_the_site_that_ordered_it_knows_its_end(tmp_path: Path) -> None:
    """There the group would run for ever."""
    async with two(tmp_path, DATA) as (ams, sfo):
        sfo.fabric.hold.clear()
        group = await ams.made(["sfo/all"])
        await until(lambda: sfo.fabric.there)
        tell, away = sfo.coordinator.peers.tell, [True]

        async def told(*args: Any) -> Any:
            if away:
                raise SiteError("it does not answer", "ams", "site_away")
            return await tell(*args)

        sfo.coordinator.peers.tell = told  # type: ignore[method-assign]
        sfo.fabric.hold.set()
        await sfo.end(group)
        answer = await sfo.http.delete(f"/groups/{group}")
        assert (answer.status_code, answer.json()["code"]) == (409, "not_told") and "site ams" in answer.text
        away.clear()
        assert (await ams.end(group))["state"] == "done"
        await until(lambda: sfo.coordinator.groups[group].told)
        assert (await sfo.http.delete(f"/groups/{group}")).status_code == 200


@pytest.mark.parametrize("first", ["ams", "sfo"])
async def test_what_a_site_that_was_taken_out_had_to_do_ends_at_both(tmp_path: Path, first: str) -> None:
    """Also the group here, which would run until somebody finds it. A site that has its order, and one that has not."""
    async with mesh(tmp_path, {**TWO, "oak": ["o0"]}, {"sfo": ["ams"], "oak": ["ams"]}) as sites:
        ams, sfo, oak = sites.values()
        ams.give(DATA)
        sfo.fabric.hold.clear()
        await oak.stop()
        group = await ams.made(["a1", "sfo/all", "oak/all"])
        await until(lambda: sfo.fabric.there and ams.coordinator.groups[group].parts["sfo"].progress.hosts)
        one, other = (ams, sfo) if first == "ams" else (sfo, ams)
        assert one.takes_out(other.name) and ams.takes_out("oak")
        if first == "sfo":
            await until(lambda: sfo.coordinator.groups[group].finished_ns)
        assert other.takes_out(one.name)
        there, here = await sfo.end(group), await ams.end(group)
        assert (there["state"], there["error"]["code"]) == ("failed", "unknown_site"), there
        assert sfo.fabric.groups["g-0"]["state"] == "cancelled"
        assert here["state"] == "partial" and here["error"]["message"].endswith("any more"), here
        for name in ("sfo", "oak"):
            part = here["sites"][name]
            assert (part["state"], part["error"]["code"]) == ("failed", "unknown_site"), part
        assert {name: row["state"] for name, row in here["receivers"].items()} == {
            "a1": "done", "sfo/s0": "failed", "sfo/s1": "failed"
        }  # fmt: skip
        for site in (ams, sfo):  # and nobody waits to tell anybody
            await until(lambda site=site: all(site.coordinator._over(g) for g in site.coordinator.groups.values()))
            assert (await site.http.delete(f"/groups/{group}")).status_code == 200


async def test_a_site_that_was_taken_out_while_it_waits_for_orders_is_given_none(tmp_path: Path) -> None:
    async with two(tmp_path) as (ams, sfo):
        peer = ams.coordinator.peers.all["sfo"]
        asked = asyncio.create_task(ams.coordinator.orders("sfo", 60.0))
        await asyncio.sleep(0)  # it waits
        assert ams.takes_out("sfo")
        await until(lambda: "sfo" not in ams.coordinator.peers.all)
        peer.wake.set()
        async with asyncio.timeout(30):
            assert (await asked).orders == []
        assert sfo.coordinator.groups == {}


async def test_a_part_whose_hosts_are_gone_for_good_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was started again for as long as its origin was there."""
    monkeypatch.setattr(own, "STILL_S", 0.3)
    async with two(tmp_path, DATA) as (ams, sfo):
        sfo.fabric.hold.clear()
        group = await ams.made(["a1", "sfo/all"])
        await until(lambda: sfo.fabric.groups)
        for host in sfo.fabric.hosts.values():
            host.lost = True
        sfo.fabric.hold.set()
        ended = await ams.end(group)
        assert ended["state"] == "partial" and ended["sites"]["sfo"]["error"]["code"] == "unreachable", ended
        await until(lambda: not sfo.coordinator._own._still)


@pytest.mark.parametrize("why", ["refused", "lost", "partial"])
async def test_a_site_whose_own_part_has_failed_passes_the_file_on(tmp_path: Path, why: str) -> None:
    """To the site behind it, which would wait for ever."""
    hosts = {**CHAIN, "sfo": ["s0", "s1"]}
    async with mesh(tmp_path, hosts, {"sfo": ["ams"], "syd": ["sfo"]}) as sites:
        ams, sfo, syd = sites.values()
        ams.give(DATA)
        if why == "refused":
            sfo.fabric.refuses = Problem(409, "no_agent", "host s0 has no agent", what="s0")
        else:
            syd.fabric.hold.clear()
        if why == "lost":
            sfo.fabric.hold.clear()
        sfo.fabric.hosts["s0"].lost = why == "partial"
        group = await ams.made(["sfo/all", "sfo/syd/all"])
        if why == "lost":
            await until(lambda: sfo.fabric.there)
            sfo.fabric.fail("g-0", "receivers_failed", "s0 is gone")
        if why != "refused":
            await until(lambda: group in sfo.coordinator.groups and sfo.coordinator.groups[group].own.final)
            for site in (sfo, syd):  # what they have read ahead is forgotten
                await site.stop()
                await site.start()
            syd.fabric.hold.set()
        ended = await ams.end(group)
        assert ended["state"] == "partial" and syd.has("y0", DATA), ended
        assert ended["receivers"]["sfo/syd/y0"]["state"] == "done", ended


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_site_whose_store_was_lost_is_given_its_order_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cancelled: bool
) -> None:
    """It had said that it had begun, so nobody gave it any, and the group waited for ever; cancelled, too."""
    monkeypatch.setattr(coordinator, "FORGOTTEN_S", 0.5)
    async with two(tmp_path, DATA) as (ams, sfo):
        sfo.fabric.hold.clear()
        group = await ams.made(["a1", "sfo/all"])
        await until(lambda: ams.coordinator.groups[group].parts["sfo"].progress.hosts)
        await sfo.stop()
        sfo.fabric.lose()
        if cancelled:
            assert (await ams.http.post(f"/groups/{group}/cancel")).status_code == 202
        await sfo.start()
        sfo.fabric.hold.set()
        ended = await ams.end(group)
        assert ended["sites"]["sfo"]["state"] == ("cancelled" if cancelled else "done"), ended
        assert sfo.has("s0", DATA) != cancelled
        await until(lambda: not ams.coordinator._heard)


async def test_the_oldest_groups_that_have_ended_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the store is full of them one day, here and at sites where nobody looks, and takes none any more."""
    monkeypatch.setattr(book, "ENDED_MAX", 2)
    async with two(tmp_path, DATA) as (ams, sfo):
        sfo.fabric.hold.clear()
        running = await ams.made(["sfo/s0"], dest_path="running")
        await until(lambda: sfo.fabric.there)
        sfo.fabric.hold.set()
        await ams.end(running)
        groups = [running]
        for n in range(3):
            loses(sfo, "delete_site_group")
            groups.append(await ams.made(["sfo/s1"], dest_path=f"f{n}"))
            await ams.end(groups[-1])
        for site in (ams, sfo):
            await until(lambda site=site: set(site.fabric.kept) == set(site.coordinator.groups) == set(groups[-2:]))


@pytest.mark.parametrize("what", ["an order", "a cancel"])
async def test_what_a_site_cannot_carry_out_at_once_is_not_told_again_without_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The question for orders is answered at once then: the two sites asked each other as fast as they could."""
    async with two(tmp_path, DATA) as (ams, sfo):
        monkeypatch.setattr(parents, "AGAIN_S", 3600.0)
        sfo.fabric.hold.clear()
        if what == "an order":  # how it does is not told

            async def never(*told: Any) -> Any:
                await asyncio.Event().wait()

            sfo.coordinator.peers.tell = never  # type: ignore[method-assign]
        group = await ams.made(["sfo/all"])
        await until(lambda: sfo.fabric.there)
        if what == "a cancel":
            ended = asyncio.Event()

            async def cancel(local: str) -> Any:
                ended.set()
                return await sfo.fabric.group(local)

            sfo.fabric.cancel_group = cancel  # type: ignore[method-assign]
            assert (await ams.http.post(f"/groups/{group}/cancel")).status_code == 202
            await ended.wait()
        asked, orders = list[str](), ams.coordinator.orders

        async def counted(site: str, wait: float) -> Any:
            asked.append(site)
            return await orders(site, wait)

        ams.coordinator.orders = counted  # type: ignore[method-assign]
        await asyncio.sleep(0.5)
        assert len(asked) <= 2


async def test_a_host_that_is_there_is_not_missed_while_it_is_asked_who_is(tmp_path: Path) -> None:
    """Of two requests to a controller that had just started the second was refused."""
    async with two(tmp_path) as (ams, _):
        topology, tries = ams.fabric.topology, list[Any]()

        async def late() -> Any:
            tries.append(asyncio.current_task())
            if len(tries) == 1:
                raise AWAY
            await asyncio.sleep(0.1)
            return await topology()

        ams.fabric.topology = late  # type: ignore[method-assign]
        agents = Agents(ams.fabric, ams.authority.security("controller/main"))  # type: ignore[arg-type]
        with pytest.raises(Problem):
            await agents.addresses()
        found = await asyncio.gather(*(agents.addresses() for _ in range(3)))
        assert all(set(one) == {"a0", "a1"} for one in found) and len(tries) == 2


async def test_who_has_asked_for_nothing_by_name_is_told_so(tmp_path: Path) -> None:
    async with two(tmp_path, DATA) as (ams, sfo):
        group = await ams.made(["sfo/all"])
        ended = await ams.end(group)
        assert ended["requested_by"] == "" and (await sfo.now(group))["requested_by"] == "site ams"


async def test_a_lost_source_is_not_remembered_of_a_group_that_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "LOST_S", 3600.0)
    async with two(tmp_path, DATA) as (ams, sfo):
        host = ams.fabric.hosts["a0"]
        await sfo.stop()  # else it may have the file before
        group = await ams.made(["sfo/all"])
        host.address, address = "", host.address
        await sfo.start()
        while group not in ams.coordinator._still:
            assert (now := await ams.now(group))["state"] not in FINAL, (now, sfo.fabric.groups)
            await asyncio.sleep(0.01)
        host.address = address
        await ams.end(group)
        await until(lambda: not ams.coordinator._still)
