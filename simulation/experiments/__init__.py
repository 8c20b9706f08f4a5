"""The paper's experiments, and those of this project. `EXPERIMENTS` lists them by name."""

from .base import Experiment, Result, Setting
from .registry import EXPERIMENTS, find

__all__ = ["EXPERIMENTS", "Experiment", "Result", "Setting", "find"]
