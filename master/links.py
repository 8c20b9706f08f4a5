"""Which groups of a worker a link that fails, or comes back, concerns. Pure.

In a fabric with many groups a link concerns few of them, and what the others would do about it holds those few up. So
there is a row for each link: a bit for every group whose trees use it. A group that was not told of a failure need not
hear of its end either; it learns of the links that are down with the next change that does concern it (`unread`).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from datacast.fabric_manager.api.topology import LinkChange


@dataclass(frozen=True)
class Appliance:
    """A switch's cache came, or went."""

    node: str
    present: bool


Change = LinkChange | Appliance


class Watch:
    """One that is told of changes: of every link's, until it says which links it `uses`."""

    def __init__(self, links: Links, bit: int, on_change: Callable[[Change], None]) -> None:
        self._links, self.bit, self.on_change = links, bit, on_change
        self.used = array("I")

    def uses(self, arcs: Iterable[tuple[str, str]]) -> None:
        """These links and no others, from now on."""
        self._links.use(self, arcs)

    def unread(self) -> list[tuple[str, str]]:
        """Links that are down of which it has not been told. It knows of them now."""
        return self._links.unread(self)

    def end(self) -> None:
        self._links.forget(self)


class Links:
    """`tell` brings a change to those it concerns."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        """Of links, whatever becomes of the topology."""
        self._names: list[tuple[str, str]] = []
        self._users: list[int] = []
        """By a link's number: a bit for each that uses it."""
        self._down: dict[int, int] = {}
        """Links that are down: a bit for each that knows."""
        self._watches: dict[int, Watch] = {}
        """By bit."""
        self._all = 0
        """Bits of those that have not said what they use."""

    def watch(self, on_change: Callable[[Change], None]) -> Watch:
        """What is down now is known to it."""
        bit = 1
        while bit in self._watches:
            bit <<= 1
        watch = self._watches[bit] = Watch(self, bit, on_change)
        self._all |= bit
        for link in self._down:
            self._down[link] |= bit
        return watch

    def tell(self, change: Change) -> None:
        """A `link` change goes to those that it concerns, any other to all."""
        bits = self._concerned(change) if isinstance(change, LinkChange) else sum(self._watches)
        while bits:
            bit = bits & -bits
            bits ^= bit
            if (watch := self._watches.get(bit)) is not None:
                watch.on_change(change)

    def _concerned(self, change: LinkChange) -> int:
        link = self._number(change.u, change.v)
        if change.up:  # of one that was down before this worker came everybody is told
            return self._down.pop(link) if link in self._down else sum(self._watches)
        concerned = self._users[link] | self._all
        self._down[link] = self._down.get(link, 0) | concerned
        return concerned

    def _number(self, u: str, v: str) -> int:
        link = (u, v) if u < v else (v, u)
        number = self._numbers.get(link)
        if number is None:
            number = self._numbers[link] = len(self._names)
            self._names.append(link)
            self._users.append(0)
        return number

    def use(self, watch: Watch, arcs: Iterable[tuple[str, str]]) -> None:
        if self._watches.get(watch.bit) is not watch:
            return  # its group has ended, and the bit may be another's
        now, before = {self._number(u, v) for u, v in arcs}, set(watch.used)
        for link in before - now:
            self._users[link] &= ~watch.bit
        for link in now - before:
            self._users[link] |= watch.bit
        watch.used = array("I", sorted(now))
        self._all &= ~watch.bit

    def unread(self, watch: Watch) -> list[tuple[str, str]]:
        if self._watches.get(watch.bit) is not watch:
            return []
        missed = [link for link, known in self._down.items() if not known & watch.bit]
        for link in missed:
            self._down[link] |= watch.bit
        return [self._names[link] for link in missed]

    def forget(self, watch: Watch) -> None:
        if self._watches.get(watch.bit) is not watch:
            return
        self.use(watch, ())
        del self._watches[watch.bit]
        for link in self._down:
            self._down[link] &= ~watch.bit
