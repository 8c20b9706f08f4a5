"""The SDN side with real sockets: os-ken, switches that speak OpenFlow byte by byte, a fabric manager that listens."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import socket
import struct
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from authority import Authority
from waiting import wait_for
from wire_switch import (
    APPLIANCE,
    ERROR,
    FLOW_MOD,
    MULTIPART_REPLY,
    PORT_STATUS,
    FabricManager,
    WireSwitch,
    config,
)

from datacast.controller.api.records import Discovered
from datacast.controller.openflow import rules, shim
from datacast.controller.openflow.roles import LEASE, LEASE_TABLE
from datacast.controller.openflow.shim import OpenFlowServer
from datacast.controller.southbound.config import parse
from datacast.controller.southbound.errors import SwitchError
from datacast.controller.southbound.outbox import WAITING_MAX
from datacast.controller.southbound.rest import router
from datacast.controller.southbound.service import Switches
from datacast.controller.southbound.state import Send
from datacast.services.problems import Problem


@pytest.mark.slow
def test_the_fabric_manager_is_known_by_its_certificate(tmp_path: Path) -> None:
    """TLS 1.3, both sides authenticated; somebody else with a certificate of the same authority hears nothing."""
    authority = Authority(tmp_path / "ca")
    mine, impostor = authority.issue("fabric-manager/one"), authority.issue("agent/00")
    cert, key = authority.issue("controller/one")
    tls = {"ca": str(authority.ca), "cert": cert, "key": key}
    for identity, welcome in ((mine, True), (impostor, False)):
        manager = FabricManager(authority.ca, identity)
        one = Switches(parse({**config(1, manager), "tls": tls}))
        one.start()
        try:
            WireSwitch(one.openflow_address, 1, ports=5)
            wait_for("programming", lambda one=one: one.switch("s0").programmed)
            if welcome:
                wait_for("the registration", lambda manager=manager: manager.of("register"))
            else:
                wait_for("a connection", lambda manager=manager: manager.handshakes)
                time.sleep(0.3)  # what must not come has no event to wait for
                assert manager.heard == []
        finally:
            one.stop()
            manager.close()


@pytest.mark.parametrize("more", [{}, {"tls": {"ca": "/none/ca.pem", "cert": "/none/c.pem", "key": "/none/c.key"}}])
def test_a_connection_that_could_not_be_trusted_is_refused_at_once(more: dict[str, Any]) -> None:
    with pytest.raises(SwitchError, match=r"insecure: true|/none/ca\.pem"):
        Switches(parse({"switches": [], "fabric_manager": "198.18.0.1:7500", **more})).start()


async def test_a_switch_that_is_none_of_ours_is_named_to_who_asks_for_it(service: Switches) -> None:
    one = next(route for route in router(service).routes if route.path == "/switches/{switch}")
    with pytest.raises(Problem, match="no switch 's99' is configured") as refused:
        await one.endpoint("s99")
    assert (refused.value.status, refused.value.code) == (404, "unknown_switch")


def codes(service: Switches) -> list[str]:
    return [note.code for note in service.notes()]


def test_eight_switches_are_programmed_and_reported(service: Switches, manager: FabricManager) -> None:
    """The switches of BCube(4,1)."""
    switches = [WireSwitch(service.openflow_address, i + 1, ports=5) for i in range(8)]
    wait_for("programming", lambda: all(s.programmed for s in service.listing().switches))
    assert all(len(s.cookies) <= 4 * 4 + 16 for s in switches)
    wait_for("the registrations", lambda: {m["node"] for m in manager.of("register")} == {f"s{i}" for i in range(8)})
    assert all(m["msd"] == 3 and m["cache"] and m["proxy"] for m in manager.of("register"))


def test_links_down_and_up_reach_the_fabric_manager_in_their_order(service: Switches, manager: FabricManager) -> None:
    """That nothing waits for a timer on the way, test_manager.py says."""
    switch = WireSwitch(service.openflow_address, 1, ports=5)
    wait_for("the registration", lambda: manager.of("register"))
    for i in range(10):
        switch.port_status(2, down=i % 2 == 0)
    wait_for("the reports", lambda: len(manager.of("link")) >= 10)
    told = [(m["node"], m["port"], m["up"]) for m in manager.of("link")]
    assert told == [("s0", 1, i % 2 == 1) for i in range(10)]


def test_what_ports_do_while_another_controller_leads_is_known_to_the_next(
    service: Switches, manager: FabricManager
) -> None:
    another = LEASE << 32 | 1
    switch = WireSwitch(service.openflow_address, 1, ports=5, cookies={another})
    wait_for("a look for leases", lambda: switch.looks)
    switch.port_status(2, down=True)
    wait_for("another look", lambda seen=switch.looks: switch.looks > seen + 1)
    assert not service.switch("s0").connected and not manager.of("register")
    switch.cookies.discard(another)
    wait_for("the registration", lambda: manager.of("register"))
    ports = {port["port"]: port["up"] for port in manager.of("register")[0]["ports"]}
    assert ports == {0: True, 1: False, 2: True, 3: True}


def test_after_the_fabric_manager_was_away_it_is_told_everything(service: Switches, manager: FabricManager) -> None:
    switch = WireSwitch(service.openflow_address, 1, ports=5)
    wait_for("the registration", lambda: manager.of("register"))
    manager.drop_all()
    switch.port_status(2, down=True)
    wait_for("the second registration", lambda: len(manager.of("register")) > 1)
    wait_for("the state of the link", lambda: {"port": 1, "up": False} in manager.of("register")[-1]["ports"]
             or [m for m in manager.of("link") if m["port"] == 1])


def test_a_switch_that_comes_back_at_once_is_no_second_one(service: Switches) -> None:
    switch = WireSwitch(service.openflow_address, 1, ports=5)
    for count in (2, 3, 4):
        wait_for("programming", lambda: service.listing().switches[0].programmed)
        switch.close()
        wait_for("the loss", lambda: not service.listing().switches[0].connected)
        switch = WireSwitch(service.openflow_address, 1, ports=5)
        wait_for("the connection", lambda: service.listing().switches[0].connected)
        assert service.listing().switches[0].connections == count
    assert "claimed_twice" not in {note.code for note in service.notes()}


def test_a_switch_that_comes_back_keeps_its_rules(service: Switches, manager: FabricManager) -> None:
    first = WireSwitch(service.openflow_address, 1, ports=5)
    wait_for("programming", lambda: service.switch("s0").programmed)
    cookies = set(first.cookies)
    stale, lost = rules.COOKIE << 32 | 99, sorted(cookies)[3]
    first.close()
    wait_for("the loss", lambda: not service.switch("s0").connected)
    again = WireSwitch(service.openflow_address, 1, ports=5, cookies=(cookies - {lost}) | {stale, 0x55})
    wait_for("programming", lambda: service.switch("s0").programmed)
    assert again.mods == 2 and again.cookies == cookies | {0x55}


def test_a_restarted_controller_sends_no_rule(manager: FabricManager) -> None:
    one = Switches(parse(config(1, manager)))
    one.start()
    first = WireSwitch(one.openflow_address, 1, ports=5)
    wait_for("programming", lambda: one.switch("s0").programmed)
    one.stop()
    two = Switches(parse(config(1, manager)))
    two.start()
    again = WireSwitch(two.openflow_address, 1, ports=5, cookies=set(first.cookies))
    wait_for("programming", lambda: two.switch("s0").programmed)
    assert again.mods == 0
    two.stop()


def test_a_switch_of_another_version_is_turned_away_and_told(service: Switches) -> None:
    old = WireSwitch(service.openflow_address, 1, version=1)
    assert old.closed.wait(60) and old.errors
    note = wait_for("the note", lambda: [n for n in service.notes() if n.code == "wrong_version"])[0]
    assert "OpenFlow13" in note.text


def test_what_a_switch_refuses_is_told_with_its_name(service: Switches) -> None:
    switch = WireSwitch(service.openflow_address, 1, ports=5)
    wait_for("programming", lambda: service.switch("s0").programmed)
    switch.send(ERROR, struct.pack("!HH", 2, 4), 7)  # OFPET_BAD_ACTION, OFPBAC_BAD_OUT_PORT
    note = wait_for("the note", lambda: [n for n in service.notes() if n.code == "openflow_error"])[0]
    assert note.switch == "s0" and "BAD_ACTION" in note.text and "BAD_OUT_PORT" in note.text
    switch.close()
    wait_for("the loss", lambda: not service.switch("s0").connected)
    assert service.switch("s0").problems
    WireSwitch(service.openflow_address, 1, ports=5, cookies=switch.cookies)
    wait_for("programming", lambda: service.switch("s0").programmed)
    assert service.switch("s0").problems == [], "it is well again"


class Full(WireSwitch):
    """There is no room for its last rules: it says so, of each, and then does what it was asked for."""

    room = 5

    def _message(self, kind: int, xid: int, body: bytes) -> None:
        if kind == FLOW_MOD and len(self.cookies) >= self.room and body[16] != LEASE_TABLE:
            self.send(ERROR, struct.pack("!HH", 5, 1) + struct.pack("!BBHI", 4, kind, 8 + len(body), xid) + body, xid)
        else:
            super()._message(kind, xid, body)


def test_a_switch_that_refuses_a_rule_is_not_counted_on_and_gets_it_when_it_comes_again(
    service: Switches, manager: FabricManager
) -> None:
    """It was taken for programmed, and without that rule until its connection broke by chance."""
    full = Full(service.openflow_address, 1, ports=5)
    assert full.closed.wait(60)
    wait_for("the loss", lambda: not service.switch("s0").connected)
    assert "FLOW_MOD_FAILED" in service.switch("s0").problems[0] and not manager.of("register")
    again = WireSwitch(service.openflow_address, 1, ports=5, cookies=set(full.cookies))
    wait_for("the registration", lambda: manager.of("register"))
    assert again.mods and len(again.cookies) == service.switch("s0").rules and service.switch("s0").problems == []


def test_an_unknown_switch_is_turned_away_and_named(service: Switches) -> None:
    stranger = WireSwitch(service.openflow_address, 0x4242)
    assert stranger.closed.wait(60)
    note = wait_for("the note", lambda: [n for n in service.notes() if n.code == "unknown_dpid"])[0]
    assert "0000000000004242" in note.text


def test_a_datapath_id_claimed_twice(service: Switches) -> None:
    first = WireSwitch(service.openflow_address, 1, ports=5)
    wait_for("programming", lambda: service.switch("s0").programmed)
    second = WireSwitch(service.openflow_address, 1, ports=5)
    assert second.closed.wait(60) and not first.closed.is_set()
    assert "claimed_twice" in codes(service) and service.switch("s0").connected


class Impostor(WireSwitch):
    """Says at once, in another's name, that a link is down and that another controller leads the switch."""

    def send(self, kind: int, body: bytes, xid: int) -> None:
        told = struct.pack("!BBHI", self.version, kind, 8 + len(body), xid) + body
        if kind == MULTIPART_REPLY:
            status = struct.pack("!B7x", 2) + self.port(2, down=True)
            told += struct.pack("!BBHI", 4, PORT_STATUS, 8 + len(status), 0) + status
            told += struct.pack("!BBHIHH", 4, ERROR, 12, 0, 1, 10)  # OFPET_BAD_REQUEST, OFPBRC_IS_SLAVE
        self.sock.sendall(told)


def test_what_a_second_switch_says_under_an_id_is_not_the_first_ones(service: Switches, manager: FabricManager) -> None:
    """Also before it is turned away: it cuts no link of that one and takes nobody's lead."""
    first = WireSwitch(service.openflow_address, 1, ports=5)
    wait_for("the registration", lambda: manager.of("register"))
    second = Impostor(service.openflow_address, 1, ports=5)
    assert second.closed.wait(60) and "claimed_twice" in codes(service)
    first.port_status(3, down=True)  # what was told before is carried out by then
    wait_for("the port", lambda: manager.of("link"))
    assert [(m["port"], m["up"]) for m in manager.of("link")] == [(2, False)]
    assert service.switch("s0").ports_up == 3 and "role" not in codes(service)


def test_switches_are_taken_again_after_there_were_no_descriptors(
    manager: FabricManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = []

    class Listener(socket.socket):
        def accept(self) -> tuple[socket.socket, Any]:
            if len(failed) < 3:
                failed.append(1)
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return super().accept()

    create = socket.create_server

    def listening(address: tuple[str, int], **more: Any) -> socket.socket:
        with create(address, **more) as made:
            return Listener(fileno=made.detach())

    one = Switches(parse(config(1, manager)))
    with monkeypatch.context() as patch:
        patch.setattr(socket, "create_server", listening)
        one.start()
    try:
        WireSwitch(one.openflow_address, 1, ports=5)
        wait_for("programming", lambda: one.switch("s0").programmed)
        assert len(failed) == 3
    finally:
        one.stop()


def test_no_more_connections_are_taken_than_there_may_be(
    service: Switches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shim, "CONNECTIONS_SPARE", 2)
    monkeypatch.setattr(shim, "QUIET_S", time.monotonic() / 2)
    host, _, port = service.openflow_address.rpartition(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(18)]
    try:
        for _ in range(3):
            more = socket.create_connection((host, int(port)))
            more.settimeout(60)
            with contextlib.suppress(ConnectionResetError):
                assert more.recv(1) == b""
            wait_for("the note", lambda: "too_many" in codes(service))
        assert codes(service).count("too_many") == 1, "not one for each"
    finally:
        for sock in silent:
            sock.close()
    wait_for("room", lambda: not service._server._serving)
    WireSwitch(service.openflow_address, 1, ports=5)
    wait_for("programming", lambda: service.switch("s0").programmed)


def test_many_open_files_keep_nobody_from_the_fabric_manager(manager: FabricManager) -> None:
    """select() takes no descriptor beyond 1,023: a thousand switches, or as many that ask, are more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, before[1]), before[1]))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    one = Switches(parse(config(1, manager)))
    try:
        one.start()
        switch = WireSwitch(one.openflow_address, 1, ports=5)
        wait_for("the registration", lambda: manager.of("register"))
        switch.port_status(2, down=True)
        wait_for("the link", lambda: manager.of("link"))
    finally:
        one.stop()
        for fd in files:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.slow
def test_what_is_no_switch_at_all(service: Switches) -> None:
    host, _, port = service.openflow_address.rpartition(":")
    with socket.create_connection((host, int(port))) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 10)
        sock.settimeout(60)
        with contextlib.suppress(ConnectionResetError):  # what it had not read yet makes its end a reset
            while sock.recv(4096):
                pass
    WireSwitch(service.openflow_address, 1, ports=5)
    wait_for("programming", lambda: service.switch("s0").programmed)


def test_a_switch_that_takes_nothing_holds_up_neither_the_others_nor_rest(
    service: Switches, monkeypatch: pytest.MonkeyPatch
) -> None:
    WireSwitch(service.openflow_address, 1, ports=5)
    wait_for("programming", lambda: service.switch("s0").programmed)
    stuck, real, goes_on, stands = threading.Event(), OpenFlowServer.send, threading.Event(), threading.Event()

    def send(connection: Any, message: Any) -> None:
        if connection.id == 1:
            stuck.set()
            stands.set()
            goes_on.wait(30)  # as a socket does whose other side reads no more
            stands.clear()
        real(connection, message)

    monkeypatch.setattr(OpenFlowServer, "send", staticmethod(send))
    try:
        assert stuck.wait(60), "a probe is due every 0.4 s"
        other = WireSwitch(service.openflow_address, 2, ports=5)
        wait_for("programming", lambda: service.listing().switches[1].programmed)
        assert service.listing().switches[0].connected and service.discovered() == []
        assert not goes_on.is_set() and stands.is_set(), "neither waited for the one that stands still"
        other.port_status(1, down=True)
        wait_for("the port", lambda: service.listing().switches[1].ports_up == 3)
    finally:
        goes_on.set()


def test_a_switch_that_takes_nothing_for_too_long_is_closed_and_begins_anew(
    service: Switches, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = WireSwitch(service.openflow_address, 1, ports=5)
    wait_for("programming", lambda: service.switch("s0").programmed)
    goes_on = threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(OpenFlowServer, "send", staticmethod(lambda connection, message: goes_on.wait(30)))
        for _ in range(WAITING_MAX + 2):
            service._do(lambda: [Send("s0", "anything")])
        assert first.closed.wait(60) and "wedged" in codes(service)
    goes_on.set()
    WireSwitch(service.openflow_address, 1, ports=5)
    wait_for("programming", lambda: service.switch("s0").programmed)
    assert service.switch("s0").problems == []


def test_discovery_frames_cross_a_real_connection(service: Switches) -> None:
    from datacast.controller.southbound import lldp

    a, b = (WireSwitch(service.openflow_address, n, ports=5) for n in (1, 2))
    wait_for("programming", lambda: all(service.switch(f"s{i}").programmed for i in (0, 1)))
    b.packet_in(3, lldp.encode("s0", 1, "02:00:00:00:00:02", service.manager._key, time.monotonic()))
    wait_for("the link", lambda: service.discovered() == [Discovered(u="s0", u_port=1, v="s1", v_port=2)])
    assert not a.closed.is_set()


def test_counters_of_a_switch(service: Switches) -> None:
    WireSwitch(service.openflow_address, 1, ports=5)
    wait_for("programming", lambda: service.switch("s0").programmed)
    detail = service.switch("s0")
    assert all(rule.packets == 5 and rule.bytes == 500 for rule in detail.rule_list)
    refusing = sum(rule.purpose == "drop label" for rule in detail.rule_list)
    assert refusing == 2 and detail.drops["label"] == 5 * refusing and len(detail.port_list) == 4
    assert [port.counters.rx_frames for port in detail.port_list] == [100, 200, None, None]


def test_rules_that_a_switch_tells_of_without_end_are_not_kept(
    service: Switches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of others, however many, are nothing to us; of those with our mark there are no more than it can have."""
    switch = WireSwitch(service.openflow_address, 1, ports=5)
    wait_for("programming", lambda: service.switch("s0").programmed)
    told: list[set[int]] = []
    monkeypatch.setattr(service, "openflow_rules", lambda dpid, counters: told.append(set(counters)))
    monkeypatch.setattr(shim, "RULES_MAX", len(switch.cookies) + 5)
    switch.cookies |= {*range(100), *(rules.COOKIE << 32 | n for n in range(100))}
    wait_for("its word on it", lambda: service.switch("s0") and "too_many_rules" in codes(service))
    assert max(map(len, told)) == shim.RULES_MAX and not any(cookie < 100 for cookie in set().union(*told))


def test_ports_that_a_switch_tells_of_without_end_are_not_kept(service: Switches) -> None:
    """A bridge may have thousands that are none of ours."""
    switch = WireSwitch(service.openflow_address, 1, ports=900)
    wait_for("programming", lambda: service.switch("s0").programmed)
    for number in range(1000, 1100):
        switch.port_status(number, down=False)
    switch.port_status(2, down=True)
    wait_for("the last of them", lambda: service.listing().switches[0].ports_up == 3)
    assert set(service.manager.sessions["s0"].ports) == {1, 2, 3, 4, APPLIANCE}
    connection = service.manager.sessions["s0"].connection
    assert set(connection.ports) == {1, 2, 3, 4, APPLIANCE}
