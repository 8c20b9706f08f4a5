"""One group from the order to the last receiver: stat, plan, open, assign, watch, close.

The master signals over a tree of the members (signalling.py), asks for their status a few times a second (which renews
their leases), and feeds the trees (schedule.py). Data does not depend on it for longer than the lease: a master that is
gone ends the transfer by itself.

Members that do not answer leave the common tree, so that they hold nobody up, and are asked on a connection of their own.
When they are back they get what they missed from the log; when they stay away for `member_timeout_ms` they have failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import Any

from datacast.core.errors import DatacastError
from datacast.core.problems import Problem
from datacast.fabric_manager.api import FINAL_STATES, FabricManagerClient

from .members import Entry, Member
from .plan import Plan, PlanError, make_plan, per_block
from .schedule import Scheduler
from .signalling import Connection, Results, SignallingError, member_tree, tree_message
from .view import View

log = logging.getLogger("datacast.master")

POLL_S = 0.25
TICK_S = 0.1
REQUEST_S = 2.0
SUSPECT_S = 0.5
DIGEST_DELAY_S = 0.05
DIGESTS_MAX = 2000
REPORT_PATIENCE_S = 60.0


class GroupError(DatacastError):
    """The group as a whole has failed."""

    def __init__(self, code: str, message: str, what: str = "") -> None:
        super().__init__(message, what=what)
        self.code = code


class Cancelled(DatacastError):
    """Somebody asked to end the group."""


class Group:
    """`order` as fabric_manager.api.StartOrder. `await run()` returns the final state."""

    def __init__(self, order: dict[str, Any], view: View, client: FabricManagerClient, *, received_ns: int) -> None:
        self.order, self.view, self.client = order, view, client
        self.id: str = order["group"]
        self.spec = order["spec"]
        self.options: dict[str, Any] = self.spec["options"]
        self.state = "starting"
        self.error: dict[str, str] | None = None
        self.members: dict[str, Member] = {}
        self.source: Member | None = None
        self.size: int | None = None
        self.plan: Plan | None = None
        self.block = 1
        self.tree_ids: list[int] = []
        self.scheduler: Scheduler | None = None
        self.first_ns: int | None = None
        self.marks: list[tuple[str, int]] = [("accepted", order["accepted_ns"]), ("order", received_ns)]
        self.report: dict[str, Any] | None = None
        self.takeovers = 0
        self._log: list[Entry] = []
        self._root: Connection | None = None
        self._tree: tuple[frozenset[str], dict[str, list[str]]] = (frozenset(), {})
        self._wake = asyncio.Event()
        self._stop_reason: str | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._visits: set[str] = set()
        self._under_way = 0
        self._digests: list[list[Any]] = []
        self._digests_since = 0.0
        self._source_trees: dict[str, dict[str, Any]] = {}
        self._polled_at = 0.0

    # ---- from outside ----
    def cancel(self, reason: str) -> None:
        self._stop_reason = self._stop_reason or reason
        self._wake.set()

    async def run(self) -> str:
        control = self._spawn(self._follow_control())
        try:
            await self._until_stopped(self._prepare())
            await self._push()
            await self._transfer()
            failed = sum(m.state == "failed" for m in self._receivers())
            self.state = "done" if not failed else "failed" if failed == len(self._receivers()) else "partial"
            if failed:
                names = [m for m in self._receivers() if m.state == "failed"]
                self.error = {
                    "code": "receivers_failed",
                    "message": f"{failed} of {len(self._receivers())} receivers "
                    "failed: " + "; ".join(f"{m.name}: {m.error['message']}" for m in names[:8] if m.error),
                }
        except Cancelled as reason:
            self.state, self.error = "cancelled", {"code": "cancelled", "message": reason.message}
        except (GroupError, PlanError) as error:
            self.state, self.error = "failed", {"code": error.code, "message": error.message}
        except DatacastError as error:
            self.state, self.error = "failed", {"code": "error", "message": str(error)}
        except Exception as error:
            log.exception("group %s", self.id)
            self.state, self.error = "failed", {"code": "internal", "message": f"{type(error).__name__}: {error}"}
        final = self.state
        for member in self._receivers():
            if not member.final:
                member.state, member.error = ("cancelled" if final == "cancelled" else "failed"), self.error
        self._make_report()
        # Receivers keep what they have when it may be wanted again; a cancelled group is not.
        await self._close_members(self.error["message"] if self.error else "done", keep=final in ("failed", "partial"))
        control.cancel()
        await self._push_final()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._root:
            await self._root.close()
        return final

    # ---- small helpers ----
    def _receivers(self) -> list[Member]:
        return [m for m in self.members.values() if m.role == "receiver"]

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done_task)
        return task

    def _done_task(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception():
            log.error("group %s", self.id, exc_info=task.exception())
            self.cancel(f"internal error: {task.exception()}")

    def _mark(self, name: str) -> None:
        self.marks.append((name, time.time_ns()))

    def _check_stop(self) -> None:
        if self._stop_reason:
            raise Cancelled(self._stop_reason)

    async def _until_stopped(self, work: Any) -> None:
        """Run `work`; a cancel ends it at once."""
        task = asyncio.ensure_future(work)
        while not task.done():
            if self._stop_reason:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, DatacastError):
                    await task
                raise Cancelled(self._stop_reason)
            wake = asyncio.ensure_future(self._wake.wait())
            await asyncio.wait((task, wake), return_when=asyncio.FIRST_COMPLETED)
            wake.cancel()
            self._wake.clear()
        task.result()

    # ---- start ----
    async def _prepare(self) -> None:
        source_name = self.spec["source"]
        try:
            await self.view.at(self.order["version"], 10.0)
        except TimeoutError:
            raise GroupError("no_topology", "the fabric manager's topology did not arrive within 10 s") from None
        self._mark("topology")
        for name in (source_name, *self.spec["receivers"]):
            addr = self.view.address(name) if name in self.view.graph else None
            member = self.members[name] = Member(name, "source" if name == source_name else "receiver", addr or "")
            if not addr:
                member.fail("no_agent", f"host {name} has no agent")
        self.source = self.members[source_name]
        if self.source.state == "failed":
            raise GroupError("no_agent", f"the source {source_name} has no agent", source_name)
        await self._connect_root()
        await self._stat()
        self._mark("stat")
        self._make_plan()
        self._mark("trees")
        await self._open(list(self._healthy()))
        self._mark("open")
        self._check_source()
        self.state = "running"
        self._feed()
        self._mark("assign")

    def _check_source(self) -> None:
        assert self.source
        if self.source.state == "failed":
            error = self.source.error or {"code": "error", "message": "failed"}
            raise GroupError(error["code"], f"source {self.source.name}: {error['message']}", self.source.name)

    async def _connect_root(self) -> None:
        assert self.source
        self._root = Connection(self.source.addr, self._on_event, self._wake.set)
        try:
            await self._root.connect(REQUEST_S)
        except SignallingError as error:
            raise GroupError("unreachable", f"source {self.source.name}: {error.message}", self.source.name) from error

    async def _stat(self) -> None:
        parts: dict[str, dict[str, Any]] = {}
        for member in self._healthy():
            parts[member.name] = (
                {"path": self.spec["source_path"]} if member.role == "source" else {"dest": self.spec["dest_path"]}
            )
        results = await self._request("stat", list(self._healthy()), parts=parts)
        self._fail_by(results)
        self._check_source()
        assert self.source
        size = results[self.source.name].get("size")
        if not isinstance(size, int) or size < 0:
            raise GroupError("bad_answer", f"source {self.source.name} told no size of {self.spec['source_path']}")
        self.size = size

    def _fail_by(self, results: Results) -> None:
        """Members whose result is an error have failed; those without one did not answer."""
        for member in list(self._healthy()):
            result = results.get(member.name)
            if result is None:
                member.fail("unreachable", f"{member.name} did not answer")
            elif not result.get("ok"):
                member.fail(str(result.get("code", "error")), str(result.get("error") or result.get("code", "refused")))
        if not any(m.state != "failed" for m in self._receivers()) and self.source and self.source.state != "failed":
            first = next(m for m in self._receivers())
            error = first.error or {"code": "error", "message": "failed"}
            raise GroupError(
                error["code"],
                "no receiver is left: "
                + "; ".join(f"{m.name}: {m.error['message']}" for m in self._receivers()[:8] if m.error),
            )

    def _make_plan(self) -> None:
        assert self.size is not None
        names = [m.name for m in self._receivers() if m.state != "failed"]
        load: dict[tuple[str, str], int] = {}
        for entry in self.order["load"]:
            if entry["group"] != self.id:
                arc = (entry["from"], entry["to"])
                load[arc] = load.get(arc, 0) + 1
        self.plan = make_plan(self.view.graph, self.spec["source"], names, self.options, load)
        for name, why in self.plan.cut_off.items():
            self.members[name].fail("cut_off", why)
        self.tree_ids = self.order["tree_ids"][: len(self.plan.trees)]
        if len(self.tree_ids) < len(self.plan.trees):
            raise GroupError("limit", f"{len(self.plan.trees)} trees, but {len(self.tree_ids)} ids")
        self.block = per_block(self.size, self.plan.payload, self.options.get("block_bytes"))
        frame = self.plan.payload + 14 + 16 + 4 * self.plan.labels
        rate = min(t.transport.rate_max_bps for t in self.plan.trees) / 8 / frame
        self.scheduler = Scheduler(
            -(-self.size // self.plan.payload),
            self.block,
            self.tree_ids,
            rate,
            max_pieces=max(1, (64 << 20) // self.plan.payload),
        )

    def _open_part(self, member: Member) -> dict[str, Any]:
        assert self.plan
        if member.role == "source":
            return {"role": "source", "path": self.spec["source_path"]}
        routes = {
            str(tree): planned.routes[member.name].hex()
            for tree, planned in zip(self.tree_ids, self.plan.trees, strict=True)
        }
        return {"role": "receiver", "dest": self.spec["dest_path"], "routes": routes}

    def _open_body(self) -> dict[str, Any]:
        assert self.plan
        return {
            "size": self.size,
            "piece": self.plan.payload,
            "per_block": self.block,
            "source": self.spec["source"],
            "lease_ms": self.options["lease_ms"],
            "trees": [t.transport.to_json(i) for i, t in zip(self.tree_ids, self.plan.trees, strict=True)],
        }

    async def _open(self, members: list[Member]) -> None:
        results = await self._request("open", members, self._open_body(), {m.name: self._open_part(m) for m in members})
        self._fail_by(results)
        now = time.monotonic()
        for member in self._healthy():
            member.opened, member.heard = True, now
            member.state = "open" if member.state == "waiting" else member.state

    # ---- requests over the common tree ----
    def _healthy(self):
        return (m for m in self.members.values() if m.state != "failed" and not m.suspect)

    def _message(self, members: list[Member], parts: dict[str, dict[str, Any]] | None) -> dict[str, Any]:
        assert self.source
        names = frozenset(m.name for m in members)
        if self._tree[0] != names:
            self._tree = (names, member_tree(self.view.graph, self.source.name, names))
        return tree_message(self._tree[1], self.source.name, {m.name: m.addr for m in (self.source, *members)}, parts)

    async def _request(
        self,
        op: str,
        members: list[Member],
        body: dict[str, Any] | None = None,
        parts: dict[str, dict[str, Any]] | None = None,
    ) -> Results:
        """Over the tree, the source first. Raises GroupError when the source's agent is gone."""
        assert self._root and self.source
        try:
            return await self._root.request(op, self.id, self._message(members, parts), body, REQUEST_S)
        except SignallingError as error:
            raise GroupError("unreachable", f"source {self.source.name}: {error.message}", self.source.name) from error

    def _tell(self, op: str, body: dict[str, Any]) -> asyncio.Task[Any]:
        """Put an entry on the log and send it to all who are up to date; in order, without waiting for earlier ones."""
        index = len(self._log)
        self._log.append(Entry(op, body))
        ready = [m for m in self._healthy() if not (m.role == "receiver" and m.state == "done")]
        # The request is written when the coroutine first runs; tasks first run in the order they were made.
        return self._spawn(self._deliver(index, ready))

    async def _deliver(self, index: int, members: list[Member]) -> None:
        entry = self._log[index]
        self._under_way += 1
        try:
            results = await self._request(entry.op, members, {"n": index + 1, **entry.body})
        except GroupError as error:
            log.warning("group %s: %s", self.id, error)
            return  # seen and mended by the poll
        finally:
            self._under_way -= 1
        for member in members:
            self._acknowledged(member, index, results.get(member.name))

    def _acknowledged(self, member: Member, index: int, result: dict[str, Any] | None) -> bool:
        """Note a member's answer to an entry. False when it has to be told again."""
        if result is None or result.get("code") == "unreachable":
            self._suspect(member)
            return False
        if result.get("ok"):
            member.heard = time.monotonic()
            if member.position == index:
                member.position += 1
            return member.position > index
        if result.get("code") in ("no_group", "gap"):
            if result.get("code") == "no_group":
                member.opened, member.position = False, 0
            self._suspect(member)
            return False
        member.fail(str(result.get("code", "error")), f"{self._log[index].op}: {result.get('error', 'refused')}")
        self._wake.set()
        return False

    def _suspect(self, member: Member) -> None:
        if member.final or member.suspect:
            return
        log.warning("group %s: %s does not answer", self.id, member.name)
        member.suspect = True
        self._wake.set()

    # ---- events ----
    def _on_event(self, event: dict[str, Any]) -> None:
        if event.get("group") != self.id:
            return
        member = self.members.get(event.get("n", ""))
        if member is None:
            return
        kind, now = event.get("event"), time.monotonic()
        member.heard = now
        if kind == "first":
            if member.role == "source":
                self.first_ns = self.first_ns or event.get("t_ns")
            else:
                member.t_first_ns = member.t_first_ns or event.get("t_ns")
        elif kind == "progress" and self.scheduler:
            self.scheduler.sent(int(event["tree"]), int(event["seq"]), now)
        elif kind == "digests":
            self._digests_since = self._digests_since if self._digests else now
            self._digests += event.get("blocks", [])
        elif kind == "done" and member.role == "receiver":
            self._member_done(member, event.get("t_ns"))
        elif kind == "failed":
            member.fail(str(event.get("code", "error")), str(event.get("error", "failed")))
        elif kind == "bad_block":
            member.bad_blocks += 1
        self._wake.set()

    def _member_done(self, member: Member, t_ns: int | None) -> None:
        if member.final:
            return
        member.state, member.t_done_ns = "done", t_ns or time.time_ns()
        member.sha256_ok, member.suspect = True, False
        member.bytes = self.size or 0

    # ---- the transfer ----
    async def _transfer(self) -> None:
        poll = self._spawn(self._poll_loop())
        while not all(m.final for m in self._receivers()):
            self._check_stop()
            self._check_source()
            self._feed()
            self._visit_suspects()
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._nap())
        poll.cancel()
        with contextlib.suppress(GroupError):
            self._status_in(await self._request("status", [m for m in self._healthy() if m.opened]))

    def _nap(self) -> float:
        return DIGEST_DELAY_S if self._digests else TICK_S

    def _feed(self) -> None:
        """Assign, take over, forward digests."""
        assert self.scheduler
        now = time.monotonic()
        if self._digests and (
            len(self._digests) >= DIGESTS_MAX
            or now - self._digests_since >= DIGEST_DELAY_S
            or len(self._digests) == self._blocks()
        ):
            while self._digests:
                self._tell("digest", {"blocks": self._digests[:DIGESTS_MAX]})
                del self._digests[:DIGESTS_MAX]
        extents = self.scheduler.assign(now)
        if extents:
            self._tell("assign", {"extents": [[e.tree, e.seq, e.first, e.count] for e in extents]})
        cut = self.scheduler.steal(now)
        if cut:
            self.takeovers += 1
            log.info("group %s: tree %d is cut at %d", self.id, cut.tree, cut.seq)
            self._spawn(self._cut([[cut.tree, cut.seq]]))

    def _blocks(self) -> int:
        assert self.size is not None and self.plan
        return -(-self.size // (self.plan.payload * self.block))

    async def _cut(self, cuts: list[list[int]]) -> None:
        await self._tell("cut", {"trees": cuts})
        assert self.scheduler
        self.scheduler.cut_done()
        self._wake.set()

    async def _poll_loop(self) -> None:
        while True:
            started = time.monotonic()
            try:
                if self._root is None or not self._root.alive:
                    await self._mend_root()
                results = await self._request("status", [m for m in self._healthy() if m.opened])
                self._status_in(results)
            except GroupError as error:
                log.warning("group %s: %s", self.id, error)
                if self._root and self._root.alive:
                    await self._root.close()
            await self._push()
            await asyncio.sleep(max(0.02, POLL_S - (time.monotonic() - started)))

    async def _mend_root(self) -> None:
        """The connection to the source's agent is gone: make a new one, and open again so that events come over it."""
        assert self.source
        limit = self.options["member_timeout_ms"] / 1000
        if time.monotonic() - self.source.heard > limit:
            self.source.fail("unreachable", f"the agent did not answer for {limit:g} s")
            self._wake.set()
            return
        await self._connect_root()
        everyone = [m for m in self._healthy() if m.opened and not (m.role == "receiver" and m.state == "done")]
        results = await self._request(
            "open", everyone, self._open_body(), {m.name: self._open_part(m) for m in everyone}
        )
        for member in everyone:
            if not (results.get(member.name) or {}).get("ok"):
                self._suspect(member)
        self._spawn(self._replay(self.source, self._root))

    def _status_in(self, results: Results) -> None:
        now = time.monotonic()
        elapsed = now - self._polled_at if self._polled_at else None
        self._polled_at = now
        for name, result in results.items():
            member = self.members.get(name)
            if member is None or member.suspect:
                continue
            if not result.get("ok"):
                if result.get("code") == "no_group" and not member.final:
                    member.opened, member.position = False, 0
                self._suspect(member)
                continue
            self._figures(member, result, now, elapsed)
            if member.position < len(self._log) and not member.final and not self._under_way:
                self._suspect(member)

    def _figures(self, member: Member, result: dict[str, Any], now: float, elapsed: float | None) -> None:
        """A member's status."""
        member.heard = now
        trees = result.get("trees") or {}
        if member.role == "source":
            for tree, figures in trees.items():
                before = self._source_trees.get(tree, {}).get("new_packets", 0)
                rate = (figures.get("new_packets", 0) - before) / elapsed if elapsed else None
                self._source_trees[tree] = {**figures, "packet_rate": rate or 0.0}
                if self.scheduler and isinstance(figures.get("seq"), int):
                    self.scheduler.status(int(tree), figures["seq"], rate, now)
            if result.get("state") == "failed":
                member.fail(str(result.get("code", "error")), str(result.get("error", "failed")))
            return
        held = int(result.get("bytes", 0))
        if elapsed:
            member.rate_bps = 0.5 * member.rate_bps + 0.5 * max(0, held - member.last_bytes) * 8 / elapsed
        member.bytes = member.last_bytes = held
        member.trees = trees
        member.blocks_ok = int(result.get("blocks_ok", member.blocks_ok))
        member.bad_blocks = max(member.bad_blocks, int(result.get("bad_blocks", 0)))
        member.t_first_ns = member.t_first_ns or result.get("t_first_ns") or None
        if member.state == "open":
            member.state = "running"
        if result.get("state") == "done":
            self._member_done(member, result.get("t_done_ns"))
        elif result.get("state") == "failed":
            member.fail(str(result.get("code", "error")), str(result.get("error", "failed")))
        if member.final:
            self._wake.set()

    # ---- members that do not answer ----
    def _visit_suspects(self) -> None:
        for member in self.members.values():
            if member.suspect and not member.final and member.name not in self._visits:
                self._visits.add(member.name)
                self._spawn(self._visit(member))

    async def _visit(self, member: Member) -> None:
        """Try to get a member back on a connection of its own: open, and everything it missed."""
        limit = self.options["member_timeout_ms"] / 1000
        try:
            while member.suspect and not member.final:
                connection = Connection(self.view.address(member.name) or member.addr, self._on_event)
                try:
                    await connection.connect(SUSPECT_S)
                    await self._recover(member, connection)
                except SignallingError as error:
                    if time.monotonic() - member.heard > limit:
                        member.fail("unreachable", f"{member.name} did not answer for {limit:g} s: {error.message}")
                        self._wake.set()
                        break
                finally:
                    await connection.close()
                if member.suspect:
                    await asyncio.sleep(SUSPECT_S)
        finally:
            self._visits.discard(member.name)

    async def _recover(self, member: Member, connection: Connection) -> None:
        part = {"n": member.name, "a": member.addr, "b": self._open_part(member)}
        results = await connection.request("open", self.id, part, self._open_body(), REQUEST_S)
        result = results.get(member.name, {})
        if not result.get("ok"):
            member.fail(str(result.get("code", "error")), str(result.get("error", "refused to open the group")))
            self._wake.set()
            return
        member.opened = True
        if not await self._replay(member, connection):
            return
        member.suspect, member.heard = False, time.monotonic()
        log.warning("group %s: %s is back", self.id, member.name)
        # Its events have to come over the common tree again.
        everyone = [m for m in self._healthy() if m.opened and not (m.role == "receiver" and m.state == "done")]
        with contextlib.suppress(GroupError):
            await self._request("open", everyone, self._open_body(), {m.name: self._open_part(m) for m in everyone})

    async def _replay(self, member: Member, connection: Connection | None) -> bool:
        """Entries of the log that a member has not acknowledged, one after another."""
        assert connection
        while member.position < len(self._log) and not member.final:
            index = member.position
            entry = self._log[index]
            try:
                results = await connection.request(
                    entry.op, self.id, {"n": member.name, "a": member.addr}, {"n": index + 1, **entry.body}, REQUEST_S
                )
            except SignallingError as error:
                log.info("group %s: %s: %s", self.id, member.name, error)
                return False
            if not self._acknowledged(member, index, results.get(member.name)):
                return False
        return True

    # ---- end ----
    async def _close_members(self, reason: str, keep: bool) -> None:
        if self._root is None or not self._root.alive:
            return
        members = [m for m in self.members.values() if m.opened and not m.suspect]
        with contextlib.suppress(GroupError, DatacastError):
            await self._request("close", members, {"reason": reason[:500], "keep": keep})

    # ---- reports ----
    def progress(self) -> dict[str, Any]:
        receivers = {m.name: m.to_json(self.size, self.first_ns) for m in self._receivers()}
        live = [r for r in receivers.values() if r["state"] != "failed"] or list(receivers.values())
        body: dict[str, Any] = {
            "state": self.state,
            "error": self.error,
            "size": self.size,
            "fraction": sum(r["fraction"] for r in live) / len(live) if live else 0.0,
            "rate_bps": min((r["rate_bps"] for r in live if r["state"] == "running"), default=0),
            "trees": self._trees_json(),
            "report": self.report,
        }
        if receivers:
            body["receivers"] = receivers
        return body

    def _trees_json(self) -> dict[str, Any]:
        trees: dict[str, Any] = {}
        if self.plan is None or self.scheduler is None:
            return trees
        frame_bits = 8 * self.plan.payload
        for tree, planned in zip(self.tree_ids, self.plan.trees, strict=True):
            figures = self._source_trees.get(str(tree), {})
            queue = self.scheduler.trees[tree]
            trees[str(tree)] = {
                "state": "spent" if queue.spent else "running" if queue.end > queue.sent else "idle",
                "depth": planned.depth,
                "links": len(planned.arcs),
                "arcs": [list(a) for a in planned.arcs],
                "rate_bps": round(figures.get("packet_rate", 0.0) * frame_bits),
                "bucket_bps": figures.get("rate_bps", 0),
                "pieces": queue.assigned,
                "seq": figures.get("seq", 0),
                "new_packets": figures.get("new_packets", 0),
                "dup_packets": figures.get("dup_packets", 0),
                "interests": figures.get("interests", 0),
                "merged": figures.get("merged", 0),
                "duplicates": figures.get("duplicates", 0),
                "retransmissions": sum(
                    int(m.trees.get(str(tree), {}).get("retransmitted", 0)) for m in self._receivers()
                ),
            }
        return trees

    def _make_report(self) -> None:
        trees = self._trees_json()
        new = sum(t["new_packets"] for t in trees.values())
        dup = sum(t["dup_packets"] for t in trees.values())
        accepted = self.marks[0][1]
        steps = {
            name: round((at - before) / 1e6, 3)
            for (_, before), (name, at) in zip(self.marks, self.marks[1:], strict=False)
        }
        if self.first_ns:
            steps["first_packet"] = round((self.first_ns - self.marks[-1][1]) / 1e6, 3)
        done = [m for m in self._receivers() if m.state == "done" and m.t_done_ns]
        finish = (max(m.t_done_ns or 0 for m in done) - self.first_ns) / 1e9 if done and self.first_ns else None
        ideal = self.plan.ideal_s(self.size) if self.plan and self.size else None
        self.report = {
            "start_s": (self.first_ns - accepted) / 1e9 if self.first_ns else None,
            "start_ms": steps,
            "finish_s": finish,
            "ideal_s": ideal,
            "finish_over_ideal": finish / ideal if finish and ideal else None,
            "duplicate_ratio": dup / new if new else 0.0,
            "size": self.size,
            "takeovers": self.takeovers,
            "trees": {
                "count": len(trees),
                "depth": max((t["depth"] for t in trees.values()), default=0),
                "links": [t["links"] for t in trees.values()],
            },
            "new_packets": new,
            "dup_packets": dup,
            **(
                {
                    "payload": self.plan.payload,
                    "labels": self.plan.labels,
                    "mtu": self.plan.mtu,
                    "per_block": self.block,
                    "transport": [t.transport.to_json(i) for i, t in zip(self.tree_ids, self.plan.trees, strict=True)],
                }
                if self.plan
                else {}
            ),
        }

    async def _push(self) -> None:
        try:
            answer = await self.client.put_progress(self.id, self.progress())
        except Problem as problem:
            log.info("group %s: %s", self.id, problem)
            return
        if answer["state"] == "cancelling":
            self.cancel("cancelled on request")
        elif answer["state"] in FINAL_STATES:
            self.cancel(f"the fabric manager holds the group as {answer['state']}")

    async def _push_final(self) -> None:
        """The final report is worth waiting for a fabric manager that starts again."""
        end = time.monotonic() + REPORT_PATIENCE_S
        while True:
            try:
                await self.client.put_progress(self.id, self.progress())
                return
            except Problem as problem:
                if problem.status != 503 or time.monotonic() > end:
                    log.error("group %s: the report could not be delivered: %s", self.id, problem)
                    return
            await asyncio.sleep(0.5)

    async def _follow_control(self) -> None:
        while True:
            try:
                async for event in self.client.events(["control"], self.id):
                    if event["type"] == "cancel":
                        self.cancel("cancelled on request")
            except Problem as problem:
                log.info("control stream: %s", problem)
            await asyncio.sleep(0.5)
