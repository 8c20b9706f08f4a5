"""Which tests reach a line, those first that are likely to notice a change of it soon (reach.py has watched them)."""

from __future__ import annotations

import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tree import HERE, Tree

PROCESSES = 3
FILES = 24
MARKS = "not lab and not alone"


@dataclass
class Cover:
    """Seconds of each test, and the tests of each line, by file."""

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[int, set[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))

    def read(self, folder: Path) -> None:
        for path in folder.glob("*.json"):
            rows = json.loads(path.read_text())
            names = list(rows["tests"])
            self.seconds.update(rows["tests"])
            for source, found in rows["lines"].items():
                for line, tests in found.items():
                    self.lines[source][int(line)] |= {names[test] for test in tests}

    def tests(self, path: str, line: int, within: Iterable[str]) -> list[str]:
        """Tests of these folders that reach a line, the quickest first."""
        under = tuple(within)
        found = (test for test in self.lines[path][line] if any(_below(test, folder) for folder in under))
        return sorted(found, key=lambda test: self.seconds[test])


def _below(test: str, folder: str) -> bool:
    return test.startswith((folder + "/", folder + "::")) or test == folder


def watched(tree: Tree, folders: Iterable[str], kept: Path, until: float) -> Cover:
    """Runs the tests of each folder once, watched, some files at a time, unless that was done for this commit. What is
    left when the time is over is for the next run."""
    files = [path for folder in folders for path in _files(tree.path, folder)]
    done = {file for path in kept.glob("*/done") for file in path.read_text().split()}
    left = [path for path in dict.fromkeys(files) if path not in done]
    for at in range(0, len(left), FILES):
        if time.monotonic() > until:
            raise SystemExit(f"{len(left) - at} files of tests are to be watched yet")
        some = left[at : at + FILES]
        place = kept / some[0].replace("/", "-").removesuffix(".py")
        print(f"watching what {' '.join(some)} reach", flush=True)
        place.mkdir(parents=True, exist_ok=True)
        tree.environment |= {"DATACAST_REACH_IN": str(place), "PYTHONPATH": str(HERE)}
        # A test that fails beside others is not one that notices anything: what it reached counts all the same.
        pytest = (
            f".venv/bin/python -m pytest -q -p reach -p no:cacheprovider -n {PROCESSES} --dist loadfile -m '{MARKS}'"
        )
        tree.run(f"{pytest} {' '.join(some)}")
        del tree.environment["DATACAST_REACH_IN"], tree.environment["PYTHONPATH"]
        if spoilt(tree.log.read_text(errors="replace")):
            raise SystemExit(f"{some[0]}: too many tests fail as they are watched: see {tree.log}")
        if not list(place.glob("*.json")):
            raise SystemExit(f"{some[0]}: nothing was watched: see {tree.log}")
        (place / "done").write_text("\n".join(some))
    cover = Cover()
    for path in kept.glob("*/done"):
        cover.read(path.parent)
    return cover


def spoilt(said: str) -> bool:
    """Whether many tests did not run to their ends, by pytest's last line: what was not built, say, nobody reaches."""
    ends = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error)", said.rstrip()[-200:])}
    return 10 * (ends.get("failed", 0) + ends.get("error", 0)) > ends.get("passed", 0)


def _files(tree: Path, folder: str) -> list[str]:
    path = tree / folder
    found = [path] if path.is_file() else sorted(path.glob("test_*.py"))
    return [file.relative_to(tree).as_posix() for file in found]


def in_order(tests: Sequence[str], seconds: dict[str, float], noticed: Counter[str]) -> list[str]:
    """What has noticed most goes first; then whole files, the one with the quickest test first: they share fixtures."""
    rank = {test: place for place, (test, _) in enumerate(noticed.most_common())}
    known = sorted((test for test in tests if test in rank), key=lambda test: rank[test])
    rest = [test for test in tests if test not in rank]
    quickest: dict[str, float] = {}
    for test in rest:
        file = test.partition("::")[0]
        quickest[file] = min(quickest.get(file, 1e9), seconds.get(test, 0.0))
    return known + sorted(
        rest, key=lambda test: (quickest[test.partition("::")[0]], test.partition("::")[0], seconds.get(test, 0.0))
    )


def in_parts(tests: Sequence[str], seconds: dict[str, float], ends: Sequence[float] = (4.0, 25.0)) -> list[list[str]]:
    """Quick parts, and the rest: most changes do not get past the first, and what is slow would begin first."""
    parts: list[list[str]] = [[]]
    left = list(ends)
    spent = 0.0
    for test in tests:
        if left and parts[-1] and spent + seconds.get(test, 0.0) > left[0]:
            parts.append([])
            left.pop(0)
        parts[-1].append(test)
        spent += seconds.get(test, 0.0)
    return [part for part in parts if part]
