"""What was seen of a group's receivers at one look, kept small: a process keeps those of a thousand groups. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping


class Row(Mapping[str, float]):
    """A number for each name. The names are shared with the row that was made before, where they are the same."""

    __slots__ = "_at", "_values"
    _at: dict[str, int]
    _values: array[float]

    def __init__(self, numbers: Mapping[str, float], like: Row | None = None) -> None:
        self._values = array("d", numbers.values())
        self._at = (
            like._at
            if like is not None and list(like._at) == list(numbers)
            else {name: at for at, name in enumerate(numbers)}
        )

    def __getitem__(self, name: str) -> float:
        return self._values[self._at[name]]

    def __contains__(self, name: object) -> bool:
        return name in self._at

    def __iter__(self) -> Iterator[str]:
        return iter(self._at)

    def __len__(self) -> int:
        return len(self._at)


class Look:
    """Bytes that each held, that the plan had meant for it by then, and that came to it from each neighbour."""

    __slots__ = "_counts", "_who", "at", "due", "held"
    held: Row
    due: Row
    _who: tuple[tuple[str, ...], ...]

    def __init__(
        self,
        at: float,
        held: Mapping[str, float],
        due: Mapping[str, float],
        arrived: Iterable[Mapping[str, int]] = (),
        like: Look | None = None,
    ) -> None:
        """`arrived`: in the order of `held`. `like`: the look before."""
        self.at = at
        self.held = Row(held, like.held if like else None)
        self.due = Row(due, like.due if like else None)
        arrived = tuple(arrived)
        who = tuple(tuple(came) for came in arrived)
        self._who = like._who if like and like._who == who else who
        self._counts = array("q", [count for came in arrived for count in came.values()])

    def arrived(self, name: str) -> dict[str, int]:
        """Bytes by neighbour; empty where that is not known."""
        at = 0
        for other, neighbours in zip(self.held, self._who, strict=False):
            if other == name:
                return dict(zip(neighbours, self._counts[at : at + len(neighbours)], strict=True))
            at += len(neighbours)
        return {}
