"""The engine from Python: networks by name, groups, trees, faults, statistics. See src/api.h for the C side."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import SimulationError

if TYPE_CHECKING:
    from datacast.master.requests import Transport

NEVER = 2**64 - 1
SECOND = 1_000_000_000
HEADER = 16
"""Bytes of the Datacast header."""
ETHERNET, PAPER = 0, 1
"""Framings: whole frames as libdatacast writes them, or the paper's 16-byte headers and nothing else."""

_API = Path(__file__).parent / "src" / "api.h"


@cache
def _ffi() -> Any:
    from cffi import FFI

    ffi = FFI()
    ffi.cdef(_API.read_text())
    return ffi


@cache
def _library(policy: str) -> Any:
    name = "libdatacast_sim.so" if policy == "fifo" else f"libdatacast_sim_{policy}.so"
    folder = Path(os.environ.get("DATACAST_SIM_LIBRARY", Path(__file__).resolve().parents[1] / "build" / "simulation"))
    path = folder / name
    if not path.exists():
        raise SimulationError(f"the simulator is not built: {path} is missing; run `make build`", what=str(path))
    return _ffi().dlopen(str(path))


def rules() -> list[str]:
    """Names of the rules of rate control."""
    ffi, lib = _ffi(), _library("fifo")
    names: list[str] = []
    while (name := lib.sim_rule(len(names))) != ffi.NULL:
        names.append(ffi.string(name).decode())
    return names


@dataclass(frozen=True)
class TreeConfig:
    """Transport of one tree. Rates in bit/s of whole frames, times in ns, sizes in bytes."""

    cc: str = "steady"
    rate_init: int = 500_000_000
    rate_min: int = 1_000_000
    rate_max: int = 1_000_000_000
    delta: int = 5_000_000
    interval: int = 1_000_000
    burst: int = 1
    packet_bytes: int = 1500
    credits: int = 16
    batch: int = 1
    rto_min: int = 10_000_000
    rto_max: int = 500_000_000
    rto_init: int = 100_000_000
    reorder: int = 3

    @classmethod
    def of(cls, t: Transport) -> TreeConfig:
        """As an agent makes it of what a master hands out (host_agent/params.c)."""
        return cls(
            cc=t.cc,
            rate_init=t.rate_init_bps,
            rate_min=max(1000, t.rate_max_bps // 256),
            rate_max=t.rate_max_bps,
            delta=t.delta_bps,
            interval=t.interval_us * 1000,
            burst=t.burst,
            packet_bytes=t.packet_bytes,
            credits=t.credits,
            batch=t.batch,
            rto_min=t.rto_min_ms * 1_000_000,
            rto_init=max(100_000_000, 4 * t.rto_min_ms * 1_000_000),
        )

    def with_(self, **changes: Any) -> TreeConfig:
        """A copy with some fields changed."""
        return replace(self, **changes)


@dataclass(frozen=True)
class Faults:
    """Of one directed link; probabilities from 0 to 1, `reorder_by` and `jitter` in ns (each frame is late by up to
    that, in order). `early`: what is lost takes none of the link's time, as if its queue had dropped it; else it is
    lost behind the link."""

    loss_data: float = 0.0
    loss_interest: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    corrupt: float = 0.0
    reorder_by: int = 0
    jitter: int = 0
    early: bool = False


class Group:
    """A group in a simulation: made by `Simulation.group`."""

    def __init__(self, sim: Simulation, number: int, source: str, receivers: Sequence[str], size: int, piece: int):
        self.sim, self.number, self.source, self.receivers = sim, number, source, list(receivers)
        self.size, self.piece = size, piece
        self.trees: list[int] = []
        self.arcs: list[list[tuple[str, str]]] = []

    @property
    def pieces(self) -> int:
        """Data packets of the file."""
        return 0 if self.size == 0 else (self.size - 1) // self.piece + 1

    def tree(
        self,
        arcs: Iterable[tuple[str, str]],
        config: TreeConfig,
        tree_id: int | None = None,
        routes: Mapping[str, bytes] | None = None,
    ) -> int:
        """Add a Steiner tree given by its (child, parent) arcs; routes by receiver as blobs, or made from the arcs. Who
        has no route among those that are given asks for nothing of this tree."""
        sim, ffi = self.sim, self.sim._ffi
        name = ffi.new("char[]", config.cc.encode())
        fields = {k: v for k, v in config.__dict__.items() if k != "cc"}
        cfg = ffi.new("struct sim_tree_cfg *", {"cc": name, **fields})
        tree = sim._check(sim._lib.sim_tree(sim._sim, self.number, tree_id or sim._next_tree_id(), cfg))
        arcs = list(arcs)
        if routes is None:
            child = [sim.vertex(c) for c, _ in arcs]
            parent = [sim.vertex(p) for _, p in arcs]
            sim._check(sim._lib.sim_routes(sim._sim, tree, child, parent, len(arcs)))
        else:
            for i, receiver in enumerate(self.receivers):
                if (blob := routes.get(receiver)) is None:
                    continue
                sim._check(sim._lib.sim_route(sim._sim, tree, i, blob, len(blob)))
        self.trees.append(tree)
        self.arcs.append(arcs)
        return tree

    def assign(self, shares: Sequence[int] | None = None) -> None:
        """Hand the pieces to the trees: evenly, or `shares[i]` pieces to the i-th, in runs."""
        n = len(self.trees)
        if shares is None:
            shares = [self.pieces // n + (i < self.pieces % n) for i in range(n)]
        first = 0
        for tree, share in zip(self.trees, shares, strict=True):
            self.sim._check(self.sim._lib.sim_extent(self.sim._sim, tree, first, share))
            first += share

    def extent(self, tree: int, first: int, count: int) -> None:
        """So many pieces more for the tree-th tree, also while it runs."""
        self.sim._check(self.sim._lib.sim_extent(self.sim._sim, self.trees[tree], first, count))

    def schedule(self, start: int = 0, stop: int = NEVER) -> None:
        """When its receivers begin to ask, and when they fall silent (ns)."""
        self.sim._check(self.sim._lib.sim_schedule(self.sim._sim, self.number, start, stop))

    def limit(self, tree: int, at: int, bps: int | None) -> None:
        """At that time (ns) the source of the tree-th tree learns its share of the links; None: all they carry."""
        self.sim._check(self.sim._lib.sim_limit(self.sim._sim, self.trees[tree], at, bps or 0))

    def receiver_stats(self) -> dict[str, dict[str, int]]:
        """By receiver: whole, finish (ns), pieces, bytes, wrong, bad_blocks."""
        return {r: self.sim._stats("receiver", self.number, i) for i, r in enumerate(self.receivers)}

    def tree_stats(self) -> list[dict[str, int]]:
        """Per tree: rate, interests, merged, duplicates, new_packets, dup_packets, …"""
        return [self.sim._stats("tree", t) for t in self.trees]

    def asker_stats(self, tree: int, receiver: str) -> dict[str, int]:
        """A receiver in its tree number `tree` of this group: interests, retransmitted, srtt, …"""
        return self.sim._stats("asker", self.trees[tree], self.receivers.index(receiver))

    def finish(self) -> int:
        """When the last receiver had its file whole (ns). Raises SimulationError while one has not."""
        late = [r for r, s in self.receiver_stats().items() if not s["whole"]]
        if late:
            raise SimulationError(f"{len(late)} receivers have not finished, such as {late[0]}", what=late[0])
        return max((s["finish"] for s in self.receiver_stats().values()), default=0)

    def first(self) -> int:
        """When the source sent the group's first data packet (ns)."""
        return min(s["first"] for s in self.tree_stats())

    def duplicate_ratio(self) -> float:
        """Duplicate data sent by the source / new data sent."""
        stats = self.tree_stats()
        return sum(s["dup_packets"] for s in stats) / max(1, sum(s["new_packets"] for s in stats))


class Simulation:
    """A network and what happens in it. Everything follows from the calls and the seed."""

    def __init__(self, seed: int = 1, framing: int = ETHERNET, policy: str = "fifo"):
        self._ffi, self._lib = _ffi(), _library(policy)
        self._sim = self._ffi.gc(self._lib.sim_new(seed, framing), self._lib.sim_free)
        self.framing = framing
        self._vertices: dict[str, int] = {}
        self._links: dict[tuple[str, str], int] = {}
        self._ports: dict[str, int] = {}
        self._trees = 0
        self.groups: list[Group] = []

    # ---- building ----

    def host(self, name: str) -> None:
        """Add a host."""
        self._vertices[name] = self._check(self._lib.sim_vertex(self._sim, True))

    def switch(self, name: str) -> None:
        """Add a switch."""
        self._vertices[name] = self._check(self._lib.sim_vertex(self._sim, False))

    def cable(
        self, a: str, b: str, rate: int, delay: int = 5000, queue: int = 100, ports: Mapping[str, int] | None = None
    ) -> None:
        """Connect two vertices, both ways; ports as given or the next free ones. Rate bit/s, delay ns."""
        ends = []
        for v in (a, b):
            port = self._ports.get(v, 0) if ports is None else ports[v]
            self._ports[v] = max(self._ports.get(v, 0), port + 1)
            ends.append((self.vertex(v), port))
        (va, pa), (vb, pb) = ends
        link = self._check(self._lib.sim_cable(self._sim, va, pa, vb, pb, rate, delay, queue))
        self._links[a, b], self._links[b, a] = link, link + 1

    def memory(self, name: str, each: int, all_trees: int) -> None:
        """Before it runs: bytes of a node's content stores together, and of a tree that asks for none."""
        self._check(self._lib.sim_node_memory(self._sim, self.vertex(name), each, all_trees))

    def graph(self, g: Any, rate: int, delay: int = 5000, queue: int = 100) -> None:
        """Add a whole topology of `datacast.topologies`."""
        for name, data in g.nodes(data=True):
            (self.host if data["kind"] == "host" else self.switch)(name)
        for u, v, data in g.edges(data=True):
            rates = data.get("rates_bps") or {}
            there, back = (rates.get(end) or data.get("rate_bps") or rate for end in (u, v))
            self.cable(u, v, there, delay, queue, data["ports"])
            if back != there:
                self.rate(v, u, back)

    def group(
        self,
        source: str,
        receivers: Sequence[str],
        size: int,
        piece: int = 1484,
        cache: int = 128 * 1024,
        per_block: int = 1024,
        waiting: int = 0,
    ) -> Group:
        """A group of receivers that want `size` bytes from `source`. Trees are added to it. `waiting`:
        waiting interests that a node has room for per tree (0: enough for all credits there may be)."""
        cfg = self._ffi.new(
            "struct sim_group_cfg *",
            {
                "source": self.vertex(source),
                "size": size,
                "piece": piece,
                "per_block": per_block,
                "cache_bytes": cache,
                "waiting": waiting,
            },
        )
        number = self._check(self._lib.sim_group(self._sim, cfg))
        for r in receivers:
            self._check(self._lib.sim_receiver(self._sim, number, self.vertex(r)))
        group = Group(self, number, source, receivers, size, piece)
        self.groups.append(group)
        return group

    def tcp(self, path: Sequence[str], start: int, stop: int, flavour: str = "cubic", segment: int = 1500) -> int:
        """A TCP connection along a path of vertices, with an endless supply of data. Returns its number."""
        there = [self.link(a, b) for a, b in pairwise(path)]
        back = [self.link(b, a) for a, b in pairwise(path)][::-1]
        return self._check(
            self._lib.sim_tcp(self._sim, flavour.encode(), there, len(there), back, len(back), start, stop, segment)
        )

    # ---- names ----

    def vertex(self, name: str) -> int:
        """The engine's number of a vertex."""
        if name not in self._vertices:
            raise SimulationError(f"no vertex {name!r} in this network", what=name)
        return self._vertices[name]

    def link(self, a: str, b: str) -> int:
        """The engine's number of the directed link a -> b."""
        if (a, b) not in self._links:
            raise SimulationError(f"no link from {a} to {b}", what=f"{a}-{b}")
        return self._links[a, b]

    @property
    def links(self) -> list[tuple[str, str]]:
        """The directed links."""
        return list(self._links)

    # ---- running ----

    def run(self, until: int = NEVER, whole: bool = True) -> int:
        """Until a time (ns), or until all groups without a stop are whole. Returns the time reached. Raises
        SimulationError before it starts when the machine has not the memory."""
        self._check(self._lib.sim_prepare(self._sim))
        return int(self._lib.sim_run(self._sim, until, whole))

    @property
    def now(self) -> int:
        """Virtual time, ns."""
        return int(self._lib.sim_now(self._sim))

    @property
    def hops(self) -> int:
        """Packets that crossed a link."""
        return int(self._lib.sim_hops(self._sim))

    @property
    def digest(self) -> int:
        """Of every event so far: equal digests mean equal runs."""
        return int(self._lib.sim_digest(self._sim))

    # ---- faults ----

    def faults(self, a: str, b: str, faults: Faults) -> None:
        """From now on the link a -> b spoils what it carries."""
        values = {
            k: v if k in ("reorder_by", "jitter", "early") else round(v * 1e9) for k, v in faults.__dict__.items()
        }
        self._check(self._lib.sim_link_faults(self._sim, self.link(a, b), self._ffi.new("struct sim_faults *", values)))

    def rate(self, a: str, b: str, rate: int) -> None:
        """From now on the link a -> b has another rate."""
        self._check(self._lib.sim_link_rate(self._sim, self.link(a, b), rate))

    def hold(self, a: str, b: str, time: int) -> None:
        """What a sends to b waits for so long (ns), as where a host stands still."""
        self._check(self._lib.sim_link_hold(self._sim, self.link(a, b), time))

    # ---- results ----

    def link_stats(self, a: str, b: str) -> dict[str, int]:
        """Of the link a -> b: frames, bytes, data, payload, dropped, lost, queue_max."""
        return self._stats("link", self.link(a, b))

    def node_stats(self, name: str) -> dict[str, int]:
        """Of a vertex's node: interests, hits, data, forwarded, drops, bytes, evicted, misses, aggregated, waiting."""
        return self._stats("node", self.vertex(name))

    def tcp_bytes(self, flow: int) -> int:
        """Bytes of a TCP connection that were acknowledged."""
        return int(self._lib.sim_tcp_bytes(self._sim, flow))

    def payload(self) -> int:
        """Payload bytes of data packets over all links."""
        out = self._ffi.new("struct sim_link_stats *")
        total = 0
        for i in range(self._lib.sim_links(self._sim)):
            self._lib.sim_link_stats(self._sim, i, out)
            total += out.payload
        return total

    def link_stress(self) -> float:
        """Data bytes carried on all links / (bytes that each tree carries x its links), over all groups."""
        ideal = 0.0
        for group in self.groups:
            for arcs, stats in zip(group.arcs, group.tree_stats(), strict=True):
                share = stats["new_packets"] / max(1, sum(s["new_packets"] for s in group.tree_stats()))
                ideal += group.size * share * len(arcs)
        return self.payload() / ideal

    def check(self) -> str | None:
        """What does not balance in the engine's books, or None."""
        problem = self._lib.sim_check(self._sim)
        return None if problem == self._ffi.NULL else self._ffi.string(problem).decode()

    # ---- inside ----

    def _next_tree_id(self) -> int:
        self._trees += 1
        return self._trees

    def _check(self, code: int) -> int:
        if code < 0:
            raise SimulationError(self._ffi.string(self._lib.sim_error(self._sim)).decode(), what="engine")
        return int(code)

    def _stats(self, kind: str, *key: int) -> dict[str, int]:
        out = self._ffi.new(f"struct sim_{kind}_stats *")
        if getattr(self._lib, f"sim_{kind}_stats")(self._sim, *key, out) < 0:
            raise SimulationError(f"no such {kind}", what=str(key))
        return {name: getattr(out, name) for name, _ in self._ffi.typeof(out).item.fields}
