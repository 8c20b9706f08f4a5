"""Shares on their way to masters: what is told, when, and what is not."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count, pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs
from small import star, until

from datacast.fabric_manager import divider as module
from datacast.fabric_manager.api import GroupSpec, orders
from datacast.fabric_manager.api.reports import Progress, TreeFigures
from datacast.fabric_manager.api.topology import graph_of
from datacast.fabric_manager.divider import Divider
from datacast.fabric_manager.fabric import Fabric
from datacast.fabric_manager.record import Record
from datacast.fabric_manager.shares import Ask, TreeUse

RATE = 100_000_000


def record(name: str, *path: str, tree: int = 1, used: int = 0, **spec: Any) -> Record:
    """A group that runs over one path."""
    arcs = list(pairwise(path))
    figures = TreeFigures(state="running", arcs=arcs, most_bps=RATE, rate_bps=used)
    return Record(
        id=name,
        spec=GroupSpec(source=path[0], source_path="/f", receivers=[path[-1]], **spec),
        state="running",
        owner="w",
        created_ns=time.time_ns(),
        progress=Progress(size=10_000_000, trees={str(tree): figures}),
    )


class World:
    def __init__(self) -> None:
        self.rates: dict[str, dict[str, int | None]] = {}
        self.told = 0
        self.refused: dict[str, str] = {}
        self.divider = Divider(Fabric(star(4), rate_bps=RATE), self.tell, self.refused.__setitem__)
        self._looks = count(1)

    def follow(self, record: Record, ended: bool = False) -> None:
        """Its master has looked at its members once more."""
        self.divider.follow(replace(record, progress=structs.replace(record.progress, looks=next(self._looks))), ended)

    def tell(self, group: str, message: orders.ToMaster) -> None:
        assert isinstance(message, orders.Rates)
        self.told += 1
        self.rates.setdefault(group, {}).update(message.rates)


@asynccontextmanager
async def divided() -> AsyncIterator[World]:
    world = World()
    task = asyncio.create_task(world.divider.run())
    try:
        yield world
    finally:
        task.cancel()


async def quiet(world: World) -> None:
    """Until nothing has been told for a while."""
    told = -1
    while told != world.told:
        told = world.told
        await asyncio.sleep(0.1)


async def test_one_group_alone_is_told_nothing_and_two_that_share_a_link_get_their_parts() -> None:
    async with divided() as world:
        world.follow(record("g", "h0", "s", "h1"))
        await quiet(world)
        assert world.rates == {}
        world.follow(record("h", "h2", "s", "h1", tree=2, weight=300))
        await until(lambda: world.rates == {"g": {"1": 25_000_000}, "h": {"2": 75_000_000}}, "both are told")
        world.follow(record("i", "h2", "s", "h3", tree=3, priority="background"))
        await until(lambda: world.rates.get("i") == {"3": 25_000_000}, "what h leaves of the cable from h2")
        world.follow(record("h", "h2", "s", "h1", tree=2), True)
        assert world.divider.share_of("h") == {}  # at once: its record says so as it says that it is done
        await until(lambda: world.rates["g"] == {"1": None}, "g is alone again and needs no bound")


async def test_a_report_that_changes_nothing_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with divided() as world:
        g, h = record("g", "h0", "s", "h1"), record("h", "h2", "s", "h1", tree=2)
        world.follow(g)
        world.follow(h)
        await until(lambda: len(world.rates) == 2, "both are told")
        await quiet(world)
        monkeypatch.setattr(Divider, "_compute", lambda *a: pytest.fail("nothing has changed"))
        for fraction in (0.1, 0.2, 0.3):
            world.follow(replace(g, progress=structs.replace(g.progress, fraction=fraction)))
        await asyncio.sleep(0.05)


async def test_a_group_that_cannot_use_its_share_leaves_it_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SETTLE_S", 0.0)
    async with divided() as world:
        slow = record("slow", "h0", "s", "h1", used=10_000_000)
        world.follow(record("fast", "h2", "s", "h1", tree=2))
        world.follow(slow)
        await until(lambda: world.rates.get("slow") == {"1": 50_000_000}, "even shares")
        world.follow(slow)
        await until(lambda: world.rates["fast"] == {"2": 85_000_000}, "what it does not use")
        quick = record("slow", "h0", "s", "h1", used=14_000_000)
        world.follow(quick)
        await until(lambda: world.rates["slow"]["1"] == 50_000_000, "all of it, as it uses what it has")


async def test_a_report_without_a_new_rate_says_nothing_of_what_a_group_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A master's first look at its members measures none, and may be seconds after the start."""
    monkeypatch.setattr(module, "SETTLE_S", 0.0)
    async with divided() as world:
        one, other = record("a", "h0", "s", "h1"), record("b", "h2", "s", "h1", tree=2)
        for known in (one, other, one, other):
            world.divider.follow(known, False)
            await quiet(world)
        assert world.rates == {"a": {"1": 50_000_000}, "b": {"2": 50_000_000}}


async def test_a_share_that_grew_between_two_looks_is_not_taken_for_one_that_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SETTLE_S", 0.0)
    async with divided() as world:
        half = record("a", "h0", "s", "h1", used=50_000_000)
        world.follow(record("b", "h2", "s", "h1", tree=2, used=50_000_000))
        world.follow(record("c", "h3", "s", "h2", tree=3, used=RATE))
        world.follow(half)
        await until(lambda: world.rates.get("a") == {"1": 50_000_000}, "half the cable")
        world.follow(half)
        world.follow(record("b", "h2", "s", "h1", tree=2), True)
        await until(lambda: world.rates["a"] == {"1": None}, "all of it")
        world.follow(half)
        assert world.divider._groups["a"].bound == float("inf"), "most of the time it had half"
        world.follow(half)
        assert world.divider._groups["a"].bound == 75_000_000


async def test_a_deadline_comes_first_and_one_that_cannot_be_met_is_refused() -> None:
    async with divided() as world:
        world.follow(record("g", "h0", "s", "h1"))
        world.follow(record("soon", "h2", "s", "h1", tree=2, deadline_s=1.0))  # takes 80 Mbit/s
        await until(lambda: world.rates.get("soon", {}).get("2", 0) > 80_000_000, "it is promised")
        world.follow(record("never", "h3", "s", "h1", tree=3, deadline_s=0.5))
        await until(lambda: "never" in world.refused, "160 Mbit/s over a cable of 100")
        assert "Mbit/s" in world.refused["never"] and "soon" not in world.refused


async def refused_with(*, seen_before: bool, fraction: float, epoch: int = 1) -> bool:
    """Is a group refused whose deadline no link allows, when its first trees are told of with so much of it there?"""
    async with divided() as world:
        one = replace(record("a", "h0", "s", "h1", deadline_s=0.001), epoch=epoch)
        if seen_before:
            world.follow(replace(one, owner=None, state="queued", progress=Progress()))
        world.follow(replace(one, progress=structs.replace(one.progress, fraction=fraction)))
        await until(lambda: world.divider.share_of("a"), "its share")
        await quiet(world)
    return "a" in world.refused


async def test_a_group_may_have_some_when_its_trees_are_first_told_of_and_is_refused_all_the_same() -> None:
    assert await refused_with(seen_before=True, fraction=0.01)
    assert await refused_with(seen_before=False, fraction=0.0)


async def test_a_group_under_way_is_not_refused_by_the_next_fabric_manager_nor_with_its_next_master() -> None:
    assert not await refused_with(seen_before=False, fraction=0.01)
    assert not await refused_with(seen_before=True, fraction=0.0, epoch=2)


@pytest.mark.parametrize("first", ["stream", "report"])
async def test_a_master_with_a_new_stream_is_told_that_no_bound_holds_its_group_any_more(first: str) -> None:
    async with divided() as world:
        if first == "stream":
            world.divider.again("a")
        world.follow(record("a", "h0", "s", "h1"))
        world.follow(record("b", "h2", "s", "h3"))
        await quiet(world)
        if first == "report":
            assert world.rates == {}
            world.divider.again("a")
        await until(lambda: "a" in world.rates, "it is told")
        await quiet(world)
    assert world.rates == {"a": {"1": None}}, "the other one has heard all there was"


async def test_a_group_that_has_lost_its_trees_is_told_that_their_bounds_hold_no_more() -> None:
    async with divided() as world:
        one = record("a", "h0", "s", "h1")
        world.follow(one)
        world.follow(record("b", "h2", "s", "h1", tree=2))
        await until(lambda: world.rates.get("a", {}).get("1"), "half the cable")
        lost = structs.replace(one.progress.trees["1"], state="lost")
        world.follow(replace(one, progress=structs.replace(one.progress, trees={"1": lost})))
        await until(lambda: world.rates["a"]["1"] is None, "what was asked for still comes over it")
        trees = {"1": lost, "3": one.progress.trees["1"]}
        world.follow(replace(one, progress=structs.replace(one.progress, trees=trees)))
        await until(lambda: world.rates["a"].get("3"), "half the cable for another tree")
        assert world.rates["a"]["1"] is None


async def test_a_group_that_has_not_begun_has_not_stood_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its share is there before its source may send: a start that takes long is no reason to have less."""
    monkeypatch.setattr(module, "SETTLE_S", 0.2)
    async with divided() as world:
        one = record("a", "h0", "s", "h1")
        world.follow(replace(one, state="starting"))
        world.follow(record("b", "h2", "s", "h1", tree=2))
        await until(lambda: world.rates.get("a") == {"1": 50_000_000}, "half the cable")
        await asyncio.sleep(0.3)
        world.follow(replace(one, state="starting"))
        world.follow(one)
        assert world.divider._groups["a"].bound == float("inf")
        await asyncio.sleep(0.3)
        world.follow(one)
        assert world.divider._groups["a"].bound < 50_000_000


async def test_a_group_that_is_back_has_not_stood_still_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SETTLE_S", 2.0)
    async with divided() as world:
        one = record("a", "h0", "s", "h1")
        world.follow(one)
        world.follow(record("b", "h2", "s", "h1", tree=2))
        await until(lambda: world.rates.get("a") == {"1": 50_000_000}, "half the cable")
        await asyncio.sleep(2.1)
        lost = {"1": structs.replace(one.progress.trees["1"], state="lost")}
        world.follow(replace(one, progress=structs.replace(one.progress, trees=lost)))
        for _ in range(2):
            world.follow(one)
            world.follow(one)
            await quiet(world)
        assert world.rates["a"] == {"1": 50_000_000}


async def test_a_group_that_is_late_goes_on_with_its_next_master_and_when_it_is_resumed() -> None:
    async with divided() as world:
        one = record("a", "h0", "s", "h1", deadline_s=10.0)
        world.follow(one)
        await until(lambda: world.divider.share_of("a"), "its share")
        world.follow(replace(one, owner=None))
        late = {"created_ns": one.created_ns - 9_900_000_000, "epoch": 2}
        world.follow(replace(one, progress=structs.replace(one.progress, fraction=0.5), **late))
        await quiet(world)
        world.follow(one, ended=True)
        world.follow(replace(one, **late))
        await quiet(world)
    assert world.refused == {}


async def test_a_group_that_is_late_takes_nothing_from_others() -> None:
    """It shares with them as if it had no deadline."""
    async with divided() as world:
        world.follow(record("a", "h0", "s", "h1"))
        one = record("late", "h2", "s", "h1", tree=2, deadline_s=10.0)
        late = replace(one, created_ns=one.created_ns - 11_000_000_000)
        world.follow(replace(late, progress=structs.replace(one.progress, fraction=0.5)))
        await until(lambda: world.divider.share_of("late") and world.divider.share_of("a"), "their shares")
    assert sum(world.divider.share_of("a").values()) == pytest.approx(RATE / 2, rel=0.05)
    assert sum(world.divider.share_of("late").values()) == pytest.approx(RATE / 2, rel=0.05)
    assert world.refused == {}


async def test_a_group_that_has_lost_its_trees_is_not_refused_for_its_deadline() -> None:
    async with divided() as world:
        one = record("a", "h0", "s", "h1", deadline_s=10.0)
        world.follow(one)
        lost = {"1": structs.replace(one.progress.trees["1"], state="lost")}
        for _ in range(2):  # before its share was computed, and once more
            world.follow(replace(one, progress=structs.replace(one.progress, trees=lost)))
            await quiet(world)
        world.follow(one)
        await quiet(world)
    assert world.refused == {}


async def test_a_master_that_heard_of_a_tree_from_a_fabric_manager_before_is_told_of_it_anew() -> None:
    async with divided() as world:
        world.follow(record("a", "h0", "s", "h1"))  # as the store has it
        world.divider.again("a")
        await until(lambda: "1" in world.rates.get("a", {}), "what the store knows of")
        world.follow(record("a", "h0", "s", "h1", tree=7))  # it came before the store was written to
        await until(lambda: "7" in world.rates["a"], "what only the master knows of")
        await quiet(world)
        told = world.told
        world.follow(record("a", "h0", "s", "h1", tree=7, weight=2))
        await quiet(world)
        assert world.told == told, "once"
    assert world.rates == {"a": {"1": None, "7": None}}


async def test_a_cap_is_told_to_groups_that_run_and_lifted_again() -> None:
    async with divided() as world:
        world.follow(record("a", "h0", "s", "h1", tree=1))
        world.follow(record("b", "h2", "s", "h3", tree=2))
        await until(lambda: world.divider.share_of("b"), "shares are there")
        world.divider.cap(60_000_000, {"h0": 10_000_000})
        await until(lambda: world.rates.get("a", {}).get("1"), "the cap is told")
        assert world.rates["a"]["1"] == pytest.approx(10_000_000, rel=1e-3)
        assert world.rates["b"]["2"] == pytest.approx(50_000_000, rel=1e-3), "it gets what the other cannot use"
        ask = world.divider._groups["a"].ask
        beside = world.divider.others().beside(ask, graph_of(world.divider.fabric.snapshot()))
        assert sum(beside.values()) == pytest.approx(5_000_000, rel=1e-3), "a dry run knows of it"
        world.divider.cap(None, {})
        await until(lambda: world.rates["a"]["1"] is None and world.rates["b"]["2"] is None, "they send what they can")


async def test_waiting_for_a_processor_does_not_count_as_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine shares would otherwise rest for nine times as long as others kept them from being computed."""
    compute, sleep, rests = module.Shares.compute, asyncio.sleep, list[float]()

    def late(self: Any) -> Any:
        time.sleep(0.5)  # others have the processor
        return compute(self)

    async def asked(seconds: float) -> None:
        rests.append(seconds)
        await sleep(min(seconds, 0.01))

    monkeypatch.setattr(module.Shares, "compute", late)
    monkeypatch.setattr(module.asyncio, "sleep", asked)
    async with divided() as world:
        for n in range(3):
            world.follow(record("a", "h0", "s", "h1", tree=n, most_bps=10_000_000))
            await until(lambda n=n: n in world.divider.share_of("a"), "it is computed")
    assert max(rests) < 0.5 / module.PART / 2, "no rest of several seconds"


async def test_what_could_not_be_computed_is_computed_with_the_next_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that had ended kept its share, and those that were beside it were never told."""
    given, fails = module.Shares.given, [False]

    def failing(self: Any, names: Any) -> Any:
        if fails[0]:
            fails.append(fails[0])
            raise MemoryError("once")
        return given(self, names)

    monkeypatch.setattr(module.Shares, "given", failing)
    async with divided() as world:
        for name, to in (("a", "h1"), ("b", "h2")):
            world.follow(record(name, "h0", "s", to, tree=ord(name)))
        await until(lambda: world.rates.keys() == {"a", "b"}, "each has its part")
        fails[0] = True
        world.follow(record("a", "h0", "s", "h1", tree=ord("a")), ended=True)
        await until(lambda: len(fails) > 1, "it cannot be computed")
        fails[0] = False
        world.follow(record("c", "h3", "s", "h1", tree=ord("c")))
        await until(lambda: world.rates["b"][str(ord("b"))] is None, "b has the link alone")


class Name(str):
    """Calls `hook` when it is looked for in a table the next time."""

    __slots__ = ()
    hook: Callable[[], object] | None = None

    def __hash__(self) -> int:
        hook, Name.hook = Name.hook, None
        if hook is not None:
            hook()
        return str.__hash__(self)


async def test_links_that_come_as_shares_begin_to_be_computed_are_not_lost() -> None:
    """Their rates were written into a table that the other thread had just taken away."""
    async with divided() as world:
        divider, go = world.divider, threading.Event()
        world.follow(record("a", "h0", "s", "h1", tree=1))
        await until(lambda: divider.share_of("a"), "its share is there")
        await until(divider._thread.submit(go.wait).running, "the thread is held up")
        world.follow(record("b", "h0", "s", "h2", tree=2))
        await until(lambda: divider._thread._work_queue.qsize(), "shares are to be computed")

        def computed() -> None:
            go.set()
            divider._thread.submit(lambda: None).result()

        link = Name("h0"), Name("s"), {"rate_bps": RATE // 2}
        divider.fabric = SimpleNamespace(graph=SimpleNamespace(edges=lambda data: [link]))  # type: ignore[assignment]
        Name.hook = computed
        divider.rewire()
        assert go.is_set()
        await until(lambda: divider.share_of("b").get(2) == pytest.approx(RATE / 4, rel=0.01), "the link has less")


def test_what_a_group_wants_is_known_to_two_digits_upwards() -> None:
    """So that a group which needs a little more from one moment to the next changes nobody's share."""
    wanted = {0: 0, 1: 1, 99: 99, 100: 100, 101: 110, 1_234_567: 1_300_000, 10**10: 10**10, 10**10 + 1: 1.1e10}
    assert {bps: module._step(bps) for bps in wanted} == wanted


ARCS = [("h0", "s"), ("s", "h1")]
PLAIN = {"trees": {1: TreeUse(ARCS, RATE)}, "weight": 100.0}


@pytest.mark.parametrize(
    "told, asked",
    [
        pytest.param({}, {}, id="nothing but its trees"),
        pytest.param({"weight": 7, "priority": "background", "most_bps": 9000},
                     {"weight": 7.0, "background": True, "most_bps": 9000.0}, id="what people have said"),
        pytest.param({"deadline_s": 8.0}, {"least_bps": 11e6}, id="80 Mbit in 8 s, a fiftieth to spare, in steps"),
        pytest.param({"deadline_s": 8.0, "fraction": 0.25}, {"least_bps": 7.7e6}, id="less, the more it has"),
        pytest.param({"deadline_s": 8.0, "age_s": 4.0}, {"least_bps": 21e6}, id="more, the less time is left"),
        pytest.param({"deadline_s": 8.0, "size": None}, {}, id="nobody knows how much it is"),
        pytest.param({"deadline_s": 8.0, "age_s": 8.0, "young": True}, {"least_bps": 820e6}, id="late, and new"),
        pytest.param({"deadline_s": 8.0, "age_s": 8.0}, {}, id="late, and under way"),
        pytest.param({"deadline_s": 8.0, "age_s": 7.0}, {"least_bps": 82e6}, id="not late yet"),
    ],
)  # fmt: skip
def test_what_a_group_asks_of_the_links_is_what_it_was_asked_for_and_has_come_to(
    told: dict[str, Any], asked: dict[str, Any]
) -> None:
    told = dict(told)
    progress = {key: told.pop(key) for key in ("size", "fraction") if key in told}
    age_s, young = told.pop("age_s", 0.0), told.pop("young", False)
    known = record("g", "h0", "s", "h1", **told)
    known = replace(known, progress=structs.replace(known.progress, **progress))
    assert module.ask_of(known, known.created_ns + round(age_s * 1e9), {}, young) == Ask(**PLAIN | asked)


def test_a_group_asks_for_trees_that_are_there_and_each_is_one_object_while_it_stays() -> None:
    known = record("g", "h0", "s", "h1")
    figures = known.progress.trees["1"]
    trees = {
        "1": figures,
        "2": structs.replace(figures, state="idle", most_bps=0, interest=0.25),
        "3": structs.replace(figures, state="lost"),
        "4": structs.replace(figures, arcs=[]),
        "5": structs.replace(figures, arcs=None),
    }
    known = replace(known, progress=structs.replace(known.progress, trees=trees))
    ask = module.ask_of(known, known.created_ns, {}, False)
    assert ask and ask.trees == {1: TreeUse(ARCS, RATE), 2: TreeUse(ARCS, float("inf"), 0.25)}
    again = module.ask_of(known, known.created_ns, ask.trees, False)
    assert again and all(again.trees[number] is use for number, use in ask.trees.items())
    for change in ({"arcs": [*ARCS]}, {"most_bps": RATE // 2}):
        other = structs.replace(known.progress, trees={**trees, "1": structs.replace(figures, **change)})
        moved = module.ask_of(replace(known, progress=other), known.created_ns, ask.trees, False)
        assert moved and moved.trees[1] is not ask.trees[1] and moved.trees[2] is ask.trees[2]
    none = structs.replace(known.progress, trees={name: trees[name] for name in "345"})
    assert module.ask_of(replace(known, progress=none), known.created_ns, ask.trees, False) is None
