"""Whose turn it is: caps of fabric and hosts, order, priority, nobody in front of others for ever."""

from __future__ import annotations

import pytest

from datacast.fabric_manager import admission
from datacast.fabric_manager.admission import admit
from datacast.fabric_manager.api import GroupSpec
from datacast.fabric_manager.record import Record


def group(name: str, source: str, *to: str, at: int = 0, priority: str = "normal") -> Record:
    spec = GroupSpec(source=source, source_path="/f", receivers=list(to), priority=priority)  # type: ignore[arg-type]
    return Record(id=name, spec=spec, created_ns=at)


def names(records: list[Record]) -> list[str]:
    return [record.id for record in records]


def test_no_more_begin_than_the_fabric_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "GROUPS_MAX", 3)
    queue = [group(f"q{n}", f"a{n}", f"b{n}", at=n) for n in (2, 0, 1)]
    assert names(admit(queue, [])) == ["q0", "q1", "q2"]
    assert names(admit(queue, [group("r", "x", "y"), group("s", "v", "w")])) == ["q0"]
    assert admit(queue, [group(f"r{n}", "x", "y") for n in range(3)]) == [] == admit([], [])


def test_a_busy_host_holds_up_only_those_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "HOST_MAX", 2)
    running = [group("r", "h0", "h1"), group("s", "h2", "h1")]
    queue = [group("wants", "h3", "h1", at=1), group("other", "h3", "h0", at=2)]
    assert names(admit(queue, running)) == ["other"]
    assert names(admit(queue, running[:1])) == ["wants", "other"]


def test_nobody_gets_in_front_for_ever_of_one_that_wants_many_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "HOST_MAX", 1)
    queue = [group("all", "h0", "h1", "h2", at=1), group("small", "h1", "h2", at=2)]
    assert admit(queue, [group("r", "h0", "h9")]) == [], "small would take what all waits for"
    assert names(admit(queue, [])) == ["all"]


def test_background_groups_begin_after_the_others() -> None:
    queue = [group("b", "h0", "h1", at=1, priority="background"), group("n", "h0", "h1", at=2)]
    assert names(admit(queue, [])) == ["n", "b"]
