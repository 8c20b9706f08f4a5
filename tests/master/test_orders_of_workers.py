"""Orders to a worker and answers to its reports: which groups it begins, keeps, tells again and drops. Groups are
played."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from datacast.fabric_manager.api import GroupSpec, orders
from datacast.fabric_manager.api.reports import MasterReport, Progress, ReportAnswer
from datacast.master import worker as module
from datacast.master.worker import Running, Worker
from datacast.services.problems import NO_LEADER


class Group:
    """Of which is known what a worker did with it."""

    def __init__(self, order: Any, *_: Any, **__: Any) -> None:
        self.id, self.epoch, self.members, self.news = order.group, order.epoch, 2, False
        self.told: list[Any] = []
        self.whole: list[bool] = []
        self.less = 0
        self.dropped = self.parted = False
        self.over = asyncio.Event()

    async def run(self) -> None:
        await self.over.wait()

    async def drop(self) -> None:
        self.dropped = True

    async def part(self) -> None:
        self.parted = True

    def on_control(self, order: orders.ToMaster) -> None:
        self.told.append(order)

    def say_less(self) -> None:
        self.less += 1

    def report(self, whole: bool) -> MasterReport:
        self.whole.append(whole)
        return MasterReport(group=self.id, epoch=self.epoch, state="running", progress=Progress())


class Client:
    security, lease = None, ""

    def __init__(self) -> None:
        self.reports: list[list[str]] = []
        self.answers: dict[str, ReportAnswer] = {}

    async def report(self, name: str, reports: list[MasterReport]) -> list[ReportAnswer]:
        self.reports.append([report.group for report in reports])
        return [self.answers.get(report.group, ReportAnswer()) for report in reports]


@pytest.fixture
def one(monkeypatch: pytest.MonkeyPatch) -> Worker:
    async def turn() -> None:
        pass

    monkeypatch.setattr(module, "Group", Group)
    monkeypatch.setattr(module, "Agents", lambda security: None)
    view: Any = SimpleNamespace(carried=lambda arcs, whole: None, counted=lambda group: None, crowd=0,
                                reports=SimpleNamespace(next=turn))  # fmt: skip
    client: Any = Client()
    return Worker(client, view, "w")


def order(group: str = "g", epoch: int = 1) -> orders.StartOrder:
    spec = GroupSpec(source="a", source_path="/f", receivers=["x"], dest_path="f")
    return orders.StartOrder(group=group, epoch=epoch, spec=spec, tree_ids=[1], version=1, accepted_ns=0)


def group(worker: Worker, name: str = "g") -> Any:
    return worker.groups[name].group


async def ended(worker: Worker) -> None:
    for running in worker.groups.values():
        running.task.cancel()


async def test_an_order_that_is_told_again_begins_nothing_and_a_later_epoch_replaces_the_group(one: Worker) -> None:
    await one._on_order(order(epoch=2))
    first = group(one)
    for epoch in (2, 1):
        await one._on_order(order(epoch=epoch))
        assert group(one) is first and not first.dropped
    await one._on_order(order(epoch=3))
    assert group(one) is not first and first.dropped and not one.idle.is_set()
    await ended(one)


async def test_a_group_is_dropped_by_who_names_a_later_epoch_only(one: Worker) -> None:
    await one._on_order(order(epoch=2))
    first = group(one)
    for other in (orders.Drop(group="g", epoch=2), orders.Drop(group="nobody's", epoch=9)):
        await one._on_order(other)
        assert not first.dropped
    await one._on_order(orders.Drop(group="g", epoch=3))
    assert first.dropped and not one.groups and one.idle.is_set()


async def test_of_what_a_fabric_manager_says_that_it_has_the_rest_goes_and_all_is_told_anew(one: Worker) -> None:
    for name in ("kept", "other epoch", "unknown", "over"):
        await one._on_order(order(name))
        one.groups[name].whole = False
    them = {name: group(one, name) for name in one.groups}
    them["over"].over.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await one._on_order(orders.Owned(groups={"kept": 1, "other epoch": 2}))
    assert {name for name, it in them.items() if it.dropped} == {"other epoch", "unknown"}, "an end is told first"
    assert {name for name, running in one.groups.items() if running.whole} == {"kept", "over"}
    await ended(one)


async def test_a_master_is_told_what_is_of_its_epoch(one: Worker) -> None:
    await one._on_order(order(epoch=2))
    for epoch in (1, 2, 3):
        await one._on_order(orders.Cancel(group="g", epoch=epoch))
    await one._on_order(orders.Cancel(group="nobody's", epoch=2))
    assert [told.epoch for told in group(one).told] == [2]
    await ended(one)


@pytest.mark.parametrize(
    ("answer", "there", "whole", "less"),
    [
        (ReportAnswer(), True, False, 0),
        (ReportAnswer(code="stale"), False, None, 0),
        (ReportAnswer(code=NO_LEADER), True, True, 0),
        (ReportAnswer(code="unavailable", error="the disk is full"), True, True, 0),
        (ReportAnswer(code="invalid", error="too long"), True, True, 1),
    ],
)
async def test_what_the_answer_to_a_report_means(
    one: Worker, answer: ReportAnswer, there: bool, whole: bool | None, less: int
) -> None:
    await one._on_order(order())
    it = group(one)
    one.client.answers["g"] = answer
    await one.report()
    assert it.whole == [True] and ("g" in one.groups) is there and it.dropped is not there
    assert it.less == less and (not there or one.groups["g"].whole is whole)
    await ended(one)


async def test_a_late_answer_about_a_group_drops_no_later_one_of_its_name(one: Worker) -> None:
    await one._on_order(order(epoch=1))
    before = one.groups["g"]
    await one._on_order(order(epoch=2))
    await one._answered(before, ReportAnswer(code="stale"), over=False)
    assert group(one).epoch == 2 and not group(one).dropped
    await ended(one)


async def test_one_that_is_resumed_before_its_worker_hears_that_its_end_is_known_goes_on(one: Worker) -> None:
    """The answer comes when hundreds of other groups' reports are written, too: the next master's group had no worker
    that told of it, for ever."""
    await one._on_order(order(epoch=1))
    before = one.groups["g"]
    before.group.over.set()
    await before.task
    await one._on_order(order(epoch=2))
    await one._answered(before, ReportAnswer(state="failed"), over=True)
    assert group(one).epoch == 2 and not group(one).dropped and not one.idle.is_set()
    await ended(one)


async def test_one_that_is_over_parts_when_that_is_known_and_is_not_begun_again(
    one: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "OVER_MAX", 1)
    for name in ("g", "h"):
        await one._on_order(order(name))
        it = group(one, name)
        it.over.set()
        await one.groups[name].task
        one.client.answers[name] = ReportAnswer(code=NO_LEADER)
        await one.report()
        assert not it.parted and name in one.groups, "nobody knows yet"
        del one.client.answers[name]
        await one.report()
        await asyncio.gather(*one._parting)
        assert it.parted and name not in one.groups
        await one._on_order(order(name))
        assert name not in one.groups, "the order was on its way"
    assert [*one._over] == ["h"], "so many are remembered"


async def test_many_reports_go_in_several_requests(one: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REPORTS_MAX", 2)
    for n in range(5):
        await one._on_order(order(f"g{n}"))
    await one.report()
    assert one.client.reports == [["g0", "g1"], ["g2", "g3"], ["g4"]]
    assert one.view.crowd == 10
    one.groups["g3"] = Running(group(one, "g3"), one.groups["g3"].task, whole=False)
    await one.report()
    assert len(one.client.reports) == 3, "nothing is new"
    await ended(one)
