"""The part of a group that a site's own hosts have: how it begins, fails, goes on and ends, where the fabric manager or
the site that it comes from is not there; and what the controller holds of it, which is bounded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import made_records
import pytest
from test_site_orders import ID, given, order, site

from datacast.controller.sites import gateway, own, parents
from datacast.controller.sites.coordinator import Coordinator
from datacast.controller.sites.gateway import Gateway, parse_range
from datacast.controller.sites.records import Failure, Order, Part, Progress, SiteGroup
from datacast.fabric_manager.api import GroupSpec, PartSpec
from datacast.fabric_manager.api.records import GroupRecord
from datacast.origins.ranges import AT_SITE
from datacast.services.problems import Problem
from datacast.services.sites_file import SiteError


def away(status: int = 503) -> Problem:
    return Problem(status, "unavailable", "it is away")


def played(at: Coordinator, **answers: Any) -> list[tuple[str, str]]:
    """What the fabric manager is asked, by what; an answer that is a Problem is raised."""
    asked: list[tuple[str, str]] = []

    def method(name: str, answer: Any) -> Any:
        async def call(what: str, *_: object) -> Any:
            asked.append((name, what))
            if isinstance(answer, Problem):
                raise answer
            return answer

        return call

    for name, answer in answers.items():
        setattr(at._client, name, method(name, answer))
    return asked


async def begun(at: Coordinator, **changes: Any) -> SiteGroup:
    """A part here, of a group that comes from `sfo`."""
    await given(at, ("sfo", order(["sfo"], ["all"])))
    return at._book.put(at.groups[ID], **changes)


def failed(code: str = "throttled", fraction: float = 0.5) -> GroupRecord:
    error = {"code": code, "message": "its origin is away"}
    return made_records.group(id="g-1", state="failed", fraction=fraction, error=error)


async def look(at: Coordinator) -> Progress:
    return (await at._own.look(at.groups[ID])).own


def seen(at: Coordinator, there: bool = True, problem: str = "") -> None:
    """How the site that it comes from is doing."""
    at.peers.all["sfo"] = SimpleNamespace(name="sfo", url="https://sfo:7580", there=there, problem=problem)  # type: ignore[assignment]


async def test_one_that_is_cancelled_while_it_begins_is_cancelled_once_it_has() -> None:
    at = site()
    asked = played(at, cancel_group=None)
    await given(at, ("sfo", order(["sfo"], ["all"])))
    group = at._book.put(at.groups[ID], local=None, cancelled=True)
    await at._own.start(group)
    assert asked == [("cancel_group", "g-1")]


@pytest.mark.parametrize(("lost", "state"), [(None, "cancelled"), (Failure(code="lost", message="gone"), "failed")])
async def test_one_that_is_cancelled_before_it_begins_never_does(lost: Failure | None, state: str) -> None:
    at = site()
    await begun(at, local=None, cancelled=True, lost=lost)
    made = len(at._client.made)  # type: ignore[attr-defined]
    own = await look(at)
    assert (own.state, own.error) == (state, lost) and len(at._client.made) == made  # type: ignore[attr-defined]


async def test_one_that_has_begun_and_could_not_be_written_down_is_told_of_and_not_taken_for_refused() -> None:
    at = site()
    group = await begun(at, local=None, cancelled=True)  # so there is something to write down
    asked = played(at, put_site_group=away())
    with pytest.raises(Problem, match="it is away"):
        await at._own.begin(group)
    assert at.groups[ID].local == "g-1" and at.groups[ID].own.state != "failed" and asked


async def test_a_fabric_manager_that_is_away_says_nothing_of_how_it_is() -> None:
    at = site()
    await begun(at)
    played(at, group=away())
    with pytest.raises(Problem, match="it is away"):
        await look(at)
    played(at, group=away(404))
    own = await look(at)
    assert own.state == "failed" and own.error and own.error.code == "group_not_found"


async def test_one_that_failed_for_its_site_goes_on_while_that_one_is_away_and_begins_again_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = site()
    await begun(at)
    asked = played(at, group=failed(), resume_group=None)
    for there, problem in ((False, ""), (True, "its certificate has run out")):
        seen(at, there, problem)
        assert (await look(at)).state == "running" and ("resume_group", "g-1") not in asked
    del at.peers.all["sfo"]
    assert (await look(at)).state == "running" and ("resume_group", "g-1") not in asked
    seen(at)
    assert (await look(at)).state == "running" and asked.count(("resume_group", "g-1")) == 1
    assert (await look(at)).state == "running" and asked.count(("resume_group", "g-1")) == 1, "a moment later"
    monkeypatch.setattr(own, "RESUME_S", 0.0)
    at._own._still[ID].again = 0.0
    assert (await look(at)).state == "running" and asked.count(("resume_group", "g-1")) == 2
    monkeypatch.setattr(own, "STILL_S", 0.0)
    assert (await look(at)).state == "failed", "it gets no further, though its site is there"


async def test_one_that_got_further_is_given_its_time_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    at = site()
    await begun(at)
    seen(at)
    monkeypatch.setattr(own, "RESUME_S", 0.0)
    played(at, group=failed(fraction=0.5), resume_group=None)
    assert (await look(at)).state == "running"
    at._own._still[ID].since = time.monotonic() - own.STILL_S - 1
    played(at, group=failed(fraction=0.6))
    assert (await look(at)).state == "running" and at._own._still[ID].fraction == 0.6


@pytest.mark.parametrize("code", ["bad_sha256", "disk_full"])
async def test_one_that_failed_for_itself_has_failed(code: str) -> None:
    at = site()
    await begun(at)
    seen(at)
    asked = played(at, group=failed(code), resume_group=None)
    assert (await look(at)).state == "failed" and ("resume_group", "g-1") not in asked


@pytest.mark.parametrize("changes", [{"path": []}, {"spec": GroupSpec(receivers=["h"], url="https://h/f")}])
async def test_one_that_comes_from_no_other_site_is_not_begun_again(changes: dict[str, Any]) -> None:
    at = site()
    await begun(at, **changes)
    seen(at)
    asked = played(at, group=failed(), resume_group=None)
    assert (await look(at)).state == "failed" and ("resume_group", "g-1") not in asked


@pytest.mark.parametrize(("status", "state"), [(503, None), (409, "running")])
async def test_that_it_cannot_begin_again_now_is_no_end(status: int, state: str | None) -> None:
    at = site()
    await begun(at)
    seen(at)
    played(at, group=failed(), resume_group=away(status))
    if state is None:
        with pytest.raises(Problem, match="it is away"):
            await look(at)
    else:
        assert (await look(at)).state == state
    assert not at.groups[ID].own.final


async def test_an_order_for_nobody_and_one_that_would_read_another_sites_object_are_refused() -> None:
    at = site()
    await given(at, ("sfo", order(["sfo"], [])))
    assert (error := at.groups[ID].own.error) and error.code == "no_receivers"
    whole = GroupSpec(receivers=["h1"], url="https://h/f", dest_path="f")
    theirs = PartSpec(path="a", size=1, url=f"{AT_SITE}//10.0.0.9:7580/site/objects/s-1")
    for spec, code in ((whole, None), (replace(whole, parts=[theirs]), "bad_url")):
        at = site()
        await given(at, ("sfo", Order(id=ID, size=1 << 20, path=["sfo"], spec=spec)))
        error = at.groups[ID].own.error
        assert (error.code if error else None) == code
        assert bool(at._client.made) is (code is None)  # type: ignore[attr-defined]


async def test_a_site_that_orders_a_group_once_more_is_written_down_once() -> None:
    at = site()
    first, second = order(["ams", "sfo"], ["all"]), order(["ams", "oak"], ["all"])
    await given(at, ("sfo", first), ("oak", second), ("oak", second))
    assert at.groups[ID].others == ["oak"]
    assert [whose for whose, _ in at.peers.told] == ["oak", "oak"], "it may not have heard that it is done"  # type: ignore[attr-defined]


async def test_who_is_asked_for_orders_cancels_its_own_groups_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is being taken up at this moment is left to who does it."""
    at = site()
    await begun(at)
    ended: list[str] = []

    async def cancel(group: SiteGroup, why: Failure | None) -> SiteGroup:
        ended.append(group.id)
        return group

    async def follow(whose: str) -> None:
        told = SimpleNamespace(orders=[order(["sfo"], ["all"])], cancel=[ID], why={})
        answers = iter([told])

        async def orders(site: str) -> Any:
            if (one := next(answers, None)) is None:
                await asyncio.Event().wait()
            return one

        at.peers.orders = orders  # type: ignore[method-assign]
        with at._own.alone(ID):
            task = asyncio.create_task(at._parents._follow(whose))
            await asyncio.sleep(0.02)
            task.cancel()

    monkeypatch.setattr(at._parents, "_cancel", cancel)
    monkeypatch.setattr(parents, "AGAIN_S", 0.0)
    for whose in ("oak", "sfo"):
        await follow(whose)
    assert ended == [ID] and not [told for whose, told in at.peers.told if whose == "oak"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("asked", "rows"),
    [
        (f"bytes=0-{gateway.RANGE_MAX - 1}", (0, gateway.RANGE_MAX - 1)),
        ("bytes=5-999999999999", (5, gateway.RANGE_MAX)),
        (f"bytes=0-{gateway.RANGE_MAX}", None),
        ("bytes=9-8", None),
        (f"bytes={gateway.RANGE_MAX + 1}-", None),
        (f"bytes={gateway.RANGE_MAX + 1}-{gateway.RANGE_MAX + 2}", None),
    ],
)
def test_one_request_has_so_many_bytes(asked: str, rows: tuple[int, int] | None) -> None:
    if rows is None:
        with pytest.raises(Problem) as error:
            parse_range(asked, gateway.RANGE_MAX + 1)
        assert error.value.status == 416
    else:
        assert parse_range(asked, gateway.RANGE_MAX + 1) == rows


async def test_of_too_many_lost_groups_and_holders_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "LOST_MAX", 2)

    async def nowhere(*_: object) -> Any:
        raise SiteError("it is away", "h0", "unreachable")

    async def record(local: str) -> GroupRecord:
        return made_records.group(id=local, source="h0", receivers={"h1": {"state": "done"}})

    it = Gateway(SimpleNamespace(group=record), SimpleNamespace(read=nowhere), SimpleNamespace())  # type: ignore[arg-type]

    for name in "abc":
        group = SiteGroup(id=f"s-{name * 16}", spec=GroupSpec(source="h0", source_path="/f"), size=9)
        with pytest.raises(SiteError):
            await it._from_first(group, 0, 9)
    for n in range(1002):
        assert await it._who_has(f"g-{n}") == (["h0", "h1"], {"h1"})
    assert [*it.lost] == ["s-bbbbbbbbbbbbbbbb", "s-cccccccccccccccc"]
    assert len(it._holders) == 1001 and "g-0" not in it._holders and "g-1001" in it._holders


async def test_a_host_that_asks_for_what_a_line_never_brings_is_told_to_ask_again() -> None:
    """In time: it would take the controller for dead."""

    class Waits:
        origins = ("sfo",)
        store = SimpleNamespace(get=lambda at, last: b"")

        def coming(self, at: int) -> bool:
            return True

        def waiting(self, at: int) -> Any:
            return pytest.MonkeyPatch.context()

        async def more(self, seconds: float) -> None:
            await asyncio.sleep(0.01)

    it = Gateway(SimpleNamespace(), SimpleNamespace(), SimpleNamespace())  # type: ignore[arg-type]
    it.sharing[ID] = Waits()  # type: ignore[assignment]
    group = SiteGroup(id=ID, spec=GroupSpec(receivers=["h1"]), size=9, path=["sfo"])

    async def asked() -> list[bytes]:
        bytes_: AsyncIterator[bytes] = it.to_host(group, 0, 8, patience=0.05)
        return [data async for data in bytes_]

    with pytest.raises(SiteError) as error:
        await asked()
    assert error.value.code == "not_yet"


async def test_what_was_forgotten_stays_forgotten_and_what_is_asked_for_again_is_not_deleted() -> None:
    at = site()
    group = await begun(at, parts={"nobody": Part(receivers=["all"])})
    deleted = played(at, delete_site_group=None)
    at._book.wake("nobody")
    at._book.withdraw(group)
    assert at._book.put(group, told=True).told and not at.groups
    await at._book.save(group)
    assert at._book.untidy(lambda _: True) == []
    lock = at._book._alone(ID)

    async with lock:
        tidy = asyncio.create_task(at._book.tidy([]))
        await asyncio.sleep(0)
        at._book._withdrawn.discard(ID)  # it is taken up again
    await tidy
    assert deleted == []
