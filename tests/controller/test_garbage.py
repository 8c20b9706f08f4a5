"""Garbage of services: rings are found when the process has grown, and nothing is looked through for each report."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref

import pytest

from datacast.services import garbage


class Ring:
    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "LOOK_S", 0.01)


def whole() -> int:
    return gc.get_stats()[2]["collections"]


async def test_reports_that_come_and_go_have_nobody_look_through_everything(seconds: None) -> None:
    text = json.dumps({f"h{n}": {"trees": {str(t): {"seq": n} for t in range(4)}} for n in range(500)})

    async def main() -> int:
        kept: list[object] = []
        before = whole()
        for _ in range(100):
            kept.append(json.loads(text))  # one follows the other, as a member's status does
            del kept[:-4]
            await asyncio.sleep(0)
        return whole() - before

    assert await garbage.beside(main()) == 0
    gc.freeze()  # what other tests have left: Python looks when a quarter more has come
    gc.collect()
    tests = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    try:
        assert await main() > 0, "Python left to itself looks"
    finally:
        gc.set_threshold(*tests)
        gc.unfreeze()


async def test_figures_that_replace_others_do_not_gather(seconds: None) -> None:
    """Python counts what comes less what goes: as much goes as comes here, and it would never look."""

    async def main() -> None:
        kept = [[n] for n in range(100_000)]
        gc.collect()
        for n in range(len(kept)):
            kept[n] = [n]
        for _ in range(1000):
            if len(gc.get_objects(generation=0)) < len(kept) // 2:
                return
            await asyncio.sleep(0.05)
        raise AssertionError("they are looked through all at once some day")

    await garbage.beside(main())


async def test_rings_that_outlive_a_look_are_found_soon_though_the_process_stays_as_it_is(seconds: None) -> None:
    """What a request has brought hangs on such a ring: it was on its way at that look."""

    async def main() -> None:
        before, seen = whole(), []
        for _ in range(3):
            ring = Ring()
            gc.collect(0)  # a look while it is in use
            seen.append(weakref.ref(ring))
            del ring
        for _ in range(1000):
            if not any(one() for one in seen):
                return
            await asyncio.sleep(0.01)
        assert whole() == before
        raise AssertionError("they wait for the process to grow")

    await garbage.beside(main())


async def test_rings_are_found_once_the_process_has_grown(seconds: None, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 100 << 20
    monkeypatch.setattr(garbage, "resident", lambda statm=None: size)

    async def main() -> None:
        nonlocal size
        ring = Ring()
        gc.collect(1)
        gc.collect(1)  # it is old now
        seen = weakref.ref(ring)
        del ring
        await asyncio.sleep(0.05)
        assert seen() is not None
        size = 150 << 20
        await asyncio.sleep(0.05)
        assert seen() is None
        size = 190 << 20
        before = whole()
        await asyncio.sleep(0.05)
        assert whole() == before, "that was a quarter more"

    await garbage.beside(main())
    assert gc.get_threshold()[0] != garbage.YOUNG


async def test_memory_that_is_free_goes_back_each_time_the_process_has_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once per growth, and what it grows from is what was left after the last time."""
    monkeypatch.setattr(garbage, "LOOK_S", 0.0)
    size = [64 << 20]
    given: list[int] = []
    monkeypatch.setattr(garbage, "resident", lambda statm=None: size[0])
    monkeypatch.setattr(garbage, "give_back", lambda: given.append(size[0] >> 20))

    async def looks(times: int = 5) -> None:
        for _ in range(times):  # one look rests a turn of the loop, or as long as the thread takes
            await asyncio.sleep(0.01)

    async def main() -> None:
        await looks()
        assert given == [], "it has not grown"
        for more, seen in ((70, []), (80, [80]), (85, [80]), (90, [80, 90])):
            size[0] = more << 20
            await looks()
            assert given == seen

    await garbage.beside(main())


async def test_nothing_looks_any_more_when_the_service_has_ended() -> None:
    await garbage.beside(asyncio.sleep(0.01))
    assert len(asyncio.all_tasks()) == 1, "this one"
