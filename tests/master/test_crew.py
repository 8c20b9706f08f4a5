"""The members of a group, and what becomes of one by what it answers: agents are played, answer by answer."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from datacast.master import crew as module
from datacast.master import requests
from datacast.master.answers import Answer, Results, StatusAnswer
from datacast.master.crew import Crew
from datacast.master.errors import GroupError
from datacast.master.members import Member
from datacast.master.requests import Close, Digest, Op, Opening, SourcePart
from datacast.master.signalling import SignallingError


class World:
    """Sources a and b, receivers x and y. `answers`: by operation and member; `none`: ok."""

    def __init__(self, epoch: int = 1, timeout_s: float = 5.0) -> None:
        self.addresses = {name: f"{name}:7600" for name in "abxy"}
        self.answers: dict[str, Any] = {}
        self.asked: list[tuple[str, list[str]]] = []
        self.suspected: list[str] = []
        self.replayed: list[str] = []
        self.bodies: list[Any] = []
        self.woken = 0
        view: Any = SimpleNamespace(address=self.addresses.get, client=None, visits=None)
        self.it = Crew(
            "g", view, None, timeout_s=timeout_s, epoch=epoch, away=None,
            opening=lambda: Opening(1, 1, 1, "a", 1000, ()), own_opening=lambda member: SourcePart("/f", []),
            on_event=print, wake=self._wake, spawn=asyncio.ensure_future,
        )  # fmt: skip
        self.it.request = self._request
        self.it.connect = self._connect
        self.it.visits = SimpleNamespace(suspect=self._suspect, replay=self._replay)

    def join(self, roots: str = "ab", receivers: str = "xy", **more: Any) -> dict[str, Member]:
        self.it.join([*roots], [*receivers], **more)
        return self.it.members

    def _wake(self) -> None:
        self.woken += 1

    def _suspect(self, member: Member) -> None:
        self.suspected.append(member.name)
        member.suspect = True

    async def _replay(self, member: Member, *_: Any, **__: Any) -> bool:
        self.replayed.append(member.name)
        return True

    async def _connect(self) -> None:
        self.asked.append(("connect", []))

    async def _request(
        self, op: Op[Any, Any, Any], members: list[Member], body: Any = None, *_: Any, **__: Any
    ) -> Results[Any]:
        names = [member.name for member in members]
        self.asked.append((op.name, names))
        self.bodies.append(body)
        told = self.answers.get(op.name, {})
        if isinstance(told, list):
            told = told.pop(0)
        if isinstance(told, Exception):
            raise told
        silent = Answer(code="unreachable", error="no answer")
        ok: Any = StatusAnswer(ok=True) if op is requests.STATUS else Answer(ok=True)
        return Results({name: told.get(name, ok) for name in names if told.get(name, ok) is not None}, silent)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "VISIT_S", 0.0)


def test_who_has_no_agent_is_set_aside_where_it_may_come_and_has_failed_where_not() -> None:
    world = World()
    del world.addresses["y"], world.addresses["b"]
    them = world.join(wait=True)
    assert them["y"].aside and not them["y"].final
    assert them["b"].state == "failed" and them["b"].error and them["b"].error.message == "host b has no agent"
    them = (world := World()).join(done={"x": 7})
    assert (them["x"].state, them["x"].t_done_ns, them["x"].sha256_ok) == ("done", 7, True)
    world = World()
    world.addresses.clear()
    with pytest.raises(GroupError, match="source a: host a has no agent"):
        world.join()
    it = world.it
    assert all(member.state == "failed" for member in it.members.values())


@pytest.mark.parametrize(
    ("name", "opened", "now"),
    [("a", True, "suspect"), ("a", False, "failed"), ("x", False, "aside")],
    ids=["it had begun", "a source that had not", "a receiver that sends too"],
)
def test_a_root_that_does_not_answer_while_another_does(name: str, opened: bool, now: str) -> None:
    world = World()
    them = world.join(roots="abx")
    them[name].opened = opened
    world.it._pass_over(them[name], SignallingError("no answer"))
    found = "suspect" if world.suspected == [name] else "aside" if them[name].aside else them[name].state
    assert found == now and them[name].sends is opened


async def test_what_a_member_says_at_first_decides_what_becomes_of_it() -> None:
    world = World()
    them = world.join()
    refusal = Answer(code="denied", error="/f is not readable")
    world.answers["open"] = {"b": refusal, "x": Answer(code="busy", error="too many groups")}
    await world.it.open()
    assert (them["a"].opened, them["y"].state) == (True, "open")
    assert them["b"].state == "failed" and not them["b"].sends
    assert them["x"].aside and not them["x"].opened and them["x"].state == "waiting"


async def test_where_all_receivers_refuse_the_group_fails_with_what_they_said() -> None:
    world = World()
    world.join()
    world.answers["open"] = {name: Answer(code="disk_full", error=f"no room at {name}") for name in "xy"}
    with pytest.raises(GroupError, match="no receiver is left: x: no room at x; y: no room at y") as error:
        await world.it.open()
    assert error.value.code == "disk_full"


async def test_a_request_at_the_beginning_is_made_again_until_patience_ends() -> None:
    world = World(timeout_s=0.05)
    world.join()
    lost = GroupError("unreachable", "source a: the connection broke", "a")
    world.answers["close"] = [lost, lost, {}]
    await world.it.forget()
    assert [what for what, _ in world.asked] == ["close", "connect", "close", "connect", "close"]
    world.answers["close"] = lost
    with pytest.raises(GroupError, match="the connection broke"):
        await world.it.forget()


async def test_of_a_group_that_another_master_began_anew_who_is_silent_is_set_aside() -> None:
    world = World(epoch=2)
    them = world.join()
    them["x"].sends = True
    world.answers["close"] = {"b": None, "x": None}
    await world.it.forget()
    assert not them["x"].sends, "it was ordered to fetch, and never opened: the group did not end"
    assert [name for name, member in them.items() if member.met] == ["a", "y"]
    assert [name for name, member in them.items() if member.aside] == ["x"], "sources are waited for"


async def test_a_master_that_takes_over_opens_who_has_the_file_and_sends_it() -> None:
    """One of several that fetch: what it alone had nobody sent, and the group did not end."""
    world = World(epoch=2)
    them = world.join()
    them["x"].state = them["y"].state = "done"
    them["y"].sends = True
    await world.it.adopt()
    assert [them[name].opened for name in "xy"] == [False, True] and them["y"].state == "done"


async def test_a_master_that_takes_over_goes_by_what_each_says() -> None:
    world = World(epoch=2)
    them = world.join()
    them["y"].state, them["y"].opened = "done", True  # as it says meanwhile
    gone, refusal = StatusAnswer(code="no_group"), Answer(code="denied", error="/f is gone")
    world.answers |= {"status": {"x": gone, "b": None}, "open": {"b": refusal, "x": Answer(code="limit", error="busy")}}
    results = await world.it.adopt()
    assert results.of("x").code == "no_group" and world.it.adopted
    assert [name for name, member in them.items() if member.met] == ["a", "x", "y"]
    assert them["b"].state == "failed" and world.suspected == ["x"]
    assert (them["a"].opened, them["a"].state, them["y"].state, them["x"].opened) == (True, "open", "done", False)


async def test_members_that_do_not_take_new_trees_or_routes_are_visited() -> None:
    world = World()
    them = world.join()
    for member in them.values():
        member.opened = True
    world.it._lead, world.it._root = them["a"], SimpleNamespace(alive=True)
    world.answers["open"] = {"x": Answer(code="unreachable")}
    await world.it.reopen()
    assert world.suspected == ["x"] and them["x"].opened
    them["x"].suspect = False
    world.answers["reroute"] = {"y": None}
    before = time.monotonic()
    await world.it.reroute({"x": {"1": "r"}, "y": {"1": "r"}}, {})
    assert world.suspected == ["x", "y"] and them["x"].heard >= before
    asked = len(world.asked)
    await world.it.reroute({"z": {"1": "r"}}, {})
    assert len(world.asked) == asked, "it concerns nobody"


async def test_who_was_started_again_between_a_look_and_new_trees_is_visited() -> None:
    """It was opened as one that has missed nothing: a host that fetches was not given again what it had lost."""
    world = World()
    them = world.join()
    for member in them.values():
        member.opened, member.position = True, 3
    world.it._lead, world.it._root = them["a"], SimpleNamespace(alive=True)
    world.answers["open"] = {"a": Answer(code="no_group"), "y": Answer(code="no_group")}
    await world.it.reopen()
    assert [op for op, _ in world.asked] == ["open"] and world.bodies[-1].again
    assert world.suspected == ["a", "y"] and world.replayed == []
    assert [them[name].opened for name in "abxy"] == [False, True, True, False]
    assert [them[name].position for name in "abxy"] == [0, 3, 3, 0]


@pytest.mark.parametrize(
    ("told", "suspected", "position"),
    [
        (StatusAnswer(ok=True, n=2), False, 2),
        (StatusAnswer(ok=True, n=9), False, 2),
        (StatusAnswer(ok=True, n=1), True, 1),
        (StatusAnswer(ok=True), True, 1),
        (StatusAnswer(code="no_group"), True, 0),
        (StatusAnswer(code="malformed"), True, 1),
    ],
)
def test_a_status_tells_what_a_member_has_missed(told: StatusAnswer, suspected: bool, position: int) -> None:
    world = World()
    member = world.join()["x"]
    member.opened, member.position = True, 1
    for n in range(2):
        world.it.log.add(Digest(((n, "00" * 32),)))
    assert world.it.noticed(member, told) is told.ok
    assert (world.suspected == ["x"], member.position) == (suspected, position)


async def test_an_end_is_told_to_who_takes_part_and_a_refusal_of_it_changes_nothing() -> None:
    world, left = World(), list[bool]()
    them = world.join()
    await world.it.close("done", False)
    assert world.asked == [] and world.it.closed, "nobody was ever spoken to"
    world.it._root = SimpleNamespace(leave=lambda: left.append(True))
    them["a"].opened = them["x"].opened = them["y"].opened = True
    them["y"].suspect = True
    world.answers["close"] = GroupError("unreachable", "source a is gone", "a")
    await world.it.close("done", False)
    assert world.asked == [("close", ["a", "x"])] and left == [True]
    assert world.it.closing("why", keep=True) == Close("why", True, 0)
