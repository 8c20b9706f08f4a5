"""How many trees of groups each arc of a network carries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .trees import Network


class ArcLoad(dict[tuple[str, str], int]):
    """Trees of groups on each arc of a network, kept up as they come and go: a query need not look at all of them."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network
        self._counts = np.zeros(len(network.to), np.int64)

    def change(self, parent: str, child: str, by: int) -> None:
        """So many trees more, or less. Raises UnknownNode, LinkError."""
        arc = self.network.arc(parent, child)
        self._counts[arc] = count = max(0, int(self._counts[arc]) + by)
        if count:  # a key that is there stays the one that all share
            self[(parent, child) if (parent, child) in self else self.network.pairs((arc,))[0]] = count
        else:
            self.pop((parent, child), None)

    def without(self, own: Iterable[tuple[str, str]]) -> ArcLoad:
        """The same but for one tree less on each of these arcs. O(arcs)."""
        other = ArcLoad(self.network)
        other.update(self)
        other._counts[:] = self._counts
        for parent, child in own:
            other.change(parent, child, -1)
        return other

    def engine(self) -> np.ndarray:
        return np.minimum(self._counts, 65535).astype(np.uint16)
