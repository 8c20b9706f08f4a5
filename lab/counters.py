"""What the lab measures by itself: packets on links from the nodes' counters, and the processor's time."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datacast.lab.errors import LabError
from datacast.services.framing import Decoder, encode

if TYPE_CHECKING:
    from datacast.lab.lab import Lab

CPU_BOUND = 0.9
"""Share of all cores, or of one core by one process, from which on the processor sets the pace."""


def ask_control(path: Path, op: str, timeout_s: float = 3.0, **more: Any) -> dict[str, Any]:
    """One request to a switch's control socket (dpdk_cache/README.md). Raises LabError when it does not answer."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(timeout_s)
            sock.connect(str(path))
            sock.sendall(json.dumps({"op": op, **more}).encode() + b"\n")
            data = b""
            while not data.endswith(b"\n"):
                part = sock.recv(1 << 16)
                if not part:
                    break
                data += part
        answer = json.loads(data)
    except (OSError, ValueError) as error:
        raise LabError(f"no answer from the switch at {path}: {error}", what=str(path)) from error
    if not answer.get("ok"):
        raise LabError(f"the switch at {path}: {answer.get('error')}", what=str(path))
    return answer


def ask_agent(lab: Lab, node: str, op: str, body: dict[str, Any], timeout_s: float = 3.0) -> dict[str, Any]:
    """One signalling request to one agent (docs/signalling.md); its own result. Raises LabError."""
    address = lab.agent_address(node)
    request = {
        "type": "request",
        "id": 1,
        "op": op,
        "timeout_ms": int(timeout_s * 1000),
        "all": body,
        "tree": {"n": node, "a": address, "b": body},
    }
    try:
        with lab.credentials.agent(address, timeout_s) as sock:
            sock.sendall(encode(request))
            decoder = Decoder()
            while part := sock.recv(1 << 16):
                for message in decoder.feed(part):
                    if message["type"] == "ack":
                        return message["results"][node]
                    if message["type"] == "error":
                        raise LabError(f"agent {node}: {message.get('error')}", what=node)
    except (OSError, KeyError) as error:
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
    """Nodes that did not tell."""

    def add(self, counters: dict[str, Any]) -> None:
        """One node's counters, as switches and agents give them."""
        for port in counters.get("ports", {}).values():
            if "tx_data_payload" in port:
                self.data_payload += int(port["tx_data_payload"])
            else:
                self.data_packets += int(port.get("tx_data", 0))
        for tree in counters.get("tree_counters", ()):
            self.hits[int(tree["tree"])] = self.hits.get(int(tree["tree"]), 0) + int(tree.get("hits", 0))
            if "appliance_tx_data" in counters:
                self.appliance_had += int(tree["hits"]) + int(tree["data"])
        self.appliance_sent += int(counters.get("appliance_tx_data", 0))
        for reason, count in counters.get("drop", {}).items():
            if count:
                self.drops[reason] = self.drops.get(reason, 0) + int(count)

    def since(self, before: Traffic) -> Traffic:
        def minus(now: dict[Any, int], then: dict[Any, int]) -> dict[Any, int]:
            return {key: value - then.get(key, 0) for key, value in now.items() if value != then.get(key, 0)}

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
            total.add(ask_agent(lab, host, "node", {"counters": True}))
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
