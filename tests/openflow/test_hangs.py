"""Who hangs: a switch, a stranger, another controller, a look."""

from __future__ import annotations

import socket
import struct
import threading
from typing import Any

import pytest
from os_ken.base.app_manager import AppManager
from waiting import wait_for
from wire_switch import ERROR, FabricManager, WireSwitch, config

from datacast.controller.openflow import shim
from datacast.controller.openflow.roles import LEASE
from datacast.controller.southbound.config import parse
from datacast.controller.southbound.service import Switches


class Deaf(WireSwitch):
    """It hangs once it is told to: its kernel keeps the connection, and takes what comes."""

    hangs = False

    def _message(self, kind: int, xid: int, body: bytes) -> None:
        if not self.hangs:
            super()._message(kind, xid, body)


def test_a_switch_that_hangs_is_lost_and_neither_it_nor_a_stranger_that_says_nothing_keeps_its_place(
    manager: FabricManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is room for 64 beside the switches. Each of these kept one for good, until no switch was taken any more."""
    monkeypatch.setattr(shim, "ECHO_S", 0.5)
    one = Switches(parse(config(1, manager)))
    one.start()
    try:
        hung = Deaf(one.openflow_address, 1, ports=5)
        host, _, port = one.openflow_address.rpartition(":")
        with socket.create_connection((host, int(port))):
            wait_for("programming", lambda: one.switch("s0").programmed)
            assert len(one._server._serving) == 2
            hung.hangs = True
            wait_for("the loss", lambda: not one.switch("s0").connected)
            wait_for("their places", lambda: not one._server._serving)
        WireSwitch(one.openflow_address, 1, ports=5, cookies=hung.cookies)
        wait_for("programming again", lambda: one.switch("s0").programmed)
    finally:
        one.stop()


def test_what_fails_at_one_look_at_the_switches_fails_there_alone(
    service: Switches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leases end for want of that thread."""
    tick, failed = service.manager.tick, list[int]()

    def once(now: float, t_ns: int) -> Any:
        if not failed:
            failed.append(1)
            raise ValueError("bytes must be in range(0, 256)")
        return tick(now, t_ns)

    monkeypatch.setattr(service.manager, "tick", once)
    wait_for("a look that fails", lambda: failed)
    switch = WireSwitch(service.openflow_address, 1, ports=5)
    wait_for("its lease", lambda: switch.leases)
    switch.leases.clear()
    wait_for("its lease again", lambda: switch.leases)


def test_of_a_switch_that_another_controller_leads_nothing_is_told_any_more(
    service: Switches, manager: FabricManager
) -> None:
    """What was last seen of it here would be told to the next fabric manager, in place of what is."""
    switch = WireSwitch(service.openflow_address, 1, ports=5)
    wait_for("the registration", lambda: manager.of("register"))
    assert [m.node for m in service._registrations()] == ["s0"]
    switch.cookies.add(LEASE << 32 | 1)
    switch.send(ERROR, struct.pack("!HH", 1, 10), 7)  # OFPET_BAD_REQUEST, OFPBRC_IS_SLAVE
    wait_for("the loss", lambda: not service.switch("s0").connected)
    assert service._registrations() == []


def test_a_switch_that_comes_back_with_the_lease_of_another_controller_is_that_one_s(
    service: Switches, manager: FabricManager
) -> None:
    switch = WireSwitch(service.openflow_address, 1, ports=5)
    wait_for("the registration", lambda: manager.of("register"))
    switch.close()
    wait_for("the loss", lambda: not service.switch("s0").connected)
    assert [m.node for m in service._registrations()] == ["s0"], "it goes on forwarding, and nobody else speaks for it"
    again = WireSwitch(service.openflow_address, 1, ports=5, cookies=switch.cookies | {LEASE << 32 | 1})
    wait_for("a look for leases", lambda: again.looks)
    wait_for("silence", lambda: not service._registrations())


@pytest.mark.parametrize("dpid", [0x4242, 1], ids=["unknown", "claimed twice"])
def test_a_switch_that_is_turned_away_while_others_have_much_to_say_holds_up_nobody(
    service: Switches, manager: FabricManager, monkeypatch: pytest.MonkeyPatch, dpid: int
) -> None:
    """os-ken's events wait in a queue of 128. Who took them out of it waited for room in it to say that the newcomer's
    connection had ended: from then on no switch was heard any more, and no lease renewed."""
    switch = WireSwitch(service.openflow_address, 1, ports=5)
    wait_for("the registration", lambda: manager.of("register"))
    events = AppManager.get_instance().applications["App"].events
    note = service.manager.note

    def crowded(t_ns: int, level: str, code: str, name: str, text: str) -> None:
        if code in ("unknown_dpid", "claimed_twice"):
            flood = threading.Thread(target=lambda: [switch.packet_in(2, b"frame") for _ in range(300)], daemon=True)
            flood.start()
            wait_for("a full queue", events.full)
        note(t_ns, level, code, name, text)

    monkeypatch.setattr(service.manager, "note", crowded)
    stranger = WireSwitch(service.openflow_address, dpid, ports=5)
    assert stranger.closed.wait(30)
    switch.port_status(2, down=True)
    wait_for("the report", lambda: manager.of("link"))
