"""Carries faults out beside a transfer, mends what has no end of its own, and tells what came of each."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from datacast.core.errors import DatacastError
from datacast.core.lists import few
from datacast.fabric_manager.api.records import MasterOf
from datacast.fabric_manager.api.reports import Reaction
from datacast.fabric_manager.api.topology import NodeChange
from datacast.lab.controlled import ControlledPlane
from datacast.lab.counters import ask_control
from datacast.lab.dataplane import DpdkPlane
from datacast.lab.errors import LabError
from datacast.lab.fabric_events import FabricEvents, Seen
from datacast.lab.faults import Fault
from datacast.lab.interfaces import Interfaces
from datacast.lab.limits import Limits
from datacast.lab.processes import go_first
from datacast.lab.report import FaultReport
from datacast.lab.state import marked
from datacast.services.problems import formed

if TYPE_CHECKING:
    from datacast.lab.lab import Lab
    from datacast.lab.processes import Process

Links = list[tuple[str, str, bool]]
"""Both ends, and whether it is up."""
Appliances = list[tuple[str, bool]]
"""The switch, and whether its cache is there."""

TAKEN_OVER_S = 30.0

LAB_RUN = "`datacast lab run` makes a lab for its faults"
FILLER = ".filler"
LEAVES_S = 10.0
REVERSE = {"in": "out", "out": "in", "both": "both"}
SWITCH_WAYS = {"in": "rx", "out": "tx", "both": "both"}


class Injector:
    """`with Injector(lab, faults) as injector: injector.before(); … injector.go(group id, time of the request)`."""

    def __init__(self, lab: Lab, faults: tuple[Fault, ...]) -> None:
        self.lab, self.faults = lab, faults
        self.interfaces = Interfaces()
        self.failed_ns: dict[int, int] = {}
        self._took: dict[tuple[int, str], tuple[float, float]] = {}
        """Seconds from the request until a fault was begun (or ended), and until that was done."""
        self.errors: dict[int, str] = {}
        self.events = FabricEvents(lab)
        self._ended: set[int] = set()
        self._limits: dict[tuple[str, str], Limits] = {}
        self._leaving: dict[str, Process] = {}
        """Processes of switches that are being upgraded."""
        self._group = ""
        self._masters: set[int] = set()
        """Processes that were killed as masters; whoever else must notice that first."""
        self._started: list[Process] = []
        self._end = threading.Event()
        self._idle = threading.Event()
        self._idle.set()

    def __enter__(self) -> Injector:
        for fault in self.faults:
            self._prepared(fault)
            if fault.kind == "link":
                self.interfaces.prepare(self._pid(fault.node))
            elif fault.kind == "management":
                self.interfaces.prepare(self.lab.network.management_port(None)[0])
        if self.faults and not self.lab.plane.ip:  # tunnels are other links than cables
            self.events.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._end.set()
        self.events.stop()
        self._idle.wait(60.0)
        for index, fault in enumerate(self.faults):  # nobody stays stopped or cut off
            if (
                fault.kind in ("stop", "management", "cpu", "writes")
                and index in self.failed_ns
                and index not in self._ended
            ):
                with contextlib.suppress(LabError, ProcessLookupError):
                    self._end_fault(fault)
        self.interfaces.close()

    def _prepared(self, fault: Fault) -> None:
        """What only a lab that was made for it can bear. Raises LabError."""
        lab, node = self.lab, fault.node
        disks = {"disk": lab.options.disks, "writes": lab.options.slow_disks}.get(fault.kind)
        if disks is not None and node not in dict(disks):
            raise LabError(f"--fault {fault.spec!r}: {node} has no disk of its own here", what=node, remedy=LAB_RUN)
        process_of = {
            "switch": lab.plane.switch_process,
            "upgrade": lab.plane.switch_process,
            "appliance": lab.plane.appliance_process,
        }.get(fault.kind)
        if process_of is None:
            return
        machine = lab.plan.machine_of(node)
        own, others = process_of(lab, machine, node), []
        for other in machine.nodes:
            with contextlib.suppress(LabError):  # one without an appliance
                if other != node and process_of(lab, machine, other) == own:
                    others.append(other)
        if others:
            text = f"--fault {fault.spec!r}: {few(others, 4)} would go with it, for they share a process here"
            raise LabError(text, what=node, remedy=LAB_RUN)

    def _pid(self, node: str) -> int:
        return int(self.lab.network.nodes[self.lab.plan.machine_of(node).name].pid)

    def before(self) -> None:
        """What is due at 0s, before the request. Raises LabError."""
        for index, fault in enumerate(self.faults):
            if fault.at_s == 0:
                self._begin(index, fault)

    def go(self, group: str, started: float) -> None:
        """`started`: time.monotonic() of the request."""
        self._group = group
        steps = [(f.at_s, i, "begin") for i, f in enumerate(self.faults) if f.at_s > 0]
        steps += [(f.end_s, i, "end") for i, f in enumerate(self.faults) if f.end_s is not None]

        def run() -> None:
            for at, index, what in sorted(steps):
                if self._end.wait(max(0.0, started + at - time.monotonic())):
                    return
                begun = time.monotonic()
                try:
                    (self._begin if what == "begin" else self._finish)(index, self.faults[index])
                    self._took[index, what] = begun - started, time.monotonic() - started
                except (DatacastError, OSError, ValueError) as error:
                    self.errors[index] = str(error)

        def stay() -> None:
            try:
                run()
            finally:
                self._idle.set()
            # The kernel ends what a thread has started together with the thread (PR_SET_PDEATHSIG).
            while any(process.running for process in self._started):
                time.sleep(0.2)

        if self.faults:
            self._idle.clear()
            threading.Thread(target=stay, daemon=True).start()

    def as_done(self) -> tuple[Fault, ...]:
        """The faults at the times at which a busy machine came to them: what takes away counts once it is done, what
        gives back from its beginning."""
        found = []
        for index, fault in enumerate(self.faults):
            begun, done = self._took.get((index, "begin"), (fault.at_s, fault.at_s))
            back, _ = self._took.get((index, "end"), (fault.end_s, fault.end_s))
            found.append(replace(fault, at_s=begun if fault.up else done, end_s=back))
        return tuple(found)

    def mend(self) -> None:
        """After the block: undo what was never to end, so that the lab is whole for the next transfer. From the lab's
        own thread. Raises the error of the first that cannot be undone, when all others are."""
        errors = list[DatacastError | OSError]()
        for index, fault in enumerate(self.faults):
            if index not in self.failed_ns or index in self._ended:
                continue
            try:
                self._undo(fault)
            except (DatacastError, OSError) as error:
                errors.append(error)
        self.interfaces.close()
        if errors:
            raise errors[0]

    def _undo(self, fault: Fault) -> None:
        if fault.kind == "link" and not fault.up:
            self._set_link(fault, True)
        elif fault.kind == "corrupt":
            self._corrupt(fault, 0)
        elif fault.kind not in ("link", "stop", "management", "master"):
            self._end_fault(fault)

    # ---- doing it ----
    def _process(self, name: str) -> Process:
        found = [p for p in self.lab.supervisor.processes if p.name == name and p.running]
        if not found:
            raise LabError(f"{name} does not run", what=name)
        return found[-1]

    def _kill(self, name: str) -> None:
        process = self._process(name)
        process.expected = True
        process.popen.kill()

    def _begin(self, index: int, fault: Fault) -> None:
        lab = self.lab
        self.failed_ns[index] = time.time_ns()
        if fault.kind == "link":
            self._set_link(fault, fault.up)
        elif fault.kind == "rate":
            lab.network.rate(fault.node, fault.port, fault.rate_bps)
        elif fault.kind in ("cpu", "writes"):
            self._slow_down(fault)
        elif fault.kind == "switch":
            self._kill(lab.plane.switch_process(lab, lab.plan.machine_of(fault.node), fault.node))
        elif fault.kind == "upgrade":
            process = self._process(lab.plane.switch_process(lab, lab.plan.machine_of(fault.node), fault.node))
            process.expected = True
            process.popen.send_signal(signal.SIGUSR2)
            self._leaving[fault.node] = process
        elif fault.kind == "appliance":
            self._kill(lab.plane.appliance_process(lab, lab.plan.machine_of(fault.node), fault.node))
        elif fault.kind == "agent":
            self._kill(f"agent-{fault.node}")
        elif fault.kind == "stop":
            self._process(f"agent-{fault.node}").popen.send_signal(signal.SIGSTOP)
        elif fault.kind == "blackhole":
            self._swallow(fault, True)
        elif fault.kind == "corrupt":
            self._corrupt(fault, fault.share)
        elif fault.kind == "disk":
            self._fill(lab.host_folder(fault.node))
        elif fault.kind == "management":
            self.interfaces.set(*lab.network.management_port(fault.node or None), False)
        elif fault.kind == "master":
            pid = self._master()
            self.failed_ns[index] = time.time_ns()
            self._masters.add(pid)
            os.kill(pid, signal.SIGKILL)
        elif fault.kind == "power":
            self._lose_power()
        else:
            self._kill(fault.kind)

    def _finish(self, index: int, fault: Fault) -> None:
        known = list(self.lab.supervisor.processes)
        try:
            self._end_fault(fault)
            self._ended.add(index)
        finally:
            self._started += [p for p in self.lab.supervisor.processes if p not in known]

    def _end_fault(self, fault: Fault) -> None:
        lab = self.lab
        if fault.kind == "link":
            self._set_link(fault, True)
        elif fault.kind == "rate":
            lab.network.rate(fault.node, fault.port, None)
        elif fault.kind in ("cpu", "writes"):
            if limits := self._limits.pop((fault.kind, fault.node), None):
                limits.lift()
                with contextlib.suppress(LabError):
                    if fault.kind == "cpu" and lab.options.realtime:
                        go_first(self._process(f"agent-{fault.node}"))
        elif fault.kind == "agent":
            lab.start_agent(fault.node)
        elif fault.kind == "switch":
            lab.plane.start_switch(lab, lab.plan.machine_of(fault.node), fault.node)
        elif fault.kind == "upgrade":
            if process := self._leaving.pop(fault.node, None):
                try:
                    process.popen.wait(LEAVES_S)
                except subprocess.TimeoutExpired:
                    raise LabError(f"{fault.node} has not ended for its upgrade", what=fault.node) from None
                lab.plane.start_switch(lab, lab.plan.machine_of(fault.node), fault.node)
        elif fault.kind == "appliance":
            lab.plane.start_appliance(lab, lab.plan.machine_of(fault.node), fault.node)
        elif fault.kind == "stop":
            self._process(f"agent-{fault.node}").popen.send_signal(signal.SIGCONT)
        elif fault.kind == "blackhole":
            self._swallow(fault, False)
        elif fault.kind == "disk":
            (lab.host_folder(fault.node) / FILLER).unlink(missing_ok=True)
        elif fault.kind == "management":
            self.interfaces.set(*lab.network.management_port(fault.node or None), True)
        elif fault.kind == "fabric-manager":
            lab._fabric_manager()
        elif fault.kind == "controller":
            lab._controller()
        elif fault.kind == "power":
            lab.start_all()

    def _slow_down(self, fault: Fault) -> None:
        lab = self.lab
        pid = self._process(f"agent-{fault.node}").popen.pid
        limits = Limits(f"datacast-{lab.identity}-{fault.node.replace('/', '_')}", pid)
        self._limits[fault.kind, fault.node] = limits
        try:
            if fault.kind == "cpu":
                limits.cpu(fault.share)
            else:
                limits.disk(lab.host_folder(fault.node), fault.rate_bps)
        finally:
            lab.note_groups(str(folder) for folder in limits.folders)

    def _set_link(self, fault: Fault, up: bool) -> None:
        machine = self.lab.plan.machine_of(fault.node)
        ifname = next(p.ifname for p in machine.ports[fault.node] if p.port == fault.port)
        self.interfaces.set(self._pid(fault.node), ifname, up)
        if up:
            self.lab.network.put_routes_back(machine.name)

    def _swallow(self, fault: Fault, on: bool) -> None:
        """A switch of ours does it itself. Elsewhere the queueing disciplines of the cable's ends do."""
        port = next(p for p in self.lab.plan.machine_of(fault.node).ports[fault.node] if p.port == fault.port)
        if isinstance(self.lab.plane, DpdkPlane):
            for node, number, way in (
                (port.node, port.port, fault.way),
                (port.neighbour, port.neighbour_port, REVERSE[fault.way]),
            ):
                if node not in self.lab.plan.hosts:
                    self._ask(node, port=number, blackhole=SWITCH_WAYS[way] if on else "off")
                    return
        if fault.way != "in":
            self.lab.network.swallow(port.node, port.port, on)
        if fault.way != "out":
            self.lab.network.swallow(port.neighbour, port.neighbour_port, on)

    def _corrupt(self, fault: Fault, share: float) -> None:
        for port in self.lab.plan.machine_of(fault.node).ports[fault.node]:
            self._ask(fault.node, port=port.port, corrupt=share)

    def _ask(self, node: str, **request: Any) -> None:
        lab = self.lab
        control = lab.plane.control(lab, lab.plan.machine_of(node))  # type: ignore[attr-defined]
        ask_control(control, "fault", node=node, **request)

    @staticmethod
    def _fill(folder: Path) -> None:
        """Take all room of a disk, at once: where processors are scarce, one that is written full is full too late."""
        taken, room = 0, shutil.disk_usage(folder).free
        with open(folder / FILLER, "wb") as file:
            while room > 0:
                try:
                    os.posix_fallocate(file.fileno(), taken, room)
                except OSError:  # others write meanwhile
                    room //= 2
                    continue
                taken, room = taken + room, shutil.disk_usage(folder).free

    def _lose_power(self) -> None:
        """Every daemon of the lab ends at once, and what they have forked: the masters."""
        for process in self.lab.supervisor.processes:
            process.expected = True
            if process.running:
                process.popen.kill()
        for pid in marked(self.lab.identity):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().strip() == "datacast-master":
                    os.kill(pid, signal.SIGKILL)

    def _master(self) -> int:
        """The process that runs the group's master. Another one that is to take over is waited for."""
        end = time.monotonic() + TAKEN_OVER_S
        while not (pid := self._master_now().pid) or pid in self._masters:
            if time.monotonic() > end or self._end.wait(0.02):
                raise LabError("the group has no master now", what="master")
        return pid

    def _master_now(self) -> MasterOf:
        told = self.lab.fabric_json(f"/groups/{self._group}/master")
        return formed(told, MasterOf, f"fabric manager at {self.lab.fabric_url}")

    # ---- what came of it ----
    def began_anew(self) -> list[str]:
        """Nodes whose counters a fault has set back: those that they tell are a part."""
        done = [fault for index, fault in enumerate(self.faults) if index in self.failed_ns]
        if any(fault.kind == "power" for fault in done):
            return list(self.lab.graph)
        kinds = {"agent"} if isinstance(self.lab.plane, ControlledPlane) else {"agent", "switch", "upgrade"}
        return list(dict.fromkeys(fault.node for fault in done if fault.kind in kinds))

    def report(self, reactions: list[Reaction]) -> list[FaultReport]:
        return [self._one(index, fault, reactions) for index, fault in enumerate(self.faults)]

    def _one(self, index: int, fault: Fault, reactions: list[Reaction]) -> FaultReport:
        failed = self.failed_ns.get(index)

        def mine(links: Links, appliances: Appliances, received: int | None) -> bool:
            up = fault.kind == "link" and fault.up
            if failed is None or received is None or received < failed:
                return False
            if fault.kind == "appliance":
                return (fault.node, False) in appliances
            return any(frozenset((u, v)) in fault.links and is_up == up for u, v, is_up in links)

        def told(seen: Seen) -> bool:
            event = seen.event
            if isinstance(event, NodeChange):
                return mine([], [] if event.cache is None else [(event.name, event.cache)], seen.received_ns)
            return mine([(event.u, event.v, event.up)], [], seen.received_ns)

        def ms(at: int | None) -> float | None:
            return round((at - failed) / 1e6, 3) if at and failed else None

        seen = [one for one in self.events.seen if told(one)]
        found = next((r for r in reactions if mine(r.links, r.appliances, r.received_ns)), None)
        reaction = found or Reaction()
        heard = [one.received_ns for one in seen] + ([reaction.received_ns] if reaction.received_ns else [])
        return FaultReport(
            spec=fault.spec,
            at_s=fault.at_s,
            failed_ns=failed,
            error=self.errors.get(index) or (None if failed else "the transfer was over before"),
            detected_ms=ms(min((one.happened_ns for one in seen), default=None)),
            known_ms=ms(min(heard, default=None)),
            recomputed_ms=ms(reaction.recomputed_ns),
            signalled_ms=ms(reaction.signalled_ns),
            resumed_ms=ms(reaction.resumed_ns),
            all_resumed_ms=ms(reaction.all_resumed_ns),
            changed=reaction.changed or UNSET,
            lost=reaction.lost or UNSET,
            revived=reaction.revived or UNSET,
            members=reaction.members or UNSET,
            cut_off=reaction.cut_off or UNSET,
        )
