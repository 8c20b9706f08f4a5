"""Whose turn it is: caps of fabric and hosts, order, priority, nobody in front of others for ever."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from datacast.fabric_manager.admission import Admission, Caps
from datacast.fabric_manager.api import GroupSpec
from datacast.fabric_manager.record import Record


def group(name: str, source: str, *to: str, at: int = 0, priority: str = "normal") -> Record:
    spec = GroupSpec(source=source, source_path="/f", receivers=list(to), priority=priority)  # type: ignore[arg-type]
    return Record(id=name, spec=spec, created_ns=at)


def names(records: list[Record]) -> list[str]:
    return [record.id for record in records]


def admit(queued: list[Record], running: list[Record], caps: Caps | None = None) -> list[Record]:
    admission = Admission(caps)
    for record in running:
        admission.begin(record, 100.0)
    for record in queued:
        admission.follow(record, False)
    return admission.next(100.5)


def test_no_more_begin_than_the_fabric_takes() -> None:
    caps = Caps(groups=3)
    queue = [group(f"q{n}", f"a{n}", f"b{n}", at=n) for n in (2, 0, 1)]
    assert names(admit(queue, [], caps)) == ["q0", "q1", "q2"]
    assert names(admit(queue, [group("r", "x", "y"), group("s", "v", "w")], caps)) == ["q0"]
    assert admit(queue, [group(f"r{n}", "x", "y") for n in range(3)], caps) == [] == admit([], [])


def test_a_busy_host_holds_up_only_those_that_want_it() -> None:
    caps = Caps(host=2)
    running = [group("r", "h0", "h1"), group("s", "h2", "h1")]
    queue = [group("wants", "h3", "h1", at=1), group("other", "h3", "h0", at=2)]
    assert names(admit(queue, running, caps)) == ["other"]
    assert names(admit(queue, running[:1], caps)) == ["wants", "other"]


def test_nobody_gets_in_front_for_ever_of_one_that_wants_many_hosts() -> None:
    caps = Caps(host=1)
    queue = [group("all", "h0", "h1", "h2", at=1), group("small", "h1", "h2", at=2)]
    assert admit(queue, [group("r", "h0", "h9")], caps) == [], "small would take what all waits for"
    assert names(admit(queue, [], caps)) == ["all"]


def test_background_groups_begin_after_the_others() -> None:
    queue = [group("b", "h0", "h1", at=1, priority="background"), group("n", "h0", "h1", at=2)]
    assert names(admit(queue, [])) == ["n", "b"]


def test_what_is_counted_follows_the_groups() -> None:
    """Whatever comes and goes: as many begin as one that counts anew would let begin."""
    draw = random.Random(7)
    admission, known, begun = Admission(Caps(groups=9, host=3)), {}, {}
    for step in range(400):
        name = f"g{draw.randrange(30)}"
        members = draw.sample([f"h{i}" for i in range(9)], 4)
        before = begun.pop(name, None) or known.pop(name, None)
        if before is not None and draw.random() < 0.5:
            admission.follow(before, True)
            continue
        if before is not None:  # others join and leave
            record = replace(before, spec=replace(before.spec, receivers=members[1:]))
            admission.follow(record, False)
            (begun if record.state == "running" else known)[name] = record
            continue
        record = group(name, *members, at=step)
        fits = admission.fits(record, 100.5)
        admission.follow(record, False)
        known[name] = record
        fresh = [record.id for record in admit(list(known.values()), list(begun.values()), admission.caps)]
        assert [record.id for record in admission.next(100.5)] == fresh
        assert fits == (name in fresh and len(begun) < 9) or len(known) > 1
        for one in admission.next(100.5):
            begun[one.id] = replace(known.pop(one.id), state="running")
            admission.follow(begun[one.id], False)


def test_a_short_group_does_not_wait_for_long_ones_to_end(monkeypatch) -> None:
    monkeypatch.setattr("datacast.fabric_manager.admission.HOST_SOON", 2)
    admission = Admission(Caps(host=4))
    for n in range(9):
        admission.follow(group(f"g{n}", "a", "b", at=n), False)

    def begin(now: float) -> list[str]:
        records = admission.next(now)
        for record in records:
            admission.begin(record, now)
        return names(records)

    def end(*ended: str) -> None:
        for name in ended:
            admission.follow(group(name, "a", "b"), True)

    assert begin(10.0) == ["g0", "g1"]
    assert begin(10.9) == [], "those two may end soon"
    assert not admission.fits(group("late", "b", "c"), 11.5), "it comes behind those that wait"
    assert begin(11.0) == ["g2"]
    assert begin(11.9) == []
    assert begin(12.0) == ["g3"]
    assert begin(99.0) == [], "the agent takes no more"
    end("g0", "g1", "g2")
    assert begin(99.1) == ["g4", "g5"], "as many as a rule: g3 counts no more"
    assert begin(99.2) == [], "and nothing beyond within a second"
    end("g3", "g4", "g5")
    assert begin(99.3) == ["g6", "g7"], "those that have ended make room at once"


def test_groups_any_two_of_which_share_a_host_do_not_begin_one_after_another() -> None:
    """A thousand of 64 receivers among 4,096 hosts: nobody's cap, and a host is in 16 of them in the middle."""
    draw = random.Random(1)
    hosts = [f"h{n}" for n in range(4096)]
    admission = Admission(Caps(groups=1000))
    for n in range(1000):
        admission.follow(group(f"g{n}", *draw.sample(hosts, 65), at=n), False)
    begun, taken, now = 0, Counter[str](), 0.0
    while begun < 1000 and now < 60.0:
        for record in admission.next(now):
            admission.begin(record, now)
            begun += 1
            taken.update([record.spec.source, *record.receivers])
            assert max(taken.values()) <= 8 + now
        now += 0.5
    assert begun == 1000 and now < 40.0, (begun, now)
