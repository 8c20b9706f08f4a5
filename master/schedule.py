"""Which pieces go over which tree (paper, section 4.2). Pure: reports and `now` in, extents and cuts out.

Guided self-scheduling: a tree that is about to run dry gets the next extent while the present one is in flight, so it
never idles. An extent is its share of half of what is left, whole blocks while there is plenty; the rest is dealt out
so that all trees end together by their measured rates. When the pool is empty and one tree will end well after
another, the slower one is cut and the faster one takes over.

A sequence number never names another piece: caches know tree and number only, and a member that was out of touch may
not have heard of a cut. What is cut off never comes back; a tree goes on above all the numbers it was ever given, with
a gap. A cut is placed ahead of what the source will have sent when it hears of it: hardly a piece is sent twice.

Trees need not reach all receivers (Takahashi and others, Algorithm 2). A piece that goes over a tree is still to be
sent to those that the tree does not reach; such pieces wait in a pool of their own. A tree takes from the pool that
most receivers wait for, of those that it can serve: first what nobody has, and when that is dealt out, what its own
receivers missed. So the fast ones leave with all their trees' rates used for them, and the slow ones' trees never carry
what those behind them do not need.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from .shards import Wanted
from .tree_queue import ALL, PAST, Cut, Extent, Names, TreeQueue

SWITCH_S = 0.15
"""Before a tree has sent what some receivers wait for, others are given what comes next."""
OTHERS_S = 0.5
"""A tree that has nothing else to send waits so long for those that it need not send the rest to."""
CRAWLS = 0.05
"""Of a piece in the time that a cut takes to be heard of: what a tree so slow will send meanwhile is not counted on."""


class Scheduler:
    """`pieces` of the file, `per_block`, tree ids, and the rate (pieces/s) a tree is believed to have at first.

    lead_s: a tree is given more when it has less than this left. guard_pieces and guard_s: how far ahead of the
    source a cut is placed. gain_s: a cut is worth it when it ends the transfer so much earlier. spare_s: the slowest
    trees are meant to end so much before the others. rates: of trees that
    differ from the first. reach: the receivers of each tree, where they differ. wants: runs of pieces (first, count)
    of the receivers that do not want all of them; trees must reach receivers by name then.
    """

    EXTENTS_AHEAD = 2
    """The one in flight and the one announced."""

    def __init__(
        self,
        pieces: int,
        per_block: int,
        trees: list[int],
        rate: float,
        *,
        lead_s: float = 0.25,
        min_s: float = 0.2,
        max_pieces: int = 1 << 16,
        guard_pieces: int = 8,
        guard_s: float = 0.1,
        gain_s: float = 0.15,
        spare_s: float = 0.1,
        pool: list[tuple[int, int]] | None = None,
        rates: Mapping[int, float] | None = None,
        reach: Mapping[int, Names] | None = None,
        wants: Mapping[str, Sequence[tuple[int, int]]] | None = None,
    ) -> None:
        if pieces < 0 or per_block < 1 or not trees or rate <= 0:
            raise ValueError("pieces >= 0, per_block >= 1, at least one tree and a positive rate are needed")
        self.per_block = per_block
        self.nominal = rate
        self.lead_s, self.min_s, self.gain_s, self.spare_s = lead_s, min_s, gain_s, spare_s
        self.guard_pieces, self.guard_s = guard_pieces, guard_s
        self.max_pieces = max(max_pieces, per_block)
        rates, reach = rates or {}, reach or {}
        self.trees = {tree: TreeQueue(tree, rates.get(tree, rate), reach=reach.get(tree, ALL)) for tree in trees}
        self.everyone: Names = frozenset().union(*(queue.reach for queue in self.trees.values()))
        self._gone: Names = frozenset()
        self._wanted = Wanted(wants or {})
        self._pools: dict[Names, deque[tuple[int, int]]] = {}
        for first, count in pool if pool is not None else [(0, pieces)] if pieces else []:
            self._wait(self.everyone, first, count)
        self.pieces = pieces
        self._cutting: Cut | None = None
        self._cut_done_at = 0.0

    # ---- reports ----
    def sent(self, tree: int, seq: int, now: float) -> None:
        """The source has sent everything below `seq` of this tree for the first time."""
        queue = self.trees.get(tree)
        if queue is None or seq < queue.sent:
            return
        before, queue.sent = queue.sent, min(seq, queue.end)
        queue.sent_at, queue.guess = now, 0.0
        # What it sends beyond a cut under way counts for nothing: receivers that have heard of it do not ask for that.
        done = min(queue.sent, cut.seq) if (cut := self._cutting) and cut.tree == tree else queue.sent
        for extent in queue.extents:
            if extent.seq >= done:
                break
            queue.meant[extent.to] += max(0, min(done, extent.seq + extent.count) - max(before, extent.seq))
        while queue.extents and queue.extents[0].seq + queue.extents[0].count <= done:
            queue.past.append(queue.extents.pop(0))
        del queue.past[:-PAST]

    def status(self, tree: int, seq: int, rate: float | None, now: float, asked: float | None = None) -> None:
        """The source's own count `seq` (one past the newest sent), and the measured rate in pieces/s. `asked`: when it
        was asked for (None: now); an answer to an earlier question says nothing about a cut."""
        queue = self.trees.get(tree)
        if queue is None:
            return
        settled = self._cutting is None and (now if asked is None else asked) >= self._cut_done_at
        if queue.cut_at is not None and settled:
            queue.cut_at = None
        self.sent(tree, seq, now)
        # An idle tree's rate says nothing about what it can do.
        if rate is not None and (queue.end > queue.sent or rate > queue.rate):
            queue.rate = max(0.3 * queue.rate + 0.7 * rate, self.nominal * 1e-3)
            if queue.bound is not None:  # measured before it was told
                queue.rate = min(queue.rate, queue.bound)

    def bound(self, tree: int, rate: float | None, now: float) -> None:
        """The source may send so many pieces/s of this tree at most (None: any number), and is taken to do so, until it
        is measured: what the tree has too much is taken back at once."""
        queue = self.trees.get(tree)
        if queue is None:
            return
        queue.guess, queue.sent_at = min(queue.expected(now), float(queue.end)), now
        before, queue.bound = queue.bound, rate
        if rate is not None:
            queue.rate = max(rate, self.nominal * 1e-3)
        elif before is not None:
            queue.rate = max(queue.rate, self.nominal)

    def _guard(self, queue: TreeQueue) -> int:
        """How far ahead of a source a cut is placed. One that goes beyond it meanwhile sends some pieces in vain: that
        costs less than to wait for a tree that has nearly come to a stop."""
        ahead = queue.rate * self.guard_s
        if ahead < CRAWLS:
            return 0
        if queue.bound is None:
            return min(self.guard_pieces, math.ceil(ahead)) + int(ahead)
        return math.ceil(ahead)

    # ---- what is left ----
    @property
    def pooled(self) -> int:
        """Pieces not assigned to a tree."""
        return sum(count for pool in self._pools.values() for _, count in pool)

    @property
    def all_sent(self) -> bool:
        return not self._pools and all(q.sent >= q.end for q in self.trees.values())

    def rest(self) -> list[tuple[int, int]]:
        """(first, count) of all pieces, those that were not sent yet first: what another master would start with."""
        waiting = sorted(
            [part for pool in self._pools.values() for part in pool]
            + [
                (e.first + max(0, q.sent - e.seq), e.count - max(0, q.sent - e.seq))
                for q in self.trees.values()
                for e in q.extents
                if e.seq + e.count > q.sent
            ]
        )
        unsent, sent, at = [], [], 0
        for first, count in waiting:
            if first > at:
                sent.append((at, first - at))
            if first + count > at:  # a piece may wait for some receivers here and for others there
                unsent.append((max(first, at), first + count - max(first, at)))
            at = max(at, first + count)
        if at < self.pieces:
            sent.append((at, self.pieces - at))
        return unsent + sent

    # ---- decisions ----
    def assign(self, now: float) -> list[Extent]:
        """Extents to announce now."""
        if self._cutting is not None:
            return []
        if not any(q.usable and self._hungry(q, now) for q in self.trees.values()):
            return []
        extents: list[Extent] = []
        busy: set[int] = set()
        # What most receivers wait for comes first.
        for key in sorted(self._pools, key=lambda key: (-len(key), sorted(key))):
            usable = [q for q in self.trees.values() if q.usable and q.id not in busy and q.reach & key]
            if self._wanted:
                usable = [q for q in usable if self._in_step(q, key & q.reach, now)]
            else:
                waiting = {q.id for q in usable if not self._alone(q, key, now)}
                busy |= waiting  # nor does it begin with what fewer receivers wait for
                usable = [q for q in usable if q.id not in waiting]
            if usable:
                extents += self._assign_from(key, usable, now)
            if key in self._pools:
                busy |= {q.id for q in usable}
        return extents

    def _wait(self, key: Names, first: int, count: int) -> None:
        """Pieces that the receivers `key` still have to get."""
        for names, *run in self._wanted.split(key - self._gone if self._gone else key, first, count):
            pool = self._pools.setdefault(names, deque())
            before = pool.pop() if pool and sum(pool[-1]) == run[0] else (run[0], 0)  # one run where it can be
            pool.append((before[0], before[1] + run[1]))

    @staticmethod
    def _in_step(queue: TreeQueue, key: Names, now: float) -> bool:
        """All receivers of a tree are at one place of it: those that share an extent ask for it at the same time, so
        that one packet serves them, and nobody ahead makes the others look late to the rate control. So what is for
        others than the last extent follows when that one has nearly been sent."""
        return not queue.extents or key <= queue.extents[-1].to or queue.left_s(now) <= SWITCH_S

    def _alone(self, queue: TreeQueue, key: Names, now: float) -> bool:
        """Receivers that get these pieces over other trees are told of this tree's numbers, too, and would ask it for
        what has not come there yet: far ahead of `key`, at the price of their rate, and none of it in the caches when
        they come to it. So such pieces wait until the others, to whom all was dealt out, have it. Once for so long:
        one of them may be gone."""
        others = queue.reach - key - self._gone
        if not others or any(others & waiting for waiting in self._pools):
            queue.dry_at = None
            return True
        if queue.dry_at is None and queue.left_s(now) <= 0:
            queue.dry_at = now
        return queue.dry_at is not None and now - queue.dry_at >= OTHERS_S

    def _assign_from(self, key: Names, usable: list[TreeQueue], now: float) -> list[Extent]:
        pool = sum(count for _, count in self._pools[key])
        smallest = sum(max(self.per_block, q.rate * self.min_s) for q in usable)
        hungry = [q for q in usable if self._hungry(q, now)]
        if not hungry:
            return []
        if pool <= 2 * smallest:
            return self._deal_out(key, usable, pool, now)
        extents: list[Extent] = []
        total_rate = sum(q.rate for q in usable)
        end_s = (sum(q.backlog(now) for q in usable) + pool) / total_rate
        for queue in sorted(hungry, key=lambda q: q.left_s(now)):
            share = sum(count for _, count in self._pools.get(key, ())) * queue.rate / total_rate / 2
            want = int(min(self.max_pieces, max(share, self.per_block, queue.rate * self.min_s)))
            # A slow tree gets no block that it would still be sending when the others are done.
            most = int((end_s - queue.left_s(now) - self._spare_s(queue, usable)) * queue.rate)
            if min(want, most) > 0:
                extents += self._take(key, queue, min(want, most), now, whole_blocks=most >= self.per_block)
        return extents

    def _spare_s(self, queue: TreeQueue, beside: Sequence[TreeQueue]) -> float:
        """So much before the others a tree slower than them is meant to end: what it is late everybody waits for, while
        what it leaves to them costs them next to nothing."""
        share = queue.rate * len(beside) / sum(q.rate for q in beside)
        return self.spare_s * max(0.0, 1.0 - share)

    def hungry(self, tree: int, now: float) -> bool:
        """Is it time to give this tree more, or to let it take over from another?"""
        queue = self.trees.get(tree)
        return queue is not None and self._hungry(queue, now)

    def _hungry(self, queue: TreeQueue, now: float) -> bool:
        at = queue.expected(now)  # once: a tree that stands still has hundreds of extents
        ahead = [e for e in queue.extents if e.seq + e.count > at]
        if len(ahead) >= self.EXTENTS_AHEAD:
            return queue.left_s(now) < self.lead_s
        if not ahead:
            return True
        present = ahead[-1]
        return queue.backlog(now) <= present.count / 2 or queue.left_s(now) < self.lead_s

    def _deal_out(self, key: Names, usable: list[TreeQueue], pool: int, now: float) -> list[Extent]:
        """All that is left, so that the trees end together: fill up the ones with the least left first."""
        left_s = {q.id: q.left_s(now) + self._spare_s(q, usable) for q in usable}
        order = sorted(usable, key=lambda q: left_s[q.id])
        level, rate, filled = 0.0, 0.0, 0
        # The common end: raise a level over the trees' remaining times until the pool is used up.
        need = float(pool)
        for at, queue in enumerate(order):
            left = left_s[queue.id]
            if rate and (left - level) * rate >= need:
                break
            need -= (left - level) * rate
            level, rate, filled = left, rate + queue.rate, at + 1
        level += need / rate
        extents, rest = [], pool
        for queue in order[:filled]:
            count = min(rest, max(0, round((level - left_s[queue.id]) * queue.rate)))
            if queue is order[filled - 1]:
                count = rest
            if count:
                rest -= count
                extents += self._take(key, queue, count, now, whole_blocks=False)
        return extents

    def _take(self, key: Names, queue: TreeQueue, want: int, now: float, *, whole_blocks: bool) -> list[Extent]:
        """Take `want` pieces from a pool for a tree; more than one extent when they are not in one run. Those that the
        tree does not reach go on waiting for them."""
        extents: list[Extent] = []
        pool = self._pools.get(key)
        while pool and want >= (self.per_block if whole_blocks and extents else 1):
            first, count = pool[0]
            taken = min(count, want)
            if whole_blocks and taken < count:
                end = (first + taken) // self.per_block * self.per_block
                taken = end - first if end > first else min(count, self.per_block - first % self.per_block)
            if taken == count:
                pool.popleft()
            else:
                pool[0] = (first + taken, count - taken)
            if queue.sent >= queue.end:
                queue.sent_at = now
            to = key if key <= queue.reach else key & queue.reach  # one object for all, as a rule
            extent = Extent(queue.id, queue.next, first, taken, to)
            self._wait(key - queue.reach, first, taken)
            queue.extents.append(extent)
            queue.end = queue.next = queue.next + taken
            queue.assigned += taken
            extents.append(extent)
            want -= taken
        if not pool:
            self._pools.pop(key, None)
        return extents

    def steal(self, now: float) -> Cut | None:
        """The cut that lets a tree that is done take over from the slowest, if it is worth it. One at a time: apply
        it at all members, then call `cut_done`."""
        if self._cutting is not None:
            return None
        # Those that nothing waits for: a slow tree may still have enough to do for receivers of its own.
        free = [q for q in self.trees.values() if q.usable and not any(key & q.reach for key in self._pools)]
        pairs = [
            (self._left_for(slow, quick.reach, now), slow, quick)
            for quick in free
            if quick.left_s(now) <= self.lead_s
            for slow in self.trees.values()
            if slow is not quick and slow.extents and slow.cut_at is None
        ]
        if not pairs:
            return None
        (left_s, end), slow, quick = max(pairs, key=lambda pair: (pair[0][0], -pair[2].left_s(now)))
        gap = left_s - quick.left_s(now)
        if gap * quick.rate / (slow.rate + quick.rate) < self.gain_s:
            return None
        move = gap * slow.rate * quick.rate / (slow.rate + quick.rate)
        earliest = slow.expected(now) + self._guard(slow)
        seq = int(max(end - move, earliest))
        if end - seq < max(1.0, self.gain_s * slow.rate):
            return None
        self._cutting = Cut(slow.id, seq)
        return self._cutting

    @staticmethod
    def _left_for(queue: TreeQueue, reach: Names, now: float) -> tuple[float, int]:
        """Seconds until a tree has sent what any of these receivers wait for, and where in its numbers that ends."""
        end = max((e.seq + e.count for e in queue.extents if e.to & reach), default=0)
        at = queue.expected(now)
        count = sum(max(0.0, min(end, e.seq + e.count) - max(at, e.seq)) for e in queue.extents if e.seq < end)
        return (count / queue.rate if queue.rate > 0 else float("inf") if count else 0.0), end

    def lose(self, tree: int) -> None:
        """A tree has lost its links: it gets nothing any more; `release` takes back what it has."""
        self.trees[tree].lost = True

    def slow_down(self, tree: int, rate: float | None) -> None:
        """Of late it was seen to go at this rate, not smoothed: what it still has its receivers would wait long for."""
        queue = self.trees[tree]
        if rate is not None and rate < queue.rate:
            queue.rate = max(rate, self.nominal * 1e-3)

    def revive(self, tree: int, now: float) -> None:
        """A lost tree has links again. Its numbers go on; after a cut it waits for the source's count, as always."""
        queue = self.trees[tree]
        queue.lost, queue.rate, queue.sent_at = False, self.nominal, now

    def add(self, tree: int, rate: float | None = None, reach: Names | None = None) -> None:
        """One more tree, like the others where no rate and reach are given."""
        self.trees.setdefault(tree, TreeQueue(tree, rate or self.nominal, reach=reach or self.everyone))

    def gone(self, names: Names) -> None:
        """These receivers need nothing any more: what waited for them alone is not sent."""
        if not names - self._gone:
            return
        self._gone |= names
        pools, self._pools = self._pools, {}
        for key, pool in pools.items():
            for first, count in pool:
                self._wait(key, first, count)

    def by_name(self, everyone: Names) -> None:
        """Trees that reach some only will come. Until now each reached all, which are `everyone`."""
        if self.everyone != ALL:
            return
        self.everyone = everyone
        if pool := self._pools.pop(ALL, None):
            self._pools[everyone] = pool
        for queue in self.trees.values():
            queue.reach = everyone
            queue.meant[everyone] = queue.meant.pop(ALL, 0)
            queue.extents = [replace(extent, to=everyone) for extent in queue.extents]
            queue.past = [replace(extent, to=everyone) for extent in queue.past]

    def leave(self, name: str, trees: Mapping[int, tuple[int, int]]) -> None:
        """A receiver asks for nothing more from these trees, and lacks of each what carries the first of its two
        numbers or a higher one, some of it perhaps not. What is below the second it has asked for, and it mostly comes:
        that waits behind the rest, for another tree if it does not. Trees must reach receivers by name."""
        one = frozenset({name})
        later: list[tuple[int, int]] = []
        for number, (seq, asked) in trees.items():
            queue = self.trees[number]
            if name not in queue.reach:
                continue
            queue.reach -= one
            known = [e for e in [*queue.past, *queue.extents] if name in e.to]
            forgotten = len(queue.past) == PAST and queue.past[0].seq > seq
            if forgotten:
                self._wait(one, 0, self.pieces)
            for extent in known:
                lacks = min(extent.count, extent.seq + extent.count - seq)
                if lacks <= 0:
                    continue
                end, at = extent.first + extent.count, max(seq, extent.seq)
                coming = min(lacks, max(0, asked - at))
                missed = max(0, min(queue.sent, extent.seq + extent.count) - max(asked, at))
                queue.meant[extent.to] -= missed
                if extent.to != one:  # else nobody asked for it: that was not sent
                    queue.meant[extent.to - one] += missed
                if forgotten:
                    continue
                later.append((end - lacks, coming))
                self._wait(one, end - lacks + coming, lacks - coming)
            queue.past = [replace(extent, to=extent.to - one) for extent in queue.past]
            queue.extents = [replace(extent, to=extent.to - one) for extent in queue.extents]
        for run in later:
            self._wait(one, *run)

    def come(self, names: Names, blocks: Iterable[int] | None = None) -> None:
        """Receivers that were not there, or not any more: all pieces wait for them, and what they hold they pass.
        `blocks`: of these, where others are not sent from here."""
        names = names - (self.everyone - self._gone)
        if not names or self.everyone == ALL:
            return
        self._gone -= names
        self.everyone |= names
        per = self.per_block
        for first, count in [(0, self.pieces)] if blocks is None else [(b * per, per) for b in sorted(blocks)]:
            self._wait(names, first, min(count, self.pieces - first))

    def drain(self) -> set[int]:
        """Nothing waits here any more; returns the blocks that did."""
        runs = [run for pool in self._pools.values() for run in pool]
        self._pools.clear()
        return {
            b for first, n in runs for b in range(first // self.per_block, (first + n - 1) // self.per_block + 1)
        }  # fmt: skip

    def release(self, tree: int, now: float) -> Cut | None:
        """The cut that takes back from a lost tree what its source cannot have sent yet. None while another cut is
        under way or where there is nothing to take."""
        queue = self.trees[tree]
        if self._cutting is not None or queue.cut_at is not None:
            return None
        seq = int(queue.expected(now)) + self._guard(queue)
        if seq >= queue.end:
            return None
        self._cutting = Cut(tree, seq)
        return self._cutting

    def again(self, block: int, to: Names | None = None) -> bool:
        """A receiver lost this block and no longer knows which numbers carried it: it gets new ones. False when all of
        it waits to be sent already, or there is no such block."""
        key = self.everyone if to is None or self.everyone == ALL else to
        first = block * self.per_block
        count = min(self.per_block, self.pieces - first)
        runs = (run for waiting, pool in self._pools.items() if key <= waiting for run in pool)
        if block < 0 or count <= 0 or any(at <= first and first + count <= at + n for at, n in runs):
            return False
        self._wait(key, first, count)
        return True

    @property
    def cutting(self) -> bool:
        return self._cutting is not None

    def cut_done(self, now: float) -> None:
        """The source has applied the cut, and every member will before it hears of more: its pieces are free again."""
        cut, self._cutting = self._cutting, None
        if cut is None:
            raise ValueError("no cut is under way")
        self._cut_done_at = now
        queue = self.trees[cut.tree]
        kept: list[Extent] = []
        freed: list[Extent] = []
        for extent in queue.extents:
            if extent.seq + extent.count <= cut.seq:
                kept.append(extent)
                continue
            stay = max(0, cut.seq - extent.seq)
            if stay:
                kept.append(Extent(extent.tree, extent.seq, extent.first, stay, extent.to))
            freed.append(Extent(extent.tree, cut.seq, extent.first + stay, extent.count - stay, extent.to))
        queue.extents, queue.end = kept, min(queue.end, cut.seq)
        queue.sent = min(queue.sent, queue.end)
        queue.cut_at = cut.seq
        for extent in freed:
            queue.assigned -= extent.count
            self._wait(extent.to, extent.first, extent.count)
