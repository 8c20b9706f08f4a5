"""When each receiver has the whole file: stages (Takahashi and others, Algorithm 2), as a fluid."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Carrier(Protocol):
    """A tree: its rate and whom it reaches."""

    @property
    def rate_bps(self) -> float: ...
    @property
    def receivers(self) -> tuple[str, ...]: ...


class Trees(Protocol):
    @property
    def trees(self) -> Iterable[Carrier]: ...


def finish_times(plan: Trees, size_bits: float) -> dict[str, float]:
    """Seconds per receiver. A tree carries what most of its receivers still wait for; parts of the file are told apart
    by who has them. Receivers without a tree are left out."""
    return stages(plan.trees, size_bits)


def stages(carriers: Iterable[Carrier], size_bits: float) -> dict[str, float]:
    trees = [(tree.rate_bps, frozenset(tree.receivers)) for tree in carriers if tree.rate_bps > 0]
    everyone = frozenset(name for _, reach in trees for name in reach)
    waiting: dict[frozenset[str], float] = {everyone: size_bits}
    done: dict[str, float] = {}
    now = 0.0
    while waiting:
        order = sorted(waiting, key=lambda key: (-len(key), sorted(key)))
        work: dict[frozenset[str], list[tuple[float, frozenset[str]]]] = {}
        for rate, reach in trees:
            key = next((key for key in order if key & reach), None)
            if key is not None:
                work.setdefault(key, []).append((rate, reach))
        if not work:
            break
        step = min(waiting[key] / sum(rate for rate, _ in parts) for key, parts in work.items())
        now += step
        for key, parts in work.items():
            for rate, reach in parts:
                waiting[key] -= rate * step
                if rest := key - reach:
                    waiting[rest] = waiting.get(rest, 0.0) + rate * step
        waiting = {key: bits for key, bits in waiting.items() if bits > 1e-9 * size_bits}
        missing = frozenset().union(*waiting) if waiting else frozenset()
        for name in everyone - missing - done.keys():
            done[name] = now
    return done
