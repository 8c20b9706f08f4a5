"""What was seen of a group's receivers at one look, kept small: a process keeps those of a thousand groups. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

UNKNOWN = -1
Trees = tuple[Sequence[tuple[str, str]], ...]
"""Arcs of each, away from the source."""


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

    def get(self, name: str, default: Any = None) -> Any:
        at = self._at.get(name)
        return default if at is None else self._values[at]

    def column(self, names: list[str]) -> list[float | None]:
        """Of each of these, mostly the same names in the same order; None: there is none."""
        return [*self._values] if list(self._at) == names else [*map(self.get, names)]

    def place(self, name: str) -> int | None:
        return self._at.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._at

    def __iter__(self) -> Iterator[str]:
        return iter(self._at)

    def __len__(self) -> int:
        return len(self._at)


class Tally:
    """A number for each name that changes from look to look: 0 until it is set. `like`: another one, whose places for
    names this one has as well."""

    __slots__ = "_at", "_values"

    def __init__(self, like: Tally | None = None) -> None:
        self._at: dict[str, int] = like._at if like else {}
        self._values = array("d")

    def __getitem__(self, name: str) -> float:
        at = self._at.get(name, len(self._values))
        return self._values[at] if at < len(self._values) else 0.0

    def __setitem__(self, name: str, value: float) -> None:
        at = self._at.setdefault(name, len(self._at))
        self._values.extend([0.0] * (at + 1 - len(self._values)))
        self._values[at] = value

    def column(self, names: list[str]) -> list[float]:
        """Of each of these, as `Row.column`."""
        if len(self._values) == len(names) and list(self._at) == names:
            return self._values.tolist()
        return [self[name] for name in names]

    def put(self, names: list[str], values: list[float]) -> None:
        """Of each of these."""
        if len(self._values) == len(names) and list(self._at) == names:
            self._values[:] = array("d", values)
            return
        for name, value in zip(names, values, strict=True):
            self[name] = value

    def all(self) -> dict[str, float]:
        return dict(zip(self._at, self._values, strict=False))


class Look:
    """Bytes that each held, that the plan had meant for it by then, and that came to it over each tree."""

    __slots__ = "_counts", "_trees", "at", "due", "held"
    held: Row
    due: Row
    _trees: Trees

    def __init__(
        self,
        at: float,
        held: Mapping[str, float],
        due: Mapping[str, float],
        arrived: Iterable[Sequence[int]] = (),
        trees: Trees = (),
        like: Look | None = None,
    ) -> None:
        """`arrived`: in the order of `held`, by tree (UNKNOWN: it has not told); nothing where that is not known.
        `like`: the look before."""
        self.at = at
        self.held = Row(held, like.held if like else None)
        self.due = Row(due, like.due if like else None)
        self._trees = like._trees if like and like._trees == trees else trees
        nothing = [UNKNOWN] * len(trees)
        self._counts = array("q", [count for came in arrived for count in came or nothing])

    def arrived(self, name: str) -> dict[str, int]:
        """Bytes by the neighbour that they came from; empty where that is not known."""
        came: dict[str, int] = {}
        place, width = self.held.place(name), len(self._trees)
        if place is None or not self._counts:
            return came
        for arcs, count in zip(self._trees, self._counts[place * width : (place + 1) * width], strict=True):
            neighbour = next((parent for parent, child in arcs if child == name), None)
            if neighbour is not None and count != UNKNOWN:
                came[neighbour] = came.get(neighbour, 0) + count
        return came
