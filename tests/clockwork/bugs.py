"""Mistakes that the services once made, or nearly, to be put back: the simulation is worth what it finds.

`PYTHONPATH=tests python -m clockwork --bugs` puts each into the source as it is imported, and counts the seeds until a
checker speaks.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, ModuleType


@dataclass(frozen=True)
class Bug:
    name: str
    module: str
    old: str
    new: str
    lately: list[int] = field(default_factory=list)
    """Seeds that showed it when they were tried last: they go first."""

    def seeds(self, others: str) -> str:
        return ",".join([*map(str, self.lately), others])


BUGS = [Bug(**row) for row in tomllib.loads(Path(__file__).with_name("bugs.toml").read_text())["bug"]]


class _Loader(importlib.machinery.SourceFileLoader):
    bug: Bug

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path).decode()
        assert source.count(self.bug.old) == 1, f"{self.bug.name}: its line is there {source.count(self.bug.old)} times"
        code = compile(source.replace(self.bug.old, self.bug.new), self.path, "exec")
        assert isinstance(code, CodeType)
        return code


class _Finder:
    """Finds one module, with the bug in it."""

    def __init__(self, bug: Bug) -> None:
        self.bug = bug

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self.bug.module:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None and spec.origin is not None:
                loader = _Loader(name, spec.origin)
                loader.bug = self.bug
                return importlib.util.spec_from_file_location(name, spec.origin, loader=loader)
        return None


def put_back(bug: Bug) -> None:
    """Before the services are imported."""
    assert bug.module not in sys.modules, f"{bug.module} is imported already"
    sys.meta_path.insert(0, _Finder(bug))  # type: ignore[arg-type]
