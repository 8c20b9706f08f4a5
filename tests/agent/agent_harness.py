"""Agents in network namespaces of their own, and a small master that drives them over the signalling.

Every namespace's name bears this process's id; `Net.close` removes them all.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from left_over import owned

from datacast.core import wire
from datacast.core.wire import Segment, Stop
from datacast.lab.namespace import inside as inside_file
from datacast.services.framing import Decoder, Message, encode

ROOT = Path(__file__).resolve().parents[2]
PLAIN = ROOT / "build" / "datacast-agent"
ASAN = ROOT / "build" / "datacast-agent-asan"
PORT = 7600

T = TypeVar("T")
PATIENCE = 60.0
"""Seconds: whoever waits for less fails on a busy machine."""
SHORTLY = 30_000
"""Milliseconds in which an agent should have its children's answers."""


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


def ip(namespace: str, *lines: str) -> None:
    """Lines of iproute2's in a namespace, in one process."""
    command = ["ip", "-n", namespace, "-batch", "-"]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True)
    assert done.returncode == 0, f"{namespace}: {lines}: {done.stderr}"


def inside(namespace: str, act: Callable[[], T]) -> T:
    return inside_file(f"/run/netns/{namespace}", act)


def until(condition: Callable[[], T], what: str, timeout: float = PATIENCE) -> T:
    """The first true value of the condition."""
    end = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < end, f"waited {timeout:g} s in vain for {what}"
        time.sleep(0.02)
    return value


class Client:
    """One signalling connection: requests, and the events that come meanwhile."""

    def __init__(self, namespace: str, address: str) -> None:
        self.epoch: int | None = None
        """Of the master that this plays."""
        host, _, port = address.rpartition(":")
        self.sock = inside(namespace, lambda: socket.create_connection((host, int(port)), timeout=PATIENCE))
        self.decoder = Decoder()
        self.events: list[Message] = []
        self.other: list[Message] = []
        self.acks: dict[int, Message] = {}
        self.id = 0
        self.closed = False

    def pump(self, timeout: float = 0.0) -> bool:
        """Take what has arrived; False when nothing came in time."""
        if self.closed or not select.select([self.sock], [], [], timeout)[0]:
            return False
        try:
            data = self.sock.recv(1 << 16)
        except ConnectionError:
            data = b""
        if not data:
            self.closed = True
            return False
        for message in self.decoder.feed(data):
            if message["type"] == "event":
                self.events.append(message)
            elif message["type"] == "ack":
                self.acks[message["id"]] = message
            else:
                self.other.append(message)
        return True

    def send(
        self,
        op: str,
        tree: Message,
        everyone: Message | None = None,
        group: str | None = None,
        timeout_ms: int = SHORTLY,
    ) -> int:
        self.id += 1
        message: Message = {"type": "request", "id": self.id, "op": op, "timeout_ms": timeout_ms, "tree": tree}
        if everyone is not None:
            message["all"] = everyone
        if group is not None:
            message["group"] = group
        if self.epoch is not None:
            message["epoch"] = self.epoch
        self.sock.sendall(encode(message))
        return self.id

    def request(
        self,
        op: str,
        tree: Message,
        everyone: Message | None = None,
        group: str | None = None,
        timeout_ms: int = SHORTLY,
    ) -> dict[str, Message]:
        """All members' results."""
        number = self.send(op, tree, everyone, group, timeout_ms)
        end = time.monotonic() + PATIENCE
        while number not in self.acks:
            errors = [m for m in self.other if m["type"] == "error" and m.get("id") in (number, None)]
            assert not errors, errors
            assert not self.closed, "the agent closed the connection"
            assert time.monotonic() < end, f"no answer to {op}"
            self.pump(0.1)
        return self.acks.pop(number)["results"]

    def wait(self, condition: Callable[[], T], what: str, timeout: float = PATIENCE) -> T:
        """Until the condition over `events` holds."""
        end = time.monotonic() + timeout
        while True:
            value = condition()
            if value:
                return value
            assert not self.closed, f"the agent closed the connection before {what}"
            assert time.monotonic() < end, f"waited {timeout:g} s in vain for {what}; events: {self.events[-5:]}"
            self.pump(0.05)

    def event(self, event: str, node: str | None = None) -> Message | None:
        for message in self.events:
            if message["event"] == event and node in (None, message["n"]):
                return message
        return None

    def close(self) -> None:
        self.sock.close()


@dataclass
class Agent:
    name: str
    namespace: str
    address: str
    folder: Path
    process: subprocess.Popen[bytes]
    log: Path
    sanitized: bool

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def rss_peak(self) -> int:
        return int(re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self.process.pid}/status").read_text())[1]) * 1024  # type: ignore[index]

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self, sig: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(sig)
        return self.process.wait(60)

    def leftovers(self) -> list[str]:
        # Not Path.rglob, to which a folder that the agent removes meanwhile is an error; not their note (left.c).
        return sorted(glob.glob("**/.*datacast-[!l]*", root_dir=self.folder, recursive=True, include_hidden=True))

    def noted(self, size: int) -> set[int]:
        """Blocks that the one temporary file says are verified (host_agent/target.c): a digest each behind the file's
        bytes, written a moment after they count. So much an agent goes on from when it is killed now."""
        [name] = self.leftovers()
        table = (self.folder / name).read_bytes()[-(-size // 4096) * 4096 + 24 :]
        return {at // 32 for at in range(0, len(table), 32) if any(table[at : at + 32])}


class Net:
    """Hosts joined by veth cables, and a management network beside them."""

    def __init__(self, folder: Path, program: Path = PLAIN) -> None:
        self.prefix = owned("agent")
        self.folder = folder
        self.program = program
        self.agents: dict[str, Agent] = {}
        self.ports: dict[str, list[str]] = {}
        self.clients: list[Client] = []
        self.management = self._namespace("m")
        ip(self.management, "link add br0 type bridge", "addr add 198.18.0.1/24 dev br0", "link set br0 up")

    def _namespace(self, name: str) -> str:
        namespace = f"{self.prefix}-{name}"
        run("ip", "netns", "add", namespace)
        for which in ("all", "default"):
            inside(namespace, partial(Path(f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6").write_text, "1"))
        ip(namespace, "link set lo up")
        return namespace

    def namespace(self, host: str) -> str:
        return f"{self.prefix}-{host}"

    def address(self, host: str) -> str:
        return f"198.18.0.{2 + list(self.ports).index(host)}:{PORT}"

    def host(self, name: str) -> None:
        namespace = self._namespace(name)
        self.ports[name] = []
        own = self.address(name).partition(":")[0]
        ip(
            namespace,
            f"link add eth-m type veth peer name m-{name} netns {self.management}",
            f"addr add {own}/24 dev eth-m",
            "link set eth-m up",
        )
        ip(self.management, f"link set m-{name} master br0 up")

    def cable(self, a: str, b: str, mtu: int = 9000, rate: str | None = None) -> None:
        """Joins the next free ports of two hosts."""
        ends = []
        for host in (a, b):
            ends.append((host, f"p{len(self.ports[host])}"))
            self.ports[host].append(ends[-1][1])
        (a, pa), (b, pb) = ends
        ip(self.namespace(a), f"link add {pa} mtu {mtu} type veth peer name {pb} mtu {mtu} netns {self.namespace(b)}")
        for host, port in ends:
            ip(self.namespace(host), f"link set {port} up")
            if rate:
                tc = ["tc", "-n", self.namespace(host), "qdisc", "add", "dev", port]
                run(*tc, *f"root handle 5: tbf rate {rate} burst 20000 limit 10000000".split())
                run(*tc, *["parent", "5:1", "pfifo", "limit", "100"])
        until(lambda: "LOWER_UP" in run("ip", "-n", self.namespace(a), "link", "show", pa), "the carrier")

    def start(
        self,
        name: str,
        *options: str,
        dest: Path | None = None,
        program: Path | None = None,
        environment: dict[str, str] | None = None,
        sends: bool = True,
    ) -> Agent:
        """`sends`: any file of this machine, unless the options say otherwise.
        `environment`: of a witness (tests/powerloss), for which the agent syncs as it does in earnest."""
        program = program or self.program
        folder = dest or self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        log = self.folder / f"{name}.log"
        command = [
            str(program),
            "--node",
            name,
            "--listen",
            self.address(name),
            "--dest-root",
            str(folder),
            "--log-level",
            "debug",
            *([] if environment else ["--no-sync"]),
            *([] if "--source-root" in options or not sends else ["--source-root", "/"]),
            *([] if "--tls-ca" in options else ["--insecure"]),
            *options,
        ]
        for number, port in enumerate(self.ports[name]):
            command += ["--port", f"{number}={port}"]
        before = log.stat().st_size if log.exists() else 0
        with log.open("ab") as handle:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self.namespace(name), *command],
                stderr=handle,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **(environment or {})},
            )
        agent = Agent(name, self.namespace(name), self.address(name), folder, process, log, program == ASAN)
        self.agents[name] = agent
        until(lambda: "ready on" in agent.text()[before:] or process.poll() is not None, f"agent {name}")
        assert process.poll() is None, agent.text()
        return agent

    def client(self, host: str) -> Client:
        client = Client(self.management, self.address(host))
        self.clients.append(client)
        return client

    def member(self, name: str, body: Message | None = None, children: Iterable[Message] = ()) -> Message:
        entry: Message = {"n": name, "a": self.address(name)}
        if body is not None:
            entry["b"] = body
        if children:
            entry["c"] = list(children)
        return entry

    def close(self) -> None:
        problems = []
        for client in self.clients:
            client.close()
        for agent in self.agents.values():
            killed = agent.process.poll() == -signal.SIGKILL
            code = agent.stop()
            if code != 0 and not killed:
                problems.append(f"agent {agent.name} ended with {code}: {agent.text()[-2000:]}")
        for host in [*self.ports, "m"]:
            subprocess.run(["ip", "netns", "del", self.namespace(host)], capture_output=True)
        assert not problems, problems


def agent_command(net: Net, *options: str, listen: str = "") -> list[str]:
    """a's agent, to be started by hand."""
    place = ["ip", "netns", "exec", net.namespace("a")]
    return [*place, str(PLAIN), "--node", "a", "--listen", listen or net.address("a"), "--port", "0=p0", *options]


def join_pair(net: Net, cables: int = 1, mtu: int = 9000, rate: str | None = None) -> Net:
    """a, the source, and b, on one cable or several; no agent started."""
    for host in "ab":
        net.host(host)
    for _ in range(cables):
        net.cable("a", "b", mtu, rate)
    return net


def make_pair(net: Net, *options: str, cables: int = 1, mtu: int = 9000, rate: str | None = None) -> Net:
    join_pair(net, cables, mtu, rate)
    for host in "ab":
        net.start(host, *options)
    return net


def join_line(net: Net) -> Net:
    """a - b - c, no agent started."""
    for host in "abc":
        net.host(host)
    net.cable("a", "b")
    net.cable("b", "c")
    return net


def make_line(net: Net, *options: str) -> Net:
    """a - b - c: b forwards and caches."""
    join_line(net)
    for host in "abc":
        net.start(host, *options)
    return net


def path_direct(port: int = 0, back: int | None = None) -> bytes:
    """From a receiver on the source's own cable, which is plugged into the same port at both ends, or into
    `back` at the source's."""
    return wire.encode_route([Stop(fwd=Segment((port,))), Stop(ret=Segment((port if back is None else back,)))])


def path_middle() -> bytes:
    """From the middle of a line, through its own node, to the source at the left."""
    return wire.encode_route(
        [
            Stop(fwd=Segment((), True)),
            Stop(fwd=Segment((0,)), ret=Segment(()), store=True),
            Stop(ret=Segment((0,), True)),
        ]
    )


def path_end() -> bytes:
    """From the right end of a line over the waypoint in the middle."""
    return wire.encode_route(
        [
            Stop(fwd=Segment((0,), True)),
            Stop(fwd=Segment((0,)), ret=Segment((1,)), store=True),
            Stop(ret=Segment((0,), True)),
        ]
    )


def path_over_source(port: int) -> bytes:
    """From a receiver beside the source (its port 0, the source's `port`) through the source's own node."""
    return wire.encode_route(
        [
            Stop(fwd=Segment((0,), True)),
            Stop(fwd=Segment(()), ret=Segment((port,)), store=True),
            Stop(ret=Segment((), True)),
        ]
    )


CALM = {"cache_bytes": 8 << 20, "rto_min_ms": 10_000}
"""`Transfer.extra` where packets are counted: a store and a timer that a busy machine does not outrun."""


@dataclass
class Transfer:
    """A group with one tree, driven as a master would."""

    net: Net
    source: str
    path: Path
    receivers: dict[str, bytes]
    """Route of each receiver."""
    dest: dict[str, str] = field(default_factory=dict)
    group: str = "g-1"
    piece: int = 8000
    per_block: int = 100
    rate: int = 1_000_000_000
    credits: int = 32
    lease_ms: int = 20_000
    tree: int = 7
    extra: Message = field(default_factory=dict)
    more: Message = field(default_factory=dict)
    """Of `open`, beside what is the same for every transfer."""
    wants: dict[str, list[list[int]]] = field(default_factory=dict)
    """Blocks of members that are not about all of them."""
    part: Message = field(default_factory=dict)
    """Of the source's own part of `open`, beside what it always has."""
    known: int = 0
    client: Client = field(init=False)

    def __post_init__(self) -> None:
        self.size = self.path.stat().st_size
        self.client = self.net.client(self.source)
        for name in self.receivers:
            self.dest.setdefault(name, str(self.net.agents[name].folder / "got"))

    @property
    def pieces(self) -> int:
        return -(-self.size // self.piece)

    def members(self, bodies: bool = False) -> Message:
        children = [
            self.net.member(
                name,
                {
                    "role": "receiver",
                    "dest": self.dest[name],
                    "routes": {str(self.tree): blob.hex()},
                    **self._wants(name),
                }
                if bodies
                else None,
            )
            for name, blob in self.receivers.items()
        ]
        own = {"role": "source", "path": str(self.path), **self._wants(self.source), **self.part}
        return self.net.member(self.source, own if bodies else None, children)

    def _wants(self, name: str) -> Message:
        return {"wants": self.wants[name]} if name in self.wants else {}

    def open(self, **more: object) -> dict[str, Message]:
        """Who still writes out what it had is asked again, as a master does. `more`: of what all are told."""
        tree = {
            "id": self.tree,
            "cc": "steady",
            "rate_init_bps": self.rate,
            "rate_max_bps": self.rate,
            "delta_bps": self.rate // 20,
            "interval_us": 1000,
            "burst": 8,
            "credits": self.credits,
            "rto_min_ms": 10,
            "cache_bytes": 131072,
            **self.extra,
        }
        everyone = {
            "size": self.size,
            "piece": self.piece,
            "per_block": self.per_block,
            "source": self.source,
            "lease_ms": self.lease_ms,
            "trees": [tree],
            **self.more | more,
        }

        def told() -> dict[str, Message] | None:
            answers = self.client.request("open", self.members(bodies=True), everyone, self.group)
            return None if any(a.get("code") == "busy" for a in answers.values()) else answers

        return until(told, "nobody is busy with what it had")

    def assign(self, first: int = 0, count: int | None = None) -> dict[str, Message]:
        count = self.pieces - first if count is None else count
        return self.client.request(
            "assign", self.members(), {"extents": [[self.tree, first, first, count]]}, self.group
        )

    def pass_digests(self, most: int | None = None) -> None:
        """Hand the source's digests to everybody, as they come; no more than `most` blocks can be verified then."""
        while self.client.pump():
            pass
        blocks = [
            b for e in self.client.events if e["event"] == "digests" and e["group"] == self.group for b in e["blocks"]
        ][:most]
        if len(blocks) > self.known:
            fresh, self.known = blocks[self.known :], len(blocks)
            results = self.client.request("digest", self.members(), {"blocks": fresh}, self.group)
            for name in self.receivers:
                assert results[name]["ok"] or results[name]["code"] in ("unreachable", "no_group"), results

    def ended(self, name: str) -> Message | None:
        own = (m for m in self.client.events if m["group"] == self.group and m["n"] == name)
        return next((m for m in own if m["event"] in ("done", "failed")), None)

    def wait_ended(self, names: Iterable[str] | None = None, timeout: float = 90.0) -> dict[str, Message]:
        names = list(self.receivers if names is None else names)
        renewed = time.monotonic()

        def all_ended() -> bool:
            nonlocal renewed
            self.pass_digests()
            if time.monotonic() > renewed + self.lease_ms / 4000:  # a master does: else it is forgotten
                renewed = time.monotonic()
                self.status()
            return all(self.ended(name) for name in names)

        self.client.wait(all_ended, f"the end of {names}", timeout)
        return {name: self.ended(name) for name in names}  # type: ignore[misc]

    def status(self) -> dict[str, Message]:
        return self.client.request("status", self.members(), group=self.group)

    def close(self, keep: bool = False, **more: object) -> dict[str, Message]:
        return self.client.request("close", self.members(), {"reason": "test", "keep": keep, **more}, self.group)

    def deliver(self, timeout: float = 90.0) -> dict[str, Message]:
        """The whole way; every receiver's file is compared with the source's."""
        results = self.open()
        assert all(r["ok"] for r in results.values()), results
        if self.pieces:
            results = self.assign()
            assert all(r["ok"] for r in results.values()), results
        ended = self.wait_ended(timeout=timeout)
        for name, event in ended.items():
            assert event["event"] == "done", event
            assert event["bytes"] == self.size
            assert digest(Path(self.dest[name])) == digest(self.path), f"the file at {name} differs"
        return ended


def digest(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def random_file(path: Path, size: int) -> Path:
    with path.open("wb") as handle:
        while size > 0:
            handle.write(os.urandom(min(size, 1 << 20)))
            size -= 1 << 20
    return path


def node_counters(net: Net, host: str) -> Message:
    client = Client(net.management, net.address(host))
    try:
        return client.request("node", net.member(host, {"counters": True}), {"counters": True})[host]
    finally:
        client.close()


def frames(message: Any) -> bytes:
    return encode(message) if isinstance(message, dict) else json.dumps(message).encode()


def read(net: Net, host: str, off: int, length: int, **what: str) -> tuple[Message, bytes]:
    """As a controller reads for another site: an answer, and bytes that are no frame."""
    sock, got = net.client(host).sock, b""
    sock.sendall(encode({"type": "read", "id": 1, "off": off, "len": length, **what}))

    def more(n: int) -> bytes:
        nonlocal got
        while len(got) < n:
            part = sock.recv(1 << 20)
            assert part, "closed"
            got += part
        part, got = got[:n], got[n:]
        return part

    answer = json.loads(more(struct.unpack("!I", more(4))[0]))
    return answer, more(answer.get("n", 0))
