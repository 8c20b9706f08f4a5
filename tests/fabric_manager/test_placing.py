"""Which worker has which group, a step at a time: what happens in between is what these tests let happen."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from datacast.fabric_manager import placing as module
from datacast.fabric_manager.admission import Admission
from datacast.fabric_manager.api import GroupSpec, orders
from datacast.fabric_manager.held import Held
from datacast.fabric_manager.machine import Assigned, Event, OwnerLost
from datacast.fabric_manager.placing import Placing
from datacast.fabric_manager.record import Record
from datacast.fabric_manager.workers import Worker
from datacast.services.problems import NO_LEADER, Problem
from datacast.services.store import StoreError

SPEC = GroupSpec(source="h0", source_path="/f", receivers=["h1"])


def record(name: str = "g", **changes: Any) -> Record:
    return Record(id=name, spec=SPEC, **{"state": "running", "epoch": 1, "owner": "w", "lease": "l", **changes})


class World:
    """Placing over `records` and one worker, with lease `l`."""

    def __init__(self, *records: Record) -> None:
        self.live = {r.id: Held(r, 1) for r in records}
        self.told: list[Any] = []
        self.done: list[tuple[str, Event]] = []
        self.spawned: list[Coroutine[Any, Any, Any]] = []
        self.refuses: list[Problem] = []
        self.nodes: dict[str, Any] = {}
        fabric: Any = SimpleNamespace(nodes=self.nodes, version=7)
        carried: Any = SimpleNamespace(all=list, own=lambda group: [])
        kept: Any = SimpleNamespace(deposed=False)
        self.it = Placing(fabric, kept, self.live, Admission(None), carried, self._do, self.spawned.append, print)
        self.it.tree_ids = SimpleNamespace(take=self._take)  # type: ignore[assignment]
        self.worker = Worker("w", "l", None, SimpleNamespace(closed=False, put=self.told.append), 0.0)  # type: ignore[arg-type]
        self.it.workers._workers["l"] = self.worker
        self.it.begin()

    async def _take(self, count: int) -> list[int]:
        return [*range(count)]

    async def _do(self, group: str, event: Event) -> Record:
        self.done.append((group, event))
        if self.refuses:
            raise self.refuses.pop(0)
        return self.live[group].record

    async def run(self) -> None:
        """All that was spawned, and what that spawns."""
        while self.spawned:
            await self.spawned.pop(0)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ORDER_AGAIN_S", 0.0)


def test_of_a_manager_before_those_wait_that_nobody_has_and_that_had_begun() -> None:
    world = World(*(all_ := [record("has"), record("free", owner=None), record("queued", owner=None, state="queued")]))
    for one in all_:
        world.it.inherit(one)
    assert world.it._waiting == {"free"}


def test_one_that_was_given_to_a_worker_who_is_gone_meanwhile_is_nobodys() -> None:
    world = World(record())
    world.it.given("g", "another")
    assert not world.worker.groups
    world.it.given("g", "l")
    assert world.worker.groups == {"g"}


@pytest.mark.parametrize(
    ("found", "told", "waiting"),
    [
        (record(), [orders.StartOrder, orders.Members], set()),
        (record(state="cancelling"), [orders.StartOrder, orders.Members, orders.Cancel], set()),
        (record(lease="another"), [], set()),
        (record(owner=None, lease=None), [], {"g"}),
        (record(owner=None, lease=None, state="queued"), [], set()),
    ],
    ids=["owned", "cancelling", "its worker is gone", "nobody's", "queued"],
)
async def test_what_follows_from_a_write_that_had_happened_after_all(
    found: Record, told: list[type], waiting: set[str]
) -> None:
    world = World(found)
    world.it.found(world.live["g"])
    assert world.it._waiting == waiting
    await world.run()
    assert {type(message) for message in world.told} == {*told}


async def test_an_order_of_what_has_ended_while_it_was_made_goes_to_nobody() -> None:
    for changes in ({"state": "failed"}, {"epoch": 2}):
        world = World(record())

        async def take(count: int, world: World = world, changes: dict[str, Any] = changes) -> list[int]:
            world.live["g"].record = replace(record(), **changes)
            return [1]

        world.it.tree_ids.take = take  # type: ignore[method-assign]
        await world.it.order(world.live["g"])
        assert world.told == []
    world = World(record(lease="gone"))
    await world.it.order(world.live["g"])
    assert world.told == []


@pytest.mark.parametrize(("changes", "told"), [({}, 1), ({"epoch": 2}, 0), ({"owner": None}, 0)])
async def test_where_the_store_gives_no_tree_ids_it_is_asked_again_for_as_long_as_that_helps(
    changes: dict[str, Any], told: int
) -> None:
    world = World(record())
    take = world.it.tree_ids.take

    async def fails(count: int) -> list[int]:
        world.it.tree_ids.take = take  # type: ignore[method-assign]
        raise StoreError("the disk is full")

    world.it.tree_ids.take = fails  # type: ignore[method-assign]
    await world.it.order(world.live["g"])
    assert world.told == []
    world.live["g"].record = replace(record(), **changes)
    await world.run()
    assert len(world.told) == told


@pytest.mark.parametrize(
    ("refuses", "asked"),
    [([], 1), ([Problem(503, NO_LEADER, "")], 1), ([Problem(404, "no_group", "")], 1), ([Problem(503, "x", "")], 2)],
    ids=["written", "another leads", "forgotten", "the store is away"],
)
async def test_that_a_worker_is_lost_is_written_until_it_is_or_concerns_nobody(
    monkeypatch: pytest.MonkeyPatch, refuses: list[Problem], asked: int
) -> None:
    sleep = asyncio.sleep
    monkeypatch.setattr(module.asyncio, "sleep", lambda seconds: sleep(0))
    world = World(record())
    world.refuses = refuses
    world.it._lost(world.worker, "it is gone", False)
    world.it._lost(world.worker, "it is gone", False)  # once is enough
    assert len(world.spawned) == 1
    await world.run()
    assert world.done == [("g", OwnerLost(1, "it is gone", False))] * asked
    world.it._lost(world.worker, "it is gone", False)
    assert len(world.spawned) == 1, "of another epoch, perhaps"
    world.spawned.pop().close()


async def test_what_waits_is_given_out_as_far_as_it_still_waits_and_its_agents_are_there() -> None:
    free = {"owner": None, "lease": None}
    world = World(record("a", **free), record("b"), record("c", **free), record("d", **free))
    world.it._waiting = {"a", "b", "c", "gone"}
    world.it._inherited = {"c"}
    await world.it._place_waiting()
    assert world.done == [("a", Assigned("w", "l"))] and world.it._waiting == {"c"} and world.worker.groups == {"a"}
    world.nodes |= {name: SimpleNamespace(registered=True) for name in ("h0", "h1")}
    await world.it._place_waiting()
    assert world.done[1:] == [("c", Assigned("w", "l"))] and world.it._waiting == set()
    world.it._waiting = {"d"}
    world.it.workers._workers.clear()
    await world.it._place_waiting()
    assert world.done[2:] == [] and world.it._waiting == {"d"}, "there is no worker"


@pytest.mark.parametrize(("code", "waits"), [("stale", False), (NO_LEADER, False), ("unavailable", True)])
async def test_one_that_could_not_be_given_out_waits_again_where_it_still_wants_a_worker(
    code: str, waits: bool
) -> None:
    world = World(record(owner=None, lease=None))
    world.it._waiting, world.refuses = {"g"}, [Problem(503, code, "")]
    await world.it._place_waiting()
    assert (world.it._waiting == {"g"}) is waits and not world.worker.groups
