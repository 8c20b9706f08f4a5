"""Which groups move to a worker that has less to do, and that they arrive there whole."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs
from small import star, until

from datacast.fabric_manager import balance as module
from datacast.fabric_manager.api import GroupSpec
from datacast.fabric_manager.api.reports import Adopt, Progress
from datacast.fabric_manager.balance import CALM_S, Balance, left_s
from datacast.fabric_manager.record import Record
from datacast.fabric_manager.workers import Workers
from lab import lab

pytestmark = pytest.mark.simulated

ADOPT = Adopt(size=10**9, file={}, payload=1000, per_block=10, rest=[])
SIZE = 30_000_000
MANY = [f"h{n}" for n in range(256)]


def record(name: str, lease: str, left: float = 100.0, **changes) -> Record:
    progress = Progress(size=10**9, rate_bps=round(8e9 / left), adopt=ADOPT)
    known = Record(
        id=name, spec=GroupSpec(source="a", source_path="/f", receivers=MANY), state="running", epoch=1, told_epoch=1,
        owner="w", lease=lease, progress=progress,
    )  # fmt: skip
    return replace(known, **changes)


class World:
    """A balance over some workers, moved by hand."""

    def __init__(self, records: list[Record]) -> None:
        self.records, self.moved, self.now = {r.id: r for r in records}, list[str](), 0.0
        self.workers = Workers(lambda *_: None, lambda _: None)
        self.workers.begin()
        self.balance = Balance(self.workers, lambda: self.records.values(), self.move)

    def come(self, lease: str) -> None:
        worker = self.workers.connect(lease, lease, None)
        assert worker
        worker.groups = {r.id for r in self.records.values() if r.lease == lease}

    def move(self, known: Record) -> None:
        self.moved.append(known.id)
        to = min(self.workers.all(), key=lambda worker: len(worker.groups))
        for worker in self.workers.all():
            worker.groups.discard(known.id)
        to.groups.add(known.id)
        self.records[known.id] = replace(known, lease=to.lease)

    def pass_by(self, seconds: float, waiting: bool = False) -> None:
        for _ in range(round(seconds * 10)):
            self.now += 0.1
            self.balance.look(self.now, waiting)


def test_a_worker_that_comes_gets_groups_until_both_have_as_many() -> None:
    world = World([record(f"g{n}", "one", left=100.0 + n) for n in range(8)])
    world.come("one")
    world.pass_by(60)
    assert world.moved == [], "there is nobody else"
    world.come("two")
    world.pass_by(CALM_S - 0.2)
    assert world.moved == [], "it has just come"
    world.pass_by(0.3)
    assert world.moved == ["g7"]
    world.pass_by(CALM_S - 0.3)
    assert world.moved == ["g7"], "everybody is left alone after a move"
    world.pass_by(60)
    assert world.moved == ["g7", "g6", "g5", "g4"], "those that go on for longest, and no further"


def test_workers_that_differ_by_some_receivers_stay_as_they_are() -> None:
    few = GroupSpec(source="a", source_path="/f", receivers=MANY[:5])
    world = World([record(f"g{n}", "one", spec=few) for n in range(20)])
    world.come("one")
    world.come("two")
    world.pass_by(60)
    assert world.moved == [], "a hundred receivers cost nothing that anybody would notice"


def test_a_group_that_would_make_the_other_the_fuller_one_stays() -> None:
    large = GroupSpec(source="a", source_path="/f", receivers=[f"r{n}" for n in range(2000)])
    small = GroupSpec(source="a", source_path="/f", receivers=["b"])
    world = World([record("large", "one", left=900.0, spec=large), record("small", "one", spec=small)])
    world.come("one")
    world.come("two")
    world.pass_by(60)
    assert world.moved == ["small"]


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "starting"},
        {"state": "cancelling"},
        {"told_epoch": 0},
        {"progress": Progress(size=10**9, rate_bps=1000)},
        {"progress": Progress(size=10**9, rate_bps=0, adopt=ADOPT)},
        {"progress": Progress(size=10**9, rate_bps=10**9, adopt=ADOPT)},
    ],
)
def test_a_group_that_ends_soon_or_is_not_under_way_stays(changes) -> None:
    world = World([record(f"g{n}", "one", **changes) for n in range(8)])
    world.come("one")
    world.come("two")
    world.pass_by(60)
    assert world.moved == [] and left_s(record("g", "one", **changes)) < module.LEFT_S


def test_how_long_a_group_goes_on_is_what_is_left_of_it_at_its_rate() -> None:
    half = Progress(size=10**9, rate_bps=10**8, fraction=0.25, adopt=ADOPT)
    assert left_s(record("g", "one", progress=half)) == 60.0
    assert left_s(record("g", "one", progress=structs.replace(half, rate_bps=1, size=10))) == 60.0
    assert left_s(record("g", "one", progress=structs.replace(half, size=None))) == 0.0
    assert left_s(record("g", "one", progress=half, told_epoch=2)) == 0.0


@pytest.mark.parametrize(
    ("groups", "receivers", "left", "moved"),
    [
        (2, module.GAIN // 2, module.LEFT_S, 1),  # as little as moves
        (2, module.GAIN // 2, module.LEFT_S - 0.1, 0),
        (2, module.GAIN // 2 - 1, module.LEFT_S, 0),
        (1, module.GAIN, module.LEFT_S, 0),
    ],
)
def test_as_few_groups_and_receivers_as_make_a_difference_and_one_less(
    groups: int, receivers: int, left: float, moved: int
) -> None:
    spec = GroupSpec(source="a", source_path="/f", receivers=[f"r{n}" for n in range(receivers)])
    lasts = Progress(size=round(left * 10**6), rate_bps=8 * 10**6, adopt=ADOPT)
    world = World([record(f"g{n}", "one", spec=spec, progress=lasts) for n in range(groups)])
    world.come("one")
    world.come("two")
    world.pass_by(60)
    assert len(world.moved) == moved


@pytest.mark.parametrize("fuller", range(2, 13))
def test_workers_whose_groups_differ_by_less_than_a_quarter_are_alike(fuller: int) -> None:
    both = [record(f"g{n}", "one") for n in range(fuller)] + [record(f"k{n}", "two") for n in range(2)]
    world = World(both)
    world.come("one")
    world.come("two")
    world.pass_by(60)
    of = [sum(r.lease == lease for r in world.records.values()) for lease in ("one", "two")]
    assert of[0] - of[1] < max(module.APART, module.PART * of[0]) <= of[0] - of[1] + 2, of


def test_nothing_moves_while_groups_wait_for_a_worker() -> None:
    world = World([record(f"g{n}", "one") for n in range(8)])
    world.come("one")
    world.come("two")
    world.pass_by(60, waiting=True)
    assert world.moved == []


@pytest.mark.simulated(timeout=120)
async def test_groups_that_move_go_on_and_reach_everybody(monkeypatch) -> None:
    monkeypatch.setattr(module, "LEFT_S", 0.5)
    monkeypatch.setattr(module, "CALM_S", 0.1)
    monkeypatch.setattr(module, "LOOK_S", 0.1)
    monkeypatch.setattr(module, "GAIN", 4)
    async with lab(star(6), rates=[1000.0]) as it:
        groups = [await it.start("h0", [f"h{n}", "h5"], SIZE, f"/srv/{n}") for n in (1, 2, 3, 4)]
        for group in groups:
            await it.running(group, 50)
        it.masters.start()

        def of(worker: int) -> set[str]:
            return set(it.masters._workers[worker][0].groups)

        await until(lambda: len(of(0)) == len(of(1)) == 2, "each has two")
        assert not of(0) & of(1), "the one before has let go"
        epochs = {name: it.manager.groups.get(name).epoch for name in of(1)}
        assert set(epochs.values()) == {2}
        ended = [await it.end(group, 60) for group in groups]
    assert [group["state"] for group in ended] == ["done"] * 4
    assert all(receiver["sha256_ok"] for group in ended for receiver in group["receivers"].values())
