"""What a group will use: trees, routes, payload size, blocks, and the transport's parameters. Pure.

Payload (design.md, section 3): the MTU counts what lies behind the Ethernet header, so a data frame has
MTU - 4 x labels - 16 bytes for the payload, labels being the deepest stack that any segment of the group's data needs
(LOCAL included). Interests carry their route and must fit as well. Pieces keep their size for the whole transfer, so
where a cache appliance may go away there is room for the deeper stacks that are needed then, and always for a way over
waypoints, which a repaired tree or a receiver that joins may need.

Transport (paper, section 5.2 and 5.4; everything can be given in the group's options):

- Rule of rate control: `steady` (docs/decisions/congestion-control.md); the paper's `datacast` stays to be chosen.
- Rate: at most the slowest link of the tree, less what the interests of trees that use a cable the other way take; at
  first that, divided by the number of trees that share its busiest link.
- delta and T: the paper's 5 Mbit/s per 1 ms at 100 Mbit/s and 1,500 bytes, kept in proportion: R/20 every 8.33 packet
  times. Theorem 2 then gives 1.19 % duplicates at every rate and MTU, and Theorem 1 full rate from 83 packets of cache.
  T is held between 0.2 and 2 ms, so that a rate cut to nothing is back within 40 ms; with jumbo frames at 100 Mbit/s
  that raises the 1.19 % to 3.5 % for a group whose slowest receiver is always behind.
- w: a receiver's credits cover its path's round trip (one packet per hop is on the wire), 8 packets more, and PAUSE_MS,
  for which a host may stand still and stay in step; at least 16. They also bound what can queue at a port: w data
  packets of this tree, and in the other direction of a cable, with the data of another tree, as many interests. A
  queue of Q packets therefore holds two times w, divided by the trees of other groups on the link: w is at most
  (Q - 4) / 2 / (1 + others), 48 for Q = 100.
- C: a content store holds what CACHE_MS bring at the tree's rate, so that a host which has no processor for some
  milliseconds finds what passed meanwhile: from 128 KB, the paper's, which is that at 100 Mbit/s, to 16 MB, a node's
  most; divided by the trees of other groups as w is.
- Batch: a receiver asks for so many numbers at once, while packets come without a gap or a pause. An interest
  goes along with each data packet of a tree that uses the cable the other way, and takes up to 7 % of it with 1,500
  bytes; in batches that is divided by up to 8. Three fit into the credits beyond twice the hops, so that no path
  runs dry meanwhile, and ten into C, as receivers are behind each other by one. A deep tree that is alone gets more
  credits for it: of b numbers at once Q / (1 + 1/b) packets and their interests fit a queue. Where they do not fit, and
  under the paper's rule, each number is asked for alone.
- Bucket: 10 ms of packets, between 4 and 32, or half of w where that is more: it evens out the source's own sleeping
  without filling a queue, and its packets leave together (docs/decisions/data-path-costs.md).
- RTO floor: 50 ms, above the time interests wait for tokens at full rate (w packets).
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from datacast.core import constants as wire
from datacast.core.errors import DatacastError
from datacast.core.routes import RouteError, Routes, routes
from datacast.core.trees import Network, Tree, TreeError, TreeSet, Unreachable, steiner_trees
from datacast.planners import PlannerError, unequal

from .forest import around_plain, shallow
from .plan_cache import PlanCache
from .requests import Transport
from .stable import Rated, rate_of, shares
from .stable import with_routes as rated_routes

if TYPE_CHECKING:
    import networkx as nx

    from datacast.fabric_manager.api import GroupOptions

log = logging.getLogger("datacast.master")

BLOCK_BYTES = 1 << 20
BLOCKS_MAX = 8192
CACHE_BYTES, CACHE_MOST, CACHE_MS = 128 << 10, 16 << 20, 10
RATE_MIN = 1000
"""Agents take none that is lower."""
RATE_UNKNOWN = 10**9
"""Bit/s of a link that nobody gave a rate."""
PAYLOAD_MIN = 64
ROOM_MIN = 2
"""A segment from waypoint to waypoint over one switch: the switch's port, LOCAL."""
CREDITS_MAX = 4096
CREDITS_MIN, CREDITS_SPARE = 16, 8
BATCH_MAX, BATCHES_OUT, BATCHES_STORED = 8, 3, 10
PAUSE_MS = 20
PATIENCE_MS = 300
"""So long a source goes on at its rate when a receiver becomes slow suddenly: by then it has trees of its own.
There are none where one rate is wanted for all, or a planner is named."""
CC = "steady"
"""Rule of rate control where none is given."""
T_MIN_US, T_MAX_US = 200, 2000


class PlanError(DatacastError):
    """The group cannot be delivered over this topology; `code` for machines."""

    def __init__(self, code: str, message: str, what: str = "") -> None:
        super().__init__(message, what=what)
        self.code = code


@dataclass(frozen=True)
class PlannedTree:
    """One tree: arcs away from the source, and each receiver's route (route.h)."""

    arcs: tuple[tuple[str, str], ...]
    depth: int
    routes: Mapping[str, bytes]
    rate_bps: int
    transport: Transport


@dataclass(frozen=True)
class Plan:
    trees: tuple[PlannedTree, ...]
    payload: int
    labels: int
    """Deepest stack of a data frame."""
    room: int
    """Deepest stack under which the payload fits the MTU."""
    mtu: int
    cut_off: dict[str, str] = field(default_factory=dict)
    """Receivers that no tree reaches, and why."""
    plain: tuple[str, ...] = ()
    """Switches without a cache appliance where trees branch: they cost the source more traffic."""
    around: bool = False
    """The trees go around the switches without a cache."""
    found: TreeSet | None = field(default=None, compare=False, repr=False)
    """The engine's set, for repairs, and its routes."""
    found_routes: tuple[Routes, ...] = field(default=(), compare=False, repr=False)
    rated: Rated | None = field(default=None, compare=False, repr=False)
    """Trees with rates, where receivers differ; `found` is None then."""

    @property
    def frame_bytes(self) -> int:
        """A full data frame with its deepest stack."""
        return wire.ETHER_LEN + wire.LABEL_LEN * self.labels + wire.HEADER_LEN + self.payload

    @property
    def interest_bytes(self) -> int:
        """The longest interest, as it goes out of the receiver."""
        return longest_interest(self.found_routes)

    def ideal_s(self, size: int) -> float:
        """The file's bytes over what all trees' links carry, every header on them counted (design.md, section 1); with
        rates of their own, for the receiver that gets least."""
        if self.rated is not None:
            slowest = min(rate for rate in self.rated.got.values() if rate)
            return size * 8 / (slowest * self.payload / self.frame_bytes)
        return size * 8 / sum(t.rate_bps * self.payload / self.frame_bytes for t in self.trees)


def payload_size(found: list[Routes], mtu: int, wanted: int | None = None, room: int = 0) -> tuple[int, int]:
    """(payload bytes, labels) that fit `mtu` on every segment of these routes in both directions, and under a stack of
    `room` labels. Raises PlanError."""
    labels = max(route.labels for route in found)
    most = min(route.payload(mtu) for route in found) - wire.LABEL_LEN * max(0, room - labels)
    if most < PAYLOAD_MIN:
        raise PlanError(
            "mtu_too_small",
            f"an MTU of {mtu} bytes leaves {most} for the payload under {max(labels, room)} labels",
            what="mtu",
        )
    if wanted is not None and wanted > most:
        raise PlanError(
            "payload_too_big",
            f"a payload of {wanted} bytes exceeds {most}, which is what an MTU of {mtu} leaves under "
            f"{max(labels, room)} labels",
            what="payload",
        )
    return wanted or most, labels


def label_room(graph: nx.Graph, trees: list[Tree]) -> int:
    """Labels that data frames may need when cache appliances go away and segments get longer: a whole path's, or what
    the switches can handle. 0 where no switch has an appliance that could go."""
    room = 0
    for tree in trees:
        nodes = [graph.nodes[child] for _, child in tree.arcs]
        if any(node.get("cache") and node["kind"] == "switch" for node in nodes):
            depths = [node["msd"] for node in nodes if node.get("msd")]
            room = max(room, min([tree.depth, *depths]))
    return room


def plain_branches(graph: nx.Graph, trees: list[Tree]) -> tuple[str, ...]:
    """Switches without a cache where trees branch: each of their branches is served from above."""
    children = Counter((tree.id, parent) for tree in trees for parent, _ in tree.arcs)
    found = {node for (_, node), n in children.items() if n > 1 and graph.nodes[node].get("cache") is False}
    return tuple(sorted(found))


def per_block(size: int, payload: int, block_bytes: int | None) -> int:
    """Pieces per block: about `block_bytes` (1 MiB), more for files that would have too many blocks."""
    block = block_bytes or max(BLOCK_BYTES, -(-size // BLOCKS_MAX))
    return max(1, block // payload, -(-size // payload) // BLOCKS_MAX)


def longest_interest(found: Iterable[Routes]) -> int:
    """Bytes of it, as it goes out of the receiver."""
    return wire.ETHER_LEN + max((route.interest for route in found), default=0)


def room(tree: Tree, load: Mapping[tuple[str, str], int], frame: int, interest: float) -> float:
    """Share of its links' rate that a tree's data frames can have. `load`: trees per arc, of this group and others;
    `interest`: bytes that go along with this tree's data for each packet of one that uses a cable the other way."""
    most = max((load.get((child, parent), 0) for parent, child in tree.arcs), default=0)
    return frame / (frame + most * interest)


@dataclass(frozen=True)
class Window:
    """How many packets of a tree may be asked for, and are kept for those who come later."""

    credits: int
    cache_bytes: int
    batch: int


def window(
    options: GroupOptions, *, rate_bps: int, frame_bytes: int, queue_packets: int, others: int, hops: int
) -> Window:
    """As the module says. Raises PlanError for a content store that holds no packet."""
    rate_bps = options.rate_bps or rate_bps
    stored = max(CACHE_BYTES, min(rate_bps * CACHE_MS // 8000 // (1 + others), CACHE_MOST))
    cache = stored if options.cache_bytes is None else options.cache_bytes
    if 0 < cache < frame_bytes:
        raise PlanError(
            "cache_too_small",
            f"a cache of {cache} bytes holds none of this group's packets of {frame_bytes}: give room for some tens, "
            "or 0 for the nodes' own default",
            what="cache_bytes",
        )
    packet_us = frame_bytes * 8 / rate_bps * 1e6
    wanted = max(CREDITS_MIN, CREDITS_SPARE + hops + round(PAUSE_MS * 1000 / packet_us))
    most = (queue_packets - 4) // (1 + others)
    credits = min(options.credits or max(8, min(wanted, most // 2)), CREDITS_MAX)
    if (options.cc or CC) != CC:
        return Window(credits, cache, 1)
    for batch in range(min(BATCH_MAX, (cache or CACHE_BYTES) // frame_bytes // BATCHES_STORED), 1, -1):
        needed = CREDITS_SPARE + 2 * hops + BATCHES_OUT * batch
        fixed = options.credits is not None or others > 0
        if needed <= (credits if fixed else max(credits, min(wanted, most * batch // (batch + 1)))):
            return Window(max(credits, needed), cache, batch)
    return Window(credits, cache, 1)


def interest_each(
    options: GroupOptions,
    found: Iterable[Routes],
    uses: Iterable[tuple[int, int, int]],
    *,
    frame_bytes: int,
    queue_packets: int,
) -> float:
    """Bytes of interests for each data packet, where all trees ask for as many at once as the least of them. `uses`: of
    each tree its links' rate, the trees of other groups there, and its depth."""
    batches = [
        window(
            options, rate_bps=rate, frame_bytes=frame_bytes, queue_packets=queue_packets, others=others, hops=hops
        ).batch
        for rate, others, hops in uses
    ]
    return longest_interest(found) / min(batches, default=1)


def transport(
    options: GroupOptions,
    *,
    rate_bps: int,
    frame_bytes: int,
    queue_packets: int,
    others: int,
    hops: int = 1,
    share: float = 1.0,
    even_bps: int | None = None,
) -> Transport:
    """Defaults as the module says, where `options` say nothing. `others`: trees of other groups on the busiest link;
    `hops`: links to the farthest receiver; `share`: of the links' rate, as `room` says; `even_bps`: an even share of
    its links, where a tree is planned for less than they carry: it begins with that, at most with its rate."""

    def given(value: int | None, default: int) -> int:
        return default if value is None else value

    rate = given(options.rate_bps, max(RATE_MIN, int(rate_bps * share)))
    w = window(options, rate_bps=rate, frame_bytes=frame_bytes, queue_packets=queue_packets, others=others, hops=hops)
    packet_us = frame_bytes * 8 / rate * 1e6
    interval = given(options.interval_us, round(min(max(25 / 3 * packet_us, T_MIN_US), T_MAX_US)))
    return Transport(
        cc=options.cc or CC,
        rate_init_bps=min(rate, given(options.rate_init_bps, max(RATE_MIN, even_bps or rate // (1 + others)))),
        rate_max_bps=rate,
        delta_bps=given(options.delta_bps, max(1, rate // 20)),
        interval_us=interval,
        burst=given(options.burst, min(max(round(10_000 / packet_us), 4), max(32, w.credits // 2))),
        credits=w.credits,
        batch=w.batch,
        rto_min_ms=given(options.rto_min_ms, 50),
        cache_bytes=w.cache_bytes,
        packet_bytes=frame_bytes,
        patience_ms=0 if options.delivery == "together" or options.planner else PATIENCE_MS,
    )


def with_routes(
    graph: nx.Graph, found: TreeSet, most: int | None, load: Mapping[tuple[str, str], int]
) -> tuple[TreeSet, list[Routes], bool]:
    """Trees with routes: `found`, or, where those run through more switches without a cache than labels reach across,
    others (True) that go around such switches. Raises RouteError when no trees have routes."""
    try:
        return found, routes(found), False
    except RouteError:
        network = around_plain(graph)
        if network is None:
            raise
        with contextlib.suppress(TreeError):
            others = steiner_trees(network, found.source, found.receivers, most, load)
            return others, routes(others), True
        raise


def _found(
    graph: nx.Graph,
    source: str,
    receivers: list[str],
    options: GroupOptions,
    load: Mapping[tuple[str, str], int],
    network: Network | None,
    known: PlanCache | None,
) -> tuple[TreeSet, list[Routes], bool, dict[str, str]]:
    """Trees, routes, whether they go around switches without a cache, and who is cut off. Raises PlanError,
    RouteError."""
    most = options.trees
    if known is not None and network is not None and (before := known.get(network, source, receivers, most, load)):
        return *before, False, {}
    cut_off: dict[str, str] = {}
    try:
        found: TreeSet | None = steiner_trees(network or graph, source, receivers, most, load)
    except Unreachable as error:
        found = error.trees
        cut_off = {name: f"no path over links that are up leads from {source} to {name}" for name in error.receivers}
    except TreeError as error:
        raise PlanError(error.code, error.message, error.what) from error
    if not found:
        raise PlanError("no_tree", f"no path over links that are up leads from {source} to any receiver", what=source)
    found, found_routes, around = with_routes(graph, found, most, load)
    if known is not None and network is not None and not (around or cut_off):
        known.put(network, receivers, most, load, (found, found_routes))
    return found, found_routes, around, cut_off


def make_plan(
    graph: nx.Graph,
    source: str,
    receivers: list[str],
    options: GroupOptions,
    load: Mapping[tuple[str, str], int] | None = None,
    network: Network | None = None,
    known: PlanCache | None = None,
) -> Plan:
    """Trees and everything that follows from them.

    graph: as fabric_manager.api.graph_of makes it (edge attributes ports, up, rate_bps, mtu; graph attribute
    defaults). load: trees of other groups per arc. network: the graph as the tree engine has it, if it is there
    already. known: trees that were found in it before. Receivers that are cut off are named in the plan, the others get
    their trees. Raises PlanError when no receiver can be reached, no route can be written, or nothing fits the MTU.
    """
    load = load or {}
    if (rated := _rated_plan(graph, source, receivers, options, load, network)) is not None:
        return rated
    try:
        found, found_routes, around, cut_off = _found(graph, source, receivers, options, load, network, known)
        trees = found.trees
        links = [[graph.edges[arc] for arc in tree.arcs] for tree in trees]
        mtu = min(link["mtu"] for row in links for link in row)
        deepest = max(label_room(graph, trees), ROOM_MIN)
        payload, labels = payload_size(found_routes, mtu, options.payload, deepest)
    except RouteError as error:
        raise PlanError(error.code, error.message, error.what) from error
    frame = wire.ETHER_LEN + wire.LABEL_LEN * labels + wire.HEADER_LEN + payload
    queue = graph.graph.get("defaults", {}).get("queue_packets", 100)
    own = Counter(arc for tree in trees for arc in tree.arcs)
    against = {back: load.get(back, 0) + own[back] for tree in trees for arc in tree.arcs if (back := arc[::-1])}
    rates = [min((link["rate_bps"] for link in row if link["rate_bps"]), default=RATE_UNKNOWN) for row in links]
    others = [max((load.get(arc, 0) for arc in tree.arcs), default=0) for tree in trees]
    uses = zip(rates, others, (tree.depth for tree in trees), strict=True)
    interest = interest_each(options, found_routes, uses, frame_bytes=frame, queue_packets=queue)
    planned = []
    for tree, route, rate, n in zip(trees, found_routes, rates, others, strict=True):
        parameters = transport(
            options,
            rate_bps=rate,
            frame_bytes=frame,
            queue_packets=queue,
            others=n,
            hops=tree.depth,
            share=room(tree, against, frame, interest),
        )
        planned.append(PlannedTree(tree.arcs, tree.depth, route.blobs, rate, parameters))
    return Plan(
        tuple(planned),
        payload,
        labels,
        max(deepest, labels),
        mtu,
        cut_off,
        plain_branches(graph, trees),
        around,
        found,
        tuple(found_routes),
    )


def rated_parts(
    graph: nx.Graph,
    rated: Rated,
    options: GroupOptions,
    load: Mapping[tuple[str, str], int],
    frame: int,
) -> list[PlannedTree]:
    """Trees with rates, and the transport's parameters for each."""
    rates = {arc: rate_of(graph, arc, RATE_UNKNOWN) for tree in rated.trees for arc in tree.arcs}
    queue = graph.graph.get("defaults", {}).get("queue_packets", 100)
    others = [max((load.get(arc, 0) for arc in tree.arcs), default=0) for tree in rated.trees]
    uses = ((tree.rate_bps, n, tree.depth) for tree, n in zip(rated.trees, others, strict=True))
    interest = interest_each(options, rated.routes, uses, frame_bytes=frame, queue_packets=queue)
    room_of = shares(rated.trees, rates, interest / frame)
    planned = []
    for tree, route, share, n in zip(rated.trees, rated.routes, room_of, others, strict=True):
        parameters = transport(
            options,
            rate_bps=tree.rate_bps,
            frame_bytes=frame,
            queue_packets=queue,
            others=n,
            hops=tree.depth,
            share=share,
            even_bps=min(rates[arc] // (1 + load.get(arc, 0)) for arc in tree.arcs),
        )
        planned.append(PlannedTree(tree.arcs, tree.depth, route.blobs, tree.rate_bps, parameters))
    return planned


def _rated_plan(
    graph: nx.Graph,
    source: str,
    receivers: list[str],
    options: GroupOptions,
    load: Mapping[tuple[str, str], int],
    network: Network | None,
) -> Plan | None:
    """Trees with rates for a group whose receivers differ; None where they do not, where `together` is asked for, or
    where the trees cannot be routed: then all get the same."""
    network = network or Network(graph)
    try:
        given = unequal(
            graph,
            source,
            receivers,
            delivery=options.delivery,
            planner=options.planner,
            default=RATE_UNKNOWN,
            most=options.trees,
            network=network,
        )
        if given is None:
            return None
        rated = rated_routes(network, source, given)
        trees = [Tree(i, tree.arcs, tree.depth) for i, tree in enumerate(rated.trees)]
        mtu = min(graph.edges[arc]["mtu"] for tree in trees for arc in tree.arcs)
        deepest = max(label_room(graph, trees), ROOM_MIN)
        payload, labels = payload_size(list(rated.routes), mtu, options.payload, deepest)
    except Unreachable:
        return None
    except (TreeError, PlannerError) as error:
        raise PlanError(error.code, error.message, error.what) from error
    except RouteError as error:
        log.warning("trees with rates cannot be routed, all receivers get the same rate: %s", error)
        return None
    frame = wire.ETHER_LEN + wire.LABEL_LEN * labels + wire.HEADER_LEN + payload
    planned = rated_parts(graph, rated, options, load, frame)
    return Plan(
        tuple(planned),
        payload,
        labels,
        max(deepest, labels),
        mtu,
        {name: f"no path over links that are up leads from {source} to {name}" for name in rated.cut_off},
        plain_branches(graph, trees),
        rated=rated,
        found_routes=rated.routes,
    )


def make_plan_for(
    payload: int,
    graph: nx.Graph,
    source: str,
    receivers: list[str],
    options: GroupOptions,
    load: Mapping[tuple[str, str], int] | None = None,
    network: Network | None = None,
    known: PlanCache | None = None,
) -> Plan:
    """As make_plan, for a group whose file is cut into pieces of `payload` bytes already. Other receivers may get trees
    with longer segments than it leaves room for: then waypoints make them shorter."""
    options = replace(options, payload=payload)
    try:
        return make_plan(graph, source, receivers, options, load, network, known)
    except PlanError as error:
        if error.code != "payload_too_big":
            raise
        # Links that carry no such piece at all say nothing of how deep a stack may be.
        rooms = [(data["mtu"] - wire.HEADER_LEN - payload) // wire.LABEL_LEN for *_, data in graph.edges(data=True)]
        room = min((labels for labels in rooms if labels > 0), default=0)
        if room < 1:
            raise
        return make_plan(shallow(graph, room), source, receivers, options, load)
