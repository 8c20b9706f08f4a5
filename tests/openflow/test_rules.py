"""The rules, evaluated on frames by a fake switch; their number; what changes when something changes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from fake_switch import FakeSwitch
from scapy.layers.l2 import ARP, Ether

from datacast.controller.openflow import language, rules
from datacast.controller.openflow.messages import FlowAdd, FlowDelete
from datacast.controller.southbound.config import parse
from datacast.controller.southbound.desired import Desired, desired
from datacast.core.constants import LABEL_REPLICATE
from datacast.core.scapy_layer import Datacast, stack

APPLIANCE = 1000


def _scenarios():
    """The conformance table: the fake switch must do what the real ones do."""
    path = Path(__file__).resolve().parents[1] / "conformance" / "scenarios.py"
    spec = importlib.util.spec_from_file_location("conformance_scenarios", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["conformance_scenarios"] = module
    spec.loader.exec_module(module)
    return module


SCENARIOS = _scenarios()


def config(ports: int, appliance: bool = True):
    switch = {"name": "s0", "openflow": {"dpid": 1}, "ports": [{"port": p, "number": p + 1} for p in range(ports)]}
    if appliance:
        switch["appliance"] = {"number": APPLIANCE}
    return parse({"switches": [switch]}).switches[0]


def wanted(ports: int = 8, *, appliance: bool = True, blocked: tuple[int, ...] = ()) -> Desired:
    present = [*range(1, ports + 1), *([APPLIANCE] if appliance else [])]
    return desired(config(ports), {n: f"02:00:00:00:00:{n:02x}" for n in present}, present, blocked, appliance)


def programmed(want: Desired, ports: int = 8) -> FakeSwitch:
    switch = FakeSwitch({*range(1, ports + 1), APPLIANCE})
    for message in rules.changes(want, ()):
        switch.tell(message)
    return switch


def plain(frames):
    """(port, frame without addresses)"""
    return [(port, frame[12:]) for port, frame in frames]


@pytest.mark.parametrize("scenario", [s for s in SCENARIOS.label_scenarios() if not s.below and s.depth <= 3],
                         ids=lambda s: s.name.replace(" ", "-"))
def test_the_conformance_table_on_the_fake_switch(scenario) -> None:
    switch = programmed(wanted())
    for step in scenario.steps:
        for port, frame in step.send:
            assert plain(switch.receive(port + 1, frame)) == plain([(p + 1, f) for p, f in step.expect])


def test_local_goes_to_the_appliance_without_its_label() -> None:
    frame = bytes(stack(1000) / Datacast(type="interest", tree=1, seq=2))
    (port, out), = programmed(wanted()).receive(3, frame)
    assert port == APPLIANCE and out[12:14] == b"\x88\xb5" and out[14:] == frame[18:]


def test_what_the_appliance_sends_goes_where_its_label_says_and_nothing_else_does() -> None:
    switch = programmed(wanted())
    frame = bytes(stack(1025, 1000) / Datacast(type="data"))
    assert [port for port, _ in switch.receive(APPLIANCE, frame)] == [2]
    assert switch.receive(APPLIANCE, bytes(Ether(dst="ff:ff:ff:ff:ff:ff") / ARP())) == []
    assert switch.receive(APPLIANCE, bytes(stack() / Datacast(type="data"))) == []


def test_without_an_appliance_local_is_dropped_and_counted() -> None:
    switch = programmed(wanted(appliance=False))
    assert switch.receive(1, bytes(stack(1000) / Datacast(type="data"))) == []
    reason = {r.cookie: r.purpose for r in rules.rules(wanted(appliance=False))}
    assert [reason[cookie] for cookie in switch.packets] == ["drop no_endpoint"]


def test_drop_reasons() -> None:
    switch, want = programmed(wanted()), wanted()
    reason = {r.cookie: r.purpose for r in rules.rules(want)}
    for label, expected in ((0, "label"), (999, "label"), (1023, "label"), (1024 + 8, "port"), (66558, "port")):
        switch.packets.clear()
        assert switch.receive(1, bytes(stack(label) / Datacast(type="data"))) == []
        assert [reason[c] for c in switch.packets][-1] == f"drop {expected}", label


def test_what_several_rules_refused_for_one_reason_is_added_up() -> None:
    want = wanted()
    refusing = [rule for rule in rules.rules(want) if rule.purpose.startswith("drop ")]
    counters = {rule.cookie: {"packets": 10 ** at} for at, rule in enumerate(refusing)}
    sums = {rule.purpose.removeprefix("drop "): 0 for rule in refusing}
    for at, rule in enumerate(refusing):
        sums[rule.purpose.removeprefix("drop ")] += 10 ** at
    assert language.drops(want, counters) == sums and sums["label"] not in counters.values()
    assert language.drops(want, {}) == dict.fromkeys(sums, 0)


def test_ethernet_is_forwarded_as_ever_and_lldp_is_the_controllers() -> None:
    switch = programmed(wanted())
    assert switch.receive(1, bytes(Ether() / ARP()))[0][0] == "normal"
    assert switch.receive(1, bytes(Ether(type=0x88CC)))[0][0] == "controller"


def test_a_port_that_closes_a_loop_lets_no_ethernet_in_but_datacast_and_discovery() -> None:
    switch = programmed(wanted(blocked=(2,)))
    assert switch.receive(2, bytes(Ether() / ARP())) == []
    assert switch.receive(1, bytes(Ether() / ARP()))[0][0] == "normal"
    assert switch.receive(2, bytes(Ether(type=0x88CC)))[0][0] == "controller"
    assert [p for p, _ in switch.receive(2, bytes(stack(1024) / Datacast(type="data")))] == [1]
    assert [p for p, _ in switch.receive(1, bytes(stack(1025) / Datacast(type="data")))] == [2]


def test_a_switch_that_bridges_nothing_lets_no_ethernet_in_but_datacast_and_discovery() -> None:
    told = {"name": "s0", "openflow": {"dpid": 1}, "ports": [{"port": p, "number": p + 1} for p in range(4)]}
    want = desired(parse({"switches": [{**told, "bridges": False}]}).switches[0], {}, range(1, 5), (), False)
    switch = programmed(want, 4)
    assert all(switch.receive(port, bytes(Ether() / ARP())) == [] for port in range(1, 5))
    assert switch.receive(2, bytes(Ether(type=0x88CC)))[0][0] == "controller"
    assert [p for p, _ in switch.receive(2, bytes(stack(1024) / Datacast(type="data")))] == [1]


def test_addresses_are_those_of_the_next_link() -> None:
    switch = config(2)
    text = switch.model_dump(exclude_none=True)
    for port in text["ports"]:
        port["neighbour"] = {"node": "h", "port": 0, "mac": "02:dc:00:00:00:99"}
    macs = {1: "02:00:00:00:00:01", 2: "02:00:00:00:00:02"}
    want = desired(parse({"switches": [text]}).switches[0], macs, (1, 2), (), appliance=True)
    (port, frame), = programmed(want).receive(1, bytes(stack(1025) / Datacast(type="data")))
    assert port == 2 and frame[:12].hex() == "02dc00000099" + "020000000002"


@pytest.mark.parametrize("ports", [1, 4, 16, 64, 255])
@pytest.mark.parametrize("groups", [1, 10, 100])
def test_the_number_of_rules_is_bounded_whatever_the_number_of_groups(ports: int, groups: int) -> None:
    """Worst case: every port closes a loop. Four trees per group send through, and no rule is added or asked for."""
    want = wanted(ports, blocked=tuple(range(1, ports + 1)))
    switch = FakeSwitch({*range(1, ports + 1), APPLIANCE})
    for message in rules.changes(want, ()):
        switch.tell(message)
    before = switch.cookies()
    for tree in range(4 * groups):
        frame = bytes(stack(1024 + tree % ports, 1000) / Datacast(type="data", tree=tree))
        assert [port for port, _ in switch.receive(APPLIANCE, frame)] == [tree % ports + 1]
        assert switch.receive(tree % ports + 1, frame) == []  # never out of the port it came in by
        local = bytes(stack(1000) / Datacast(type="interest", tree=tree))
        assert [port for port, _ in switch.receive(1, local)] == [APPLIANCE]
    assert switch.cookies() == before and len(switch.rules) <= config(ports).rules_bound
    assert config(ports).rules_bound == 4 * ports + 16


@pytest.mark.parametrize("ports", [1, 8, 16])
def test_without_copies_there_are_two_rules_per_port(ports: int) -> None:
    text = config(ports).model_dump(exclude_none=True)
    text["appliance"]["replicate"] = False
    switch = parse({"switches": [text]}).switches[0]
    want = desired(switch, {}, (*range(1, ports + 1), APPLIANCE), range(1, ports + 1), appliance=True)
    programmed_one = programmed(want)
    assert len(programmed_one.rules) <= switch.rules_bound == 2 * ports + 12
    assert programmed_one.receive(APPLIANCE, bytes(stack(LABEL_REPLICATE | 3) / Datacast(type="data"))) == []


@pytest.mark.parametrize("bits", [(0,), (3, 5), (0, 7), tuple(range(8))])
def test_the_appliance_has_one_frame_copied_to_every_port_of_a_bitmap(bits: tuple[int, ...]) -> None:
    text = config(8).model_dump(exclude_none=True)
    for port in text["ports"]:
        port["neighbour"] = {"node": f"h{port['port']}", "port": 0, "mac": f"02:dc:00:00:01:{port['port']:02x}"}
    switch = parse({"switches": [text]}).switches[0]
    want = desired(switch, {n: f"02:00:00:00:00:{n:02x}" for n in range(1, 9)}, (*range(1, 9), APPLIANCE), (),
                   appliance=True)
    label = LABEL_REPLICATE | sum(1 << bit for bit in bits)
    for below in ((), (1000,)):
        frame = bytes(stack(label, *below) / Datacast(type="data", tree=9))
        came = programmed(want).receive(APPLIANCE, frame)
        assert came == [(bit + 1, bytes.fromhex(f"02dc000001{bit:02x}0200000000{bit + 1:02x}")
                         + bytes(stack(*below) / Datacast(type="data", tree=9))[12:]) for bit in bits]
        assert programmed(want).receive(2, frame) == []  # from elsewhere it would make one frame many


def test_nothing_changes_for_a_switch_that_has_everything() -> None:
    switch = programmed(wanted())
    assert rules.changes(wanted(), switch.cookies()) == []


def test_after_a_change_only_the_difference_is_sent_new_rules_first() -> None:
    switch = programmed(wanted())
    messages = rules.changes(wanted(appliance=False), switch.cookies())
    assert all(isinstance(m, FlowAdd) for m in messages[:1]) and isinstance(messages[-1], FlowDelete)
    gone = [m for m in messages if isinstance(m, FlowDelete)]
    assert len(gone) <= 2 + 2 * 8 + 2 and len(messages) - len(gone) < 4  # LOCAL's, and all of REPLICATE's
    for message in messages:
        switch.tell(message)
    assert switch.cookies() == {r.cookie for r in rules.rules(wanted(appliance=False))}


def test_stale_rules_of_ours_go_and_strangers_stay() -> None:
    switch = programmed(wanted())
    ours = rules.COOKIE << 32 | 12345
    switch.tell(FlowAdd(0, 999, (("in_port", 1),), (), ours))
    switch.tell(FlowAdd(0, 1, (("in_port", 2),), (), 0x77))
    messages = rules.changes(wanted(), switch.cookies())
    assert messages == [FlowDelete(ours)]


def test_cookies_differ_and_are_ours() -> None:
    found = [r.cookie for r in rules.rules(wanted(255))]
    assert len(set(found)) == len(found) and all(rules.is_ours(c) for c in found)
