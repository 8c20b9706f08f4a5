"""The manager: connections, reconnects, ports, appliances, discovery, loops. Events in, effects out."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from fake_switch import FakeSwitch
from scapy.layers.l2 import ARP, Ether

from datacast.controller.api.records import Appliance, Discovered, End, PortCounters, PortDetail, Switch, SwitchDetail
from datacast.controller.openflow import rules, shim
from datacast.controller.openflow.language import OpenFlowLanguage
from datacast.controller.openflow.messages import Barrier, FlowAdd, PacketOut, ReadRules
from datacast.controller.openflow.shim import OpenFlowServer
from datacast.controller.southbound import lldp
from datacast.controller.southbound.config import parse
from datacast.controller.southbound.errors import SwitchError
from datacast.controller.southbound.loops import blocked_ends
from datacast.controller.southbound.manager import (
    LLDP_INTERVAL_S,
    LLDP_LIFE_S,
    PROBE_INTERVAL_S,
    PROBES_MISSED,
    Manager,
)
from datacast.controller.southbound.state import Close, PortInfo, Report, Send
from datacast.core.constants import REPLICATE_PORTS

T = 1_700_000_000_000_000_000
APPLIANCE = 9
MS = 1_000_000
KEY = b"only the controller has it"


def sealed(world: World, switch: str, port: int) -> bytes:
    """A discovery frame as this controller makes it now."""
    return lldp.encode(switch, port, "02:00:00:00:00:01", KEY, world.now)


def ring(n: int = 3, appliance: bool = True) -> dict[str, Any]:
    """n switches in a ring by ports 0 and 1, a host at port 2 of each, an appliance."""
    switches = []
    for i in range(n):
        left, right = f"s{(i - 1) % n}", f"s{(i + 1) % n}"
        ports = [{"port": 0, "number": 1, "neighbour": {"node": left, "port": 1}},
                 {"port": 1, "number": 2, "neighbour": {"node": right, "port": 0}},
                 {"port": 2, "number": 3, "neighbour": {"node": f"h{i}", "port": 0}}]
        one: dict[str, Any] = {"name": f"s{i}", "openflow": {"dpid": i + 1}, "ports": ports}
        if appliance:
            one["appliance"] = {"number": APPLIANCE, "control": f"/run/s{i}.sock"}
        switches.append(one)
    return {"switches": switches}


class World:
    """A manager, fake switches that do what it says, and the fabric manager's ear."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.manager = Manager(parse(config), {"openflow": OpenFlowLanguage()}, KEY)
        self.switches = {s.name: FakeSwitch({p.number for p in s.ports} | {APPLIANCE})
                         for s in self.manager.config.switches}
        self.reports: list[dict[str, Any]] = []
        self.closed: list[object] = []
        self.sent: list[tuple[str, Any]] = []
        self.dead: set[str] = set()
        """Switches whose appliance sends no probe back."""
        self.now = 100.0

    @property
    def t_ns(self) -> int:
        return T + int(self.now * 1e9)

    def do(self, effects: list[Any]) -> list[Any]:
        """Carry out; a read is answered, a barrier too."""
        for effect in effects:
            if isinstance(effect, Send):
                self.sent.append((effect.switch, effect.message))
                switch = self.switches[effect.switch]
                switch.tell(effect.message)
                if isinstance(effect.message, ReadRules):
                    self.do(self.manager.installed(self.now, effect.switch, switch.cookies()))
                elif isinstance(effect.message, Barrier):
                    self.do(self.manager.programmed(self.now, self.t_ns, effect.switch))
            elif isinstance(effect, Report):
                self.reports.append(msgspec.to_builtins(effect.message))
            elif isinstance(effect, Close):
                self.closed.append(effect.connection)
        return effects

    def ports(self, name: str, *, without: tuple[int, ...] = ()) -> list[PortInfo]:
        return [PortInfo(n, f"02:00:00:00:0{name[1]}:{n:02x}", True, f"eth{n}")
                for n in sorted(self.switches[name].ports) if n not in without]

    def connect(self, name: str, token: object | None = None, **kwargs: Any) -> object:
        token = token or object()
        self.do(self.manager.connected(self.now, self.t_ns, name, token, self.ports(name, **kwargs), peer="10.0.0.9:1"))
        return token

    def connect_all(self) -> dict[str, object]:
        return {name: self.connect(name) for name in self.switches}

    def port(self, name: str, number: int, up: bool, gone: bool = False) -> list[Any]:
        info = replace(next(p for p in self.ports(name) if p.number == number), up=up)
        return self.do(self.manager.port_changed(self.now, self.t_ns, name, info, gone=gone))

    def floods_in(self, name: str) -> set[int]:
        """Datacast ports of a switch at which ordinary Ethernet is let in."""
        frame = bytes(Ether(dst="ff:ff:ff:ff:ff:ff") / ARP())
        return {number - 1 for number in (1, 2, 3) if self.switches[name].receive(number, frame)}

    def codes(self) -> list[str]:
        return [note.code for note in self.manager.log.notes]

    def tick(self, seconds: float = 0.0) -> list[Any]:
        """The manager's clock; appliances answer."""
        self.now += seconds
        effects = self.do(self.manager.tick(self.now, self.t_ns))
        for name, switch in self.switches.items():
            probes = [frame for number, frame in switch.out if number == APPLIANCE]
            switch.out = [one for one in switch.out if one[0] != APPLIANCE]
            if probes and name not in self.dead:
                self.do(self.manager.packet_in(self.now, self.t_ns, name, APPLIANCE, probes[-1]))
        return effects

    def discover(self) -> None:
        """Every LLDP frame that was sent arrives at the other end of its cable."""
        names = list(self.switches)
        for i, name in enumerate(names):
            for number, frame in self.switches[name].out:
                if number in (1, 2):
                    peer = names[(i + (1 if number == 2 else -1)) % len(names)]
                    self.do(self.manager.packet_in(self.now, self.t_ns, peer, 3 - number, frame))
            self.switches[name].out.clear()


@pytest.fixture
def world() -> World:
    return World(ring())


# ---- connections ----
def test_a_switch_that_connects_is_asked_programmed_and_reported(world: World) -> None:
    world.connect("s0")
    kinds = [type(m).__name__ for _, m in world.sent]
    assert kinds[0] == "ReadRules" and kinds[-1] == "Barrier" and set(kinds[1:-1]) == {"FlowAdd"}
    report, = world.reports
    assert report["type"] == "register" and report["node"] == "s0" and report["kind"] == "switch"
    assert report["proxy"] is True and report["cache"] is True and report["msd"] == 3
    assert report["control"] == "/run/s0.sock"
    assert report["ports"] == [{"port": p, "up": True} for p in range(3)]
    assert world.manager.summary("s0").programmed and world.manager.summary("s0").rules <= 4 * 3 + 16
    detail = world.manager.detail("s0")
    assert detail.port_list and detail.rule_list
    assert msgspec.json.decode(msgspec.json.encode(detail), type=SwitchDetail) == detail, "it is of its form"


def test_a_switch_that_reconnects_gets_what_it_lost_and_nothing_else(world: World) -> None:
    token = world.connect("s0")
    switch, before = world.switches["s0"], world.switches["s0"].cookies()
    world.do(world.manager.disconnected(world.t_ns, "s0", token))
    lost = switch.rules.pop(3)
    switch.tell(FlowAdd(0, 5, (("in_port", 1),), (), rules.COOKIE << 32 | 7))
    world.sent.clear()
    world.connect("s0")
    adds = [m for _, m in world.sent if isinstance(m, FlowAdd)]
    assert [a.cookie for a in adds] == [lost.cookie]
    assert switch.cookies() == before


def test_a_restarted_controller_touches_nothing(world: World) -> None:
    world.connect_all()
    after = World(ring())
    after.switches = world.switches
    after.connect_all()
    assert not [m for _, m in after.sent if not isinstance(m, ReadRules | Barrier)]
    assert sorted(r["node"] for r in after.reports) == ["s0", "s1", "s2"]


def test_a_lost_connection_changes_no_link(world: World) -> None:
    token = world.connect("s0")
    world.reports.clear()
    world.do(world.manager.disconnected(world.t_ns, "s0", token))
    assert world.reports == [] and not world.manager.summary("s0").connected
    assert [r.node for r in world.manager.registrations()] == ["s0"], "it still stands for the fabric manager"


def test_a_datapath_id_claimed_twice_is_refused_and_the_first_stays(world: World) -> None:
    first = world.connect("s0")
    second = object()
    world.connect("s0", second)
    assert world.closed == [second] and world.codes()[-1] == "claimed_twice"
    told = "claimed twice: {} says it is s0, which is connected from {}; the newcomer is refused"
    assert world.manager.log.notes[-1].text == told.format("10.0.0.9:1", "10.0.0.9:1")
    world.do(world.manager.claimed_twice(world.t_ns, "s0", second, "", ""))
    assert world.manager.log.notes[-1].text == told.format("another switch", "elsewhere")
    world.do(world.manager.disconnected(world.t_ns, "s0", second))
    assert world.manager.sessions["s0"].connection is first
    world.do(world.manager.disconnected(world.t_ns, "s0", first))
    world.connect("s0", second)
    assert world.manager.sessions["s0"].connection is second


@pytest.mark.parametrize("code", ["arbitration", "pipeline", "role", "unreachable", "wedged", "write"])
def test_what_was_refused_is_a_problem_of_its_switch_until_that_one_is_programmed(world: World, code: str) -> None:
    world.manager.refused(world.t_ns, code, "not so", "s0")
    world.manager.refused(world.t_ns, code, "nor so")
    assert [(n.level, n.code, n.switch, n.text) for n in world.manager.notes()] == [
        ("error", code, "s0", "not so"), ("error", code, "", "nor so")]
    assert world.manager.summary("s0").problems == ["not so"] and world.manager.summary("s1").problems == []
    world.connect_all()
    assert world.manager.summary("s0").problems == []


def test_an_unknown_datapath_id(world: World) -> None:
    with pytest.raises(SwitchError, match="000000000000002a") as error:
        world.manager.switch_of_dpid(42)
    assert error.value.code == "unknown_dpid"


def test_an_answer_that_comes_late_or_twice_is_ignored(world: World) -> None:
    token = world.connect("s0")
    assert world.manager.installed(world.now, "s0", set()) == []
    world.do(world.manager.disconnected(world.t_ns, "s0", token))
    assert world.manager.installed(world.now, "s0", set()) == []
    assert world.manager.programmed(world.now, world.t_ns, "s0") == []


def test_an_address_for_switches_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(SwitchError) as error:
            OpenFlowServer(address, Mock(), ()).start()
    assert (error.value.code, error.value.what) == ("listen", address)
    assert error.value.message.startswith(f"cannot listen for switches on {address}: Address already in use")


def test_what_breaks_the_reader_of_openflow_is_told_with_where_it_came_from(monkeypatch: pytest.MonkeyPatch) -> None:
    events = Mock()
    monkeypatch.setattr(shim, "Connection", Mock(side_effect=ValueError("no such type")))
    OpenFlowServer("127.0.0.1:0", events, ())._serve(Mock(), ("10.0.0.7", 4711))
    events.openflow_refused.assert_called_once_with("not_openflow", "10.0.0.7:4711: ValueError: no such type", None)


# ---- ports ----
def test_port_status_is_reported_first_and_numbered(world: World) -> None:
    world.connect_all()
    world.reports.clear()
    effects = world.port("s1", 2, up=False)
    assert isinstance(effects[0], Report)
    world.now += 0.001
    world.port("s1", 2, up=True)
    down, up = world.reports
    assert (down["type"], down["node"], down["port"], down["up"]) == ("link", "s1", 1, False)
    assert up["up"] is True and up["n"] > down["n"] and down["t_ns"] < up["t_ns"]


def test_the_same_state_twice_is_one_report(world: World) -> None:
    world.connect_all()
    world.reports.clear()
    world.port("s1", 3, up=False)
    world.port("s1", 3, up=False)
    assert len(world.reports) == 1


def test_a_port_that_vanishes_is_down_and_a_problem_until_it_is_back(world: World) -> None:
    world.connect_all()
    world.port("s1", 3, up=True, gone=True)
    assert world.reports[-1]["up"] is False
    assert any("port 2 should be its port 3" in p for p in world.manager.summary("s1").problems)
    world.port("s1", 3, up=True)
    assert world.reports[-1]["up"] is True and world.manager.summary("s1").problems == []


def test_an_absent_appliance_is_told_and_local_dropped(world: World) -> None:
    world.connect("s0", without=(APPLIANCE,))
    assert world.reports[-1]["cache"] is False
    assert "no_appliance" in world.codes()
    assert any("is not connected: this switch only forwards" in p for p in world.manager.summary("s0").problems)
    assert any(r.purpose == "drop no_endpoint" and r.match.get("mpls_label") == 1000
               for r in world.manager.detail("s0").rule_list)


def test_an_appliance_that_comes_later_is_used(world: World) -> None:
    world.connect("s0", without=(APPLIANCE,))
    world.port("s0", APPLIANCE, up=True)
    assert world.reports[-1]["cache"] is False, "a carrier is no appliance"
    world.tick()
    assert world.reports[-1]["type"] == "register" and world.reports[-1]["cache"] is True
    assert "local" in {r.purpose for r in world.manager.detail("s0").rule_list}
    assert world.manager.summary("s0").problems == []
    assert {r.cookie for r in rules.rules(world.manager.sessions["s0"].wanted)} == world.switches["s0"].cookies()


def test_an_appliance_that_dies_behind_a_live_port_is_missed_and_comes_back(world: World) -> None:
    world.connect_all()
    world.reports.clear()
    for _ in range(10):
        world.tick(PROBE_INTERVAL_S)
    assert world.reports == []
    world.dead = {"s1"}
    for _ in range(PROBES_MISSED):
        world.tick(PROBE_INTERVAL_S)
    assert world.reports == [], "one or two lost probes are no death"
    world.tick(PROBE_INTERVAL_S)
    assert [(r["node"], r["cache"]) for r in world.reports] == [("s1", False)]
    assert any("does not answer" in p for p in world.manager.summary("s1").problems)
    assert "local" not in {r.purpose for r in world.manager.detail("s1").rule_list}
    for _ in range(10):
        world.tick(PROBE_INTERVAL_S)
    assert len(world.reports) == 1, "told once"
    world.dead = set()
    world.tick(PROBE_INTERVAL_S)
    assert [(r["node"], r["cache"]) for r in world.reports[1:]] == [("s1", True)]
    assert world.manager.summary("s1").problems == []


def test_a_switch_that_says_nothing_is_not_held_against_its_appliance(world: World) -> None:
    world.connect("s0")
    world.reports.clear()
    for _ in range(3 * PROBES_MISSED):
        world.now += PROBE_INTERVAL_S
        assert world.manager.tick(world.now, world.t_ns) != [], "asked, and nothing comes back: no barrier either"
    assert world.manager.summary("s0").appliance.present and world.manager.summary("s0").problems == []


def test_an_appliance_known_to_be_silent_stays_so_when_the_switch_reconnects(world: World) -> None:
    token = world.connect("s0")
    world.dead = {"s0"}
    for _ in range(PROBES_MISSED + 1):
        world.tick(PROBE_INTERVAL_S)
    world.do(world.manager.disconnected(world.t_ns, "s0", token))
    world.connect("s0")
    assert world.reports[-1]["cache"] is False
    world.dead = set()
    world.tick()
    assert world.reports[-1]["cache"] is True


def test_only_an_answer_to_the_own_probe_counts(world: World) -> None:
    world.connect("s0", without=(APPLIANCE,))
    world.port("s0", APPLIANCE, up=True)
    for frame in (sealed(world, "s1", lldp.APPLIANCE), sealed(world, "s0", 2)):
        world.do(world.manager.packet_in(world.now, world.t_ns, "s0", APPLIANCE, frame))
        assert world.reports[-1]["cache"] is False


# ---- discovery ----
@pytest.mark.parametrize(("replicates", "ports"), [(True, REPLICATE_PORTS), (False, 0)])
def test_a_probe_tells_the_appliance_how_many_ports_its_switch_copies_to(replicates: bool, ports: int) -> None:
    told = ring()
    told["switches"][0]["appliance"]["replicate"] = replicates
    world = World(told)
    world.connect("s0")
    world.tick()
    (probe,) = (m.data for _, m in world.sent if isinstance(m, PacketOut) and m.number == APPLIANCE)
    own = world.manager.sessions["s0"].ports[APPLIANCE].mac
    assert probe == lldp.encode("s0", lldp.APPLIANCE, own, KEY, world.now, ports)


def test_lldp_frames_are_written_and_read_back() -> None:
    frame = lldp.encode("s0.1", 17, "02:00:00:00:00:01", KEY, 7.5)
    assert lldp.decode(frame, KEY, 8.0) == ("s0.1", 17)
    assert lldp.decode(frame + bytes(20), KEY, 8.0) == ("s0.1", 17)
    for cut in range(len(frame) - 2):
        assert lldp.decode(frame[:cut], KEY, 8.0) is None
    foreign = bytes(frame).replace(b"datacast", b"somebody")
    assert lldp.decode(foreign, KEY, 8.0) is None


def test_no_bit_of_a_discovery_frame_can_be_changed_and_no_old_one_is_believed() -> None:
    frame = lldp.encode("s0.1", 17, "02:00:00:00:00:01", KEY, 7.5)
    assert lldp.decode(frame, b"another's", 8.0) is None and lldp.decode(frame, KEY, 7 + lldp.TTL_S + 1) is None
    for at in range(14, len(frame)):
        for bit in range(8):
            other = bytearray(frame)
            other[at] ^= 1 << bit
            assert lldp.decode(bytes(other), KEY, 8.0) in (None, ("s0.1", 17)), (at, bit)


def test_a_host_makes_no_links(world: World) -> None:
    world.connect_all()
    floods = {name: world.floods_in(name) for name in world.switches}
    forged = lldp.encode("s1", 2, "02:00:00:00:00:01")
    carried = sealed(world, "s1", 0)  # as a host could have it from another host, or from a port it once had
    for name, port, frame in (("s0", 3, forged), ("s0", 3, carried), ("s0", 1, forged)):
        assert world.do(world.manager.packet_in(world.now, world.t_ns, name, port, frame)) == []
    assert world.manager.discovered() == []
    assert {name: world.floods_in(name) for name in world.switches} == floods
    assert any("port 2 leads to a host" in p for p in world.manager.summary("s0").problems)


def test_ports_to_hosts_get_no_discovery_frame(world: World) -> None:
    world.connect_all()
    world.tick()
    assert {m.number for _, m in world.sent if isinstance(m, PacketOut)} == {1, 2, APPLIANCE}


def test_links_are_discovered_and_expire(world: World) -> None:
    world.connect_all()
    world.tick()
    assert sum(isinstance(m, PacketOut) for _, m in world.sent) == 3 * 2 + 3, "every cable's end, every appliance"
    world.discover()
    assert world.manager.discovered() == [
        Discovered(u="s0", u_port=0, v="s2", v_port=1), Discovered(u="s0", u_port=1, v="s1", v_port=0),
        Discovered(u="s1", u_port=1, v="s2", v_port=0)]
    assert world.manager.detail("s0").port_list[1].discovered == End(node="s1", port=0)
    world.now += LLDP_INTERVAL_S / 2
    assert all(m.number == APPLIANCE for e in world.tick() if isinstance(m := e.message, PacketOut))
    world.now += LLDP_LIFE_S + 1
    world.tick()
    assert world.manager.discovered() == []


def test_a_cable_that_leads_elsewhere_is_told(world: World) -> None:
    world.connect_all()
    world.do(world.manager.packet_in(world.now, world.t_ns, "s0", 2, sealed(world, "s1", 1)))
    assert any("port 1 leads to port 1 of s1" in p for p in world.manager.summary("s0").problems)


@pytest.mark.parametrize("way", ["down", "silent", "right"])
def test_what_is_told_of_a_cable_goes_with_what_was_seen_at_it(world: World, way: str) -> None:
    world.connect_all()
    world.do(world.manager.packet_in(world.now, world.t_ns, "s0", 2, sealed(world, "s1", 1)))
    world.do(world.manager.packet_in(world.now, world.t_ns, "s0", 1, sealed(world, "s1", 0)))
    assert len(world.manager.summary("s0").problems) == 2
    if way == "down":
        world.port("s0", 2, up=False)
    elif way == "right":
        world.do(world.manager.packet_in(world.now, world.t_ns, "s0", 2, sealed(world, "s1", 0)))
    else:
        world.tick(LLDP_LIFE_S - 1)
        world.do(world.manager.packet_in(world.now, world.t_ns, "s0", 1, sealed(world, "s1", 0)))
        world.tick(2)
    assert [text.partition(" leads")[0] for text in world.manager.summary("s0").problems] == ["port 0"]


def test_garbage_from_a_switch_is_nothing(world: World) -> None:
    world.connect_all()
    for frame in (b"", b"\0" * 13, bytes(Ether(type=0x88CC)), sealed(world, "s1", 0)[:25]):
        assert world.manager.packet_in(world.now, world.t_ns, "s0", 1, frame) == []
    assert world.manager.packet_in(world.now, world.t_ns, "s0", 77, sealed(world, "s1", 0)) == []


# ---- loops ----
def test_a_ring_is_open_in_one_place_at_both_ends_and_hosts_are_never_blocked(world: World) -> None:
    world.connect_all()
    shut = {(name, port) for name in world.switches for port in {0, 1, 2} - world.floods_in(name)}
    assert shut == {("s1", 1), ("s2", 0)}


def test_when_a_link_of_the_tree_goes_the_blocked_one_opens(world: World) -> None:
    world.connect_all()
    world.port("s0", 2, up=False)
    world.port("s1", 1, up=False)
    assert all(world.floods_in(name) == {0, 1, 2} for name in world.switches)
    world.port("s0", 2, up=True)
    world.port("s1", 1, up=True)
    assert sum(3 - len(world.floods_in(name)) for name in world.switches) == 2


def test_a_cable_found_by_discovery_counts_where_none_is_configured() -> None:
    config = ring()
    for switch in config["switches"]:
        for port in switch["ports"]:
            del port["neighbour"]
    world = World(config)
    world.connect_all()
    assert all(world.floods_in(name) == {0, 1, 2} for name in world.switches)
    world.tick()
    world.discover()
    assert sum(3 - len(world.floods_in(name)) for name in world.switches) == 2


@pytest.mark.parametrize("n", [3, 5, 8])
def test_blocked_ends_leave_a_spanning_tree(n: int) -> None:
    links = {((f"s{i}", j), (f"s{j}", i)) for i in range(n) for j in range(i)}
    blocked = blocked_ends(links)
    kept = [link for link in links if link[0] not in blocked and link[1] not in blocked]
    assert len(kept) == n - 1 and len(blocked) == 2 * (len(links) - n + 1)
    reached, new = {"s0"}, True
    while new:
        new = {b[0] for a, b in kept if a[0] in reached} | {a[0] for a, b in kept if b[0] in reached}
        new -= reached
        reached |= new
    assert len(reached) == n
    assert blocked_ends({(b, a) for a, b in links}) == blocked


# ---- what people are told ----
def test_the_time_from_the_connection_to_the_last_rule_is_told_in_milliseconds(world: World) -> None:
    manager = world.manager
    manager.connected(100.0, T, "s0", object(), world.ports("s0"))
    manager.installed(100.5, "s0", set())
    assert manager.summary("s0").programmed_ms is None
    manager.programmed(102.0, T, "s0")
    assert manager.summary("s0").programmed_ms == 2000.0


def test_all_that_is_told_of_a_switch(world: World) -> None:
    world.connect_all()
    world.tick()
    world.discover()
    world.port("s0", 3, up=False)
    world.manager.counted("s0", ports={2: PortCounters(rx_frames=7)})
    told, nobody = world.manager.detail("s0", {"02:aa:00:00:00:01": 2}), PortCounters()
    ends = [End(node="s2", port=1), End(node="s1", port=0), End(node="h0", port=0)]
    assert told.port_list == [
        PortDetail(port=port, number=port + 1, name=f"eth{port + 1}", mac=f"02:00:00:00:00:0{port + 1}", up=port < 2,
                   floods=True, neighbour=end, discovered=end if port < 2 else None,
                   counters=PortCounters(rx_frames=7) if port == 1 else nobody)
        for port, end in enumerate(ends)]
    assert (told.stations, told.drops, told.node) == ({"02:aa:00:00:00:01": 2}, {}, {})
    assert {rule.cookie for rule in told.rule_list} == {f"{c:016x}" for c in world.switches["s0"].cookies()}
    assert world.manager.summary("s0") == Switch(
        name="s0", kind="openflow", id="0000000000000001", connected=True, peer="10.0.0.9:1", connections=1,
        programmed=True, programmed_ms=0.0, ports=3, ports_up=2, rules=len(told.rule_list), rules_bound=4 * 3 + 16,
        msd=3, appliance=Appliance(number=APPLIANCE, present=True, control="/run/s0.sock"), problems=[])
    assert [(note.t_ns, note.level, note.code, note.text) for note in world.manager.notes() if note.switch == "s0"] == [
        (world.t_ns, "info", "connected", "connected from 10.0.0.9:1, 4 ports"),
        (world.t_ns, "info", "programmed", "programmed 0 ms after it connected"),
        (world.t_ns, "warning", "link", "port 2 is down")]


def test_counters_that_are_read_by_themselves_leave_the_others_as_they_were(world: World) -> None:
    world.connect("s0")
    manager = world.manager
    manager.counted("s0", node={"hits": 3}, drops={"ttl": 1})
    manager.counted("s0", ports={1: PortCounters(rx_frames=7)})
    manager.counted("s0", drops={"ttl": 2})
    told = manager.detail("s0")
    assert (told.node, told.drops) == ({"hits": 3}, {"ttl": 2})
    assert next(port.counters.rx_frames for port in told.port_list if port.number == 1) == 7


# ---- the configuration ----
def test_a_p4runtime_switch_is_device_1_where_nothing_else_is_said() -> None:
    one = {"name": "a", "p4runtime": {"address": "x:1"}, "ports": []}
    found, = parse({"switches": [one], "pipeline": {"json": "a", "p4info": "b"}}).switches
    assert found.p4runtime is not None and found.p4runtime.device_id == 1


@pytest.mark.parametrize(("many", "fits"), [(255, False), (256, True), (128 << 10, True), ((128 << 10) + 1, False)])
def test_a_cache_in_a_switch_holds_a_packet_of_256_bytes_and_no_more_than_its_registers(many: int, fits: bool) -> None:
    one = {"name": "a", "p4runtime": {"address": "x:1"}, "cache": "p4", "node": {"bytes_per_tree": many}, "ports": []}
    told = {"switches": [one], "node_pipeline": {"json": "a", "p4info": "b"}}
    if fits:
        assert parse(told).switches[0].node.bytes_per_tree == many
    else:
        with pytest.raises(SwitchError, match="bytes_per_tree"):
            parse(told)


def test_numbers_of_switches_may_be_all_that_their_protocols_allow() -> None:
    ends = [{"port": 0, "number": 1}, {"port": 65534, "number": 0xFFFFFEFF}]
    switches = [{"name": f"o{dpid}", "openflow": {"dpid": dpid}, "ports": ends} for dpid in (1, (1 << 64) - 1)]
    ends = [{"port": 0, "number": 0}, {"port": 65534, "number": 497}]
    switches += [{"name": f"p{n}", "p4runtime": {"address": "x:1", "device_id": n}, "ports": ends}
                 for n in (1, (1 << 64) - 1)]
    found = parse({"switches": switches, "pipeline": {"json": "a", "p4info": "b"}}).switches
    assert [(s.kind, [(p.port, p.number) for p in s.ports]) for s in found] == [
        ("openflow", [(0, 1), (65534, 0xFFFFFEFF)])] * 2 + [("p4runtime", [(0, 0), (65534, 497)])] * 2


@pytest.mark.parametrize(("change", "text"), [
    ({"colour": 1}, "colour"),
    ({"switches": [{"name": "a", "ports": []}]}, "either openflow or p4runtime"),
    ({"switches": [{"name": "a", "openflow": {"dpid": 1}, "p4runtime": {"address": "x:1"}, "ports": []}]},
     "either openflow or p4runtime"),
    *[({"switches": [{"name": "a", "openflow": {"dpid": 1}, "ports": [{"port": port, "number": 1}]}]},
       "is beyond the label range .0 to 65534.") for port in (-1, 65535)],
    *[({"switches": [{"name": "a", "openflow": {"dpid": 1}, "ports": [{"port": 0, "number": number}]}]},
       "outside 1 to 4294967039") for number in (0, 0xFFFFFF00)],
    *[({"switches": [{"name": "a", "openflow": {"dpid": dpid}, "ports": []}]}, "openflow.dpid")
      for dpid in (0, 1 << 64)],
    *[({"switches": [{"name": "a", "p4runtime": {"address": "x:1", "device_id": n}, "ports": []}]},
       "p4runtime.device_id") for n in (0, 1 << 64)],
    ({"switches": [{"name": "a", "openflow": {"dpid": 1},
                    "ports": [{"port": 0, "number": 1}, {"port": 1, "number": 1}]}]}, "used twice"),
    ({"switches": [{"name": name, "openflow": {"dpid": 1}, "ports": []} for name in "ab"]}, "claimed by two"),
    ({"switches": [{"name": "a", "p4runtime": {"address": "x:1"}, "ports": []}]}, "make p4"),
    ({"switches": [{"name": "a", "p4runtime": {"address": "x:1"}, "ports": [{"port": 0, "number": 510}]}],
      "pipeline": {"json": "a", "p4info": "b"}}, "outside 0 to 497"),
    ({"switches": [{"name": "a", "openflow": {"dpid": 1},
                    "ports": [{"port": 0, "number": 1}, {"port": 0, "number": 2}]}]}, "listed twice"),
    ({"switches": [{"name": "a", "openflow": {"dpid": 1}, "cache": "p4", "ports": []}]}, "without an appliance"),
    ({"switches": [{"name": "a", "p4runtime": {"address": "x:1"}, "cache": "p4",
                    "ports": [{"port": 0, "number": 1}]}]}, "one kind of numbers"),
    ({"switches": [{"name": "a", "p4runtime": {"address": "x:1"}, "cache": "p4", "ports": []}]}, "`node_pipeline`"),
    ({"fabric_manager": "10.0.0.1:7500"}, "plain TCP to the fabric manager at 10.0.0.1:7500 is refused"),
])
def test_a_configuration_that_makes_no_sense_names_the_culprit(change: dict[str, Any], text: str) -> None:
    with pytest.raises(SwitchError, match=text) as error:
        parse({**ring(), **change})
    assert error.value.code == "bad_config"
