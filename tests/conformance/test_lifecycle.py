"""Switches and their controller through accidents, on the real thing: kills, restarts, ports and appliances that go.

Each test leaves the data plane as it found it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import scenarios
from conformance_kit import gather
from planes import NODE, PORTS, Bmv2Plane, ControlledPlane, OvsPlane, Plane
from scenarios import adj, data, interest, onward, stack
from waiting import wait_for

from datacast.core.constants import LABEL_LOCAL, REPLICATE_PORTS

pytestmark = [pytest.mark.root, pytest.mark.timeout(180)]


@pytest.fixture
def controlled(plane: Plane) -> ControlledPlane:
    if not isinstance(plane, ControlledPlane):
        pytest.skip(f"{plane.name} has no controller")
    return plane


@pytest.fixture
def ovs(plane: Plane) -> OvsPlane:
    if not isinstance(plane, OvsPlane):
        pytest.skip("only for Open vSwitch")
    return plane


def forwards(plane: Plane, port: int = 1, count: int = 1, patience_s: float = 60.0) -> bool:
    """Do `count` frames for a port arrive there, and nothing elsewhere?"""
    for _ in range(count):
        plane.wires[0].send(bytes(stack(adj(port)) / data()))
    came = gather(plane.wires, count, 0.03, patience_s)
    return {p: len(frames) for p, frames in came.items()} == {port: count}


def restart(plane: ControlledPlane, number: int = signal.SIGKILL) -> None:
    plane.process.stop(number)
    plane.ns.processes.remove(plane.process)
    plane.controller()


@pytest.mark.slow
def test_a_killed_controller_and_a_new_one_disturb_no_frame(controlled: ControlledPlane) -> None:
    assert forwards(controlled)

    def counted() -> list[tuple[str, int]]:
        return sorted((r["purpose"], r.get("packets") or 0) for r in controlled.switch()["rule_list"])

    before = counted()
    controlled.process.stop(signal.SIGKILL)
    controlled.ns.processes.remove(controlled.process)
    assert all(forwards(controlled, port) for port in range(1, PORTS)), "without a controller"
    controlled.controller()
    assert all(forwards(controlled, port) for port in range(1, PORTS))

    def went_on() -> bool:
        after = counted()
        same = [rule for rule, _ in after] == [rule for rule, _ in before]
        return same and all(now >= then for (_, now), (_, then) in zip(after, before, strict=True))

    wait_for("every rule's counter to be where it was or above: no rule was made anew", went_on)
    after = controlled.switch()
    if isinstance(controlled, Bmv2Plane):
        assert after["pipeline"]["pushed"] is False


def test_frames_flow_while_the_controller_restarts(controlled: ControlledPlane) -> None:
    sent = 0
    controlled.process.stop(signal.SIGKILL)
    controlled.ns.processes.remove(controlled.process)
    ready = threading.Event()

    def start() -> None:
        controlled.controller()
        ready.set()

    thread = threading.Thread(target=start)
    thread.start()
    got = 0
    while thread.is_alive() or sent < 100:
        controlled.wires[0].send(bytes(stack(adj(2)) / data(seq=sent)))
        sent += 1
        time.sleep(0.005)  # 200 frames a second: far below what any of the switches carries
        while controlled.wires[2].read() is not None:
            got += 1
    assert ready.is_set()
    got += sum(len(frames) for frames in gather(controlled.wires, sent - got, 0.1).values())
    assert got == sent


@pytest.mark.parametrize("groups", [1, 10, 100])
def test_rules_do_not_grow_with_groups(controlled: ControlledPlane, groups: int) -> None:
    """Two trees per group, interests from two receivers each: the appliance knows them, the switch does not."""
    if controlled.alone and groups > 10:
        pytest.skip("only for nodes with room for 200 trees: a node in P4 has 128 places (p4src/README.md)")
    base = 10_000 + groups * 1000
    before, asked = controlled.switch(), set()
    for tree in range(base, base + 2 * groups):
        controlled.wires[1].send(interest(tree, 0, 1))
        controlled.wires[2].send(interest(tree, 0, 2))
        wanted = onward(tree, 0)[12:]
        while True:  # an earlier tree's may be asked for once more where all this takes long
            came = gather(controlled.wires, 1, 0.0)
            assert list(came) == [0]
            frames = {frame[12:] for frame in came[0]}
            assert frames <= asked | {wanted}
            if wanted in frames:
                asked.add(wanted)
                break
    after = controlled.switch()
    print(f"{controlled.name}: {after['rules']} rules with {groups} groups")
    assert after["rules"] == before["rules"] <= after["rules_bound"]
    assert after["rules_bound"] == (2 * PORTS + 12 if controlled.alone else 4 * PORTS + 16)

    def local(switch: dict[str, Any]) -> int:
        own = ("local", "segment 1000", "service 1000")
        return next(r["packets"] for r in switch["rule_list"] if r["purpose"] in own)

    # Statistics lag behind: frames from before this test may be counted only now.
    wait_for("the counter of LOCAL", lambda: local(controlled.switch()) - local(before) >= 4 * groups)


def test_counters_tell_what_was_dropped_and_why(controlled: ControlledPlane) -> None:
    before = controlled.switch()["drops"]
    for frame in (stack(17) / data(), stack(adj(PORTS)) / data(), stack(1000, adj(1)) / data(), stack() / data()):
        controlled.wires[0].send(bytes(frame))
    assert gather(controlled.wires, 0, 0.1, 1.0) == {}
    expected = {"label": 1, "port": 1, "stack": 1, "no_endpoint": 1}

    def grown() -> dict[str, int]:
        after = controlled.switch()["drops"]
        return {reason: n - before.get(reason, 0) for reason, n in after.items() if n != before.get(reason, 0)}

    # A switch's statistics come rule by rule: one may be newer than another.
    wait_for("all four counters", lambda: sum(grown().values()) >= 4)
    assert grown() == expected


def test_port_counters_count_both_ways(controlled: ControlledPlane) -> None:
    def counters() -> dict[int, dict[str, int]]:
        return {p["port"]: p["counters"] for p in controlled.switch()["port_list"]}

    before = counters()
    assert forwards(controlled, 6, 20)
    wait_for("the counters", lambda: counters()[6]["tx_frames"] - before[6]["tx_frames"] >= 20
             and counters()[0]["rx_frames"] - before[0]["rx_frames"] >= 20)


def test_an_appliance_that_hangs_behind_a_live_port_is_missed(controlled: ControlledPlane) -> None:
    if controlled.alone:
        pytest.skip("only for switches with an appliance")
    controlled.beside.popen.send_signal(signal.SIGSTOP)
    try:
        wait_for("the loss", lambda: not controlled.switch()["appliance"]["present"])
        assert any("does not answer: this switch only forwards" in p for p in controlled.switch()["problems"])
        assert forwards(controlled)
    finally:
        controlled.beside.popen.send_signal(signal.SIGCONT)
    wait_for("its return", lambda: controlled.switch()["appliance"]["present"])
    assert controlled.switch()["problems"] == []


def test_many_children_cost_an_appliance_one_frame(controlled: ControlledPlane) -> None:
    """Its link to the switch carries a packet once, however many wait for it: the switch copies (REPLICATE)."""
    if controlled.alone:
        pytest.skip("only for switches with an appliance")
    wait_for("the appliance to know", lambda: controlled.node()["copies"] == REPLICATE_PORTS)
    children, tree, payload = range(1, PORTS), 88_001, scenarios.some(4000)

    def sent() -> int:
        path = "/sys/class/net/aq/statistics/tx_bytes"
        return int(controlled.ns.command("cat", path))

    for child in children:
        controlled.wires[child].send(interest(tree, 3, child))
    assert list(gather(controlled.wires, 1, 0.03)) == [0]
    wait_for("all to wait", lambda: controlled.trees()[tree]["interests"] == len(children))
    before = sent()
    controlled.wires[0].send(bytes(stack(LABEL_LOCAL) / data(tree, 3, payload)))
    came = gather(controlled.wires[1:], len(children), 0.05)  # where children were slow to ask, the node asked again
    assert [len(came.get(child - 1, ())) for child in children] == [1] * len(children)
    for frames in came.values():
        assert frames[0].endswith(payload)
    assert len(payload) < sent() - before < 2 * len(payload)
    assert controlled.trees()[tree]["replicated"] == len(children)


# ---- P4Runtime only ----
@pytest.fixture
def bmv2(plane: Plane) -> Bmv2Plane:
    if not isinstance(plane, Bmv2Plane):
        pytest.skip("only for P4 switches")
    return plane


@pytest.mark.slow
def test_of_two_controllers_of_a_p4_switch_the_other_follows_one_that_hangs_and_that_one_waits_when_it_wakes(
    bmv2: Bmv2Plane,
) -> None:
    second, rest = bmv2.start_controller("second", bmv2.settings())
    try:

        def leads(socket: Path | None = None) -> bool:
            return bmv2.get(f"/switches/{NODE}", socket)["programmed"]

        wait_for("the later one leads", lambda: leads(rest) and not leads())
        time.sleep(6.0)  # longer than a lease
        assert leads(rest) and not leads() and forwards(bmv2)
        os.kill(second.popen.pid, signal.SIGSTOP)
        began = time.monotonic()
        wait_for("the first one leads", leads)
        print(f"followed after {time.monotonic() - began:.1f} s")
        assert forwards(bmv2)
        os.kill(second.popen.pid, signal.SIGCONT)
        wait_for("the later one waits", lambda: not leads(rest))
        time.sleep(6.0)
        assert leads() and not leads(rest) and forwards(bmv2)
    finally:
        second.stop(signal.SIGKILL)
        bmv2.ns.processes.remove(second)
        wait_for("programming", lambda: bmv2.switch()["programmed"])


@pytest.mark.slow
def test_a_p4_switch_that_hangs_is_lost_until_it_goes_on(bmv2: Bmv2Plane) -> None:
    os.kill(bmv2.bmv2.popen.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        wait_for("its loss", lambda: not bmv2.get("/switches")["switches"][0]["connected"])
        print(f"lost after {time.monotonic() - began:.1f} s")
    finally:
        os.kill(bmv2.bmv2.popen.pid, signal.SIGCONT)
    wait_for("programming", lambda: bmv2.switch()["programmed"])
    assert forwards(bmv2)


# ---- Open vSwitch only ----
def vsctl(ovs: OvsPlane, *command: str) -> None:
    ovs.ns.command("ovs-vsctl", f"--db=unix:{ovs.ovs.socket}", "--no-wait", *command)


def test_frames_that_come_one_by_one_all_pass_and_what_each_costs(ovs: OvsPlane) -> None:
    def spent() -> tuple[int, int]:
        fields = Path(f"/proc/{ovs.vswitchd.popen.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]), int(fields[12])

    frames, tick_us = 1000, 1e6 / os.sysconf("SC_CLK_TCK")
    before = spent()
    came = 0
    for seq in range(frames):
        ovs.wires[0].send(bytes(stack(adj(1)) / data(seq=seq)))
        came += len(gather([ovs.wires[1]], 1, 0.0)[0])
    user, system = ((b - a) * tick_us / frames for a, b in zip(before, spent(), strict=True))
    print(f"Open vSwitch, {PORTS + 1} ports: {user:.0f} us user, {system:.0f} us system per frame")
    assert came == frames


def test_of_two_controllers_one_leads_and_the_other_goes_on_when_it_is_killed(ovs: OvsPlane) -> None:
    """Also one that stood still for so long that another one leads: it waits when it wakes."""
    second, rest = ovs.start_controller("second", {"openflow_listen": "127.0.0.1:6654"})
    try:
        vsctl(ovs, "set-controller", NODE, "tcp:127.0.0.1:6653", "tcp:127.0.0.1:6654")

        def leads(socket: Path | None = None) -> bool:
            return ovs.get(f"/switches/{NODE}", socket)["programmed"]

        time.sleep(3.5)  # longer than a lease
        assert leads() and not leads(rest) and forwards(ovs)
        cookies = {r["cookie"]: r.get("packets") or 0 for r in ovs.switch()["rule_list"]}

        os.kill(ovs.process.popen.pid, signal.SIGSTOP)
        wait_for("the other leads", lambda: leads(rest))
        assert forwards(ovs)
        os.kill(ovs.process.popen.pid, signal.SIGCONT)
        wait_for("the first one waits", lambda: not leads() and ovs.notes("role"))
        assert leads(rest) and forwards(ovs)

        second.stop(signal.SIGKILL)
        began = time.monotonic()
        wait_for("the first one leads again", leads)
        print(f"take-over after {time.monotonic() - began:.1f} s")
        assert not ovs.switch()["problems"]
        told = ovs.switch()["rule_list"]
        assert {r["cookie"] for r in told} == set(cookies), "rules that are right stay"
        assert all((r.get("packets") or 0) >= cookies[r["cookie"]] for r in told), "with their counters"
        assert forwards(ovs)
    finally:
        second.stop(signal.SIGKILL)
        ovs.ns.processes.remove(second)
        vsctl(ovs, "set-controller", NODE, "tcp:127.0.0.1:6653")
        wait_for("programming", lambda: ovs.switch()["programmed"])


def test_a_switch_of_another_openflow_version_is_turned_away_with_the_remedy(ovs: OvsPlane) -> None:
    vsctl(ovs, "set", "bridge", NODE, "protocols=OpenFlow10")
    told = wait_for("the note", lambda: ovs.notes("wrong_version"))
    assert "set the switch's protocols to OpenFlow13" in told[-1]
    vsctl(ovs, "set", "bridge", NODE, "protocols=OpenFlow13")
    wait_for("programming", lambda: ovs.switch()["programmed"])
    assert forwards(ovs)


@pytest.mark.parametrize(("dpid", "code", "text"), [
    (0xDC, "claimed_twice", "which is connected from"), (0xDD, "unknown_dpid", "00000000000000dd")])
def test_a_switch_under_a_wrong_datapath_id_is_turned_away(ovs: OvsPlane, dpid: int, code: str, text: str) -> None:
    vsctl(ovs, "add-br", "twin", "--", "set", "bridge", "twin", "datapath_type=netdev", "fail_mode=secure",
          "protocols=OpenFlow13", f"other_config:datapath-id={dpid:016x}", "other_config:disable-in-band=true",
          "--", "set-controller", "twin", "tcp:127.0.0.1:6653")
    try:
        assert text in wait_for("the note", lambda: ovs.notes(code))[-1]
        assert ovs.switch()["programmed"], ovs.process.log[-3000:]
        assert wait_for("forwarding", lambda: forwards(ovs, patience_s=2.0))
    finally:
        vsctl(ovs, "del-br", "twin")


def test_a_restarted_switch_gets_its_rules_again(ovs: OvsPlane) -> None:
    ovs.vswitchd.stop(signal.SIGKILL)
    ovs.ns.processes.remove(ovs.vswitchd)
    wait_for("the loss", lambda: not ovs.switch()["connected"])
    ovs.vswitchd = ovs.ns.start("ovs-vswitchd", ovs.ovs.switch_command(), ovs.folder, ovs.ovs.environment)
    wait_for("programming", lambda: ovs.switch()["programmed"])
    wait_for("the ports", lambda: ovs.switch()["ports_up"] == PORTS)
    assert wait_for("forwarding", lambda: forwards(ovs, patience_s=2.0))


def test_an_appliance_that_goes_and_comes_back(ovs: OvsPlane) -> None:
    ovs.ns.command("ip", "link", "set", "aq", "down")
    wait_for("the loss", lambda: not ovs.switch()["appliance"]["present"])
    assert any("only forwards" in p for p in ovs.switch()["problems"])
    assert forwards(ovs), "it still forwards"
    ovs.ns.command("ip", "link", "set", "aq", "up")
    wait_for("its return", lambda: ovs.switch()["appliance"]["present"])
    assert ovs.switch()["problems"] == []
    scenario = scenarios.node_scenarios(lambda: 77_777)[0]

    def works() -> bool:
        step = scenario.steps[0]
        ovs.wires[step.send[0][0]].send(step.send[0][1])
        return list(gather(ovs.wires, 1, 0.03, 0.5)) == [0]

    wait_for("the appliance to answer", works)


def test_a_port_that_goes_down_is_seen(ovs: OvsPlane) -> None:
    ovs.ns.command("ip", "link", "set", "w7", "down")
    wait_for("the port", lambda: not ovs.switch()["port_list"][7]["up"])
    ovs.ns.command("ip", "link", "set", "w7", "up")
    wait_for("the port", lambda: ovs.switch()["port_list"][7]["up"])
    assert forwards(ovs, 7)


# ---- bmv2 only ----
def test_a_restarted_bmv2_gets_its_pipeline_and_entries_again(plane: Plane) -> None:
    if not isinstance(plane, Bmv2Plane):
        pytest.skip("only for bmv2")
    plane.bmv2.stop(signal.SIGKILL)
    plane.ns.processes.remove(plane.bmv2)
    wait_for("the loss", lambda: not plane.switch()["connected"])
    plane.bmv2 = plane.ns.start("bmv2", plane.command(), plane.folder)
    begun = time.monotonic()
    wait_for("programming", lambda: plane.switch()["programmed"])
    took = f"{plane.switch()['programmed_ms']} ms after connecting, {time.monotonic() - begun:.2f} s after it started"
    print(f"{plane.name}: {plane.switch()['rules']} rules, programmed {took}")
    assert plane.switch()["pipeline"]["pushed"] is True
    assert wait_for("forwarding", lambda: forwards(plane, patience_s=2.0))


def test_a_second_p4runtime_controller_takes_over_and_the_first_says_so(plane: Plane) -> None:
    if not isinstance(plane, Bmv2Plane):
        pytest.skip("only for bmv2")
    import socket
    import threading

    from datacast.controller.p4runtime.entries import Write
    from datacast.controller.p4runtime.shim import Connection, Info, new_election
    from datacast.controller.southbound.config import Pipeline, parse
    from datacast.core.constants import P4_GROUP_FLOOD

    switch = parse({"switches": [{"name": NODE, "p4runtime": {"address": "127.0.0.1:9559"},
                                  "ports": [{"port": 0, "number": 0}], **plane.cache()}],
                    **plane.settings()}).switches[0]
    told: list[str] = []

    class Ear:
        def __getattr__(self, name: str):
            return lambda *args, **kwargs: told.append(name)

    def take_over() -> Connection:
        """gRPC's threads stay in the namespace they are born in: reach the switch through a relay."""
        server = socket.create_server(("127.0.0.1", 0))

        def relay() -> None:
            near, _ = server.accept()
            far = plane.ns.inside(lambda: socket.create_connection(("127.0.0.1", 9559)))

            def pump(a: socket.socket, b: socket.socket) -> None:
                try:
                    while part := a.recv(65536):
                        b.sendall(part)
                    b.shutdown(socket.SHUT_WR)
                except OSError:
                    pass

            threading.Thread(target=pump, args=(far, near), daemon=True).start()
            pump(near, far)

        threading.Thread(target=relay, daemon=True).start()
        there = switch.model_copy(update={"p4runtime": switch.p4runtime.model_copy(
            update={"address": f"127.0.0.1:{server.getsockname()[1]}"})})
        info = Info(Pipeline(**next(iter(plane.settings().values()))), node=plane.alone)
        return Connection(there, info, Ear(), new_election())

    other = take_over()
    assert other.open() is False, "the pipeline is there already"
    wait_for("the note", lambda: "arbitration lost" in plane.process.log)
    assert forwards(plane), "frames flow on"
    wait_for("the first controller's second try", lambda: "another controller drives" in plane.process.log)
    have, _ = other.installed()
    other.send([Write("modify", have.copies[(False, P4_GROUP_FLOOD)])])  # only the primary may write
    other.close()
    wait_for("the first controller's return", lambda: plane.switch()["programmed"])
