"""A collective fetch: the master deals an object's blocks out to fetchers, and each sends on what it has fetched.

Who fetches what is origins/dealing.py's; runs are of blocks. A fetcher has two runs at a time, so that it never waits
for an order. It tells the digest of each block that it has: that is the news that the block is there, and from then on
its trees carry it. What a fetcher had not finished when it went is fetched by the others.

At the end, when nothing is left to be dealt out, a slow one leaves what it has been ordered and not asked for to those
who are done. Where it needs much longer than they would, they are ordered what it has asked for, too: whose copy is
there first is sent. Who is slow gets no block back, so each leaves the origin once more at most for each that is slow.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from datacast.core.lists import few
from datacast.fabric_manager.api.reports import Slowness
from datacast.origins.dealing import Dealing
from datacast.origins.exchange import packed, runs_of, touched
from datacast.origins.ranges import AT_SITE, Range, common, joined, piece_bytes
from datacast.origins.ranges import pieces as number_of
from datacast.services.ranges import spans, union

from .answers import Results, StatAnswer
from .arrivals import Arrivals
from .collective import Collective
from .crew import PROMPT_S, Crew
from .digests import Row
from .errors import GroupError
from .members import Member
from .objects import FATAL, THROTTLED, Objects
from .plan import BLOCKS_MAX
from .requests import FETCH, STAT, Destination, Fetch
from .shards import Shards
from .tasks import Tasks
from .transfer import Transfer

log = logging.getLogger("datacast.master")

STAT_S = 20.0
"""An origin may be far away."""
AT_ONCE = 4
"""Requests of a fetcher at a time (FETCH_AT_ONCE of the agent): it has no less to do while there is plenty."""
OFFERED = 16
"""Blocks of an order of what is offered."""
LATE_S = 0.25
"""A fetcher that needs longer for what it was ordered leaves some of it to those who have nothing to do."""
STUCK_S, STUCK_TIMES = 2.0, 3
"""And one that needs so long, and so many times as long as they would, what it has asked for as well: some of that
leaves the origin twice."""
BLOCK_LEAST, BLOCK_MORE = 32 << 10, 64 << 10
"""Of short objects and of others: a slow fetcher's last block should not hold everybody up."""
SETTLE_S, TOLD_S = 0.5, 10.0
"""After members were opened again they tell what they hold; so long that is waited for at least, and at most."""
REPEAT_S = 4.0
"""A run of which nothing is heard for so long is ordered again: what is there or on its way is not fetched twice."""


def block_bytes(size: int) -> int:
    """Of one block of an object of this size."""
    return max(BLOCK_LEAST, min(BLOCK_MORE, size >> 12), -(-size // BLOCKS_MAX))


@dataclass
class Run:
    blocks: Range
    missing: set[int]
    heard: float


class Fetching:
    """Of a group that has a URL for its source."""

    def __init__(self, transfer: Transfer, crew: Crew, tasks: Tasks) -> None:
        self._t, self._crew, self._tasks = transfer, crew, tasks
        self.dealing: Dealing | None = None
        self.objects = Objects(transfer.spec)
        self.fetched_by: Counter[str] = Counter()
        """Blocks."""
        self._runs: dict[str, list[Run]] = {}
        self._came: dict[str, Arrivals] = defaultdict(Arrivals)
        self._relieved = 0.0
        self._stuck: dict[str, set[int]] = defaultdict(set)
        """Blocks that a fetcher has asked for and others were given: it gets no more while it has such."""
        self._asked = np.zeros(0, bool)
        self._twice = 0
        """Blocks that were ordered again, and may have left the origin twice."""
        self._holders: dict[int, set[str]] = {}
        self._digest_of: dict[int, str] = {}
        self._rehoming = False
        self._settled = self._told = 0.0
        """What members hold is not known before; nor, until then, while one has not told all of it."""
        self._refusals: dict[str, GroupError] = {}
        self._ended: GroupError | None = None
        url = transfer.spec.url or ""
        self._far = url.startswith(AT_SITE)
        self._offers: list[Range] | None = [] if self._far else None
        """Pieces of the exchange between sites that the controller lets members ask for; None: all there are."""
        self._wants: dict[str, list[Range]] = {}
        """Blocks that receivers want, where they want ranges: each root fetches of its own only."""
        self._wanted, self._beyond = np.zeros(0, bool), np.zeros(0, bool)
        """Blocks that anybody wants; pieces of the exchange that nobody does."""
        self._fetched_then: list[str] = []

    @property
    def _scheduler(self) -> Collective:
        assert isinstance(self._t.scheduler, Collective)
        return self._t.scheduler

    # ---- start ----
    async def stat(self) -> int:
        """Bytes of what is fetched. Raises GroupError."""
        await self.objects.stat(self._ask, self._refused, self._waits)
        return self.objects.size

    def _waits(self, for_now: dict[str, str]) -> None:
        """These are refused for now, and ask again."""
        for member in self._crew.roots:
            why = for_now.get(member.name)
            member.refused_for_now = Slowness.cut(THROTTLED, why) if why else None
        self._t.tell_now()

    @property
    def slow(self) -> Slowness | None:
        """What fetchers are refused for now, and ask for again."""
        refused = {m.name: m.refused_for_now for m in self._crew.roots if m.refused_for_now and not m.final}
        if not refused:
            return None
        why = self._by_reason({name: told.message for name, told in refused.items()})
        return Slowness.cut(min(told.code for told in refused.values()), f"{self._t.spec.source_path}: {why}")

    def _by_reason(self, told: dict[str, str]) -> str:
        """What each host was told, each reason once."""
        hosts = dict[str, list[str]]()
        for name, why in told.items():
            hosts.setdefault(why.removeprefix(f"{self._t.spec.source_path}: "), []).append(name)
        return few((f"{why} ({few(names)})" for why, names in hosts.items()), by="; ")

    async def _ask(self, urls: dict[str, tuple[str, ...]]) -> Results[StatAnswer]:
        members = [m for m in self._crew.roots if m.name in urls]
        asked = {name: Destination(self._t.dest(name), its) for name, its in urls.items()}
        try:
            return await self._crew.insist(STAT, members, None, asked, STAT_S)
        except GroupError as error:
            raise GroupError(error.code, f"{self._t.spec.source_path}: {error.message}", error.what) from error

    def _refused(self, name: str, error: GroupError) -> list[str]:
        """This one does not fetch; who is left? Raises GroupError when nobody is."""
        self._refusals[name] = error
        self._crew.members[name].sends = False
        log.warning("group %s: %s does not fetch: %s", self._t.id, name, error.message)
        left = [m.name for m in self._crew.roots if m.name not in self._refusals]
        if not left:
            raise self._nobody_fetches()
        return left

    def begin(self, roots: list[str]) -> None:
        self.dealing = Dealing(self._t.blocks, roots, self._t.spec.origin_policy, run=AT_ONCE)
        self._runs = {root: [] for root in roots}
        self._wanted = np.full(self._t.blocks, not self._t.shards)
        self._asked = np.zeros(self._t.blocks, bool)
        if self._t.shards:
            self._begin_ranges(self._t.shards)
        if self._t.order.again:
            self._settled, self._told = (time.monotonic() + wait for wait in (SETTLE_S, TOLD_S))

    def _begin_ranges(self, shards: Shards) -> None:
        t = self._t
        for name in t.everybody:
            self._wants[name] = [Range(*row) for row in shards.rows.get(name, [(0, t.blocks)] if t.blocks else [])]
            for one in self._wants[name]:
                self._wanted[one.first : one.end] = True
        # As the controller counts: by bytes, not by whole blocks.
        rows = [row for name in t.everybody for row in spans(t.spec.shards.get(name, ["0-"]), shards.size, 1)]
        self._beyond = ~touched(union(rows), shards.size, piece_bytes(shards.size))

    def _known(self, now: float) -> bool:
        """What members hold, as far as it ever will be."""
        if now < self._settled:
            return False
        asked = [m for m in self._crew.roots if m.role == "receiver" and not (m.final or m.aside)]
        return now >= self._told or all(m.resuming == 0 for m in asked)

    # ---- while it runs ----
    def deal(self, now: float) -> None:
        """Give those who have less than two runs their next."""
        if self._ended is not None:
            raise self._ended
        if self.dealing is None:
            return
        if self._scheduler.homeless and not self._rehoming:
            self._rehoming = True
            self._tasks.spawn(self._rehome())
        if not self._known(now):
            return
        if not self.dealing.fetchers and self._missed():
            raise self._nobody_fetches()
        if self._wants and self.dealing.fetchers != self._fetched_then:
            self._fetched_then = self.dealing.fetchers
            self._starve()
        for root in list(self.dealing.fetchers):
            runs, member = self._runs[root], self._crew.members[root]
            self._end_runs(root)
            if runs and (rate := self._came[root].rate(now)):
                self.dealing.measured(root, rate)
            for run in runs:
                if now - run.heard > REPEAT_S and not member.suspect:
                    run.heard = now
                    self._tasks.spawn(self._order_run(member, run))
            while self._offers is None and not member.suspect and self._hungry(root, now):
                if (blocks := self.dealing.take(root)) is None:
                    break
                self._begin_run(root, blocks, now)
        self._deal_offers(now)
        self._relieve(now)

    def _begin_run(self, root: str, blocks: Range, now: float) -> None:
        assert self.dealing
        missing = {b for b in range(blocks.first, blocks.end) if not self._holders.get(b)}
        if self.dealing.policy == "flat":
            missing = {b for b in range(blocks.first, blocks.end) if root not in self._holders.get(b, ())}
        if not self._missing(root):
            self._came[root].begin(now)
        run = Run(blocks, missing, now)
        self._runs[root].append(run)
        self._twice += sum(bool(self._asked[block]) for block in missing)
        self._asked[list(missing)] = True
        self._stuck[root] -= missing
        if missing:
            self._tasks.spawn(self._order_run(self._crew.members[root], run))
        else:
            self._end_runs(root)

    # ---- what the controller lets members ask other sites for ----
    def offered(self, pieces: list[tuple[int, int]]) -> None:
        """First and count, of the exchange's pieces. Raises ValueError: none, or two overlap."""
        self._offers = joined(Range(first, count) for first, count in pieces)
        self._t.wake.set()

    def _deal_offers(self, now: float) -> None:
        """All of it at once: the controller offers no more than other sites can give soon."""
        if not self._offers:
            return
        assert self.dealing
        held = self._blocks_of(self._offers)
        able = [root for root in self._able() if not self._blocked(root)]
        while able:
            root = min(able, key=lambda name: (self._missing(name), name))
            able_of = common(self._wants[root], held) if self._wants else held
            if (blocks := self.dealing.take(root, able_of, OFFERED)) is None:
                able.remove(root)
            else:
                self._begin_run(root, blocks, now)

    def _bytes(self) -> tuple[int, int]:
        """Of a piece of the exchange, and of a block."""
        assert self._t.plan and self._t.size is not None
        return piece_bytes(self._t.size), self._t.plan.payload * self._t.block

    def _blocks_of(self, offers: list[Range]) -> list[Range]:
        """The blocks that are in these pieces as a whole, in order and joined. Where receivers want ranges, pieces that
        nobody wants count with them: these are never offered, and a block at the edge of a range reaches into one."""
        piece, block = self._bytes()
        assert self._t.size is not None
        if self._wants:
            pieces = self._beyond.copy()
            for one in offers:
                pieces[one.first : one.end] = True
            offers = runs_of(pieces)
        found = []
        for one in offers:
            end = self._t.blocks if one.end * piece >= self._t.size else one.end * piece // block
            first = -(-one.first * piece // block)
            if first < end:
                found.append(Range(first, end - first))
        return joined(found)

    def fetched(self) -> str:
        """The pieces of the exchange that members have, all blocks of each that anybody wants; "": it is no object of
        another site, or members have not told yet what they hold: the controller would read all of it again."""
        if not self._far or self.dealing is None or not self._t.size or not self._known(time.monotonic()):
            return ""
        piece, block = self._bytes()
        there = np.zeros(self._t.blocks + 1, np.int64)
        there[1:] = np.cumsum([not self._wanted[b] or bool(self._holders.get(b)) for b in range(self._t.blocks)])
        first = np.arange(-(-self._t.size // piece)) * piece
        begin, end = first // block, -(-np.minimum(first + piece, self._t.size) // block)
        return packed(there[end] - there[begin] == end - begin)

    @property
    def refetched_bytes(self) -> int:
        return self._twice * self._bytes()[1] if self._twice else 0

    def _hungry(self, root: str, now: float) -> bool:
        assert self.dealing
        runs = self._runs[root]
        missing = self._missing(root)
        if missing >= AT_ONCE and (len(runs) > 1 or 2 * missing > runs[0].blocks.count):
            return False
        return not self._blocked(root) and self._worth(root)

    def _able(self) -> list[str]:
        assert self.dealing
        return [root for root in self.dealing.fetchers if not self._crew.members[root].suspect]

    def _blocked(self, root: str) -> bool:
        """It gets nothing from its origin, and others may."""
        return bool(self._stuck[root]) and any(not self._stuck[other] for other in self._able())

    def _missing(self, root: str) -> int:
        return sum(len(run.missing) for run in self._runs[root])

    def _worth(self, root: str) -> bool:
        """Towards the end one that is slow leaves the rest to those who are done with it sooner."""
        assert self.dealing
        there = [name for name in self.dealing.fetchers if name == root or not self._crew.members[name].suspect]
        rates = {name: self.dealing.rate(name) for name in there}
        if self.dealing.policy not in ("steal", "robber") or not all(rates.values()):
            return True
        left = self.dealing.left() / sum(rates.values())
        return AT_ONCE / rates[root] <= left + AT_ONCE / max(rates.values())

    def _relieve(self, now: float) -> None:
        """Nobody finds anything to fetch, and one has more than it can fetch soon."""
        dealing = self.dealing
        assert dealing
        if now < self._relieved or dealing.policy not in ("steal", "robber") or dealing.left() or self._wants:
            return
        able = self._able()
        idle = max((r for r in able if not (self._missing(r) or self._stuck[r])), key=dealing.rate, default=None)
        late_s = {root: self._missing(root) / (dealing.rate(root) or 1e-9) for root in able}
        late = max(able, key=lambda root: late_s[root], default="")
        if idle is None or late_s[late] <= LATE_S:
            return
        if self._missing(late) > 2 or self._is_stuck(late, idle, now):
            self._relieved = now + LATE_S
            self._tasks.spawn(self._relieve_of(self._crew.members[late], idle))

    def _is_stuck(self, late: str, idle: str, now: float) -> bool:
        """Whether it needs much longer for what it has asked for than another one would, from the first byte on. Where
        its rate is not known it needs as long again as it has been silent."""
        assert self.dealing
        missing, rate, other = self._missing(late), self.dealing.rate(late), self.dealing.rate(idle)
        needs_s = max(missing / rate if rate else 0.0, self._came[late].silent_s(now))
        return needs_s > max(STUCK_S, STUCK_TIMES * (missing / other if other else STUCK_S))

    async def _relieve_of(self, member: Member, idle: str) -> None:
        """What it has not asked for is another's, and if it is stuck, what it has asked for, too."""
        late, runs = member.name, list(self._runs.get(member.name, ()))
        rows = [row for run in runs for row in _rows(run.missing)]
        try:
            part = {late: Fetch(leave=rows)}
            told = (await self._crew.request(FETCH, [member], None, part, PROMPT_S)).of(late)
        except GroupError as error:  # what it has left all the same is ordered again
            log.info("group %s: %s", self._t.id, error)
            return
        if not {late, idle} <= set(self._able()):
            return
        assert self.dealing
        left = {block for block in told.left if block < self._t.blocks}
        self._asked[list(left)] = False
        stuck = told.ok and self._is_stuck(late, idle, time.monotonic())
        for run in runs:
            given = run.missing if stuck else run.missing & left
            if not given or run not in self._runs[late]:
                continue
            if stuck:
                self._stuck[late] |= given - left
            kept = self.dealing.leaves(late, run.blocks, [Range(*row) for row in _rows(given)], idle)
            self._runs[late].remove(run)
            for one in kept:
                blocks = set(range(one.first, one.end))
                self._runs[late].append(Run(one, (run.missing - given) & blocks, run.heard))
        if stuck and self._stuck[late]:
            count = len(self._stuck[late])
            log.warning("group %s: %s is slow: %s fetches %d of its blocks, too", self._t.id, late, idle, count)
        self._end_runs(late)
        self._t.wake.set()

    async def _order_run(self, member: Member, run: Run) -> None:
        rows = _rows(run.missing)
        if not rows:
            return
        try:
            results = await self._crew.request(FETCH, [member], None, {member.name: Fetch(rows)}, PROMPT_S)
        except GroupError as error:
            log.info("group %s: %s", self._t.id, error)
            return  # ordered again
        told = results.of(member.name)
        # Of an agent that was started again, and is opened with the next look: ordered again.
        if not told.ok and told.code not in ("unreachable", "no_group"):
            self.not_fetched(member, told.code, told.why)

    def _end_runs(self, root: str) -> None:
        assert self.dealing
        for run in [run for run in self._runs[root] if not run.missing]:
            self._runs[root].remove(run)
            self.dealing.fetched(root, run.blocks, 0.0)  # it is measured otherwise

    def held_by(self, member: Member, rows: list[Row]) -> list[Row]:
        """A root has these blocks. Returns the digests that nobody has told before."""
        news, now = list[Row](), time.monotonic()
        for block, digest in rows:
            known = self._digest_of.setdefault(block, digest)
            if known != digest:
                self._ended = GroupError("changed", f"{self._t.spec.source_path} changed while it was fetched")
                return []
            first = not self._holders.get(block)
            if first:
                news.append((block, digest))
            self._holders.setdefault(block, set()).add(member.name)
            self._t.news = True
            if first or block in self._scheduler.homeless:
                self._scheduler.offer(block, member.name)
            for run in self._runs.get(member.name, ()):
                if block in run.missing:
                    run.missing.discard(block)
                    run.heard = now
                    self.fetched_by[member.name] += 1
                    self._came[member.name].came(now)
            if block in self._stuck[member.name]:
                self._came_after_all(member.name, block)
        if self.dealing is not None and member.name in self.dealing.fetchers:
            self._end_runs(member.name)
            if self._offers is None and self._hungry(member.name, now):
                self._t.wake.set()  # it should not wait for the next look
        return news

    def _came_after_all(self, root: str, block: int) -> None:
        """Whoever was given it need not be waited for."""
        self._stuck[root].discard(block)
        for other, runs in self._runs.items():
            for run in runs:
                run.missing.discard(block)
            self._end_runs(other)

    def not_fetched(self, member: Member, code: str, why: str) -> None:
        """It cannot fetch (any more). What it has it sends all the same."""
        name = member.name
        if self.dealing is None or name not in self.dealing.fetchers:
            return
        self._refusals[name] = GroupError(code, why, name)
        log.warning("group %s: %s fetches no more: %s", self._t.id, name, why)
        if code in FATAL:
            self._ended = self._refusals[name]
        self._stop_fetcher(name)
        self._t.wake.set()

    def _stop_fetcher(self, name: str) -> None:
        assert self.dealing
        self._runs.pop(name, None)
        self._stuck.pop(name, None)
        self.dealing.gone(name)

    def _nobody_fetches(self) -> GroupError:
        what, told = self._t.spec.source_path, self._by_reason({n: e.message for n, e in self._refusals.items()})
        last = next(reversed(self._refusals.values()), GroupError("unreachable", "every fetcher is gone"))
        return GroupError(last.code, f"nobody can fetch {what}: {told or last.message}", what)

    # ---- a fetcher is gone, and perhaps back ----
    def lost_root(self, name: str) -> None:
        """What it had begun others fetch; what it was still sending somebody sends who has it, or fetches it again."""
        assert self.dealing
        self._scheduler.drop(name)
        if name in self.dealing.fetchers:
            self._stop_fetcher(name)
        for holders in self._holders.values():
            holders.discard(name)

    def again(self, blocks: set[int]) -> None:
        self._scheduler.homeless |= blocks

    def holds(self, block: int, name: str) -> bool:
        return name in self._holders.get(block, ())

    def needs(self, name: str) -> bool:
        if self.dealing is None or self._ended is not None or name in self._refusals:
            return False
        return name not in self.dealing.fetchers and self._missed()

    def _missed(self) -> bool:
        """Somebody has to fetch something yet."""
        assert self.dealing
        return sum(map(bool, self._holders.values())) < int(self._wanted.sum())

    def _starve(self) -> None:
        """Whoever could fetch what a receiver wants may be gone: it fails, and nobody waits for it."""
        assert self.dealing
        fetched = [(row.first, row.count) for root in self.dealing.fetchers for row in self._wants[root]]
        held = joined(Range(*row) for row in union([*fetched, *((b, 1) for b, h in self._holders.items() if h)]))
        for member in self._crew.receivers:
            rows = self._wants.get(member.name, [])
            if not member.final and not member.suspect and number_of(common(rows, held)) < number_of(rows):
                member.fail("no_fetcher", f"of the hosts that could fetch what {member.name} wants none is left")

    def root_back(self, name: str) -> None:
        assert self.dealing
        self.dealing.joins(name)
        self._runs[name] = []
        self._came.pop(name, None)

    async def _rehome(self) -> None:
        """Until nobody lacks anything that nobody sends. What no root has that answers is fetched again when there is
        none left that does not answer and may have it."""
        assert self.dealing
        asked = set[int]()
        while blocks := set(self._scheduler.homeless):
            if not blocks <= asked:
                self._settled = time.monotonic() + SETTLE_S
                try:
                    await self._crew.reopen()  # all who are left tell what they hold
                except GroupError as error:
                    log.warning("group %s: %s", self._t.id, error)
                    self._crew.rewire()
            asked |= blocks
            await asyncio.sleep(SETTLE_S)
            silent = any(member.suspect for member in self._crew.roots)
            again = []
            for block in sorted(blocks & self._scheduler.homeless):
                if holders := self._holders.get(block):
                    self._scheduler.offer(block, min(holders))
                elif not silent:
                    self._scheduler.homeless.discard(block)
                    again.append(block)
            self.dealing.lost([Range(*row) for row in _rows(again)])
            self._t.wake.set()
        self._rehoming = False


def _rows(blocks: Iterable[int]) -> list[tuple[int, int]]:
    """First and count of each run of them."""
    rows: list[tuple[int, int]] = []
    for block in sorted(blocks):
        if rows and sum(rows[-1]) == block:
            rows[-1] = (rows[-1][0], rows[-1][1] + 1)
        else:
            rows.append((block, 1))
    return rows
