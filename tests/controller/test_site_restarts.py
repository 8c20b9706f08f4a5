"""A controller that starts again: what it knew is in its fabric manager's store."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
from mesh import TWO, mesh, two, until

from datacast.controller.sites import coordinator
from datacast.controller.sites.records import Progress
from datacast.services.problems import Problem

DATA = np.random.default_rng(5).bytes((1 << 19) + 77)


@pytest.mark.slow
async def test_a_store_that_does_not_answer_at_first_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(tmp_path, DATA) as (ams, _):
        group = await ams.end(await ams.made(["sfo/all"]))
        await ams.stop()
        listing, failures = ams.fabric.site_groups, [1]

        async def site_groups() -> dict[str, str]:
            if failures:
                failures.pop()
                raise Problem(503, "unreachable", "no fabric manager")
            return {**await listing(), "s-0000000000000000": "{nonsense"}

        ams.fabric.site_groups = site_groups  # type: ignore[method-assign]
        await ams.start()
        await until(lambda: group["id"] in ams.coordinator.groups)
        assert list(ams.coordinator.groups) == [group["id"]]
        assert (await ams.end(await ams.made(["sfo/s0"])))["state"] == "done"


@pytest.mark.parametrize("name, asks", [("sfo", {"objects"}), ("ams", {"held", "orders", "progress"})])
async def test_a_controller_that_starts_again_denies_nothing_before_it_knows_what_there_is(
    tmp_path: Path, name: str, asks: set[str]
) -> None:
    """Who is told that there is no such group or object takes it for the end."""
    async with two(tmp_path, DATA) as (ams, sfo):
        sfo.fabric.hold.clear()
        group = await ams.made(["sfo/all"])
        await until(lambda: sfo.fabric.there and any(sfo.fabric.offers.values()))
        again, known = {"ams": ams, "sfo": sfo}[name], asyncio.Event()
        await again.stop()
        listing = again.fabric.site_groups

        async def site_groups() -> dict[str, str]:
            await known.wait()
            return await listing()

        again.fabric.site_groups = site_groups  # type: ignore[method-assign]
        await again.start()
        sfo.fabric.hold.set()
        paths = f"/groups/{group}", "/groups?limit=1&fields=id"
        people = [asyncio.create_task(again.http.get(path)) for path in paths]
        await until(lambda: asks <= again.port.asked)
        known.set()
        one, every = [(await asked).json() for asked in people]
        assert one["id"] == group and {"id": group} in every
        assert (await ams.end(group))["state"] == "done"


async def test_a_controller_that_learns_nothing_of_its_groups_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(tmp_path) as (ams, _):
        await ams.stop()
        ams.fabric.site_groups = asyncio.Event().wait  # type: ignore[assignment]
        monkeypatch.setattr(coordinator, "READY_S", 0.05)
        await ams.start()
        answers = [
            await ams.http.get("/groups/s-0000000000000000"),
            await ams.http.get("/groups"),
            await ams.order(["sfo/all"]),
        ]
        for answer in answers:
            assert (answer.status_code, answer.json()["code"]) == (503, "starting")
            assert "the fabric manager does not say it" in answer.json()["detail"]
        assert (await ams.http.get("/groups/g-00000000")).status_code == 404, "that one it does not keep itself"


async def test_an_order_waits_while_a_sites_fabric_manager_is_away_and_says_so(tmp_path: Path) -> None:
    """A leader that is followed by another is away for a moment."""
    async with two(tmp_path, DATA) as (ams, sfo):
        sfo.fabric.refuses = Problem(503, "no_leader", "no fabric manager leads")
        group = await ams.made(["sfo/all"])
        while (told := await ams.now(group))["sites"]["sfo"]["error"] is None:
            await asyncio.sleep(0.01)
        assert told["state"] == "starting"
        assert told["sites"]["sfo"]["error"] == {"code": "no_leader", "message": "no fabric manager leads"}
        sfo.fabric.refuses = None
        ended = await ams.end(group)
        assert ended["state"] == "done" and ended["sites"]["sfo"]["error"] is None, ended


THREE = {"ams": ["a0"], "sfo": ["s0"], "syd": ["y0"]}


async def test_a_site_behind_hears_of_an_order_when_it_is_written_down(tmp_path: Path) -> None:
    """A controller that forgot it would deny it, and the site behind would take it for cancelled."""
    async with mesh(tmp_path, THREE, {"sfo": ["ams"], "syd": ["sfo"]}) as sites:
        ams, sfo, syd = sites.values()
        ams.give(DATA)
        put = sfo.fabric.put_site_group

        async def full(group: str, text: str) -> None:
            raise Problem(503, "store", "the disk is full")

        sfo.fabric.put_site_group = full  # type: ignore[method-assign]
        group = await ams.made(["sfo/all", "sfo/syd/all"])
        await until(lambda: group in sfo.coordinator.groups)
        for _ in range(2):  # it asks for orders twice
            sfo.port.asked.clear()
            await until(lambda: "orders" in sfo.port.asked)
        assert not syd.coordinator.groups
        await sfo.stop()
        sfo.fabric.put_site_group = put  # type: ignore[method-assign]
        await sfo.start()
        assert (await ams.end(group))["state"] == "done"


async def test_a_site_that_forgot_how_a_part_ended_is_told_again(tmp_path: Path) -> None:
    async with two(tmp_path, DATA) as (ams, sfo):
        group = (await ams.end(await ams.made(["sfo/all"])))["id"]
        await until(lambda: sfo.coordinator.groups[group].told)
        one = ams.coordinator.groups[group]
        forgotten = one.parts["sfo"].model_copy(update={"progress": Progress()})
        ams.coordinator.groups[group] = one.model_copy(
            update={"parts": {"sfo": forgotten}, "finished_ns": None}
        )  # as in a backup of its store
        assert (await ams.end(group))["state"] == "done"


async def test_a_site_that_is_there_and_never_asks_for_orders_is_given_none(tmp_path: Path) -> None:
    """It does not know our URL: a group would wait for ever."""
    async with mesh(tmp_path, TWO, {"ams": ["sfo"]}) as sites:
        ams = sites["ams"]
        ams.give(DATA)
        await until(lambda: ams.coordinator.peers.all["sfo"].there)
        answer = await ams.order(["sfo/all"])
        assert (answer.status_code, answer.json()["code"]) == (409, "site_away")
        assert "datacast sites add ams --url" in answer.json()["remedy"]
