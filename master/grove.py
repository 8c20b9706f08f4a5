"""Trees of a group that begin at several hosts: a plan and a forest for each root, and the sum of them. Pure.

Each root has trees to all receivers but itself. They are planned one root after another, each knowing the trees before
it as it knows those of other groups; so roots share links only where they must. All cut the file alike: the least
payload of all plans counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from datacast.core.errors import DatacastError
from datacast.core.trees import Network

from .forest import Change, Delta, Forest, Way
from .plan import RATE_UNKNOWN, Plan, PlanError, make_plan, make_plan_for

if TYPE_CHECKING:
    import networkx as nx

    from datacast.fabric_manager.api import GroupOptions

TREES_MAX = 32
"""Of a group: more an agent does not take."""
Load = Mapping[tuple[str, str], int]


class Differ(DatacastError):
    """Hosts that should hold the same file do not."""


LONE_PAYLOAD, LONE_MTU = 1024, 1500
"""Nothing is sent: it says how blocks are cut."""


def plan_roots(
    graph: nx.Graph,
    roots: Sequence[str],
    receivers: Sequence[str],
    options: GroupOptions,
    load: Load,
    network: Network | None,
    payload: int | None = None,
) -> dict[str, Plan]:
    """A plan for each root that reaches anybody. `payload`: the file is cut already. Of a lone host, which fetches for
    itself, a plan without trees. Raises PlanError: none does."""
    if list(roots) == list(receivers) and len(roots) == 1:
        return {roots[0]: Plan((), payload or LONE_PAYLOAD, 1, 1, LONE_MTU)}
    most = max(1, TREES_MAX // len(roots))
    given = replace(options, delivery="together", trees=min(options.trees or most, most))
    plans: dict[str, Plan] = {}
    errors: list[PlanError] = []
    used = Counter(load)
    for root in roots:
        others = [name for name in receivers if name != root]
        try:
            wanted = graph, root, others, given, dict(used), network
            plans[root] = make_plan_for(payload, *wanted) if payload else make_plan(*wanted)
        except PlanError as error:
            errors.append(error)
            continue
        used.update(arc for tree in plans[root].trees for arc in tree.arcs)
    if not plans:
        raise errors[0]
    least = min(plan.payload for plan in plans.values())
    if any(plan.payload != least for plan in plans.values()):
        return plan_roots(graph, list(plans), receivers, options, load, network, least)
    return plans


def joined(plans: Mapping[str, Plan]) -> Plan:
    """All roots' trees as one plan, in the roots' order."""
    every = list(plans.values())
    off = set.intersection(*(set(plan.cut_off) for plan in every))
    return replace(
        every[0],
        trees=tuple(tree for plan in every for tree in plan.trees),
        labels=max(plan.labels for plan in every),
        room=max(plan.room for plan in every),
        mtu=min(plan.mtu for plan in every),
        cut_off={name: why for name, why in every[0].cut_off.items() if name in off},
        plain=tuple(sorted({name for plan in every for name in plan.plain})),
        around=any(plan.around for plan in every),
        found=None,
        found_routes=tuple(route for plan in every for route in plan.found_routes),
    )


def ideal_s(plan: Plan, graph: nx.Graph, receivers: Iterable[str], size: int) -> float | None:
    """The file's bytes over what the trees bring to the receiver that gets least: its links carry no more than they
    can, however many roots send over them. None: no tree leads to any of them, as where the last one has ended."""
    into: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for tree in plan.trees:
        for arc in tree.arcs:
            into[arc[1]][arc] += tree.rate_bps
    brought = [
        sum(min(rate, graph.edges[arc]["rate_bps"] or RATE_UNKNOWN) for arc, rate in into[name].items())
        for name in receivers
        if name in into
    ]
    return size * 8 / (min(brought) * plan.payload / plan.frame_bytes) if brought else None


class Grove:
    """A Forest per root, as one: what Reactions needs of a forest."""

    def __init__(self, forests: Mapping[str, Forest], in_parts: bool = False) -> None:
        """`in_parts`: what one root sends no other does."""
        self._forests, self._in_parts = dict(forests), in_parts
        self._resting: set[str] = set()
        """Roots that send no more, and perhaps will again."""
        self.cut_off: set[str] = set()

    @property
    def treeless(self) -> set[str]:
        """As Forest's."""
        return {name for name in self.cut_off if any(name in forest.treeless for forest in self._forests.values())}

    @property
    def ways(self) -> dict[int, Way]:
        return {n: way for forest in self._forests.values() for n, way in forest.ways.items()}

    @property
    def _awake(self) -> dict[str, Forest]:
        """Of roots that send."""
        return {root: forest for root, forest in self._forests.items() if root not in self._resting}

    @property
    def mute(self) -> set[str]:
        """Roots that send and none of whose trees has links, while another's have."""
        awake = self._awake
        mute = {root for root, forest in awake.items() if all(way.slot is None for way in forest.ways.values())}
        return mute if len(mute) < len(awake) else set()

    def rest(self, root: str) -> None:
        """It sends no more: nothing is lost with its trees, and nobody is reached by them."""
        self._resting.add(root)

    def wake(self, root: str) -> list[int]:
        """It sends again. Returns those of its trees that have links."""
        self._resting.discard(root)
        forest = self._forests.get(root)
        return [n for n, way in forest.ways.items() if way.slot is not None] if forest is not None else []

    def knows(self, name: str) -> bool:
        """As Forest's."""
        return any(forest.knows(name) for forest in self._forests.values())

    def update(self, deltas: list[Delta], wanted: list[str], appliances: Sequence[tuple[str, bool]] = ()) -> Change:
        """As Forest.update. Trees beyond those that there were at the start are not made."""
        before = set(self.cut_off)
        changes = []
        for root, forest in self._forests.items():
            others = [name for name in wanted if name != root]
            change = forest.update(deltas, others, appliances)
            changes.append(Change(change.changed) if root in self._resting else change)
        self.cut_off = self._off(wanted)
        return Change(
            [n for change in changes for n in change.changed],
            [n for change in changes for n in change.lost],
            [n for change in changes for n in change.revived],
            [],
            sorted(self.cut_off - before),
            sorted((before - self.cut_off) & set(wanted)),
        )

    def _off(self, wanted: list[str]) -> set[str]:
        """Whom no root that sends reaches; such a root, which is no receiver of its own trees, when it reaches nobody.
        Each root with parts everybody needs: where the fabric is in pieces those count that are not with most of the
        others."""
        awake = self._awake
        if not awake:
            return set()
        if self._in_parts:
            there = [({root, *forest.receivers} - forest.cut_off) & set(wanted) for root, forest in awake.items()]
            return set(wanted) - max(there, key=len)
        off = set.intersection(*(forest.cut_off for forest in awake.values()))
        return {name for name in wanted if (not awake[name].receivers if name in awake else name in off)}

    def name(self, slot: int, number: int) -> None:
        raise NotImplementedError("a grove makes no new trees")


class Agreement:
    """Digests that several sources tell of the same file. A block's digest counts when all of them that have it have
    told the same: no receiver ever takes a block of which two sources have different bytes."""

    def __init__(self, holds: Callable[[int, str], bool] = lambda block, name: True) -> None:
        """`holds(block, source)`: has it this block?"""
        self._holds = holds
        self._told: dict[int, tuple[str, set[str]]] = {}
        self._agreed: set[int] = set()

    def told(self, name: str, rows: Sequence[tuple[int, str]], sources: set[str]) -> list[tuple[int, str]]:
        """Rows on which all `sources` agree from now on. Raises Differ."""
        found: list[tuple[int, str]] = []
        for block, digest in rows:
            known, by = self._told.setdefault(block, (digest, set()))
            if known.lower() != digest.lower():
                whose = f"block {block} of {name} differs from that of {', '.join(sorted(by))}"
                raise Differ(f"{whose}: they do not hold the same file", name)
            by.add(name)
            if self._all(block, by, sources) and block not in self._agreed:
                self._agreed.add(block)
                found.append((block, digest))
        return found

    def _all(self, block: int, by: set[str], sources: set[str]) -> bool:
        return by >= sources or by >= {name for name in sources if self._holds(block, name)}

    def left(self, sources: set[str]) -> list[tuple[int, str]]:
        """Rows that agree now that only these sources are left."""
        found = []
        for block, (digest, by) in self._told.items():
            if self._all(block, by, sources) and block not in self._agreed:
                self._agreed.add(block)
                found.append((block, digest))
        return found
