"""From a spec such as `bcube:4,1` to a graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import networkx as nx

from . import fabrics, structured
from .errors import SpecError

BUILDERS: dict[str, Callable[..., nx.Graph]] = {
    "bcube": structured.bcube,
    "fattree": structured.fattree,
    "torus": structured.torus,
    "hypercube": structured.hypercube,
    "leafspine": fabrics.leafspine,
    "jellyfish": fabrics.jellyfish,
}
FORMS = (
    "bcube:n,k  fattree:n,k  torus:n,k  hypercube:d  leafspine:spines,leaves,hosts[,nics]  "
    "jellyfish:switches,degree[,hosts[,seed]]"
)

DIGITS_MAX = 19


def parse(spec: str) -> nx.Graph:
    """Build the topology that a spec names.

    Parameters
    ----------
    spec : str
        `name:number,number,…`; see FORMS.

    Raises
    ------
    SpecError
        Unknown name, numbers that are none, or sizes that make no sense.
    """
    name, colon, rest = spec.strip().partition(":")
    builder = BUILDERS.get(name.lower())
    if builder is None or not colon:
        raise SpecError(f"{spec!r} is no topology, nor a file that is there; there are: {FORMS}", what=spec)
    try:
        parts = rest.split(",")
        if max(map(len, parts)) > DIGITS_MAX:
            raise SpecError(f"{spec!r}: a size has {DIGITS_MAX} digits at most", what=spec)
        numbers = list(map(int, parts))
    except ValueError:
        raise SpecError(f"{spec!r}: sizes are whole numbers with commas between, as in bcube:4,1", what=spec) from None
    names = list(inspect.signature(builder).parameters.values())
    least = sum(1 for p in names if p.default is p.empty)
    if not least <= len(numbers) <= len(names):
        form = ",".join(p.name if p.default is p.empty else f"[{p.name}]" for p in names)
        raise SpecError(f"{spec!r}: give {name}:{form}", what=spec)
    return builder(*numbers)
