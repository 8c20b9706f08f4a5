"""How many trees of groups each arc of a network carries."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import DatacastError

if TYPE_CHECKING:
    from .trees import Arc, Network


class ArcLoad(Mapping["Arc", int]):
    """Trees of groups on each arc of a network, kept up as they come and go: a query need not look at all of them.
    A row of numbers by arc; of a mapping it has the arcs that carry any."""

    def __init__(self, network: Network, like: ArcLoad | None = None) -> None:
        """`like`: with the numbers of another of the same network."""
        self.network = network
        self._counts: array[int] = array("q", like._counts if like is not None else bytes(8 * len(network.to)))

    def change(self, parent: str, child: str, by: int) -> None:
        """So many trees more, or less. Raises UnknownNode, LinkError."""
        arc = self.network.arc(parent, child)
        self._counts[arc] = max(0, self._counts[arc] + by)

    def without(self, own: Iterable[Arc]) -> ArcLoad:
        """The same but for one tree less on each of these arcs. O(arcs)."""
        other = ArcLoad(self.network, self)
        for parent, child in own:
            other.change(parent, child, -1)
        return other

    def engine(self) -> np.ndarray:
        return np.minimum(np.frombuffer(self._counts, np.int64), 65535).astype(np.uint16)

    def get(self, arc: Arc, default: Any = None) -> Any:
        try:
            return self._counts[self.network.arc(*arc)] or default
        except DatacastError:
            return default

    def __getitem__(self, arc: Arc) -> int:
        if (count := self.get(arc)) is None:
            raise KeyError(arc)
        return int(count)

    def __iter__(self) -> Iterator[Arc]:
        return iter(self.network.pairs(np.flatnonzero(np.frombuffer(self._counts, np.int64)).tolist()))

    def __len__(self) -> int:
        return int(np.count_nonzero(np.frombuffer(self._counts, np.int64)))
