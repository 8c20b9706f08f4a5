"""`make test-costs`: what each test costs, in processor time and in waiting, on a machine that may have other work.

Wall time says little beside other work. Processor time (this process and all it started) says what a test computes;
what is left of the wall time after that and after waiting for a processor is sleep: a test that could wait for less.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Cost:
    """Seconds of one test with its set-up and what it leaves behind."""

    wall: float = 0.0
    processor: float = 0.0
    queued: float = 0.0

    def idle(self) -> float:
        return max(self.wall - self.processor - self.queued, 0.0)


_programs: dict[str, tuple[str, float]] = {}
"""Of processes that outlived a test: name and seconds, with those of their children that have ended. One of a whole
session is in the costs of all its tests."""


def _alive() -> float:
    """Processor seconds of the processes that this one started, directly or not, and that still run."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    named: dict[int, tuple[str, str]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue  # it ended just now
        fields = rest.split()
        named[int(entry.name)] = f"{entry.name} {fields[19]}", name
        parents[int(entry.name)] = int(fields[1])
        used[int(entry.name)] = sum(map(int, fields[11:15])) / TICK
    total = 0.0
    for pid, seconds in used.items():
        above = parents[pid]
        while above > 1 and above != os.getpid():
            above = parents.get(above, 1)
        if above == os.getpid():
            total += seconds
            identity, name = named[pid]
            _programs[identity] = name, seconds
    return total


def _now() -> Cost:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    queued = int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
    return Cost(time.monotonic(), time.process_time() + ended.ru_utime + ended.ru_stime + _alive(), queued)


_costs: dict[str, Cost] = defaultdict(Cost)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    before = _now()
    result = yield
    after, cost = _now(), _costs[item.nodeid]
    cost.wall += after.wall - before.wall
    cost.processor += max(after.processor - before.processor, 0.0)
    cost.queued += after.queued - before.queued
    _write()
    return result


def _write() -> None:
    """After every test: a run that is ended leaves what it saw."""
    where = Path(os.environ.get("DATACAST_COSTS", "build/costs"))
    where.mkdir(parents=True, exist_ok=True)
    rows = {name: [cost.wall, cost.processor, cost.queued] for name, cost in _costs.items()}
    said = {"tests": rows, "programs": list(_programs.values())}
    (where / f"{os.environ.get('PYTEST_XDIST_WORKER', 'main')}.json").write_text(json.dumps(said))


def table(folder: Path, most: int = 40) -> str:
    """The dearest tests: seconds of the clock, of processors, of sleep; and programs that outlive tests."""
    said = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    rows = {name: Cost(*row) for one in said for name, row in one["tests"].items()}
    programs = Counter[str]()
    for name, seconds in (program for one in said for program in one["programs"]):
        programs[name] += seconds
    dear = sorted(rows.items(), key=lambda row: -(row[1].processor + row[1].idle()))[:most]
    total = f"{sum(cost.processor for cost in rows.values()):.0f} s of processors in {len(rows)} tests"
    lines = [f"{cost.wall:7.1f} {cost.processor:7.1f} {cost.idle():7.1f}  {name}" for name, cost in dear]
    beside = [f"{seconds:15.1f}          {name}, beside tests" for name, seconds in programs.most_common(8)]
    return "\n".join([total, "   wall processor   idle", *lines, *beside])


if __name__ == "__main__":
    print(table(Path(os.environ.get("DATACAST_COSTS", "build/costs"))))
