"""What receivers turn out to take, and what that calls for. Pure: measurements and `now` in, caps out.

A receiver whose disk, processor or link is slower than its group's plan holds its trees up: all of their receivers
fall behind the plan, and it is the last of them. When it is BEHIND_S behind, look after look, and so far behind the
others that it is not chance, it gets a cap: what it was seen to take. One that keeps up with its cap is given half as
much again after PROBE_S, or, where it has taken far more before, the geometric mean of both: most of those that nearly
stop had been stopped for a moment. Each time that was too much the next attempt waits twice as long, and asks for less.
The last receiver of a group has no cap.

That it is the last does not say that it is the cause: with busy processors, or a narrow link that all of them share,
all are late alike, and one of them is last by chance. Trees of its own then cost more than they give. So a plan is a
trial: the others must get a good part of what it promised them, or it is taken back, and the next trial waits HOLD_S;
after two of them there is none any more. No trial begins where the little that is left would not repay it.

The plan that it is held against is what the fabric manager leaves the group's trees beside others: whoever shares a
link with other groups is slow together with its whole tree, and that is no reason for another plan.

Rates may swing: as long as others are served there is never more than one plan in PLAN_EVERY_S, and each plan of the
last DAMP_S makes the next one wait half as long again. The last one of a group holds nobody up: ALONE_S is enough, and
each plan gives it twice as much, so there are few.

Rate zero is the end of the same scale: one that stands still while others go on gets no tree at all, it is set aside.
Where no plan can help (one rate is wanted for all), so is one that falls too far behind.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .looks import Look, Tally, Trees

PLAN_EVERY_S = 1.0
DAMP_S, DAMP_BY, DAMP_MAX = 30.0, 1.5, 10
BEHIND_S = 0.25
"""Of its own planned rate."""
WORTH = 0.75
"""A receiver that takes more than this part of its plan is left as it is: a busy machine, not a slow one."""
LOOKS, AGREE_S = 3, 1.0
"""So many looks in a row and all of so long a time must find the same receiver last; less of it the slower all have
become. A host that was stopped for a moment is last for some tenths of a second, until it has caught up: among equals
on busy processors there is always one, but all get on then."""
RATE_S = 0.2
"""A rate is measured over so long a time at least, where looks go back so far."""
SKEW_S = 0.005
"""Members are not asked at the same instant: what they get in this time is chance."""
OUT, OUT_S, OUT_LOOKS_S = 4, 0.3, 0.12
"""One that is behind by so many times `near` is out of the caches: what it asks for the source sends once more, at its
pace. When the source has just said that trees carry less than half of what they did, or would if it had no patience
with somebody (libdatacast/src/patience.h), that is no chance, if all looks of OUT_LOOKS_S find the same. Before that
patience ends nobody loses anything, and on a full host a process often waits for a tenth of a second."""
UNWRITTEN_S, DISK_LOOKS_S = 0.15, 0.4
"""What waits for a receiver's disk beyond what waits for the others', in seconds of its plan. One look after another
that finds more needs no other witness; when its buffers are full it stops asking, falls out of the caches, and the
source sends all of it again."""
FIRST_S = 0.5
"""A group's first plan while it runs comes no sooner."""
WORTH_S = 0.5
"""A plan that would not save the others so much time is not made."""
REST_S = 2.0
"""Nor one for somebody who would be done sooner than this: new trees begin slowly, and what was on its way over the old
ones is asked for again. Where all are done within seconds, slow is mostly a host that was stopped for a moment."""
SETTLE_S, TRIAL_S, TRIAL_MAX_S = 0.5, 0.75, 3.0
"""A plan's effect is measured after, and for, so long; while there is some, until then."""
HALF, PAYS, SOME = 0.5, 0.25, 0.1
"""A trial pays when the others get half of what it promised them in all, and this part of what it promised beyond what
they had. It promises what is planned, where they were ever seen to take so much: rates of links may be told too high.
Where all crawl, what they get goes up and down by many times, and says nothing beside what they had once. SOME: so much
more than they had is worth waiting for."""
HOLD_S, FAILED_MAX = 30.0, 2
"""After a trial that did not pay there is none for so long; after so many there is none any more. Each costs trees, of
which a group has few, and what receivers ask for when theirs change: a busy machine gets busier by it."""
FLAP_S = 5.0
"""No trial begins so soon after a link of the trees, and not the slow one's own, failed or came back: hellos that are
late say that hosts are, and whoever was behind such a link has something to catch up with."""
CHAIN = 2
"""Receivers that a trial may come to: with several slow ones each is found when the one before it is dealt with."""
KEEPS_UP = 0.95
PROBE_S, PROBE_MAX_S = 2.0, 64.0
PROBE_BY, ALONE_BY, ALONE_S = 1.5, 2.0, 0.5
"""The last one holds nobody up and need not wait. By more its queue on a slow link grows faster than hellos bear."""
CRAWLS, CRAWLS_BY = 0.25, 4.0
"""Where all that are left are taken for slow, and all get less than this part of their plans, it is the trees that have
nearly come to a stop. They are believed to take so much more, and new trees begin at their rates."""
LEAST = 0.01
"""No cap below this share of what a receiver could have. Who stands still is set aside."""
LEAST_PART = 0.1
"""Of an even share: a link over which nothing came lately is not given up."""


@dataclass
class Pace:
    cap: int | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    """Of the cap, by the neighbour that it comes from; empty where that is not known, or does not matter."""
    since: float = 0.0
    wait_s: float = PROBE_S
    probing: bool = False
    alone: bool = False
    """It was given more when the others were done."""


class Seen(NamedTuple):
    """A receiver now: bytes it holds, bit/s measured and planned, and what it could have. `behind_s`: for how long the
    others have been ahead of it. `left`: bytes it has still to get, if that is known. `arrived`: bytes over each tree;
    empty where it is not the links that hold it up."""

    name: str
    held: int
    measured: float
    planned: float
    bound: float
    behind_s: float = 0.0
    left: int | None = None
    arrived: Sequence[int] = ()
    unwritten: int = 0
    """Bytes that came and wait for its disk; not counted as held."""


@dataclass
class _Trial:
    """A plan, or some after each other, with caps for `names` that had none. `before`: bit/s that each receiver had;
    `settled`: the look that the effect is measured from."""

    names: list[str]
    at: float
    before: dict[str, float]
    settled: Look | None = None
    steps: int = 1


class Paces:
    """`near`: bytes by which receivers of one tree may differ by chance. `aside_s`: how long one may stand still."""

    def __init__(self, near: int, aside_s: float = 2.0) -> None:
        self.near, self.aside_s = near, aside_s
        self._pace: dict[str, Pace] = {}
        self._begun: Look | None = None
        """When the present plan began."""
        self._due = Tally()
        self._looks: deque[Look] = deque(maxlen=LOOKS)
        self._best = Tally(self._due)
        """Bit/s that each was ever seen to take."""
        self._moved: dict[str, Look] = {}
        """When each last got anything, and what all held then."""
        self._plans: deque[float] = deque(maxlen=DAMP_MAX)
        self._last: frozenset[str] = frozenset()
        self._last_since, self._last_looks, self._agree_s = 0.0, 0, AGREE_S
        """Who was last, too far behind, at each of so many looks."""
        self._curious_at = -math.inf
        self._slowed_at = -math.inf
        """The source said so."""
        self._out: tuple[str, Look] | None = None
        """Who was out of the caches at that look."""
        self._trial: _Trial | None = None
        self._failed, self._hold_until = 0, 0.0
        self._flaps: dict[frozenset[str], float] = {}
        self._crawl_since: float | None = None
        """All that are left crawl since then, and have to for so long before anything is done about it."""
        self._bear_s = PROBE_S

    @property
    def caps(self) -> dict[str, int]:
        return {name: pace.cap for name, pace in self._pace.items() if pace.cap is not None}

    def flapped(self, u: str, v: str, now: float) -> None:
        """The link between these failed or came back."""
        self._flaps = {link: at for link, at in self._flaps.items() if now - at < FLAP_S} | {frozenset((u, v)): now}

    def slowed(self, now: float) -> None:
        """The source says that a tree carries less than half of what it did."""
        self._slowed_at = now

    def hasty(self, now: float) -> bool:
        """The others wait for one that has become slow just now, it seems: the next look should come at once."""
        return now - self._slowed_at < OUT_S and now >= self._hold_until

    def curious(self, now: float) -> bool:
        """Somebody was last for the first time or the second, or waits for its disk: the next looks should come soon.
        Once in PLAN_EVERY_S: where it is another one each time, looking does not help."""
        if self._out is not None and now >= self._hold_until:
            return True
        if not self._last or self._agreed(now) or now < self._hold_until:
            return False
        if self._last_since - self._curious_at >= PLAN_EVERY_S:
            self._curious_at = self._last_since
        return self._curious_at == self._last_since

    def settling(self, now: float) -> bool:
        """A plan was made just now. All went slowly before it, and there seemed to be much time until the next look."""
        return bool(self._plans) and now - self._plans[-1] < TRIAL_MAX_S

    @property
    def narrow(self) -> dict[tuple[str, str], int]:
        """Of the caps what each last link, (neighbour, receiver), takes: one whose links are slow, or one of them, must
        not get all over one link, nor pass on what it cannot receive."""
        return {
            (neighbour, name): int(pace.cap * part)
            for name, pace in self._pace.items()
            if pace.cap is not None
            for neighbour, part in pace.parts.items()
        }

    def note(self, seen: list[Seen], now: float, trees: Trees = ()) -> None:
        """Count on; before anything is asked about these. `trees`: those that something arrives over."""
        last, names = self._looks[-1] if self._looks else None, [one.name for one in seen]
        if last is not None:
            by, due = (now - last.at) / 8, zip(self._due.column(names), last.held.column(names), seen, strict=True)
            self._due.put(names, [owed if was is None else owed + one.planned * by for owed, was, one in due])
        look = Look(
            now, {one.name: one.held for one in seen}, self._due.all(), [one.arrived for one in seen], trees, last
        )
        self._looks.append(look)
        if now - (first := self._looks[0]).at >= RATE_S:
            self._best.put(names, list(map(max, self._best.column(names), self._rates(seen, first, now))))
        before, self._moved = self._moved, {}  # of who is away nothing is due, and a look is large
        for one in seen:
            moved = before.get(one.name)
            self._moved[one.name] = moved if moved is not None and moved.held.get(one.name) == one.held else look
        if self._begun is None and any(look.held.values()):
            self._begun = Look(now, dict.fromkeys(look.held, 0), look.due, like=look)

    # ---- rate zero ----
    def forget(self, name: str) -> None:
        """It is served later: what it took before says nothing then."""
        self._pace.pop(name, None)

    def aside(self, seen: list[Seen], now: float, plans: bool) -> list[str]:
        """Those that are to be served when the others are done. `plans`: slow ones can have trees of their own."""
        if not plans:
            return [one.name for one in seen if one.behind_s > self.aside_s]
        return [one.name for one in seen if self._still(one, seen, now)]

    def _still(self, one: Seen, seen: list[Seen], now: float) -> bool:
        """Nothing came for too long though something was due, and to others it did."""
        since = self._moved[one.name]
        if now - since.at <= self.aside_s or self._due[one.name] - since.due.get(one.name, 0.0) < self.near:
            return False
        return any(other.held - since.held.get(other.name, other.held) >= self.near for other in seen)

    # ---- plans ----
    def look(self, seen: list[Seen], now: float, room: bool = True, unsent: bool = True, trees: Trees = ()) -> bool:
        """Is a new plan due? `caps` says what it must keep to. Of several slow receivers the last one is dealt with
        first: the others may be behind because of it. Without `room` for more trees one is only taken back. `unsent`:
        there is something that other trees could carry; what was sent once is had from where it went."""
        self.note(seen, now, trees)
        if self._begun is None:
            return False
        done = self._done(seen)
        self._blame(self._laggards(seen, done, now), now)
        parts = [one.measured / one.planned for one in seen if one.planned > 0]
        self._agree_s = AGREE_S * min(1.0, statistics.median(parts)) if parts else AGREE_S
        if (trial := self._trial) is not None and trial.settled is None and now - trial.at >= SETTLE_S:
            trial.settled = self._looks[-1]
        since = now - self._begun.at
        sure = self._still_out(seen, done, now)
        crawl = self._crawl(seen, now)
        due = room and since >= self._wait(now)
        due = due and ((not crawl and self._slow(seen, now, sure, unsent)) or self._more(seen, now))
        due = due or (room and len(seen) == 1 and since >= ALONE_S and self._more(seen, now))
        due = due or (since >= PLAN_EVERY_S and (self._back(seen, now) or (crawl and self._let_go(seen, now, room))))
        if due:
            self._begun = self._looks[-1]
            self._plans.append(now)
            self._last = frozenset()
            self._crawl_since = None
        return due

    def _blame(self, late: frozenset[str], now: float) -> None:
        if self._last & late:
            self._last, self._last_looks = self._last & late, self._last_looks + 1
        else:
            self._last, self._last_since, self._last_looks = late, now, 1

    def _wait(self, now: float) -> float:
        if not self._plans:
            return FIRST_S
        return PLAN_EVERY_S * DAMP_BY ** sum(now - at < DAMP_S for at in self._plans)

    def _done(self, seen: list[Seen]) -> dict[str, float]:
        """The part of its own plan that each has done since the plan began."""
        begun = self._begun
        assert begun is not None
        names = [one.name for one in seen]
        known = zip(seen, begun.held.column(names), begun.due.column(names), self._due.column(names), strict=True)
        return {
            one.name: (one.held - held) / max(1.0, due - (before or 0.0))
            for one, held, before, due in known
            if held is not None and one.planned > 0
        }

    def _still_out(self, seen: list[Seen], done: Mapping[str, float], now: float) -> tuple[Seen, Look] | None:
        """Who has been out of the caches at all looks since that one, and the others wait for it, or is being held up
        by its disk and soon will be. (It writes in bursts, so that this takes longer.) `done`: as `_done`."""
        before, self._out = self._out, None
        last = min((one for one in seen if one.name in done), key=lambda one: done[one.name], default=None)
        if last is None or len(done) < 2:
            return None
        others = [one for one in seen if one is not last]
        disk = self._disk_waits(last, others)
        if not disk and now - self._slowed_at > OUT_S:
            return None
        middle = statistics.median_high([part for name, part in done.items() if name != last.name])
        assert self._begun is not None
        late = (middle - done[last.name]) * self._owed(last, self._begun)
        if late - (0 if disk else self._waits(last, others)) < OUT * self.near:
            return None  # what came, and waits to be written, it need not ask for
        if before is None or before[0] != last.name:
            self._out = last.name, self._looks[-1]
            return None
        self._out = before
        since = before[1]
        if now - since.at < (DISK_LOOKS_S if disk else OUT_LOOKS_S):
            return None
        rate, usual = self._rate(last, since, now), last.planned
        if disk:
            usual = min(usual, statistics.median([self._rate(one, since, now) for one in others]))
        # One that stands still was stopped, or is gone; one that takes what it was planned to get catches up.
        return (last, since) if (disk or rate > LEAST * last.bound) and rate < WORTH * usual else None

    @staticmethod
    def _waits(one: Seen, others: Sequence[Seen]) -> float:
        """Bytes that wait for its disk beyond what waits for theirs: on a full machine all that came waits."""
        return one.unwritten - statistics.median([other.unwritten for other in others] or [0])

    @classmethod
    def _disk_waits(cls, one: Seen, others: Sequence[Seen]) -> bool:
        return cls._waits(one, others) * 8 > UNWRITTEN_S * one.planned

    def _laggards(self, seen: list[Seen], done: Mapping[str, float], now: float) -> frozenset[str]:
        """Who is last, and those as late, so far behind that it is not chance. Nobody where all are late alike: that is
        somebody else's traffic, or the source. `done`: as `_done`."""
        begun = self._begun
        assert begun is not None
        known = [one for one in seen if one.name in done]
        last = min(known, key=lambda one: done[one.name], default=None)
        others = [done[one.name] for one in known if one is not last]
        if last is None or not others or (now - begun.at) * (1 - done[last.name]) < BEHIND_S:
            return frozenset()
        middle = statistics.median_high(others)
        near = (self.near + last.measured * SKEW_S / 8) / max(1.0, self._owed(last, begun))
        names = [one.name for one in known if done[one.name] <= min(middle - near, done[last.name] + near / 2)]
        return frozenset(names)

    def _agreed(self, now: float) -> frozenset[str]:
        """Who was last for long enough."""
        long = self._last_looks >= LOOKS and now - self._last_since >= self._agree_s
        return self._last if long else frozenset()

    def _slow(self, seen: list[Seen], now: float, out: tuple[Seen, Look] | None, unsent: bool) -> bool:
        late = frozenset({out[0].name}) if out else self._agreed(now)
        since = out[1] if out else None
        others = [one for one in seen if one.name not in late]
        if not late or self._ending(others):
            return False
        caps = {one.name: cap for one in seen if one.name in late and (cap := self._cap(one, now, since)) is not None}
        fresh = [name for name in caps if self._pace.get(name, Pace()).cap is None]
        soon = {one.name for one in seen if one.name in fresh and not (unsent and self._long(one, caps[one.name]))}
        caps = {name: cap for name, cap in caps.items() if name not in soon}
        fresh = [name for name in fresh if name not in soon]
        if out and self._disk_waits(out[0], others):
            fresh = []  # its own word: no trial, the others lose nothing yet
        part = self._part(out[0], out[1], now) if out else 1.0
        if fresh and not (self._links_stand(late, now) and self._may_try(others, now, part)):
            caps = {name: cap for name, cap in caps.items() if name not in fresh}
        elif fresh:
            self._try(fresh, seen, now, since or self._looks[0], part)
        for name, cap in caps.items():
            pace = self._pace.setdefault(name, Pace())
            if pace.probing:
                pace.wait_s = min(2 * pace.wait_s, PROBE_MAX_S)
                self._best[name] = min(self._best[name], pace.cap or math.inf)
            pace.cap, pace.since, pace.probing = cap, now, False
            pace.parts = self._parts(name, since or self._looks[0])
        return bool(caps)

    def _part(self, slow: Seen, since: Look, now: float) -> float:
        """Of their plan that the others will get when the source's patience with this one is over. `slow` is of those
        who have a plan (`_done`)."""
        return self._rate(slow, since, now) / slow.planned

    def _parts(self, name: str, since: Look) -> dict[str, float]:
        """By which neighbours it got since then what it got."""
        first, last = since.arrived(name), self._looks[-1].arrived(name)
        came = {neighbour: max(0, count - first.get(neighbour, 0)) for neighbour, count in last.items()}
        least = LEAST_PART * sum(came.values()) / max(1, len(came))
        total = sum(max(count, least) for count in came.values())
        return {neighbour: max(count, least) / total for neighbour, count in came.items()} if total else {}

    def _cap(self, one: Seen, now: float, since: Look | None) -> int | None:
        """What it was seen to take, `since` then or lately; None where that is about what it was planned to get."""
        begun = self._begun
        looks = (
            [since]
            if since
            else [look for look in list(self._looks)[:-1] if now - look.at >= RATE_S] or [self._looks[0]]
        )
        lately = [self._rate(one, look, now) for look in looks if look.at < now]
        if begun is None or not lately or max(lately) >= WORTH * one.planned:
            return None
        # Over links the more of two: too much is found out within a second, too little only by a probe. A disk takes
        # what it gets in bursts.
        cap = int(max(max(lately) if one.arrived else min(lately), LEAST * one.bound))
        before = self._pace.get(one.name, Pace()).cap
        if before is not None:
            # After a plan it catches up with what the old trees brought to the others: look at all of that time.
            cap = max(cap, int(self._rate(one, begun, now)), before // 2)
        return cap if cap < WORTH * one.planned else None

    # ---- does it pay? ----
    def _links_stand(self, late: frozenset[str], now: float) -> bool:
        return all(link & late for link, at in self._flaps.items() if now - at < FLAP_S)

    def _may_try(self, others: list[Seen], now: float, part: float) -> bool:
        if now < self._hold_until:
            return False
        if (trial := self._trial) is None:
            return self._worth(others, part)
        if trial.steps >= CHAIN or trial.settled is None:
            return False
        got, had, _ = self._gain(trial, trial.settled, others, now)
        return got - had >= SOME * had

    @staticmethod
    def _long(one: Seen, cap: int) -> bool:
        """Will it still be at work when trees of its own have paid?"""
        return one.left is None or one.left * 8 >= REST_S * cap

    @staticmethod
    def _ending(others: list[Seen]) -> bool:
        """Are they nearly done? Then a cap, too, is left as it is."""
        left = [one.left * 8 / max(one.measured, 1.0) for one in others if one.left is not None]
        return bool(left) and statistics.median(left) < WORTH_S

    @staticmethod
    def _worth(others: list[Seen], part: float) -> bool:
        """Would they save enough, if they got what they were planned to get, and not what they get or this part?"""
        known = [(one, one.left) for one in others if one.left is not None and one.planned > 0]
        slow = [(one, left, max(1.0, min(one.measured, one.planned * part))) for one, left in known]
        saved = [left * 8 / rate * (1 - rate / one.planned) for one, left, rate in slow]
        return not saved or statistics.median(saved) >= WORTH_S

    def _try(self, names: list[str], seen: list[Seen], now: float, since: Look, part: float) -> None:
        if (trial := self._trial) is None:
            before = {one.name: min(self._rate(one, since, now), one.planned * part) for one in seen}
            self._trial = _Trial(names, now, before)
        else:
            trial.names, trial.at, trial.settled, trial.steps = [*trial.names, *names], now, None, trial.steps + 1

    def _back(self, seen: list[Seen], now: float) -> bool:
        """A trial that did not pay is taken back."""
        if self._trial is None or (pays := self._pays(self._trial, seen, now)) is None:
            return False
        names, self._trial = self._trial.names, None
        if pays:
            self._failed = 0
            return False
        self._failed += 1
        self._hold_until = now + HOLD_S if self._failed < FAILED_MAX else math.inf
        return bool([self._pace.pop(name) for name in names if name in self._pace])

    def _pays(self, trial: _Trial, seen: list[Seen], now: float) -> bool | None:
        """None: that cannot be said yet."""
        since = trial.settled
        if since is None or now - since.at < TRIAL_S:
            return None
        got, had, promised = self._gain(trial, since, [one for one in seen if one.name not in trial.names], now)
        if got >= HALF * (had + promised) and got - had >= max(PAYS * promised, SOME * had):
            return True
        return None if got - had >= SOME * had and now - trial.at < TRIAL_MAX_S else False

    def _gain(self, trial: _Trial, since: Look, of: list[Seen], now: float) -> tuple[float, float, float]:
        """Bit/s that these get since the trial has settled, had before, and were promised more."""
        there = [one for one in of if one.name in since.held and one.name in trial.before]
        return (
            sum(self._rate(one, since, now) for one in there),
            sum(trial.before[one.name] for one in there),
            sum(max(0.0, min(one.planned, self._best[one.name]) - trial.before[one.name]) for one in there),
        )

    def _owed(self, one: Seen, since: Look) -> float:
        return self._due[one.name] - since.due.get(one.name, 0.0)

    def _rate(self, one: Seen, since: Look, now: float) -> float:
        held = since.held.get(one.name)
        return (one.held - held) * 8 / (now - since.at) if held is not None and now > since.at else one.measured

    @staticmethod
    def _rates(seen: list[Seen], since: Look, now: float) -> list[float]:
        """`_rate` of each."""
        if now <= since.at:
            return [one.measured for one in seen]
        held = zip(seen, since.held.column([one.name for one in seen]), strict=True)
        return [one.measured if was is None else (one.held - was) * 8 / (now - since.at) for one, was in held]

    def _more(self, seen: list[Seen], now: float) -> bool:
        if not self.caps or (self._trial is not None and len(seen) > 1):
            return False
        alone, due = len(seen) == 1, False
        usual = self._usual(seen)
        for one in seen:
            pace = self._pace.get(one.name)
            if pace is None or pace.cap is None:
                continue
            since = now - pace.since
            all_planned = one.measured >= KEEPS_UP * usual * one.planned
            if (
                pace.parts
                and all_planned
                and one.measured < WORTH * pace.cap
                and since >= (ALONE_S if alone else PROBE_S)
            ):
                # It gets all that its links are believed to take, and that is less than it takes: one is down, and
                # over the other little came when it was measured.
                pace.parts, pace.since = {}, now
                due = True
                continue
            keeps_up = all_planned or one.measured >= (WORTH if alone else KEEPS_UP * usual) * pace.cap
            # Alone it may try each of its links once, whatever was seen of their parts.
            once = alone and not pace.alone and since >= pace.wait_s
            if once or (keeps_up and since >= (ALONE_S if alone else pace.wait_s)):
                self._give(one.name, ALONE_BY if alone else PROBE_BY, one.bound, now)
                pace.alone, due = alone, True
        return due

    def _usual(self, seen: list[Seen]) -> float:
        """The part of their plans that those without a cap get: on a full machine nobody gets all of it, and one with a
        cap that does as well as they do is not slow."""
        caps = self.caps
        parts = [one.measured / one.planned for one in seen if one.planned > 0 and one.name not in caps]
        return min(1.0, statistics.median(parts)) if parts else 1.0

    def _give(self, name: str, by: float, bound: float, now: float) -> None:
        pace = self._pace[name]
        assert pace.cap is not None
        more = int(max(pace.cap * by, math.sqrt(pace.cap * self._best[name])))
        pace.cap, pace.since, pace.probing = (more if more < bound else None), now, True

    def _crawl(self, seen: list[Seen], now: float) -> bool:
        """Do all get next to nothing, though nobody is left whom one of them could hold up?"""
        caps = self.caps
        crawl = all(one.name in caps and one.measured < CRAWLS * min(caps[one.name], one.planned) for one in seen)
        if not crawl:
            self._crawl_since = None
        elif self._crawl_since is None:
            self._crawl_since = now
        return crawl

    def _let_go(self, seen: list[Seen], now: float, room: bool) -> bool:
        """Each time it takes longer: their links may be as slow. Without room there is only the plan that the group
        began with."""
        assert self._crawl_since is not None
        if now - self._crawl_since < self._bear_s:
            return False
        self._crawl_since, self._bear_s = None, min(2 * self._bear_s, PROBE_MAX_S)
        if not room:
            self._pace.clear()
        for one in seen if room else ():
            self._pace[one.name].parts = {}
            self._give(one.name, CRAWLS_BY, one.bound, now)
        return True
