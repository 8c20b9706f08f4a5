"""Leases of workers: who is silent, and who only could not be heard."""

from __future__ import annotations

import pytest

from datacast.fabric_manager import workers
from datacast.fabric_manager.workers import SILENCE_S, Worker, Workers


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
