"""What a group is and what has become of it: the record that the parts of its runtime share.

Each part (README.md, "The parts of a master") has one job and is given the others that it needs; what more than one of
them must know is here, and over the fields stands who writes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from datacast.fabric_manager.api.reports import GroupFailure

if TYPE_CHECKING:
    from datacast.core.trees import ArcLoad
    from datacast.fabric_manager.api import FabricManagerClient, GroupSpec
    from datacast.fabric_manager.api.orders import StartOrder
    from datacast.fabric_manager.api.reports import Reaction, ReportState
    from datacast.services.ranges import Rows

    from .answers import TreeCounts
    from .collective import Collective
    from .forest import Forest
    from .grove import Grove
    from .paces import Paces
    from .plan import Plan
    from .schedule import Scheduler
    from .shards import Shards
    from .stable import RatedForest
    from .view import View


class SourceTree(NamedTuple):
    """What a root said of a tree last, and numbers a second that it has sent lately."""

    counts: TreeCounts
    rate: float


class Transfer:
    """Made with the order; the plan and what follows from it come later."""

    def __init__(
        self, order: StartOrder, view: View, client: FabricManagerClient, changed: Callable[[], None] = lambda: None
    ) -> None:
        """`changed`: called when something is to be reported at once."""
        self.order, self.view, self.client, self._changed = order, view, client, changed
        self.options = order.spec.options
        # Group:
        self.dest_paths = dict(order.dest_paths)
        self.state: ReportState = "starting"
        self.error: GroupFailure | None = None
        self.over = False
        """The group has ended."""
        self.wake = asyncio.Event()
        """Set by whoever has changed something that the group should look at."""
        self.news = True
        """There is something to report."""
        self.slowed = asyncio.Event()
        """A source says that a tree has become slow: the next look should come soon."""
        # Planning:
        self.size: int | None = None
        self.files: dict[str, dict[str, int]] = {}
        """What tells each source's file from another."""
        self.bundle = False
        """It is a directory as one stream."""
        self.cut = (order.adopt.payload, order.adopt.per_block) if order.adopt else None
        """Bytes of a piece and pieces of a block, where members have some of the file as it was cut before."""
        self.block = 1
        """Pieces."""
        self.held: dict[str, Rows] = {}
        """Blocks that sources have, where they have parts."""
        self.shards: Shards | None = None
        """Not every receiver wants all of it."""
        self.ideal_s: float | None = None
        self.paces: Paces | None = None
        self.scheduler: Scheduler | Collective | None = None
        # Planning, then Reactions (and SlowReceivers, which gives trees rates):
        self.plan: Plan | None = None
        self.forest: Forest | RatedForest | Grove | None = None
        self.tree_ids: list[int] = []
        self.root_of: dict[int, str] = {}
        """By tree id."""
        # Reactions:
        self.reactions: list[Reaction] = list(order.reactions)
        # SlowReceivers, and Attendance:
        self.renew = False
        """Its tree ids are used up, or there are none, or somebody is wanted whom the fabric did not have as it began:
        another master is to go on with new trees."""
        # Figures:
        self.first_ns: int | None = order.adopt.first_ns if order.adopt else None
        self.source_trees: dict[str, SourceTree] = {}
        """By tree id."""
        self.looks = 0
        """Rates were measured so often."""
        # Attendance:
        self.finale = False
        """Those who were set aside are served: nobody is set aside any more."""

    @property
    def id(self) -> str:
        return self.order.group

    @property
    def spec(self) -> GroupSpec:
        return self.order.spec

    @property
    def everybody(self) -> set[str]:
        """Who is, or was, a receiver."""
        return {*self.order.receivers, *self.spec.shards}

    @property
    def several(self) -> bool:
        """Trees begin at several hosts, or at one that is a receiver."""
        return len(self.spec.roots) > 1 or self.spec.url is not None or self.in_parts

    @property
    def in_parts(self) -> bool:
        """Not every source has all of the file."""
        return bool(self.spec.holds or self.spec.unfinished)

    @property
    def aside_s(self) -> float:
        """So long a receiver may be away, or behind the others; 0: nobody is set aside."""
        return self.options.aside_ms / 1000

    @property
    def file(self) -> dict[str, int]:
        return self.files.get(self.spec.source, {})

    @property
    def blocks(self) -> int:
        assert self.plan and self.size is not None
        return -(-self.size // (self.plan.payload * self.block))

    def dest(self, name: str) -> str:
        return self.dest_paths.get(name, self.spec.dest_path or "")

    def path(self, source: str) -> str:
        """Of the file at this source."""
        return self.spec.source_paths.get(source, self.spec.source_path)

    def roots_trees(self, root: str) -> list[int]:
        return [tree for tree, name in self.root_of.items() if name == root]

    def load(self) -> ArcLoad:
        """Of the other groups: the fabric manager has counted this one's trees, too."""
        assert self.plan
        return self.view.load_without([arc for tree in self.plan.trees for arc in tree.arcs])

    def ended(self, state: ReportState, code: str, message: str) -> None:
        """Not as it should."""
        self.state, self.error = state, GroupFailure.cut(code, message)

    def tell_now(self) -> None:
        """What others wait for."""
        self.news = True
        self._changed()
