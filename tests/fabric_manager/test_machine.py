"""The life of a group: one pure function, event by event, and over thousands of random ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from drawing import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from datacast.fabric_manager import machine
from datacast.fabric_manager.api import FINAL_STATES, GroupSpec, orders
from datacast.fabric_manager.api.reports import Adopt, MasterReport, Progress, ReceiverFigures, Slowness, TreeFigures
from datacast.fabric_manager.machine import (
    FRUITLESS_MAX,
    SILENT,
    Assigned,
    Cancel,
    GiveUp,
    Join,
    Leave,
    Order,
    OwnerLost,
    Place,
    Recall,
    Reported,
    Resume,
    Stale,
    Tell,
    apply,
)
from datacast.fabric_manager.record import Record, dump, load, told
from datacast.services.problems import Problem

ADOPT = Adopt(first_ns=7, size=80, file={"inode": 1}, payload=10, per_block=2, rest=[(4, 4)])


def fresh(*receivers: str) -> Record:
    spec = GroupSpec(source="s", source_path="/f", receivers=list(receivers or ("a", "b")), dest_path="f")
    return machine.new(Record(id="g-1", spec=spec)).record


def after(record: Record, *events: machine.Event) -> Record:
    for event in events:
        record = apply(record, event, 7).record
    return record


def report(record: Record, state: str, lease: str = "L", **progress) -> Reported:
    body = MasterReport(group="g-1", epoch=record.epoch, state=state, progress=Progress(**progress))
    return Reported(body, lease)


def worn(record: Record) -> MasterReport:
    return MasterReport(group="g-1", epoch=record.epoch, state="running", progress=Progress(), renew=True)


def done(*names: str) -> dict[str, ReceiverFigures]:
    return {name: ReceiverFigures(state="done", t_done_ns=9, fraction=1.0) for name in names}


def running(fraction: float = 0.0) -> Record:
    record = after(fresh(), Assigned("w", "L"))
    return after(record, report(record, "running", fraction=fraction))


def test_from_the_queue_to_the_end() -> None:
    record = fresh()
    assert (record.state, record.epoch, record.owner) == ("queued", 0, None)
    outcome = apply(record, Assigned("w", "L"), 1)
    record = outcome.record
    assert (record.state, record.epoch, record.owner, record.lease) == ("starting", 1, "w", "L")
    assert outcome.durable and outcome.effects == (Order(),)
    outcome = apply(record, report(record, "running", adopt=ADOPT), 2)
    assert outcome.record.state == "running" and outcome.durable and outcome.record.adopt == ADOPT
    outcome = apply(outcome.record, report(outcome.record, "running", fraction=0.5), 3)
    assert not outcome.durable, "progress alone is not worth a write"
    outcome = apply(outcome.record, report(outcome.record, "running", receivers=done("a")), 4)
    assert outcome.durable and outcome.record.adopt == ADOPT and outcome.record.done == {"a": 9}
    outcome = apply(outcome.record, report(outcome.record, "done", receivers=done("b")), 5)
    ended = outcome.record
    assert (ended.state, ended.owner, ended.lease, ended.finished_ns) == ("done", None, None, 5)
    assert ended.done == {"a": 9, "b": 9} and outcome.durable


@pytest.mark.parametrize(("epoch", "lease"), [(1, "other"), (0, "L"), (2, "L")])
def test_what_is_said_in_anothers_name_is_refused(epoch: int, lease: str) -> None:
    record = running()
    told = report(replace(record, epoch=max(epoch, 1)), "failed", lease)
    if epoch == 0:
        told = Reported(structs.replace(told.report, epoch=1), lease)
        record = after(record, OwnerLost(1, "it died"), Assigned("w", "L"))
    with pytest.raises(Stale):
        apply(record, told, 1)


def test_who_is_stale_is_told_which_epoch_is_over_or_how_the_group_has_ended() -> None:
    record = running()
    moved = after(record, OwnerLost(1, "it died"), Assigned("v", "M"))
    ended = after(record, report(record, "failed"))
    for known, text in ((moved, "epoch 1 of group g-1 is over: it is at 2"), (ended, "group g-1 has ended (failed)")):
        with pytest.raises(Stale) as refused:
            apply(known, report(record, "running"), 1)
        told = refused.value.to_json()
        assert (told["status"], told["code"], told["what"], told["detail"]) == (409, "stale", "g-1", text)
        assert told["remedy"] == "stop working on the group"


@pytest.mark.parametrize("epoch", [0, 1, 2])
def test_a_worker_that_is_lost_takes_only_the_groups_that_it_has_in_their_epoch(epoch: int) -> None:
    record = running(0.5)
    nobodys = after(record, OwnerLost(1, "it died"))
    ended = after(record, report(record, "done", receivers=done("a", "b")))
    for known in (nobodys, ended, *([record] if epoch != 1 else [])):
        outcome = apply(known, OwnerLost(epoch, "it died"), 9)
        assert outcome.record is known and not outcome.effects and not outcome.durable


def test_two_masters_never_have_a_group() -> None:
    record = running()
    with pytest.raises(Stale):
        apply(record, Assigned("v", "M"), 1)


def test_the_next_worker_goes_on_from_what_was_told() -> None:
    outcome = apply(running(0.5), OwnerLost(1, "it died"), 1)
    assert outcome.effects == (Recall("w"), Place()) and outcome.record.state == "running"
    record = after(outcome.record, Assigned("v", "M"))
    assert (record.state, record.epoch, record.owner) == ("running", 2, "v")
    late = apply(record, OwnerLost(1, "noticed twice"), 2)
    assert late.record is record and not late.effects


@pytest.mark.parametrize("end", [OwnerLost(1, "it died"), Cancel()])
def test_why_a_group_is_slow_is_told_for_as_long_as_its_master_says_so(end: machine.Event) -> None:
    why = Slowness(code="throttled", message="the origin has no time")
    record = after(running(), report(running(), "running", slow=why))
    assert told(record, {}).slow == why and load(dump(record)) == record
    record = after(record, end)
    if isinstance(end, Cancel):
        record = after(record, report(record, "cancelled"))
    assert told(record, {}).slow is None


def test_a_master_whose_tree_ids_are_used_up_is_followed_by_another() -> None:
    record = after(running(), report(running(), "running", adopt=ADOPT))
    asks = replace(report(record, "running", fraction=0.5), report=worn(record))
    outcome = apply(record, asks, 5)
    assert outcome.effects == (Recall("w"), Place()) and outcome.durable
    assert (outcome.record.state, outcome.record.owner, outcome.record.fruitless) == ("running", None, 0)
    with pytest.raises(Stale):
        apply(outcome.record, asks, 6)
    again = after(outcome.record, Assigned("w", "L"))
    assert again.epoch == record.epoch + 1 and again.adopt == ADOPT


def test_nobody_follows_where_there_is_nothing_to_go_on_with_or_people_want_it_to_end() -> None:
    early = running()
    assert apply(early, Reported(worn(early), "L"), 5).record.owner == "w"
    record = after(running(), report(running(), "running", adopt=ADOPT), Cancel())
    outcome = apply(record, Reported(worn(record), "L"), 5)
    assert outcome.record.state == "cancelling" and outcome.record.owner == "w"


def test_masters_that_get_nowhere_fail_the_group_and_those_that_get_on_do_not() -> None:
    record = fresh()
    for _ in range(3 * FRUITLESS_MAX):
        record = after(record, Assigned("w", "L"))
        record = after(record, report(record, "running", fraction=record.progress.fraction + 0.01))
        record = after(record, OwnerLost(record.epoch, "it died"))
    assert record.state == "running" and record.fruitless == 0
    for _ in range(2 * FRUITLESS_MAX):  # told to end: nobody's fault
        record = after(record, Assigned("w", "L"))
        record = after(record, OwnerLost(record.epoch, "it was told to", planned=True))
    for _ in range(FRUITLESS_MAX - SILENT):  # these did tell of it
        record = after(record, Assigned("w", "L"))
        record = after(record, report(record, "running", fraction=record.progress.fraction))
        record = after(record, OwnerLost(record.epoch, "it died"))
    assert record.state == "running"
    record = after(record, Assigned("w", "L"))
    record = after(record, OwnerLost(record.epoch, "it died"))
    assert record.state == "failed" and record.progress.error and record.progress.error.code == "master_died"
    assert after(record, Resume()).fruitless == 0, "the reason is gone"


def test_cancelling() -> None:
    for record, why in (
        (fresh(), "cancelled before a master had it"),
        (after(running(), OwnerLost(1, "it died")), "cancelled while no master had it; the members' leases end it"),
    ):
        ended = after(record, Cancel())
        assert ended.state == "cancelled" and ended.progress.error and ended.progress.error.message == why
    outcome = apply(running(), Cancel(), 1)
    assert outcome.record.state == "cancelling" and outcome.effects == (Tell(orders.Cancel()),)
    record = outcome.record
    assert not apply(record, Cancel(), 2).durable
    assert after(record, report(record, "running")).state == "cancelling", "a report that was under way"
    assert after(record, report(record, "cancelled")).state == "cancelled"
    assert after(record, OwnerLost(1, "it died")).state == "cancelled"
    ended = after(record, report(record, "cancelled"))
    assert apply(ended, Cancel(), 3).record is ended


def test_a_second_resume_finds_the_group_resumed_already() -> None:
    record = running(0.5)
    record = after(record, report(record, "failed", adopt=ADOPT, receivers=done("a")))
    resumed = apply(record, Resume(), 1)
    again = resumed.record
    assert again.state == "queued" and resumed.effects == (Place(),) and again.done == {"a": 9}
    assert again.adopt and again.adopt.rest == [(0, 8)] and again.finished_ns is None
    assert again.adopt.first_ns is None, "its data begins anew"
    with pytest.raises(Problem, match="is queued"):
        apply(again, Resume(), 2)
    given_out = after(again, Assigned("v", "M"))
    assert given_out.epoch == record.epoch + 1
    with pytest.raises(Stale):  # the old master still exits, and tells of it
        apply(given_out, report(record, "failed"), 3)


def test_receivers_come_and_go_and_the_last_one_takes_the_group_with_it() -> None:
    outcome = apply(running(), Join("c", "/elsewhere"), 1)
    assert outcome.record.receivers == ["a", "b", "c"] and outcome.record.dest_paths == {"c": "/elsewhere"}
    assert outcome.effects == (Tell(orders.Join(host="c", dest_path="/elsewhere")),)
    record = after(outcome.record, Leave("c"), Leave("a"))
    assert record.receivers == ["b"] and record.state == "running"
    assert after(record, Leave("b")).state == "cancelling"
    for known, event, status, code in (
        (record, Leave("z"), 404, "no_receiver"),
        (after(record, Cancel()), Join("d"), 409, "ended"),
        (after(record, Cancel()), Leave("b"), 409, "ended"),
        (record, Resume(), 409, "not_resumable"),
    ):
        with pytest.raises(Problem) as refused:
            apply(known, event, 3)
        told = refused.value.to_json()
        assert (told["status"], told["code"]) == (status, code) and known.id in told["detail"] and told["remedy"]


def test_who_receives_already_gets_no_other_path() -> None:
    """It was taken, and told from then on: the file came where it had been ordered first."""
    for record in (running(), after(running(), report(running(), "running", receivers=done("a")))):
        with pytest.raises(Problem) as refused:
            apply(record, Join("a", "/elsewhere"), 1)
        assert (refused.value.status, refused.value.code) == (409, "is_receiver") and "as f" in refused.value.message
        assert after(record, Join("a"), Join("a", "f")).dest_paths == {"a": "f"}
    failed = {"a": ReceiverFigures(state="failed")}
    for record in (fresh(), after(running(), report(running(), "running", receivers=failed))):
        assert after(record, Join("a", "/elsewhere")).dest_paths == {"a": "/elsewhere"}


def test_a_fetcher_that_leaves_fetches_no_more_and_the_last_one_stays() -> None:
    """It was asked for the URL as for a file of its own, by the next master, and could not come back."""
    spec = GroupSpec(url="https://h/f", source="a", other_sources=["b"], receivers=["a", "b", "c"], dest_path="f")
    record = after(machine.new(Record(id="g-1", spec=spec)).record, Leave("c"), Leave("a"))
    assert record.receivers == ["b"] and record.spec.roots == ["b"]
    record = after(record, Join("a"))
    assert record.receivers == ["b", "a"] and record.spec.roots == ["b"]
    with pytest.raises(Problem) as refused:
        apply(record, Leave("b"), 1)
    assert (refused.value.status, refused.value.code, refused.value.what) == (409, "last_fetcher", "b")
    assert after(record, Leave("a"), Leave("b")).state == "cancelled"


@pytest.mark.parametrize("heard", [False, True], ids=["nothing", "that it left"])
def test_one_that_left_and_joins_again_is_not_done_with_the_others(heard: bool) -> None:
    """Its master may end before it hears of that, and may have heard that it left."""
    left = {"b": ReceiverFigures(state="cancelled")}
    record = after(running(), Leave("b"))
    record = after(record, report(record, "running", receivers=left), Join("b"))
    assert record.progress.receivers["b"] == ReceiverFigures()
    record = after(record, report(record, "done", receivers=done("a") | (left if heard else {})))
    assert record.state == "partial" and record.progress.error and record.progress.error.code == "joined_late"
    assert after(record, Resume()).progress.receivers["b"].state == "waiting"


def test_nobody_joins_by_a_report_and_arcs_are_told_once() -> None:
    record = running()
    tree = TreeFigures(arcs=[("s", "a")], pieces=1)
    record = after(record, report(record, "running", receivers=done("a", "stranger"), trees={"1": tree}))
    assert set(record.progress.receivers) == {"a", "b"}
    record = after(record, report(record, "running", trees={"1": TreeFigures(pieces=2)}))
    assert record.progress.trees["1"].arcs == [("s", "a")] and record.progress.trees["1"].pieces == 2


def test_a_record_survives_the_store_also_a_long_one() -> None:
    record = running(0.25)
    assert load(dump(record)) == record
    names = [f"h{i}" for i in range(8192)]
    tree = {str(i): {"data": 1, "srtt_us": 0.5} for i in range(4)}
    figures = {name: ReceiverFigures(state="done", t_done_ns=i, trees=tree) for i, name in enumerate(names)}
    big = replace(fresh(*names), progress=Progress(receivers=figures))
    assert load(dump(big)) == big and len(dump(big)) < 1 << 20


EVENTS = st.one_of(
    st.tuples(st.just("assign"), st.sampled_from("wv")),
    st.tuples(st.just("lost"), st.integers(0, 4)),
    st.tuples(st.just("report"), st.integers(1, 4), st.sampled_from(["starting", "running", *FINAL_STATES])),
    st.sampled_from([("cancel",), ("resume",), ("join",), ("leave",), ("give up",)]),
)


def test_who_has_no_master_any_more_is_told_apart_from_who_runs() -> None:
    """A record that has ended names no receiver and no tree that goes on."""
    figures = {"a": ReceiverFigures(state="done"), "b": ReceiverFigures(state="running", rate_bps=7)}
    trees = {"1": TreeFigures(state="running"), "2": TreeFigures(state="lost")}
    record = after(fresh(), Assigned("w", "L"))
    record = after(record, report(record, "running", receivers=figures, trees=trees))
    gone = OwnerLost(1, "it died")
    for events, state in (((Cancel(), gone), "cancelled"), ((gone, GiveUp("interrupted", "y")), "failed")):
        ended = after(record, *events)
        assert ended.state == state
        assert {n: r.state for n, r in ended.progress.receivers.items()} == {"a": "done", "b": state}
        assert ended.progress.receivers["b"].rate_bps == 0 and ended.progress.receivers["b"].error
        assert {n: t.state for n, t in ended.progress.trees.items()} == {"1": "idle", "2": "lost"}
    assert {r.state for r in after(fresh(), Cancel()).progress.receivers.values()} == {"cancelled"}


def test_a_group_that_is_given_up_is_ended_by_its_master() -> None:
    record = after(fresh(), Assigned("w", "L"))
    outcome = apply(record, GiveUp("deadline", "too late"), 7)
    assert outcome.record is record
    assert outcome.effects == (Tell(orders.Cancel(code="deadline", message="too late")),)


@pytest.mark.slow
@settings(max_examples=examples(400))
@given(st.lists(EVENTS, max_size=30))
def test_whatever_comes(events: list[tuple]) -> None:
    """Epochs only rise; who has a group was given it; what has ended stays so until it is resumed."""
    record, ends = fresh(), 0
    for kind, *args in events:
        event = {
            "assign": lambda a=args: Assigned(a[0], a[0] * 4),
            "lost": lambda a=args: OwnerLost(a[0], "it died"),
            "report": lambda a=args: Reported(
                MasterReport(group="g-1", epoch=a[0], state=a[1], progress=Progress()), "wwww"
            ),
            "cancel": Cancel,
            "resume": Resume,
            "join": lambda: Join("c"),
            "leave": lambda: Leave("c"),
            "give up": lambda: GiveUp("x", "y"),
        }[kind]()
        try:
            outcome = apply(record, event, 1)
        except Problem:
            continue
        now = outcome.record
        assert now.epoch in (record.epoch, record.epoch + 1)
        assert (now.epoch > record.epoch) == (kind == "assign")
        if machine.final(record) and kind != "resume":
            assert now is record and not outcome.effects
        if machine.final(now):
            assert now.owner is None and now.lease is None and now.finished_ns is not None
            ends += not machine.final(record)
            assert outcome.durable or now is record
        if record.owner != now.owner or record.state != now.state:
            assert outcome.durable, "another fabric manager must know"
        assert (now.owner is None) == (now.lease is None)
        assert now.state != "cancelling" or now.owner, "who is to be told to cancel"
        record = now
