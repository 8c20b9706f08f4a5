"""`-p reach`: which lines of the services and of the C programs each test reaches, and how long it takes.

A folder, in DATACAST_REACH_IN, gets a file per test process. The services' lines come from coverage.py, a context per
test; what another process reaches, forked or a program, counts for all tests that ran from its start to its end. It
says so as it ends: one that is killed says nothing. Those of programs in C come from reached.c, however they end.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import coverage
import numpy
import pytest

ROOT = Path.cwd()
SERVICES = [
    "cli",
    "controller",
    "fabric_manager",
    "master",
    "mirror",
    "origins",
    "planners",
    "services",
    "libdatacast/python",
]
SETTINGS = """[run]
source = {source}
parallel = true
sigterm = true
patch = subprocess, _exit
data_file = {file}
"""
CALL = re.compile(r"^ +([0-9a-f]+):\t.*\bcall\b.*<__sanitizer_cov_trace_pc")
ADDRESS = re.compile(r"^ +([0-9a-f]+):\t")
FILE = re.compile(r"^(\S+\.[ch]):(?:\[\+\+\])?$")
ROW = re.compile(r"^\S+\s+(\d+)\s+0x([0-9a-f]+)")
C = ["libdatacast/src", "datapath", "host_agent", "dpdk_cache"]


def said_by(*command: str) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True).stdout.splitlines()


def blocks(program: Path) -> tuple[list[int], list[set[tuple[str, int]]]]:
    """The places that reached.c marks, in order, and the lines of each place's block: up to the next place."""
    places: list[int] = []
    called = False
    for text in said_by("objdump", "-d", "--no-show-raw-insn", str(program)):
        if at := ADDRESS.match(text):
            if called:
                places.append(int(at[1], 16))
            called = CALL.match(text) is not None
    known: dict[str, list[str]] = defaultdict(list)
    for folder in C:
        for path in (ROOT / folder).glob("*.[ch]"):
            known[path.name].append(f"{folder}/{path.name}")
    lines: list[set[tuple[str, int]]] = [set() for _ in places]
    files: list[str] = []
    for text in said_by("objdump", "--dwarf=decodedline", str(program)):
        if file := FILE.match(text):  # some without their folder
            files = [file[1]] if "/" in file[1] else known[file[1]]
        elif (row := ROW.match(text)) and (at := bisect_right(places, int(row[2], 16)) - 1) >= 0:
            lines[at] |= {(file, int(row[1])) for file in files}
    return places, lines


class Reach:
    def __init__(self) -> None:
        name = os.environ.get("PYTEST_XDIST_WORKER", "main")
        self.out = Path(os.environ["DATACAST_REACH_IN"]) / f"{name}.json"
        self.marks = self.out.with_suffix(".marks")
        self.marks.mkdir(parents=True, exist_ok=True)
        os.environ["DATACAST_REACH"] = str(self.marks)
        self.tests: dict[str, float] = {}
        self.places: dict[str, dict[str, list[int]]] = defaultdict(dict)
        self.now = self.out.with_suffix(".now")
        self.now.write_text("")
        self.others = self.out.with_suffix(".others")
        self.others.mkdir(exist_ok=True)
        self.ended: dict[Path, str] = {}
        """What other processes have reached, and the test during which each ended."""
        settings = self.out.with_suffix(".ini")
        source = ", ".join(str(ROOT / folder) for folder in SERVICES)
        settings.write_text(SETTINGS.format(source=source, file=self.others / "data"))
        self.coverage = coverage.Coverage(config_file=str(settings), messages=False)
        self.coverage.start()
        os.register_at_fork(after_in_child=self.forked)

    def forked(self) -> None:
        """What is reached from here on is another process's, begun during the test of now."""
        self.coverage.switch_context("since " + self.now.read_text())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.coverage.switch_context(item.nodeid)
        self.now.write_text(item.nodeid)
        self.collect(None)
        began = time.monotonic()
        result = yield
        self.tests[item.nodeid] = round(time.monotonic() - began, 3)
        self.collect(item.nodeid)
        self.coverage.switch_context("")
        return result

    def collect(self, test: str | None) -> None:
        """What programs have marked since the last time is the test's; None: nobody's."""
        for path in self.marks.iterdir():
            marks = numpy.memmap(path, dtype=numpy.uint8, mode="r+")
            places = numpy.nonzero(marks)[0]
            marks[places] = 0
            if test:
                self.places[path.name][test] = places.tolist()
        if test:
            for path in self.others.glob("data*"):
                self.ended.setdefault(path, test)

    def during(self, first: str, last: str) -> list[int]:
        """Numbers of the tests between. Of a program it is not known when it began: with its file's first test."""
        tests = list(self.tests)
        end = tests.index(last)
        file = last.partition("::")[0]
        known = first in self.tests
        begin = tests.index(first) if known else next(n for n, test in enumerate(tests) if test.startswith(file))
        return list(range(begin, end + 1))

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        numbers = {test: number for number, test in enumerate(self.tests)}
        lines: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        data = self.coverage.get_data()
        for path in data.measured_files():
            for line, tests in data.contexts_by_lineno(path).items():
                lines[os.path.relpath(path, ROOT)][line] |= {numbers[test] for test in tests if test in numbers}
        own = data.data_filename()
        for file, last in self.ended.items():
            if str(file) != own:
                self.read(file, last, lines)
        for name, reached in self.places.items():
            program = Path(name.replace("!", "/"))
            if not program.is_file():
                continue
            places, of = blocks(program)
            for test, found in reached.items():
                for place in found:
                    at = bisect_right(places, place) - 1
                    for path, line in of[at] if at >= 0 and places[at] == place else ():
                        lines[path][line].add(numbers[test])
        shutil.rmtree(self.others)
        rows = {path: {line: sorted(tests) for line, tests in found.items()} for path, found in lines.items()}
        self.out.write_text(json.dumps({"tests": self.tests, "lines": rows}))

    def read(self, file: Path, last: str, lines: dict[str, dict[int, set[int]]]) -> None:
        """What another process has reached."""
        data = coverage.CoverageData(str(file))
        try:
            data.read()
            tests = {  # the others are from before it was forked
                context: self.during(context.removeprefix("since "), last)
                for context in data.measured_contexts()
                if context not in self.tests
            }
            for path in data.measured_files():
                for line, contexts in data.contexts_by_lineno(path).items():
                    lines[os.path.relpath(path, ROOT)][line].update(*(tests.get(context, ()) for context in contexts))
        except coverage.CoverageException:  # it was killed as it wrote
            return


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.pluginmanager.register(Reach())
