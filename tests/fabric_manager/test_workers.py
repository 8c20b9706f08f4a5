"""Leases of workers: who is silent, and who only could not be heard."""

from __future__ import annotations

import os
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest
from small import star

from datacast.fabric_manager import groups, machine, replica, workers
from datacast.fabric_manager.api import GroupSpec, child_name, orders
from datacast.fabric_manager.fabric import Fabric
from datacast.fabric_manager.keys import GROUPS, Kept
from datacast.fabric_manager.placing import Placing
from datacast.fabric_manager.record import Record
from datacast.fabric_manager.workers import SILENCE_S, Worker, Workers
from datacast.services.store import Entry, open_store
from lab import lab


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(workers, "time", clock)
    return clock


def sweep(some: Workers, clock: Clock, seconds: float) -> None:
    for _ in range(round(seconds * 10)):
        clock.now += 0.1
        some.sweep()


def test_one_that_says_nothing_is_lost_and_one_that_could_not_be_heard_is_not(clock: Clock) -> None:
    lost: list[str] = []
    some = Workers(lambda worker, how, planned: lost.append(how), lambda worker: None)
    some.begin()
    worker = some.connect("w", "a" * 32, 1)
    assert isinstance(worker, Worker)
    clock.now += 3 * SILENCE_S  # this process stood still
    some.sweep()
    sweep(some, clock, SILENCE_S - 1)
    assert not lost
    sweep(some, clock, 2)
    assert lost == [f"its worker said nothing for {SILENCE_S:g} s"]


def test_a_stream_that_ended_while_nobody_looked_has_its_time_to_come_back(clock: Clock) -> None:
    lost: list[str] = []
    some = Workers(lambda worker, how, planned: lost.append(how), lambda worker: None)
    some.begin()
    worker = some.connect("w", "a" * 32, 1)
    assert worker and worker.orders
    some.disconnect(worker, worker.orders)
    clock.now += 2.0
    some.sweep()
    assert not lost
    sweep(some, clock, 1)
    assert lost == ["its worker is gone"]


async def test_workers_of_the_leader_before_have_their_time_from_when_they_are_answered(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records are read first, and each of a thousand takes its time."""

    class Store:
        async def list(self, prefix: str, since: int) -> list[Entry]:
            return [Entry(GROUPS + "g-1", "", 1)]

        async def revisions(self, prefix: str) -> dict[str, int]:
            return {GROUPS + "g-1": 1}

    def slow(text: str, _: str) -> Record:
        clock.now += 3 * workers.RETURN_S
        return Record(id="g-1", spec=GroupSpec(source="h0", source_path="/f", receivers=["h1"]), state="done")

    monkeypatch.setattr(replica, "load", slow)
    some = groups.Groups(Fabric(star(2)), Kept(Store()), lambda event: None)  # type: ignore[arg-type]
    await some.begin(replica.Replica(some.kept.store))
    clock.now += workers.RETURN_S - 0.1
    assert some.placing.workers.may_return("elsewhere-1")
    clock.now += 0.2
    assert not some.placing.workers.may_return("elsewhere-1")
    await some.stop()


def test_workers_of_this_machine_are_waited_for_while_their_process_lives(clock: Clock) -> None:
    """On a machine that is full one takes longer than those of others have, and one that has ended never comes."""
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    some = Workers(lambda worker, how, planned: None, lambda worker: None)
    some.begin()
    lives, gone, zombie = [f"{child_name()}{pid}" for pid in (os.getpid(), 1 << 22, ended.pid)]
    assert some.may_return(lives) and not some.may_return(gone) and not some.may_return(zombie)
    assert not some.may_return(child_name()) and not some.may_return(f"{child_name()}9{'9' * 30}")
    clock.now += 2 * workers.RETURN_S
    assert some.may_return(lives)
    clock.now += SILENCE_S
    assert not some.may_return(lives), "it hangs"
    ended.wait()


def test_workers_that_may_return_have_their_time_also_where_nobody_could_hear_them(clock: Clock) -> None:
    some = Workers(lambda worker, how, planned: None, lambda worker: None)
    some.begin()
    here, elsewhere = f"{child_name()}{os.getpid()}", "elsewhere-1"
    clock.now += 3 * SILENCE_S  # this process stood still
    some.sweep()
    sweep(some, clock, workers.RETURN_S - 0.1)
    assert some.may_return(here) and some.may_return(elsewhere)
    sweep(some, clock, 0.2)
    assert some.may_return(here) and not some.may_return(elsewhere)
    sweep(some, clock, SILENCE_S - workers.RETURN_S)
    assert not some.may_return(here)


async def test_nobody_starts_workers_in_place_of_those_that_come_yet() -> None:
    async with lab(star(2), workers=0) as it:
        placing, found = it.manager.groups.placing, []
        for pid in (os.getpid(), 1 << 22):
            spec = GroupSpec(source="h0", source_path="/f", receivers=["h1"], dest_path="f")
            record = Record(id="g-1", spec=spec, state="running", owner=f"{child_name()}{pid}", lease="b" * 32)
            placing._live["g-1"] = groups.Held(record, 1)
            found.append(it.manager._left_here())
            del placing._live["g-1"]
    assert found == [1, 0]


@pytest.mark.parametrize(
    "owned, epoch",
    [
        pytest.param({}, 4, id="nobody's: its own epoch, too"),
        pytest.param({"owner": "other", "lease": "b" * 32}, 3, id="another's: what is older"),
    ],
)
def test_a_worker_lets_go_of_a_group_that_it_has_no_more(owned: dict[str, Any], epoch: int) -> None:
    """Masters older than an order to drop end."""
    some = Workers(lambda worker, how, planned: None, lambda worker: None)
    worker, other = some.connect("w", "a" * 32, 1), some.connect("other", "b" * 32, 2)
    assert worker and worker.orders and other and other.orders
    worker.groups.add("g-1")
    spec = GroupSpec(source="h0", source_path="/f", receivers=["h1"], dest_path="f")
    record = Record(id="g-1", spec=spec, epoch=3, state="running", **owned)
    Placing.recall(SimpleNamespace(workers=some), record)  # type: ignore[arg-type]
    assert not worker.groups and worker.orders.queue.get_nowait() == orders.Drop(group="g-1", epoch=epoch)
    assert other.orders.queue.empty()


async def test_a_worker_whose_stream_begins_anew_while_it_is_given_a_group_has_it() -> None:
    """What it has is then looked up in the records, of which this one is being written."""
    store, lease = open_store(":memory:"), "a" * 32
    some = groups.Groups(Fabric(star(2)), Kept(store), lambda event: None)
    spec = GroupSpec(source="h0", source_path="/f", receivers=["h1"], dest_path="f")
    waits = groups.Held(Record(id="g-1", spec=spec, state="running", epoch=1), 0)
    some._groups["g-1"] = some._live["g-1"] = waits
    worker = some.placing.workers.connect("w", lease, 1)
    assert worker
    put = some.kept.put

    async def again(key: str, value: str, revision: int) -> int:
        some.kept.put = put  # type: ignore[method-assign]
        some.placing.workers.connect("w", lease, 1)
        return await put(key, value, revision)

    some.kept.put = again  # type: ignore[method-assign]
    await some._do("g-1", machine.Assigned("w", lease))
    await some.stop()
    await store.close()
    assert worker.groups == {"g-1"}


@pytest.mark.simulated
async def test_what_a_worker_missed_while_its_stream_was_away_it_is_told_when_it_is_back() -> None:
    async with lab(star(4), rates=[700.0]) as it:
        group = await it.start("h0", ["h1", "h2"], 12_000_000)
        await it.running(group, 100)
        [worker] = it.manager.groups.placing.workers.all()
        assert worker.orders
        stream, worker.orders = worker.orders, None
        await it.client.add_receiver(group["id"], "h3")
        await it.client.remove_receiver(group["id"], "h2")
        stream.close()
        record = await it.end(group)
    assert record["state"] == "done" and record["epoch"] == 1, record
    assert {name: one["state"] for name, one in record["receivers"].items()} == {
        "h1": "done",
        "h2": "cancelled",
        "h3": "done",
    }
