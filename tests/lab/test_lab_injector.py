"""What the injector refuses, gives back and lives through, without a lab."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from waiting import wait_for

from datacast import topologies
from datacast.lab import ovs
from datacast.lab.credentials import Credentials
from datacast.lab.dataplane import data_plane
from datacast.lab.errors import LabError
from datacast.lab.fabric_events import FabricEvents
from datacast.lab.faults import Fault, parse_fault, parse_faults
from datacast.lab.injector import Injector
from datacast.lab.lab import LabOptions
from datacast.lab.plan import make_plan
from datacast.lab.processes import Process, may_be_realtime

GRAPH = topologies.parse("bcube:4,1")


def planned(dataplane: str = "dpdk", **options):
    """A lab as far as its plan goes."""
    made = LabOptions(dataplane=dataplane, **options)
    plane = data_plane(dataplane)
    plan = make_plan(GRAPH, rate_bps=10**8, mtu=9000, apart=made.apart, ports_per_process=plane.ports_per_machine)
    return SimpleNamespace(options=made, plan=plan, plane=plane, graph=GRAPH, run_folder=Path("/nowhere"))


@pytest.mark.parametrize(
    ("spec", "dataplane", "said"),
    [
        ("fill disk 21 at 1s", "dpdk", "21 has no disk of its own"),
        ("agent 21 disk 1mbyte at 1s", "dpdk", "21 has no disk of its own"),
        ("kill switch s0.1 at 1s", "dpdk", "s0.0, s0.2, s0.3, s1.0 and 3 more would go with it"),
        ("upgrade switch s0.1 at 1s", "dpdk", "would go with it"),
        ("kill appliance s0.1 at 1s", "ovs", "would go with it"),
        ("kill appliance s0.1 at 1s", "ovs+dpdk", "s0.1 has no cache appliance"),
    ],
)
def test_a_lab_that_was_not_made_for_a_fault_is_spared_it(spec, dataplane, said):
    """As a Mininet script's: its hosts' files are in the machine's memory, which a full disk would be."""
    with pytest.raises(LabError, match=said), Injector(planned(dataplane), parse_faults([spec], GRAPH, dataplane)):
        pass


@pytest.mark.parametrize(
    ("spec", "dataplane", "options"),
    [
        ("fill disk 21 at 1s", "dpdk", {"disks": (("21", 1 << 20),)}),
        ("agent 21 disk 1mbyte at 1s", "dpdk", {"slow_disks": (("21", 1 << 20),)}),
        ("kill switch s0.1 at 1s", "dpdk", {"apart": ("s0.1",)}),
        ("kill switch s0.1 at 1s", "bmv2", {}),
        ("kill appliance s0.1 at 1s", "ovs", {"appliances_apart": ("s0.1",)}),
        ("kill appliance s0.1 at 1s", "bmv2", {"appliances_apart": ("s0.1",), "without_appliance": ("s0.0",)}),
    ],
)
def test_a_lab_that_was_made_for_it_is_not(spec, dataplane, options):
    injector = Injector(planned(dataplane, **options), (parse_fault(spec, GRAPH),))
    injector.events.start = lambda: None
    with injector:
        pass


@pytest.mark.parametrize(
    ("spec", "dataplane", "nodes"),
    [
        ("kill switch s0.1 at 1s, restart at 2s", "dpdk", ["s0.1"]),
        ("upgrade switch s0.1 at 1s", "dpdk", ["s0.1"]),
        ("kill switch s0.1 at 1s, restart at 2s", "bmv2", []),  # its interfaces are counted, and stay
        ("kill agent 21 at 1s, restart at 2s", "bmv2", ["21"]),
        ("stop agent 21 for 1s at 1s", "dpdk", []),
        ("power loss at 1s", "dpdk", list(GRAPH)),
    ],
)
def test_who_counts_from_zero_again_is_named_once_it_was_hit(spec, dataplane, nodes):
    """What it had sent before is in nobody's counters any more."""
    injector = Injector(planned(dataplane), (parse_fault(spec, GRAPH),))
    assert injector.began_anew() == []
    injector.failed_ns[0] = 1
    assert injector.began_anew() == nodes


def test_a_bound_is_told_when_a_busy_machine_came_to_a_fault():
    """Whoever had the link for longer than was planned would be faster than the bound."""
    went: list[float] = []

    def slow(fault: Fault, up: bool) -> None:
        went.append(time.monotonic() - started)
        time.sleep(0.02)
        went.append(time.monotonic() - started)

    specs = [
        "link s0.0:1 down at 1ms, up at 2ms",
        "link s0.1:1 up at 3ms",
        "link s0.2:1 down at 3600s, up at 7200s",
    ]
    lab = planned()
    lab.supervisor = SimpleNamespace(processes=[])
    injector = Injector(lab, parse_faults(specs, GRAPH, "dpdk"))
    injector.events.start = injector._prepared = injector.interfaces.prepare = lambda *_: None
    injector._pid, injector._set_link = lambda _: 0, slow
    with injector:
        started = time.monotonic()
        injector.go("g-1", started)
        wait_for("three of the four to be done", lambda: len(injector._took) == 3)
    cut, restored, far = injector.as_done()
    assert went[1] <= cut.at_s and cut.end_s <= went[2], "gone once it is done, back from the beginning on"
    assert went[3] <= restored.at_s <= went[4] and restored.end_s is None
    assert (far.at_s, far.end_s) == (3600.0, 7200.0), "as planned, what has not come yet"


def test_what_can_be_undone_is_undone_though_something_else_cannot():
    """It stayed, and the lab was not whole for the next transfer."""
    specs = ["link s0.0:1 down at 1ms", "link s0.1:1 down at 2ms"]
    injector = Injector(planned(), parse_faults(specs, GRAPH, "dpdk"))
    undone, injector.failed_ns = [], {0: 1, 1: 1}

    def set_link(fault: Fault, up: bool) -> None:
        if fault is injector.faults[0]:
            raise LabError("its namespace is gone")
        undone.append((fault.spec, up))

    injector._set_link = set_link
    with pytest.raises(LabError, match="its namespace is gone"):
        injector.mend()
    assert undone == [(injector.faults[1].spec, True)]


@pytest.mark.root
def test_an_agent_that_was_slow_goes_before_others_again(tmp_path):
    if not may_be_realtime():
        pytest.skip("nobody is real-time here")
    popen = subprocess.Popen(["sleep", "60"])
    try:
        process = Process("agent-21", popen, tmp_path / "log")
        lab = SimpleNamespace(options=LabOptions(), supervisor=SimpleNamespace(processes=[process]))
        injector = Injector(lab, (fault := parse_fault("agent 21 cpu 10% at 1s, back at 2s", GRAPH),))
        injector._limits["cpu", "21"] = SimpleNamespace(lift=lambda: None)
        injector._end_fault(fault)
        assert os.sched_getscheduler(popen.pid) & ~os.SCHED_RESET_ON_FORK == os.SCHED_RR
    finally:
        popen.kill()
        popen.wait()


class Dying:
    """A service that is killed in the middle of each answer."""

    def __init__(self, answer: bytes) -> None:
        self.asked = 0
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with sock:
                sock.recv(1 << 16)
                self.asked += 1
                sock.sendall(self._answer)

    def close(self) -> None:
        self._listener.close()


def test_a_controller_that_is_killed_in_the_middle_of_an_answer_is_one_that_does_not_answer(tmp_path):
    service = Dying(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")
    try:
        with pytest.raises(OSError, match="IncompleteRead"):
            Credentials(None, [], tmp_path / "tokens.json").json("GET", service.url + "/groups/g")
    finally:
        service.close()


def test_the_fabric_manager_s_events_go_on_after_it_was_killed_in_the_middle_of_a_line(tmp_path):
    service = Dying(b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n40\r\n{"ev')
    events = FabricEvents(SimpleNamespace(fabric_url=service.url, credentials=Credentials(None, [], tmp_path / "t")))
    events.start()
    try:
        until = 200
        while service.asked < 2 and (until := until - 1):
            events._thread.join(0.05)
            assert events._thread.is_alive(), "nobody listens any more"
        assert service.asked >= 2
    finally:
        events.stop()
        service.close()


def test_an_open_vswitch_that_does_not_answer_is_told(tmp_path, monkeypatch):
    (tmp_path / "ovs-vsctl").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "ovs-vsctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(ovs, "ANSWER_S", 0.2)
    with pytest.raises(LabError, match=r"ovs-vsctl: no answer within 0\.2 s"):
        ovs.OpenVSwitch(tmp_path).attached([])
