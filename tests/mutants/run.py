"""`make mutants`: one-line changes, one at a time, on the tests that cover them. Resumable; survivors are listed.

A copy of the committed tree is built once in build/mutants/tree; results grow in build/mutants/results.jsonl, a line
each, so a run that was stopped goes on. A mutant that does not build is not counted and another takes its place. What
survives and means nothing (an equivalent change) gets a row with the reason in tests/mutants/equivalent.toml.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import contextlib

import changes
from changes import Change

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = ROOT / "build" / "mutants"
TREE = WORK / "tree"
RESULTS = WORK / "results.jsonl"
LIMIT = 1800.0
"""Seconds for a build and a stage of tests (each test has a limit of its own). What needs longer has hung: noticed,
too, when the unchanged tests are through in that time."""
FIRST = 6
"""Tests that noticed the most of a part's earlier mutants go first: so many."""
FAILED = re.compile(rb"^(?:FAILED|ERROR) (tests/\S+?)(?: - .*)?$", re.M)


@dataclass(frozen=True)
class Part:
    """Files that are changed together with the command that builds them and the tests that should notice."""

    name: str
    weight: int
    files: list[str]
    tests: list[str]
    build: str = "true"
    without: list[str] = field(default_factory=list)

    def paths(self) -> list[Path]:
        left_out = {path for pattern in self.without for path in TREE.glob(pattern)}
        return sorted({path for pattern in self.files for path in TREE.glob(pattern)} - left_out)

    def changes(self) -> list[Change]:
        found: list[Change] = []
        for path in self.paths():
            kind = changes.of_python if path.suffix == ".py" else changes.of_c
            found += kind(path.relative_to(TREE).as_posix(), path.read_text())
        return found

    def command(self, tests: list[str] | None = None) -> str:
        """Builds and runs the part's tests, or those named."""
        chosen = self.tests if tests is None else [f"'{test}'" for test in tests]
        pytest = f".venv/bin/python -m pytest -x -q -p no:cacheprovider {' '.join(chosen)}" if chosen else "true"
        return f"{self.build} && {pytest}"


@dataclass(frozen=True)
class Result:
    """What became of one mutant: killed, survived, stillborn (it does not build), unsure (its test fails anyway)."""

    revision: str
    part: str
    change: Change
    outcome: str
    seconds: float
    by: str = ""
    """The test that noticed; empty for one in C, or when the whole run hung."""


def run(command: str, limit: float | None = None) -> int | None:
    """The exit code of a shell command in the copy; None: it hung and was ended with all that it had started."""
    process = subprocess.Popen(
        command,
        shell=True,
        cwd=TREE,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=(WORK / "last.log").open("wb"),
        stderr=subprocess.STDOUT,
    )
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def prepare(revision: str) -> None:
    """A clean copy of the committed tree, built."""
    WORK.mkdir(parents=True, exist_ok=True)
    if not TREE.exists():
        subprocess.run(["git", "clone", "-q", "--shared", str(ROOT), str(TREE)], check=True)
    subprocess.run(["git", "fetch", "-q", "origin"], cwd=TREE, check=True)
    subprocess.run(["git", "checkout", "-qf", "--detach", revision], cwd=TREE, check=True)
    print(f"building {revision[:10]} in {TREE.relative_to(ROOT)}", flush=True)
    if run("make build") != 0:
        sys.exit(f"the tree does not build: see {(WORK / 'last.log').relative_to(ROOT)}")


def stillborn(path: str) -> bool:
    """The core's build command runs its tests too: only the compiler tells a stillborn mutant."""
    if not path.endswith(".c"):
        return False
    code = run(
        f"gcc -std=gnu11 -fsyntax-only -Wall -Wextra -Werror -Ilibdatacast/include -I. "
        f"-Ilibdatacast -Ihost_agent -Idpdk_cache -D_GNU_SOURCE "
        f"$(ls -d /usr/share/cargo/registry/blake3-*/c | sed 's/^/-isystem /') "
        f"$(pkg-config --cflags libdpdk | sed 's/-I/-isystem /g') {path}"
    )
    return code != 0


def attempt(part: Part, change: Change, revision: str, first: list[str]) -> Result:
    """`first`: tests that go before all of the part's, as they are likely to notice."""
    path = TREE / change.path
    before = path.read_text()
    start = time.monotonic()
    suspects: list[str] = []

    def result(outcome: str, by: str = "") -> Result:
        return Result(revision, part.name, change, outcome, round(time.monotonic() - start, 1), by)

    try:
        path.write_text(change.applied(before))
        if stillborn(change.path):
            return result("stillborn")
        code: int | None = 0
        for tests in [first, None] if first else [None]:
            code = run(part.command(tests), LIMIT)
            if code != 0:
                break
        if code == 0:
            return result("survived")
        suspects = [name.decode() for name in FAILED.findall((WORK / "last.log").read_bytes())]
    finally:
        path.write_text(before)
    if code is None:  # as a whole: the unchanged tests must be through in the same time, on the machine as it is now
        return result("killed" if run(part.command(), LIMIT) == 0 else "unsure")
    if not suspects:
        return result("killed")  # a test in C, or a module that cannot be imported
    return result("killed" if run(part.command(suspects[:1]), LIMIT) == 0 else "unsure", suspects[0])


def listed(tree: Path = TREE) -> list[tuple[Part, Change]]:
    """The mistakes of listed.toml, each with the tests that should notice it. ValueError: a line is not there once."""
    found = []
    for row in tomllib.loads((HERE / "listed.toml").read_text())["mutant"]:
        lines = (tree / row["path"]).read_text().split("\n")
        at = [number for number, line in enumerate(lines) if row["old"] in line]
        if len(at) != 1:
            raise ValueError(f"listed.toml: {row['what']}: its line stands {len(at)} times in {row['path']}")
        before = lines[at[0]]
        change = Change(row["path"], at[0] + 1, before, before.replace(row["old"], row["new"]), row["what"])
        found.append((Part("listed", 0, [row["path"]], row.get("tests", []), row.get("build", "true")), change))
    return found


def try_listed(revision: str) -> int:
    """One line each; 0 when all are noticed. The lines without a change must pass as well."""
    for part in {part.command(): part for part, _ in listed()}.values():
        if run(part.command(), LIMIT) != 0:
            sys.exit(
                f"the tests fail without any change: {part.command()}: see {(WORK / 'last.log').relative_to(ROOT)}"
            )
    results = []
    for part, change in listed():
        results.append(attempt(part, change, revision, []))
        print(
            f"{results[-1].outcome:9} {results[-1].seconds:6.1f} s  {change.path}:{change.line} {change.what}",
            flush=True,
        )
    return 0 if all(result.outcome == "killed" for result in results) else 1


def known(revision: str) -> list[Result]:
    if not RESULTS.exists():
        return []
    found = []
    for line in RESULTS.read_text().splitlines():
        row = json.loads(line)
        row["change"] = Change(**row["change"])
        found.append(Result(**row))
    return [result for result in found if result.revision == revision and result.outcome != "unsure"]


def near(part: Part, path: str) -> list[str]:
    """The part's files of tests that speak of a Python module."""
    module = Path(path)
    if module.suffix != ".py":
        return []
    speaks = re.compile(rf"\b{module.parent.name}(\.| import [\w, ]*\b){module.stem}\b")
    files = [file for tests in part.tests for file in [TREE / tests, *sorted((TREE / tests).glob("test_*.py"))]]
    return [
        file.relative_to(TREE).as_posix()
        for file in files
        if file.is_file() and (module.stem in file.stem or speaks.search(file.read_text()))
    ]


def first(results: list[Result], part: Part, path: str) -> list[str]:
    """Tests that noticed earlier mutants of this part, those of the same file before the others, and what is near."""
    mine = [r for r in results if r.part == part.name and r.by]
    order = Counter[str](r.by for r in mine if r.change.path == path).most_common(FIRST // 2)
    order += Counter[str](r.by for r in mine).most_common(FIRST)
    return list(dict.fromkeys(name for name, _ in order))[:FIRST] + near(part, path)


@dataclass
class Trial:
    """One part's share of the mutants, and how far it is."""

    part: Part
    wanted: int
    candidates: list[Change]
    counted: int = 0

    def share(self) -> float:
        return self.counted / self.wanted


def equivalent() -> dict[tuple[str, str, str], str]:
    """Reason by (path, old line, new line), without the spaces in front."""
    path = HERE / "equivalent.toml"
    rows = tomllib.loads(path.read_text()).get("mutant", []) if path.exists() else []
    return {(row["path"], row["old"].strip(), row["new"].strip()): row["because"] for row in rows}


def report(results: list[Result]) -> int:
    reasons = equivalent()
    counted = [r for r in results if r.outcome in ("killed", "survived")]
    told = {
        r: why
        for r in counted
        if r.outcome == "survived" and (why := reasons.get((r.change.path, r.change.old.strip(), r.change.new.strip())))
    }
    survivors = [r for r in counted if r.outcome == "survived" and r not in told]
    for part in dict.fromkeys(r.part for r in counted):
        mine = [r for r in counted if r.part == part]
        print(f"{part:16} {sum(r.outcome == 'killed' for r in mine):4} of {len(mine):4} killed")
    for r in survivors:
        print(f"survived: {r.change.path}:{r.change.line} {r.change.what}")
        print(f"  - {r.change.old.strip()}\n  + {r.change.new.strip()}")
    for r, why in told.items():
        print(f"equivalent: {r.change.path}:{r.change.line} {r.change.what}: {why}")
    killed = sum(r.outcome == "killed" for r in counted)
    judged = len(counted) - len(told)
    print(f"{killed} of {judged} killed ({100 * killed / max(judged, 1):.1f} %), {len(told)} equivalent")
    return 0 if killed >= 0.95 * judged else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="mutants to try over all parts (default 300)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (default 1)")
    parser.add_argument("--part", action="append", help="only this part; may be given several times")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results of this revision")
    parser.add_argument("--revision", default="HEAD", help="which commit is changed (default HEAD)")
    parser.add_argument("--report", action="store_true", help="try nothing: say what is known of that revision")
    parser.add_argument("--listed", action="store_true", help="only the mistakes of listed.toml, all of them")
    options = parser.parse_args()
    parts = [Part(**row) for row in tomllib.loads((HERE / "parts.toml").read_text())["part"]]
    unknown = set(options.part or []) - {part.name for part in parts}
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}: choose of {', '.join(part.name for part in parts)}")
    revision = subprocess.run(
        ["git", "rev-parse", options.revision], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    if options.report:
        return report(known(revision))
    prepare(revision)
    if options.listed:
        return try_listed(revision)
    if options.fresh and RESULTS.exists():
        RESULTS.unlink()
    results = known(revision)
    chosen = [part for part in parts if not options.part or part.name in options.part]
    total = sum(part.weight for part in chosen)
    trials = []
    for part in chosen:
        candidates = part.changes()
        random.Random(f"{options.seed} {part.name}").shuffle(candidates)
        done = {r.change: r for r in results if r.part == part.name}
        counted = sum(r.outcome != "stillborn" for r in done.values())
        left = [change for change in candidates if change not in done]
        trials.append(Trial(part, max(1, round(options.count * part.weight / total)), left, counted))
    while trials := [trial for trial in trials if trial.counted < trial.wanted and trial.candidates]:
        trial = min(trials, key=Trial.share)
        part, change = trial.part, trial.candidates.pop(0)
        result = attempt(part, change, revision, first(results, part, change.path))
        if result.outcome == "unsure":
            trial.candidates.append(change)  # once more when the others are through
        results.append(result)
        trial.counted += result.outcome in ("killed", "survived")
        with RESULTS.open("a") as file:
            file.write(json.dumps(asdict(result)) + "\n")
        print(
            f"{part.name}: {result.outcome:9} {result.seconds:6.1f} s  {change.path}:{change.line} {change.what}",
            flush=True,
        )
    return report(results)


if __name__ == "__main__":
    sys.exit(main())
