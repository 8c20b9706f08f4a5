"""Who fetches which pieces, while they fetch: the policies of the papers, as one pure object.

Everybody begins with an equal share (the cloud paper's equation 1). A fetcher takes its share in short runs, so that
what it has not begun can still be another's. One that is out of work steals:

- `steal`: from the one that would need longest for its rest, in proportion to both rates (equations 2 and 3);
- `robber`: half of the rest of one chosen at random (Robber, section 3.2);
- `mob`, `non-steal`: nothing; shares are static (MOB; the cloud paper's section IV.B);
- `flat`: there are no shares, everybody fetches all of it (the cloud paper's flat tree).

With all but `flat` every piece is dealt out once, and again only when the fetcher that had begun it is gone.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from datacast.core.errors import DatacastError

from .ranges import Range, common, head, joined, pieces, without

POLICIES = ("steal", "robber", "mob", "non-steal", "flat")
RUN_S = 0.5
"""A run should take about so long: short against what is left, long against a round trip."""
AVERAGE = 0.5
"""Weight of the newest run in a fetcher's measured rate."""


class DealingError(DatacastError):
    """No such policy, no fetchers, or a report that fits nothing that was dealt out."""


@dataclass
class _Fetcher:
    name: str
    work: list[Range]
    begun: list[Range] = field(default_factory=list)
    rate: float = 0.0
    """Pieces per second; 0: not known yet."""
    fetched: int = 0


class Dealing:
    """`total` pieces among `fetchers`. Nothing here waits or asks anybody: what happened comes in, ranges go out."""

    def __init__(
        self,
        total: int,
        fetchers: Sequence[str],
        policy: str = "steal",
        *,
        run: int = 64,
        seed: int = 0,
    ):
        """`run`: pieces of a run whose fetcher's rate is not known. Raises DealingError."""
        if policy not in POLICIES:
            raise DealingError(f"there is no policy {policy!r}; there are {', '.join(POLICIES)}", policy)
        if not fetchers or len(set(fetchers)) != len(fetchers):
            raise DealingError("somebody must fetch, and nobody twice", ", ".join(fetchers))
        if total < 0 or run < 1:
            raise DealingError(f"{total} pieces in runs of {run}", str(total))
        self.total, self.policy, self._run = total, policy, run
        self._random = random.Random(seed)
        self._fetchers = {name: _Fetcher(name, self._share(total, i, len(fetchers))) for i, name in enumerate(fetchers)}
        self._unowned: list[Range] = []
        """Work of fetchers that are gone, when nobody was left to take it: who joins next has it."""

    def _share(self, total: int, i: int, n: int) -> list[Range]:
        first, end = (0, total) if self.policy == "flat" else (i * total // n, (i + 1) * total // n)
        return [Range(first, end - first)] if end > first else []

    @property
    def fetchers(self) -> list[str]:
        return list(self._fetchers)

    def left(self, fetcher: str | None = None) -> int:
        """Pieces that nobody has begun, of one or of all."""
        chosen = self._fetchers.values() if fetcher is None else [self._known(fetcher)]
        return sum(pieces(f.work) for f in chosen) + (pieces(self._unowned) if fetcher is None else 0)

    def rate(self, fetcher: str) -> float:
        """Pieces per second, as measured; 0: not known yet."""
        return self._known(fetcher).rate

    def take(self, fetcher: str, held: list[Range] | None = None, most: int = 0) -> Range | None:
        """What this fetcher begins now; None: there is nothing for it (more may come when somebody goes).

        `held`: what its origin has, in order, when that is not all: a site that is receiving itself. Then pieces are
        chosen at random (Robber, section 3.1), so that sites fetch different ones and have something for each other.
        `most`: pieces of the run at most; 0: as many as the fetcher's rate suggests.
        """
        who = self._known(fetcher)
        if held is not None:
            return self._take_held(who, held, most)
        if not who.work and self.policy in ("steal", "robber"):
            self._steal(who)
        if not who.work:
            return None
        first = who.work[0]
        count = min(first.count, self._length(who), most or first.count)
        if count < first.count:
            first, who.work[0] = first.split(count)
        else:
            del who.work[0]
        who.begun.append(first)
        return first

    def _take_held(self, who: _Fetcher, held: list[Range], most: int) -> Range | None:
        """From its own work if it can; `steal` takes single runs of others' that its origin has."""
        if not who.work and self.policy == "robber":
            self._steal(who)
        owner, able = who, common(who.work, held)
        if not able and self.policy == "steal":
            others = [f for f in self._fetchers.values() if f is not who and f.work]
            others.sort(key=lambda f: (-pieces(f.work) / (f.rate or 1e-9), f.name))
            for owner in others:
                if able := common(owner.work, held):
                    break
        if not able:
            return None
        at = self._random.randrange(pieces(able))
        one = head(able, at)[1][0]
        count = min(one.count, self._length(who), most or one.count)
        one = one.split(count)[0] if count < one.count else one
        owner.work = without(owner.work, one)
        who.begun.append(one)
        return one

    def _length(self, who: _Fetcher) -> int:
        """Towards the end runs shrink, so that the last of them end together (guided self-scheduling)."""
        usual = max(1, round(who.rate * RUN_S)) if who.rate else self._run
        if self.policy not in ("steal", "robber"):
            return usual
        return max(1, min(usual, -(-self.left() // (2 * len(self._fetchers)))))

    def _steal(self, thief: _Fetcher) -> None:
        victims = [f for f in self._fetchers.values() if f is not thief and f.work]
        if not victims:
            return
        if self.policy == "robber":
            victim = self._random.choice(victims)
            stolen = -(-pieces(victim.work) // 2)
        else:
            victim = max(victims, key=lambda f: (pieces(f.work) / (f.rate or 1e-9), f.name))
            rest = pieces(victim.work)
            mine, theirs = (thief.rate, victim.rate) if thief.rate and victim.rate else (1.0, 1.0)
            stolen = min(rest, -int(-rest * mine // (mine + theirs)))
        victim.work, thief.work = head(victim.work, pieces(victim.work) - stolen)

    def fetched(self, fetcher: str, done: Range, seconds: float) -> None:
        """A run is whole. Raises DealingError for one that was not dealt out."""
        who = self._known(fetcher)
        if done not in who.begun:
            raise DealingError(f"{fetcher} was not given {done}", fetcher)
        who.begun.remove(done)
        who.fetched += done.count
        if seconds > 0:
            now = done.count / seconds
            who.rate = now if not who.rate else who.rate + AVERAGE * (now - who.rate)

    def measured(self, fetcher: str, rate: float) -> None:
        """Pieces per second, of late: for who measures it another way than by whole runs."""
        self._known(fetcher).rate = rate

    def leaves(self, fetcher: str, run: Range, rest: list[Range], to: str) -> list[Range]:
        """It has not come to this part of a run: that is another's work now. What it keeps of it, each range a run.
        Raises DealingError."""
        who, heir = self._known(fetcher), self._known(to)
        if run not in who.begun or pieces(common(rest, [run])) != pieces(joined(rest)):
            raise DealingError(f"{fetcher} was not given {rest} of {run}", fetcher)
        kept = [run]
        for one in rest:
            kept = without(kept, one)
        who.begun.remove(run)
        who.begun += kept
        heir.work += rest
        return kept

    def failed(self, fetcher: str, missing: Range, got: int = 0) -> None:
        """A run broke off after `got` pieces; the fetcher has the rest of it in front of its work again."""
        who = self._known(fetcher)
        if missing not in who.begun or not 0 <= got <= missing.count:
            raise DealingError(f"{fetcher} was not given {missing}", fetcher)
        who.begun.remove(missing)
        who.fetched += got
        if got < missing.count:
            who.work.insert(0, missing.split(got)[1] if got else missing)

    def gone(self, fetcher: str) -> None:
        """What it had not begun, and what it had begun and not finished, is the others' now, in equal parts."""
        who = self._fetchers.pop(self._known(fetcher).name)
        self._hand_out([*who.work, *who.begun])

    def lost(self, missing: list[Range]) -> None:
        """Fetched, and gone with those that had it: it is fetched again. What was begun as its fetcher went is not lost
        twice."""
        for one in [one for f in self._fetchers.values() for one in f.work]:
            missing = without(missing, one)
        self._hand_out(missing)

    def _hand_out(self, work: list[Range]) -> None:
        """It is the others' now, in equal parts."""
        if self.policy == "flat":
            return
        heirs = list(self._fetchers.values())
        if not heirs:
            self._unowned = _each_once([*self._unowned, *work])
            return
        work = _each_once(work)
        total = pieces(work)
        for i, heir in enumerate(heirs):
            part, work = head(work, (i + 1) * total // len(heirs) - i * total // len(heirs))
            heir.work += part

    def joins(self, fetcher: str) -> None:
        """A fetcher more, without work: it steals, or takes what nobody has. Raises DealingError when it is there."""
        if fetcher in self._fetchers:
            raise DealingError(f"{fetcher} fetches already", fetcher)
        if self.policy == "flat":
            self._fetchers[fetcher] = _Fetcher(fetcher, self._share(self.total, 0, 1))
        else:
            self._fetchers[fetcher], self._unowned = _Fetcher(fetcher, self._unowned), []

    def _known(self, fetcher: str) -> _Fetcher:
        if fetcher not in self._fetchers:
            raise DealingError(f"{fetcher} does not fetch", fetcher)
        return self._fetchers[fetcher]


def _each_once(ranges: list[Range]) -> list[Range]:
    """What was lost may be in a run that was begun before, too."""
    found: list[Range] = []
    for one in ranges:
        new = [one]
        for known in found:
            new = without(new, known)
        found += new
    return joined(found)
