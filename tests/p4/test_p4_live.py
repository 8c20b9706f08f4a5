"""The controller and P4Runtime switches, over gRPC, without bmv2: a switch of tables alone (p4_switch.py)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from p4_switch import COUNTERS, DIGEST, P4Switch, compiled, program
from ports import free_ports
from waiting import wait_for

from datacast.controller.p4runtime import entries, shim
from datacast.controller.southbound import manager
from datacast.controller.southbound.config import Southbound, parse
from datacast.controller.southbound.desired import desired
from datacast.controller.southbound.errors import SwitchError
from datacast.controller.southbound.service import NODE_EVENTS, Switches

STATION = 0x02000000000A
APPLIANCE = 9


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is away is asked again soon. The switch forwards nothing, so no appliance answers: on a busy machine it was
    taken for absent before the tables were looked at."""
    monkeypatch.setattr(shim, "RETRY_S", 0.05)
    monkeypatch.setattr(manager, "PROBES_MISSED", 1 << 30)


@pytest.fixture
def switch() -> Iterator[P4Switch]:
    one = P4Switch()
    yield one
    one.stop()


def config(folder: Path, address: str, node: bool = False, ports: int = 2) -> Southbound:
    pipeline = compiled(folder, program())
    row: dict[str, Any] = {"name": "s0", "p4runtime": {"address": address},
                           "ports": [{"port": p, "number": p} for p in range(ports)]}
    row |= {"cache": "p4"} if node else {"appliance": {"number": APPLIANCE}}
    return parse({"switches": [row], "pipeline": pipeline, "node_pipeline": pipeline})


@contextmanager
def controller(settings: Southbound) -> Iterator[Switches]:
    one = Switches(settings)
    one.start()
    try:
        yield one
    finally:
        one.stop()


def programmed(service: Switches) -> bool:
    return service.listing().switches[0].programmed


def texts(service: Switches) -> list[str]:
    return [note.text for note in service.notes()]


@pytest.mark.parametrize("node", [False, True], ids=["beside an appliance", "a node"])
def test_a_switch_has_what_it_shall_and_a_controller_that_is_started_again_writes_nothing(
    tmp_path: Path, switch: P4Switch, node: bool
) -> None:
    settings = config(tmp_path, switch.address, node)
    row = settings.switches[0]
    wanted = desired(row, {}, [0, 1] if node else [0, 1, APPLIANCE], (), not node)
    with controller(settings) as service:
        wait_for("the tables", lambda: programmed(service))
        detail = service.switch("s0")
        assert detail.pipeline.pushed and switch.pushed == 1
        wait_for("a lease", lambda: switch.renewals)
    kinds = [e.WhichOneof("entity") for e in switch.entries.values()]
    assert kinds.count("table_entry") == len(entries.entries(wanted))
    assert kinds.count("packet_replication_engine_entry") == len(entries.copies(wanted)) + 1, "and the lease"
    assert kinds.count("digest_entry") == 1, "addresses are told"
    before = switch.writes
    with controller(settings) as service:
        wait_for("the tables", lambda: programmed(service))
        assert not service.switch("s0").pipeline.pushed
    assert (switch.writes, switch.pushed) == (before, 1)


def test_what_stands_in_a_table_and_is_not_wanted_goes(tmp_path: Path, switch: P4Switch) -> None:
    with controller(config(tmp_path, switch.address, ports=4)) as service:
        wait_for("the tables", lambda: programmed(service))
        wait_for("a lease", lambda: switch.renewals)
    four = len(switch.entries)
    with controller(config(tmp_path, switch.address, ports=2)) as service:
        wait_for("the tables", lambda: programmed(service))
    assert len(switch.entries) == four - 2 * 2  # a segment and a link of each port


def test_addresses_are_learned_move_and_age(tmp_path: Path, switch: P4Switch) -> None:
    def learned() -> dict[str, list[int]]:
        """By table: the ports of its entries."""
        tables = {t.preamble.id: t.preamble.alias for t in program().tables}
        rows = [e.table_entry for e in switch.entries.values() if e.WhichOneof("entity") == "table_entry"]
        found: dict[str, list[int]] = {}
        for row in rows:
            if (name := tables[row.table_id]) in entries.LEARNED:
                found.setdefault(name, []).append(int.from_bytes(row.action.action.params[0].value, "big"))
        return found

    def at(port: int) -> bool:
        return learned() == {"source": [port], "destination": [port]}

    with controller(config(tmp_path, switch.address)) as service:
        wait_for("the tables", lambda: programmed(service))
        wait_for("who is told", lambda: any(e.digest_entry.digest_id == DIGEST for e in switch.entries.values()))
        switch.sees(STATION, 1)
        wait_for("two entries", lambda: at(1))
        wait_for("who has heard", lambda: switch.heard == [1])
        assert service.switch("s0").stations == {"02:00:00:00:00:0a": 1}
        switch.sees(STATION, 0)
        wait_for("another port", lambda: at(0))
    with controller(config(tmp_path, switch.address)) as service:
        wait_for("the tables", lambda: programmed(service))
        assert service.switch("s0").stations == {"02:00:00:00:00:0a": 0}, "the next controller finds it there"
        switch.forgets(STATION)
        wait_for("no entries", lambda: not learned())


def test_a_later_controller_takes_over_and_the_first_one_waits_until_it_is_gone(
    tmp_path: Path, switch: P4Switch
) -> None:
    settings = config(tmp_path, switch.address)
    with ExitStack() as stack:
        first = stack.enter_context(controller(settings))
        wait_for("the tables", lambda: programmed(first))
        with controller(settings) as second:
            wait_for("another controller", lambda: programmed(second))
            wait_for("the loss", lambda: any("arbitration lost" in text for text in texts(first)))
            wait_for("no session", lambda: not first.listing().switches[0].connected)
        wait_for("its return", lambda: programmed(first))


def test_a_session_that_ends_while_it_begins_is_followed_by_another(
    tmp_path: Path, switch: P4Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its channel is closed then under whoever is still asking."""
    subscribe, ended = shim.Connection.subscribe, list[shim.Connection]()

    def late(self: shim.Connection) -> None:
        if not ended:
            ended.append(self)
            self.close()
        subscribe(self)

    monkeypatch.setattr(shim.Connection, "subscribe", late)
    with controller(config(tmp_path, switch.address)) as service:
        wait_for("who is told", lambda: any(e.digest_entry.digest_id == DIGEST for e in switch.entries.values()))
        wait_for("the tables", lambda: programmed(service))


@pytest.mark.parametrize("what", ["digest", "aged"])
def test_a_switch_that_tells_what_cannot_be_read_begins_anew(tmp_path: Path, switch: P4Switch, what: str) -> None:
    """Else it would seem to be connected, and be heard no more."""
    with controller(config(tmp_path, switch.address)) as service:
        wait_for("the tables", lambda: programmed(service))
        if what == "digest":
            told = shim.p4runtime_pb2.DigestList(digest_id=DIGEST, list_id=1)
            told.data.add().struct.members.add(bitstring=b"x")
            switch.tell(digest=told)
        else:
            old = shim.p4runtime_pb2.IdleTimeoutNotification()
            old.table_entry.add()
            switch.tell(idle_timeout_notification=old)
        wait_for("another session", lambda: service.switch("s0").connections == 2)
        wait_for("the tables again", lambda: programmed(service))


def test_what_stands_in_a_table_and_cannot_be_read_is_told_and_asked_for_again(
    tmp_path: Path, switch: P4Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed, failed = shim.Connection.installed, list[int]()

    def unknown(self: shim.Connection) -> object:
        if not failed:
            failed.append(1)
            raise KeyError(7)
        return installed(self)

    monkeypatch.setattr(shim.Connection, "installed", unknown)
    with controller(config(tmp_path, switch.address)) as service:
        wait_for("the tables", lambda: programmed(service))
        assert any("what cannot be read" in note.text for note in service.notes())


def test_a_write_that_is_refused_is_told_and_all_begins_anew(tmp_path: Path, switch: P4Switch) -> None:
    switch.refuses = 1
    with controller(config(tmp_path, switch.address)) as service:
        wait_for("the tables", lambda: programmed(service))
        assert any("the switch refuses a write: the table is full" in text for text in texts(service))


def test_who_is_not_there_is_named_once_and_programmed_when_it_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shim, "ARBITRATION_S", 0.1)
    (port,) = free_ports(1)
    with controller(config(tmp_path, address := f"127.0.0.1:{port}")) as service:
        wait_for("a word of it", lambda: texts(service))
        time.sleep(0.5)  # several tries
        assert texts(service) == [f"no P4Runtime server at {address}"]
        monkeypatch.setattr(shim, "ARBITRATION_S", 60.0)
        there = P4Switch(port)
        wait_for("the tables", lambda: programmed(service))
        there.stop()
        wait_for("its end", lambda: not service.listing().switches[0].connected)


@pytest.mark.parametrize("node", [False, True], ids=["beside an appliance", "a node"])
def test_counters_have_the_names_of_what_they_count(tmp_path: Path, switch: P4Switch, node: bool) -> None:
    with controller(config(tmp_path, switch.address, node)) as service:
        wait_for("the tables", lambda: programmed(service))

        def counted() -> Any:  # a switch that answers late leaves them out
            detail = service.switch("s0")
            return detail if all(row.counters.rx_frames is not None for row in detail.port_list) else None

        detail = wait_for("its counters", counted)
    first = {name: 1000 * (1 + COUNTERS.index(name)) for name in COUNTERS}
    port = next(row for row in detail.port_list if row.number == 1)
    assert (port.counters.rx_frames, port.counters.tx_frames) == (first["port_rx"] + 1, first["port_tx"] + 1)
    assert port.counters.rx_bytes == 7
    assert detail.drops and set(detail.drops.values()) == {first["drop_reason"] + n for n in range(4)}
    both = first["node_events"] + first["node_data_events"]
    assert detail.node == {NODE_EVENTS[n]: both + 2 * n for n in range(4)}
    assert {rule.packets for rule in detail.rule_list} == {5}


def test_a_frame_goes_out_of_the_port_that_is_named_and_one_that_comes_in_is_of_its_port(
    tmp_path: Path, switch: P4Switch
) -> None:
    """What discovery sends out of one port comes in at the other: a cable."""
    with controller(config(tmp_path, switch.address)) as service:
        number, frame = wait_for("a frame", lambda: next((f for f in switch.frames if f[0] == 0), None))
        switch.brings(1, frame)
        found = wait_for("the cable", service.discovered)
    assert number == 0 and [(row.u, row.u_port, row.v, row.v_port) for row in found] == [("s0", 0, "s0", 1)], found


@pytest.mark.parametrize("lacks", ["segment", "bridge", "drop_reason", "replicate_from", "appliance"])
def test_a_program_that_lacks_something_is_refused_by_its_name(tmp_path: Path, lacks: str) -> None:
    settings = config(tmp_path, "127.0.0.1:1")
    assert settings.pipeline is not None
    compiled(tmp_path, program(without=lacks))
    with pytest.raises(SwitchError, match=f"lacks .*{lacks}.*make p4"):
        Switches(settings).start()


def test_a_program_that_takes_no_packets_is_none_or_is_not_there_is_refused(tmp_path: Path) -> None:
    settings = config(tmp_path, "127.0.0.1:1")
    assert settings.pipeline is not None
    compiled(tmp_path, program(packets=False))
    with pytest.raises(SwitchError, match="packets from and to the controller have no"):
        Switches(settings).start()
    Path(settings.pipeline.p4info).write_bytes(b"\xff no program")
    with pytest.raises(SwitchError, match="no p4info in binary form"):
        Switches(settings).start()
    Path(settings.pipeline.p4info).unlink()
    with pytest.raises(SwitchError, match=r"cannot read the pipeline .*make p4"):
        Switches(settings).start()


def test_what_a_switch_sees_before_it_is_programmed_ends_no_session(
    tmp_path: Path, switch: P4Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tells it to whoever leads: the controller that asked to be told may have been another one."""
    installed = shim.Connection.installed

    def busy(self: shim.Connection) -> object:
        if switch.heard == []:
            switch.forgets(STATION)
            switch.sees(STATION, 1)
            wait_for("who has heard, or has ended the session", lambda: switch.heard or switch.primary is None)
        return installed(self)

    monkeypatch.setattr(shim.Connection, "installed", busy)
    with controller(config(tmp_path, switch.address)) as service:
        wait_for("the tables", lambda: programmed(service))
        assert switch.heard == [1] and service.switch("s0").connections == 1 and service.switch("s0").stations == {}


def test_an_end_that_is_told_late_ends_no_other_session(tmp_path: Path, switch: P4Switch) -> None:
    with controller(config(tmp_path, switch.address)) as service:
        wait_for("the tables", lambda: programmed(service))
        client = service._clients["s0"]
        now = client._connection
        service.p4_disconnected("s0", object())
        time.sleep(0.5)  # several times as long as until another one would begin
        assert client._connection is now and service.switch("s0").connected


def test_entries_that_a_switch_tells_of_without_end_are_not_kept(
    tmp_path: Path, switch: P4Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shim, "ENTITIES_MAX", 200)
    with controller(config(tmp_path, switch.address)) as service:
        wait_for("the tables", lambda: programmed(service))
        switch.endless = True
        service._clients["s0"]._connection.close()
        wait_for("a word of it", lambda: any("tells of more than 200 entries" in text for text in texts(service)))


def test_a_switch_that_hangs_is_lost_and_programmed_when_it_goes_on(
    tmp_path: Path, switch: P4Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its kernel keeps the connection. It was shown as there, and what was said to it was kept, more and more."""
    monkeypatch.setattr(shim, "RENEW_S", 0.1)
    with controller(config(tmp_path, switch.address)) as service:
        wait_for("the tables", lambda: programmed(service))
        monkeypatch.setattr(shim, "RPC_S", 1.0)
        switch.goes_on.clear()
        wait_for("its loss", lambda: not service.listing().switches[0].connected)
        wait_for("a word of it", lambda: f"the switch at {switch.address} does not answer" in texts(service))
        monkeypatch.setattr(shim, "RPC_S", 60.0)
        switch.goes_on.set()
        wait_for("the tables again", lambda: programmed(service))


def test_of_two_controllers_the_other_follows_when_the_first_one_hangs_and_that_one_waits_when_it_wakes(
    tmp_path: Path, switch: P4Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its session lives on: P4Runtime tells nobody."""
    monkeypatch.setattr(shim, "RENEW_S", 0.1)
    monkeypatch.setattr(shim, "LEASE_S", 2.0)
    renew, hang = shim.Connection.renew, dict[object, threading.Event]()

    def renews(self: shim.Connection) -> None:
        if (goes_on := hang.get(self.events)) is not None:
            assert goes_on.wait(120)
        renew(self)

    monkeypatch.setattr(shim.Connection, "renew", renews)
    settings = config(tmp_path, switch.address)
    with controller(settings) as second, controller(settings) as first:
        wait_for("the tables", lambda: programmed(first))
        wait_for("the other one waits", lambda: any("arbitration lost" in text for text in texts(second)))
        wait_for("a lease", lambda: switch.renewals > 30)
        assert programmed(first) and not programmed(second), "it leads for as long as it renews"
        hang[first] = threading.Event()
        # Its own machine's clock is ahead: the next one's number is higher all the same.
        monkeypatch.setattr(shim, "new_election", lambda: 1)
        wait_for("the other one follows", lambda: programmed(second))
        assert any("renews nothing any more" in text for text in texts(second))
        hang.pop(first).set()
        wait_for("the first one waits", lambda: not programmed(first) and service_lost(first))
        seen = switch.renewals
        wait_for("the other one's lease", lambda: switch.renewals > seen + 30)
        assert programmed(second) and not programmed(first)


def service_lost(service: Switches) -> bool:
    return any("arbitration lost" in text for text in texts(service)) and service._registrations() == []


def test_what_waits_for_a_switch_that_takes_nothing_has_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shim, "WAITING_MAX", 8)
    settings = config(tmp_path, "127.0.0.1:1")
    assert settings.pipeline is not None
    one = shim.Connection(settings.switches[0], shim.Info(settings.pipeline), None, 1)  # type: ignore[arg-type]
    one.send([entries.PacketOut(0, b"frame")] * 8)
    with pytest.raises(SwitchError, match="takes nothing any more"):
        one.send([entries.PacketOut(0, b"frame")])
    one.close()


def test_one_that_is_stopped_as_it_begins_opens_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its session stayed, and the switch with a controller that was gone. Nor does the end of an earlier session, told
    late, end the next one, which was not closed then."""
    settings, opened = config(tmp_path, "127.0.0.1:1"), list[str]()
    assert settings.pipeline is not None
    client = shim.P4RuntimeClient(settings.switches[0], shim.Info(settings.pipeline), None)  # type: ignore[arg-type]
    make = shim.Connection.__init__

    def made(self: shim.Connection, *args: Any) -> None:
        make(self, *args)
        client.lost(client._connection)
        if opened:
            client.stop()

    def opens(self: shim.Connection) -> bool:
        opened.append("lost" if client._lost.is_set() else "")
        raise SwitchError("unreachable", "it is away")

    monkeypatch.setattr(shim.Connection, "__init__", made)
    monkeypatch.setattr(shim.Connection, "open", opens)
    monkeypatch.setattr(client, "events", Mock())
    client._run()
    assert opened == [""]
