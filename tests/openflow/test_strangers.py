"""What a controller's switches are told of where there is no such switch, no session, or another one has come."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from wire_switch import config

from datacast.controller.openflow.messages import FlowDelete
from datacast.controller.p4runtime.stations import STATIONS_MAX, Stations
from datacast.controller.southbound import service
from datacast.controller.southbound.config import parse
from datacast.controller.southbound.outbox import WAITING_MAX
from datacast.controller.southbound.service import Switches
from datacast.controller.southbound.state import PortInfo

NOBODY: Any = SimpleNamespace(address="127.0.0.1:1")
UP = PortInfo(1, "02:00:00:00:00:01", True)


def switches() -> Switches:
    """Of two switches, not started: what they say is said by hand."""
    return Switches(parse(config(2, NOBODY)))


def connection(closed: list[str], name: str = "") -> Any:
    return SimpleNamespace(address=("10.0.0.1", 1), close=lambda: closed.append(name))


def test_what_is_said_in_the_name_of_no_switch_changes_nothing() -> None:
    it, closed = switches(), list[str]()
    assert not it.openflow_connected(77, connection(closed, "77"), [], "10.0.0.7:1")
    assert closed == ["77"] and "no switch" in it.notes()[-1].text
    before = it.listing()
    it.openflow_role(77, True, 0)
    it.openflow_role(1, True, 0)  # of one without a session
    it.openflow_demoted(77)
    it.openflow_disconnected(77, connection(closed))
    it.openflow_rules(77, {})
    it.openflow_ports(77, {})
    it.openflow_port(77, UP, gone=False)
    it.openflow_packet(77, 1, b"")
    it.openflow_done(77)
    assert it.listing() == before


def test_who_is_turned_away_again_and_again_leaves_the_notes_of_switches_where_they_are() -> None:
    manager = switches().manager
    manager.refused(1, "write", "not so", "s0")
    for _ in range(200):
        manager.refused(1, "unknown_dpid", "no switch")
        manager.claimed_twice(1, "s0", object(), "10.0.0.9:1", "")
    told = [(note.code, note.text.partition("; whoever")[1]) for note in manager.notes()]
    both = [("unknown_dpid", ""), ("claimed_twice", "")]
    assert told == [("write", ""), *both * 9, both[0], ("claimed_twice", "; whoever")]
    assert manager.log.counts == {"write": 1, "unknown_dpid": 200, "claimed_twice": 200}
    manager.refused(60_000_000_001, "unknown_dpid", "no switch")
    assert [note.code for note in manager.notes()[len(told) :]] == ["unknown_dpid"]


def test_ports_that_come_and_go_before_a_switch_is_led_are_those_that_it_then_has() -> None:
    it = switches()
    it._waiting["s0"] = {1: UP, 2: UP}
    it.openflow_port(1, UP, gone=True)
    it.openflow_port(1, PortInfo(3, UP.mac, True), gone=False)
    assert sorted(it._waiting["s0"]) == [2, 3]
    it.openflow_port(2, UP, gone=True)
    it.openflow_port(2, UP, gone=False)
    assert "s1" not in it._waiting, "it is not there"


def test_what_the_fabric_manager_says_against_a_switch_is_a_problem_of_it_until_it_is_taken() -> None:
    it = switches()
    it._report_refused("s0", "it is another controller's")
    assert it.listing().switches[0].problems == ["the fabric manager says: it is another controller's"]
    it._report_refused("s0", "")
    it._report_refused("nobody's", "")
    assert it.listing().switches[0].problems == []


def test_a_switch_that_comes_again_gets_what_is_said_to_it_over_its_new_connection() -> None:
    it, closed = switches(), list[str]()
    first, second = connection(closed, "first"), connection(closed, "second")
    sent: list[tuple[Any, Any]] = []

    class Outbox:
        def __init__(self, to: Any) -> None:
            self.to = to

        def put(self, messages: Any) -> bool:
            sent.append((self.to, messages))
            return messages != ["too much"]

        def close(self) -> None:
            closed.append("outbox")

    it._outbox = lambda name, connection: Outbox(connection)
    for to in (first, first, second):
        it._put("s0", to, ["hello"])
    assert [to for to, _ in sent] == [first, first, second] and closed == ["outbox"]
    it._send("s0", ["to nobody"])
    assert len(sent) == 3, "it has no session"
    it._put("s0", second, ["too much"])
    assert "takes nothing any more" in it.listing().switches[0].problems[0] and "s0" not in it._outboxes
    it._wedged("s0", first)  # once more: there is no outbox left
    assert closed[:2] == ["outbox", "outbox"]


def test_an_end_that_is_told_late_leaves_the_next_session_alone() -> None:
    it = switches()
    it.manager.sessions["s0"].connection = "the next one"
    before = it.listing()
    it._p4_programmed("s0", "the one before")
    assert it.listing() == before


def test_addresses_without_number_close_no_connection() -> None:
    """A host that sends from ever other addresses: what was still to be written of them passed for a switch that takes
    nothing any more, whose connection was closed, again and again."""
    row = {"name": "s0", "p4runtime": {"address": "127.0.0.1:1"}, "ports": []}
    it = Switches(parse({"switches": [row], "pipeline": {"json": "a", "p4info": "b"}}))
    goes_on, sent, closed = threading.Event(), list[Any](), list[str]()

    def send(messages: list[Any]) -> None:
        goes_on.wait()
        sent.extend(messages)

    slow = SimpleNamespace(send=send, close=lambda: closed.append("s0"))
    it.manager.sessions["s0"].connection = slow
    it._stations["s0"] = Stations()
    try:
        for address in range(WAITING_MAX + 100):
            it.p4_learned("s0", address, 1)
    finally:
        goes_on.set()
    it._outboxes["s0"][1].flush(60)
    assert not closed and it.listing().switches[0].problems == []
    known = len(it._stations["s0"].view())
    assert known == len([one for one in sent if one.kind == "insert"]) / 2 < WAITING_MAX
    it.p4_learned("s0", WAITING_MAX, 1)  # which the switch tells of again, as it does not know it
    assert len(it._stations["s0"].view()) == min(known + 1, STATIONS_MAX)


def test_a_controller_that_stops_waits_for_all_its_switches_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second for each of a hundred that stand still was longer than a service manager waits."""
    now, waited = [0.0], list[float]()
    monkeypatch.setattr(service, "time", SimpleNamespace(monotonic=lambda: now[0]))
    it = switches()

    def flush(seconds: float) -> None:
        waited.append(seconds)
        now[0] += min(seconds, 0.2)

    it._outboxes = {name: (None, SimpleNamespace(flush=flush, close=lambda: None)) for name in "abcde"}
    it.stop()
    assert len(waited) == 5 and now[0] == pytest.approx(service.RESIGN_S)


def test_a_lease_that_was_given_back_is_not_taken_again_by_the_look_that_waited_meanwhile() -> None:
    """Whoever follows waited three seconds for its end, where a controller that is told to stop is followed at once."""
    it, sent = switches(), list[Any]()
    to = connection([], "s0")
    it._roles.connected(0.0, "s0", to)
    it._roles.seats["s0"].state = "leading"
    it._outboxes["s0"] = (to, SimpleNamespace(put=lambda m: sent.extend(m) or True, flush=lambda s: None, close=int))
    it.stop()
    it._tick_roles()
    assert sent == [FlowDelete(it._roles.cookie)]
