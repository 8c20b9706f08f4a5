"""All experiments by name."""

from __future__ import annotations

from ..errors import ExperimentError
from . import (
    assumptions,
    cloud,
    clusters,
    cornet,
    delivery,
    fairness,
    himm,
    matrix,
    memory,
    micro,
    pauses,
    robber,
    sites,
    sweep,
)
from .base import Experiment

MODULES = (
    micro,
    assumptions,
    fairness,
    matrix,
    delivery,
    sweep,
    pauses,
    memory,
    cloud,
    cornet,
    robber,
    sites,
    himm,
    clusters,
)
EXPERIMENTS: dict[str, Experiment] = {e.name: e for module in MODULES for e in module.EXPERIMENTS}


def find(name: str) -> Experiment:
    """By name. Raises ExperimentError with the names there are."""
    if name not in EXPERIMENTS:
        raise ExperimentError(f"no experiment {name!r}; there are {', '.join(EXPERIMENTS)}", what=name)
    return EXPERIMENTS[name]
