"""The structured constructions of trees, and which of them a topology has."""

from __future__ import annotations

from typing import Any

from ._core import lib

KINDS = {
    "bcube": lib.DC_NET_BCUBE,
    "torus": lib.DC_NET_TORUS,
    "hypercube": lib.DC_NET_HYPERCUBE,
    "fattree": lib.DC_NET_FATTREE,
}
KIND_NAMES = {number: name for name, number in KINDS.items()}


def construction(text: Any) -> tuple[int, tuple[int, int]]:
    """Kind and sizes of a structured topology's spec; the engine checks that the graph is one."""
    name, _, rest = str(text).partition(":")
    try:
        sizes = [int(part) for part in rest.split(",")]
    except ValueError:
        return lib.DC_NET_ANY, (0, 0)
    kind = KINDS.get(name, lib.DC_NET_ANY)
    if kind == lib.DC_NET_HYPERCUBE and len(sizes) == 1:
        sizes = [2, sizes[0]]
    if kind == lib.DC_NET_ANY or len(sizes) != 2 or min(sizes) < 0 or max(sizes) > 1 << 20:
        return lib.DC_NET_ANY, (0, 0)
    return kind, (sizes[0], sizes[1])
