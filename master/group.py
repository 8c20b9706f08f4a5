"""One group from the order to the last receiver: stat, plan, open, assign, watch, close.

The master signals over a tree of the members (crew.py), asks for their status a few times a second (which renews their
leases), and feeds the trees (schedule.py). Data does not depend on it for longer than the lease: a master that is gone
ends the transfer by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import asdict
from typing import Any

from datacast.core.errors import DatacastError
from datacast.core.trees import ArcLoad
from datacast.fabric_manager.api import FabricManagerClient, StartOrder

from . import pace
from .agents import Agents
from .bounds import Bounds
from .collective import Collective
from .crew import Crew, GroupError
from .fetching import BLOCK_BYTES as FETCHED_BYTES
from .fetching import Fetching
from .figures import Figures
from .forest import Forest
from .grove import Agreement, Grove, ideal_s, joined, plan_roots
from .members import Member
from .paces import Paces
from .plan import BLOCKS_MAX, RATE_UNKNOWN, Plan, PlanError, make_plan, make_plan_for, per_block
from .reaction import Reactions
from .report import Told, final_report
from .roots import Roots
from .schedule import Extent, Scheduler
from .stable import RatedForest
from .view import View

log = logging.getLogger("datacast.master")

TICK_S = 0.1
LAST_S = 2.0
"""The last figures are worth a moment, no more: a common tree that wants mending then need not be mended."""
END_S = 0.1
DIGEST_DELAY_S = 0.05
DIGESTS_MAX = 2000
LINKS_S = 1.0
"""So long a group that begins waits for links that are down."""


async def _end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel until they are done: in Python 3.11 `wait_for` forgets that it was cancelled when what it waits for comes
    at the same time."""
    while left := {task for task in tasks if not task.done()}:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=END_S)


class Cancelled(DatacastError):
    """Somebody asked to end the group."""


class Group(Figures, Reactions, Roots, Fetching):
    """`await run()` returns the final state; `changed` is called when there is something to report."""

    def __init__(
        self,
        order: StartOrder,
        view: View,
        client: FabricManagerClient,
        agents: Agents,
        *,
        received_ns: int,
        changed: Callable[[], None] = lambda: None,
        gate: asyncio.Lock | None = None,
    ) -> None:
        """`gate`: held while trees are computed."""
        self._gate = gate or asyncio.Lock()
        self.order, self.view, self.client, self._changed = order, view, client, changed
        self.id, self.epoch, self.spec = order.group, order.epoch, order.spec
        self.options: dict[str, Any] = asdict(order.spec.options)
        self.dest_paths = dict(order.dest_paths)
        self.told = Told()
        self.state = "starting"
        self.error: dict[str, str] | None = None
        self.size: int | None = None
        self.plan: Plan | None = None
        self.block = 1
        self.tree_ids: list[int] = []
        self.root_of: dict[int, str] = {}
        self._plans: dict[str, Plan] = {}
        """Of each root, where there are several."""
        self._agreement = Agreement()
        self._given: dict[int, list[Extent]] = {}
        self.scheduler: Scheduler | Collective | None = None
        self.first_ns: int | None = None
        self.marks: list[tuple[str, int]] = [("accepted", order.accepted_ns), ("order", received_ns)]
        self.final: dict[str, Any] | None = None
        self.takeovers = 0
        self._wake = asyncio.Event()
        self._stop_reason: str | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._digests: list[list[Any]] = []
        self._digests_since = 0.0
        self._source_trees: dict[str, dict[str, Any]] = {}
        self._polled_at = 0.0
        self.news = True
        """There is something to report."""
        self._look_s = pace.POLL_S
        """Between two looks at the members."""
        self.forest: Forest | RatedForest | Grove | None = None
        self.ideal_s: float | None = None
        self.paces: Paces | None = None
        self.reactions: list[dict[str, Any]] = list(order.reactions)
        if order.adopt:
            self.first_ns = order.adopt.first_ns
        self._changes: list[dict[str, Any]] = []
        self._others = False
        """The receivers to be served are others than before."""
        self._reacting = asyncio.Lock()
        self._releases: dict[int, float] = {}
        self._finale = False
        self._files: dict[str, dict[str, int]] = {}
        """What tells each source's file from another."""
        self._inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        """Receivers that come and go; read when the group runs."""
        self.over = False
        """`run` has ended."""
        self._aside_s = self.options.get("aside_ms", 2000) / 1000
        self.crew = Crew(
            self.id,
            view,
            agents,
            timeout_s=self.options["member_timeout_ms"] / 1000,
            opening=self._opening,
            on_event=self._on_event,
            wake=self._wake.set,
            spawn=self._spawn,
            may_return=self._may_return,
            may_wait=self._may_wait,
            set_aside=self._set_aside,
            on_status=lambda member, result: self._receiver_figures(member, result, None),
            epoch=order.epoch,
        )
        self._several = len(order.spec.roots) > 1 or order.spec.url is not None
        """Trees begin at several hosts, or at one that is a receiver."""
        self.bounds = Bounds(self.crew, self._several, self._bounded)
        self._begin_fetching()

    # ---- from outside ----
    def cancel(self, reason: str) -> None:
        self._stop_reason = self._stop_reason or reason
        self._wake.set()

    async def drop(self) -> None:
        """Leave it as it stands, to another master: nobody is told anything. After `run` was cancelled."""
        self.view.unsubscribe(self._on_change)
        await _end(self._tasks)
        self.crew.hang_up()

    def on_control(self, message: dict[str, Any]) -> None:
        """From the fabric manager: `cancel`, `join`, `leave`, `rates`; `members` (all receivers there should be) when
        it was out of touch."""
        if message["type"] == "cancel":
            self.cancel("cancelled on request")
        elif message["type"] == "rates":
            self._spawn(self.bounds.take(message["rates"]))
        elif message["type"] in ("join", "leave", "members"):
            self._inbox.put_nowait(message)

    async def run(self) -> str:
        try:
            await self._until_stopped(self._prepare())
            if self.state == "running":
                self._spawn(self._read_inbox())
                self._changed()
                await self._transfer()
            self._conclude()
        except Cancelled as reason:
            self.state, self.error = "cancelled", {"code": "cancelled", "message": reason.message}
        except (GroupError, PlanError) as error:
            self.state, self.error = "failed", {"code": error.code, "message": error.message}
        except DatacastError as error:
            self.state, self.error = "failed", {"code": "error", "message": str(error)}
        except Exception as error:
            log.exception("group %s", self.id)
            self.state, self.error = "failed", {"code": "internal", "message": f"{type(error).__name__}: {error}"}
        for member in self.crew.receivers:
            if not member.final:
                member.state, member.error = ("cancelled" if self.state == "cancelled" else "failed"), self.error
        # An earlier master may have died before it could tell when data began.
        self.first_ns = self.first_ns or min((m.t_first_ns for m in self.crew.receivers if m.t_first_ns), default=None)
        self.final = final_report(
            self.marks,
            self.first_ns,
            self.size,
            self.plan,
            self.tree_ids,
            self.block,
            self.crew.receivers,
            self._trees(),
            self.takeovers,
            self.ideal_s,
            self.reactions,
        )
        self.view.unsubscribe(self._on_change)
        await _end(self._tasks)
        self.over = True
        self._spawn(self._stay())
        return self.state

    async def _stay(self) -> None:
        """Until it is written down how the group ended its members remember it: their leases go on."""
        while True:
            await asyncio.sleep(self.options["lease_ms"] / 1000 / pace.LEASE_LOOKS)
            await self.crew.keep()

    async def part(self) -> None:
        """Let the members forget the group. Only when the fabric manager has written down how it ended: until then
        there may be another master, and receivers that were done would fetch the file again."""
        await _end(self._tasks)
        # Receivers keep what they have when it may be wanted again; a cancelled group is not.
        reason = self.error["message"] if self.error else "done"
        await self.crew.close(reason, keep=self.state in ("failed", "partial"))

    def _conclude(self) -> None:
        """All receivers are done or have failed."""
        receivers = self.crew.receivers
        failed = [m for m in receivers if m.state == "failed"]
        if all(m.state == "cancelled" for m in receivers):
            raise Cancelled("every receiver has left")
        self.state = "done" if not failed else "failed" if len(failed) == len(receivers) else "partial"
        if failed:
            reasons = "; ".join(f"{m.name}: {m.error['message']}" for m in failed[:8] if m.error)
            message = f"{len(failed)} of {len(receivers)} receivers failed: {reasons}"
            self.error = {"code": "receivers_failed", "message": message}

    # ---- small helpers ----
    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception():
            log.error("group %s", self.id, exc_info=task.exception())
            self.cancel(f"internal error: {task.exception()}")

    def _mark(self, name: str) -> None:
        self.marks.append((name, time.time_ns()))

    async def _until_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work`; a cancel ends it at once."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                if self._stop_reason:
                    raise Cancelled(self._stop_reason)
                wake = asyncio.ensure_future(self._wake.wait())
                await asyncio.wait((task, wake), return_when=asyncio.FIRST_COMPLETED)
                wake.cancel()
                self._wake.clear()
            task.result()
        finally:  # also when this was dropped: it must not go on speaking to members
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # ---- start ----
    async def _prepare(self) -> None:
        try:
            await self.view.at(self.order.version, 10.0)
        except TimeoutError:
            raise GroupError("no_topology", "the fabric manager's topology did not arrive within 10 s") from None
        self._mark("topology")
        again = self.order.again
        if again:
            await self.crew.await_source(self.spec.roots)
        self.crew.join(
            self.spec.roots,
            self.order.receivers,
            wait=again or self.options.get("quorum") is not None,
            done=self.order.done,
        )
        if again and all(m.final for m in self.crew.receivers):
            return  # the master before saw the last of them end, and could not tell
        await self.crew.connect()
        if again and not self.order.adopt:
            await self.crew.forget()
        await self._stat()
        self._mark("stat")
        await self._make_plan()
        self._mark("trees")
        if self.order.adopt:
            for name, result in (await self.crew.adopt()).items():
                if result.get("ok") and result.get("state") == "done":
                    self._member_done(self.crew.members[name], result.get("t_done_ns"))
        else:
            await self.crew.open()
        self._check_quorum()
        self._mark("open")
        self.state = "running"
        self._look_s = self._pace(None)
        self._feed()
        self._mark("assign")
        self._kick()

    def _check_quorum(self) -> None:
        quorum = self.options.get("quorum")
        ready = sum(m.opened for m in self.crew.receivers)
        if quorum is not None and ready < quorum:
            raise GroupError("quorum", f"{ready} receivers are ready, the quorum is {quorum}")

    async def _stat(self) -> None:
        path = self.spec.source_path
        parts = {
            m.name: {"path": path} if m.role == "source" else {"dest": self._dest(m.name)} for m in self.crew.in_touch()
        }
        results = await self.crew.first("stat", parts)
        if self.spec.url is not None:
            self.size = await self._stat_origin()
            if self.order.adopt and self.size != self.order.adopt.size:
                raise GroupError("changed", f"{path} is not the object any more that the group was started with", path)
            return
        sizes: dict[str, int] = {}
        for member in self.crew.roots:
            told = results[member.name]
            size = told.get("size")
            if not isinstance(size, int) or size < 0:
                raise GroupError("bad_answer", f"source {member.name} told no size of {path}")
            sizes[member.name] = self.size = size
            self._files[member.name] = {k: told[k] for k in ("mtime_ns", "inode") if isinstance(told.get(k), int)}
        if len(set(sizes.values())) > 1:
            told_sizes = ", ".join(f"{size} bytes at {name}" for name, size in sizes.items())
            raise GroupError("sources_differ", f"{path} is not the same file at all sources: {told_sizes}", path)
        if self.spec.size is not None and self.spec.size != self.size:
            raise GroupError("size", f"{path} has {self.size} bytes, expected were {self.spec.size}", path)
        adopt = self.order.adopt
        if adopt and (self.size != adopt.size or (self._file and self._file != adopt.file)):
            raise GroupError("changed", f"{path} is not the file any more that the group was started with", path)

    @property
    def _file(self) -> dict[str, int]:
        return self._files.get(self.spec.source, {})

    def _dest(self, name: str) -> str:
        return self.dest_paths.get(name, self.spec.dest_path or "")

    async def _make_plan(self) -> None:
        assert self.size is not None
        adopt = self.order.adopt
        waiting = [m for m in self.crew.receivers if not m.final]
        if not waiting:
            raise GroupError("nothing_to_do", "every receiver has the file already, has left or has failed")
        names = [m.name for m in waiting if not m.aside] or [m.name for m in waiting]
        # Those of an earlier master are this group's own.
        load = self.view.load_without([(u, v) for u, v, n in self.order.own for _ in range(n)])
        self.plan = await self._patient_plan(names, load)
        self.view.subscribe(self._on_change)
        if self.plan.plain:
            log.warning(
                "group %s: %s has no cache appliance and only forwards: more traffic from above it",
                self.id,
                ", ".join(self.plan.plain),
            )
        for name, why in self.plan.cut_off.items():
            if self.order.again:  # perhaps for a moment only: others had it in their trees
                self.crew.members[name].aside = True
            else:
                self.crew.members[name].fail("cut_off", why)
        self.tree_ids = self.order.tree_ids[: len(self.plan.trees)]
        missing = len(self.plan.trees) - len(self.tree_ids)
        if missing > 0:
            self.tree_ids += await self.client.tree_ids(missing)
        block = self.options["block_bytes"]
        if self.spec.url is not None:
            block = block or max(FETCHED_BYTES, -(-self.size // BLOCKS_MAX))
        self.block = adopt.per_block if adopt else per_block(self.size, self.plan.payload, block)
        ids = iter(self.tree_ids)
        self.root_of = {next(ids): root for root, plan in self._plans.items() for _ in plan.trees}
        if self.spec.url is not None:
            self.ideal_s = None  # the origin is not known
        elif self._several:
            self.ideal_s = ideal_s(self.plan, self.view.graph, names, self.size)
        else:
            self.ideal_s = self.plan.ideal_s(self.size)
        self.forest = self._make_forest()
        if self._aside_s and self.spec.url is None:
            self.paces = Paces(self.plan.trees[0].transport.cache_bytes // 2, self._aside_s)
        if self.spec.url is not None:
            own = {root: [tree for tree in self.tree_ids if self.root_of[tree] == root] for root in self._plans}
            parts = {root: self._make_scheduler(trees, []) for root, trees in own.items()}
            self.scheduler = Collective(parts)
            self._deal_among(list(parts))
        else:
            self.scheduler = self._make_scheduler(self.tree_ids, list(adopt.rest) if adopt else None)

    async def _patient_plan(self, names: list[str], load: ArcLoad) -> Plan:
        """Links that fail come back, often at once: a host that stands still for a moment loses nobody. Raises
        PlanError when a source is still cut off after LINKS_S; receivers that are, the plan names."""
        end = time.monotonic() + LINKS_S
        while True:
            left = end - time.monotonic()
            try:
                async with self._gate:
                    plan = self._plan_now(names, load)
                    await asyncio.sleep(0)  # others get their turn before the next group's trees
                lost = {m.name for m in self.crew.roots} - set(self._plans)
                if left <= 0 or not (plan.cut_off or lost):
                    break
            except PlanError as error:
                if error.code != "no_tree" or left <= 0:
                    raise
            with contextlib.suppress(TimeoutError):
                await self.view.at(self.view.version + 1, left)
        for name in lost:
            why = f"no path over links that are up leads from {name} anywhere"
            self.crew.members[name].fail("cut_off", why)
        return plan

    def _plan_now(self, names: list[str], load: ArcLoad) -> Plan:
        """Raises PlanError."""
        payload = self.order.adopt.payload if self.order.adopt else None
        graph, network = self.view.graph, self.view.network
        if self._several:
            roots = [m.name for m in self.crew.roots]
            self._plans = plan_roots(graph, roots, names, self.options, load, network, payload)
            return joined(self._plans)
        given = graph, self.spec.source, names, self.options, load, network
        plan = make_plan_for(payload, *given) if payload else make_plan(*given)
        self._plans = {self.spec.source: plan}
        return plan

    def _load(self) -> ArcLoad:
        """Of the other groups: the fabric manager has counted this one's trees, too."""
        assert self.plan
        return self.view.load_without([arc for tree in self.plan.trees for arc in tree.arcs])

    def _make_forest(self) -> Forest | RatedForest | Grove:
        assert self.plan is not None and self.view.network is not None
        if self.plan.rated is not None:
            return RatedForest(
                self.view.graph,
                self.view.network,
                self.spec.source,
                self.plan.rated,
                ids=self.tree_ids,
                payload=self.plan.payload,
                default=RATE_UNKNOWN,
                most=self.options.get("trees"),
                planner=self.options.get("planner"),
            )
        forests = {root: self._make_one(root, plan) for root, plan in self._plans.items()}
        return Grove(forests) if self._several else forests[self.spec.source]

    def _opening(self, member: Member | None) -> dict[str, Any]:
        """Of `open`: a member's own part, or (None) what is the same for all."""
        assert self.plan
        pairs = list(zip(self.tree_ids, self.plan.trees, strict=True))
        if member is None:
            return {
                "size": self.size,
                "piece": self.plan.payload,
                "per_block": self.block,
                "source": self.spec.source,
                "lease_ms": self.options["lease_ms"],
                "trees": [planned.transport.to_json(tree) for tree, planned in pairs],
                **({"sha256": self.spec.sha256} if self.spec.sha256 else {}),
            }
        if member.role == "source":
            roots = [tree for tree, root in self.root_of.items() if root == member.name]
            return {"role": "source", "path": self.spec.source_path, "roots": roots, **self._files[member.name]}
        routes = {str(tree): p.routes[member.name].hex() for tree, p in pairs if member.name in p.routes}
        part = {"role": "receiver", "dest": self._dest(member.name), "routes": routes}
        if roots := [tree for tree, root in self.root_of.items() if root == member.name]:
            part |= {"roots": roots, "origin": self._origin()}
        return part

    # ---- receivers come and go ----
    async def _read_inbox(self) -> None:
        while True:
            event = await self._inbox.get()
            self.dest_paths |= event.get("dest_paths", {})
            if event["type"] == "join":
                if "dest_path" in event:
                    self.dest_paths[event["host"]] = event["dest_path"]
                await self.join(event["host"])
            elif event["type"] == "leave":
                await self.leave(event["host"])
            else:  # what was missed
                known = [m.name for m in self.crew.receivers if m.state != "cancelled"]
                for name in event["receivers"]:
                    if name not in known:
                        await self.join(name)
                for name in known:
                    if name not in event["receivers"]:
                        await self.leave(name)

    # ---- the transfer ----
    async def _transfer(self) -> None:
        poll = self._spawn(self._poll_loop())
        while not all(m.final for m in self.crew.receivers):
            if self._stop_reason:
                raise Cancelled(self._stop_reason)
            self.crew.check_source()
            self._look_after_roots()
            if self.spec.url is not None:
                self._deal(time.monotonic())
            if not self._finale and all(m.final or m.aside for m in self.crew.receivers):
                await self._serve_those_aside()
            self._feed()
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._tick_s()):
                    await self._wake.wait()
        poll.cancel()
        with contextlib.suppress(GroupError, TimeoutError):
            async with asyncio.timeout(LAST_S):
                self._status_in(await self.crew.status(), time.monotonic())

    def _pace(self, left_s: float | None) -> float:
        left_s = self.ideal_s if left_s is None else left_s
        return pace.between(left_s, self.options["lease_ms"] / 1000, self.crew.timeout_s)

    def _tick_s(self) -> float:
        if self._releases:
            return TICK_S
        return min(self._digest_delay_s(), pace.TICK * self._look_s) if self._digests else pace.TICK * self._look_s

    def _digest_delay_s(self) -> float:
        """Every block's digest costs an order to all members: far from the end they go together."""
        return self._look_s if self._look_s > pace.POLL_S else DIGEST_DELAY_S

    def _feed(self) -> None:
        """Assign, take over, forward digests."""
        assert self.scheduler
        now = time.monotonic()
        waited = now - self._digests_since
        if self._digests and (
            waited >= self._digest_delay_s() or len(self._digests) >= min(self._blocks(), DIGESTS_MAX)
        ):
            while self._digests:
                self.crew.tell("digest", {"blocks": self._digests[:DIGESTS_MAX]})
                del self._digests[:DIGESTS_MAX]
        self.scheduler.gone(frozenset(m.name for m in self.crew.receivers if m.final))
        extents = self.scheduler.assign(now)
        if extents and self._several:
            for extent in extents:
                self._given.setdefault(extent.tree, []).append(extent)
        if extents:
            self.crew.tell("assign", {"extents": [[e.tree, e.seq, e.first, e.count] for e in extents]})
        self._release(now)
        cut = self.scheduler.steal(now)
        if cut:
            self.takeovers += 1
            log.info("group %s: tree %d is cut at %d", self.id, cut.tree, cut.seq)
            self._spawn(self._cut([[cut.tree, cut.seq]]))

    def _bounded(self, rates: dict[str, int | None]) -> None:
        """Deal out by what the trees may send."""
        if self.scheduler is None or self.plan is None:
            return
        piece_bits = 8 * self.plan.frame_bytes
        for tree, bps in rates.items():
            self.scheduler.bound(int(tree), None if bps is None else bps / piece_bits, time.monotonic())
        self._wake.set()

    async def _cut(self, cuts: list[list[int]]) -> None:
        index = self.crew.entries
        root = self.crew.members[self.root_of.get(cuts[0][0], self.crew.source.name)]
        await self.crew.tell("cut", {"trees": cuts})
        while root.position <= index and not root.over:
            await asyncio.sleep(TICK_S)  # its agent is out of touch
        assert self.scheduler
        self.scheduler.cut_done(time.monotonic())
        self._wake.set()

    async def _poll_loop(self) -> None:
        while True:
            started = time.monotonic()
            try:
                self._status_in(await self.crew.status(), started)
                await self.bounds.check(self._source_trees)
            except GroupError as error:
                log.warning("group %s: %s", self.id, error)
            self._look_after_members()
            self._kick()
            self.news = True
            left = pace.left_s(self.size, self.crew.receivers)
            self._look_s = self._pace(left)
            await asyncio.sleep(max(0.02, self._look_s - (time.monotonic() - started)))
