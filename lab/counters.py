"""What the lab measures by itself: packets on links from the nodes' counters, and the processor's time."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from datacast.lab.errors import LabError
from datacast.services.framing import Decoder, FramingError, encode, read_json

if TYPE_CHECKING:
    from datacast.lab.lab import Lab

CPU_BOUND = 0.9
"""Share of all cores, or of one core by one process, from which on the processor sets the pace."""
ANSWER_S = 3.0


class PortCounters(msgspec.Struct):
    """What switches and agents count, as far as the lab looks at it."""

    tx_data: int = 0
    tx_data_payload: int | None = None
    """None: it counts no bytes."""


class TreeCounters(msgspec.Struct):
    tree: int
    hits: int = 0
    data: int = 0


class NodeCounters(msgspec.Struct):
    ports: dict[str, PortCounters] = {}
    tree_counters: list[TreeCounters] = []
    drop: dict[str, int] = {}
    """Frames by reason."""
    appliance_tx_data: int | None = None
    """Of a switch with a cache appliance: what that sent."""


class _Told(msgspec.Struct):
    """A switch's answer."""

    ok: bool = False
    error: str = ""
    nodes: dict[str, NodeCounters] = {}


def ask_control(path: Path, op: str, **more: Any) -> dict[str, NodeCounters]:
    """One request to a switch's control socket (dpdk_cache/README.md); of `counters` those of its nodes. Raises
    LabError when it does not answer."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(ANSWER_S)
            sock.connect(str(path))
            sock.sendall(json.dumps({"op": op, **more}).encode() + b"\n")
            data = b""
            while not data.endswith(b"\n"):
                part = sock.recv(1 << 16)
                if not part:
                    break
                data += part
        answer = read_json(_switch, data)
    except (OSError, FramingError) as error:
        raise LabError(f"no answer from the switch at {path}: {error}", what=str(path)) from error
    if not answer.ok:
        raise LabError(f"the switch at {path}: {answer.error}", what=str(path))
    return answer.nodes


_switch: msgspec.json.Decoder[_Told] = msgspec.json.Decoder(_Told)


def ask_agent(lab: Lab, node: str) -> NodeCounters:
    """An agent's counters, by a request of the signalling (docs/signalling.md). Raises LabError."""
    address = lab.agent_address(node)
    body = {"counters": True}
    request = {
        "type": "request",
        "id": 1,
        "op": "node",
        "timeout_ms": int(1000 * ANSWER_S),
        "all": body,
        "tree": {"n": node, "a": address, "b": body},
    }
    try:
        with lab.credentials.agent(address, ANSWER_S) as sock:
            sock.sendall(encode(request))
            decoder = Decoder()
            while part := sock.recv(1 << 16):
                for message in decoder.feed(part):
                    if message["type"] == "ack":
                        return msgspec.convert(message["results"][node], NodeCounters)
                    if message["type"] == "error":
                        raise LabError(f"agent {node}: {message.get('error')}", what=node)
    except (OSError, KeyError, FramingError, msgspec.ValidationError) as error:
        raise LabError(f"no answer from agent {node} at {address}: {error}", what=node) from error
    raise LabError(f"agent {node} at {address} closed the connection", what=node)


@dataclass
class Traffic:
    """Sums over all nodes of the lab since they started."""

    data_payload: int = 0
    """Payload bytes of data packets sent onto links, duplicates and retransmissions included."""
    data_packets: int = 0
    """Data packets sent onto links by switches that count no bytes (taps.py)."""
    hits: dict[int, int] = field(default_factory=dict)
    """Interests answered from a content store, per tree."""
    drops: dict[str, int] = field(default_factory=dict)
    """Frames dropped by nodes, per reason."""
    appliance_sent: int = 0
    """Data packets that cache appliances sent to their switches."""
    appliance_had: int = 0
    """Data packets that came to cache appliances, or that they had when they were asked."""
    silent: list[str] = field(default_factory=list)
    """Nodes that did not tell, or began anew meanwhile."""

    def add(self, counters: NodeCounters) -> None:
        """One node's counters."""
        for port in counters.ports.values():
            if port.tx_data_payload is not None:
                self.data_payload += port.tx_data_payload
            else:
                self.data_packets += port.tx_data
        for tree in counters.tree_counters:
            self.hits[tree.tree] = self.hits.get(tree.tree, 0) + tree.hits
            if counters.appliance_tx_data is not None:
                self.appliance_had += tree.hits + tree.data
        self.appliance_sent += counters.appliance_tx_data or 0
        for reason, count in counters.drop.items():
            if count:
                self.drops[reason] = self.drops.get(reason, 0) + count

    def since(self, before: Traffic) -> Traffic:
        def minus(now: dict[Any, int], then: dict[Any, int]) -> dict[Any, int]:
            return {key: value - then.get(key, 0) for key, value in now.items() if value > then.get(key, 0)}

        return Traffic(
            self.data_payload - before.data_payload,
            self.data_packets - before.data_packets,
            minus(self.hits, before.hits),
            minus(self.drops, before.drops),
            self.appliance_sent - before.appliance_sent,
            self.appliance_had - before.appliance_had,
            sorted({*self.silent, *before.silent}),
        )


def traffic(lab: Lab) -> Traffic:
    """Ask every switch and every agent."""
    total = Traffic()
    for machine in lab.plan.switches:
        try:
            for counters in lab.plane.counters(lab, machine).values():
                total.add(counters)
        except LabError:
            total.silent += machine.nodes
    for host in lab.plan.hosts:
        try:
            total.add(ask_agent(lab, host))
        except LabError:
            total.silent.append(host)
    return total


# ---- processor ----
@dataclass(frozen=True)
class CpuSample:
    """Seconds of processor time so far."""

    busy: float
    total: float
    processes: dict[int, tuple[str, float]]


def _program(pid: int) -> str:
    """The program's name; of a Python script, the script's."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    names = [os.path.basename(word) for word in words if word]
    if len(names) > 1 and names[0].startswith("python"):
        return f"datacast-{words[2].split('.')[1]}" if words[1] == "-m" and words[2].count(".") > 1 else names[1]
    return names[0] if names else "?"


def cpu_sample(pids: list[int]) -> CpuSample:
    """The whole machine from /proc/stat (idle or waiting for disks is not busy; stolen time is), and some processes."""
    tick = os.sysconf("SC_CLK_TCK")
    fields = [int(value) for value in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    total, idle = sum(fields), fields[3] + fields[4]
    processes = {}
    for pid in pids:
        with contextlib.suppress(OSError, ValueError):
            text = Path(f"/proc/{pid}/stat").read_text()
            rest = text[text.rindex(")") + 2 :].split()
            processes[pid] = (_program(pid), (int(rest[11]) + int(rest[12])) / tick)
    return CpuSample((total - idle) / tick, total / tick, processes)


@dataclass(frozen=True)
class CpuUse:
    """Between two samples."""

    busy: float
    """Share of all cores."""
    highest: float
    """Share of one core by the busiest process."""
    seconds: dict[str, float]
    """Per program."""
    lab: float = 0.0
    """Share of all cores by the lab's processes."""
    first: bool = False
    """Switches and agents went before everything else on the machine."""

    @property
    def bound(self) -> bool:
        """The processor set the pace. Where the lab goes first, what others used does not count."""
        return (self.lab if self.first else self.busy) > CPU_BOUND or self.highest > CPU_BOUND + 0.05


def cpu_use(before: CpuSample, after: CpuSample, first: bool = False) -> CpuUse:
    total = after.total - before.total
    wall = total / (os.cpu_count() or 1)
    seconds: dict[str, float] = {}
    highest = 0.0
    for pid, (name, used) in after.processes.items():
        spent = used - before.processes.get(pid, (name, 0.0))[1]
        seconds[name] = seconds.get(name, 0.0) + spent
        highest = max(highest, spent / wall if wall else 0.0)
    return CpuUse(
        (after.busy - before.busy) / total if total else 0.0,
        highest,
        {name: round(value, 2) for name, value in sorted(seconds.items(), key=lambda item: -item[1])},
        sum(seconds.values()) / total if total else 0.0,
        first,
    )
