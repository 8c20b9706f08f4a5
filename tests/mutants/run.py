"""`make mutants`: one-line changes, one at a time, on the tests that reach them. Resumable; survivors are listed.

A copy of the committed tree is built in build/mutants/tree, once, and the tests are watched in it, once: which lines
each reaches (reach.py). A change is built (one object, one link) and meets the tests that reach its line, the quickest
first, until one fails. What passes them all meets, within BROAD_S, its part's `broad` (parts.toml): campaigns and labs
that reach it too. Results grow in build/mutants/results.jsonl, a line each, so a run that was stopped goes on. A mutant
that does not build is not counted and another takes its place. What survives and means nothing (an equivalent change)
gets a row with the reason in tests/mutants/equivalent.toml. What is counted is of one commit; `--again` tries what
survived at earlier ones. `--part` tries that part's share of the count. Not drawn is what no test could tell: what goes
to a log, hints to the processor, how a record is kept, words for people (changes.py).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections import Counter
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import changes
import cover
from changes import Change
from cover import Cover
from tree import HERE, ROOT, WORK, Tree

RESULTS = WORK / "results.jsonl"
LIMIT = 1800.0
"""Seconds for a listed mistake. What needs longer has hung: noticed, too."""
BROAD_S = 240.0
"""Seconds for a part's `broad`. What is not over then has noticed nothing."""
TRUSTED = 2
"""A test that passed so often without the change is not asked again whether it fails anyway."""
FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.*)$", re.M)
COUNTED = ("killed", "survived", "same")
BROADLY = "broadly"
"""Who has noticed, where it was a part's `broad`."""
NOTHING = 5
"""What pytest says when it was given no test."""
ARGUMENTS = 400
"""Tests by name in one command; where more reach a line, their files are named."""


NAMED = re.compile(r"\s*(?:self\.)?(\w+)(?:: [^=]+)? = ")
"""What a module or a class says of a name: it is read before any test. Who speaks of the name is what counts."""


@cache
def speaking(tree: Path, path: str, name: str) -> list[tuple[str, int]]:
    """Lines of a file in Python in which a name stands."""
    if not path.endswith(".py") or not (tree / path).is_file():
        return []
    word = re.compile(rf"\b{name}\b")
    lines = (tree / path).read_text().splitlines()
    return [(path, number) for number, line in enumerate(lines, 1) if word.search(line)]


@dataclass(frozen=True)
class Part:
    """Files that are changed together with the command that builds them and the tests that should notice."""

    name: str
    weight: int
    files: list[str]
    tests: list[str]
    build: str = "true"
    without: list[str] = field(default_factory=list)
    last: str = "true"
    """C tests that are asked when no other has noticed."""
    broad: str = "true"
    """What is asked after all of these: campaigns and labs of `make test` and `make test-long`."""

    def changes(self, tree: Path) -> list[Change]:
        left_out = {path for pattern in self.without for path in tree.glob(pattern)}
        found: list[Change] = []
        for path in sorted({path for pattern in self.files for path in tree.glob(pattern)} - left_out):
            kind = changes.of_python if path.suffix == ".py" else changes.of_c
            found += kind(path.relative_to(tree).as_posix(), path.read_text())
        return found

    def near(self, tree: Path, path: str) -> list[str]:
        """Files of tests, in any folder, that speak of a Python module: what it says as it is read is reached before
        any test, and a process that is killed does not say what it reached."""
        module = Path(path)
        if module.suffix != ".py":
            return []
        speaks = re.compile(rf"\b{module.parent.name}(\.| import [\w, ]*\b){module.stem}\b")
        return [
            file.relative_to(tree).as_posix()
            for file in sorted(tree.glob("tests/*/test_*.py"))
            if module.stem in file.stem or speaks.search(file.read_text())
        ]


def parts() -> list[Part]:
    return [Part(**row) for row in tomllib.loads((HERE / "parts.toml").read_text())["part"]]


@dataclass(frozen=True)
class Result:
    """What became of one mutant: killed, survived, same (the compiler makes the same of it), stillborn (it does not
    build), unsure (its test fails anyway), waits (for the tests in Python, which were not asked)."""

    revision: str
    part: str
    change: Change
    outcome: str
    seconds: float
    by: str = ""
    """The test that noticed; empty for one in C, or when the whole run hung."""


class Campaign:
    """Changes of one commit, tried in several trees at once."""

    def __init__(self, revision: str, known: Cover, built_only: bool = False) -> None:
        self.revision = revision
        self.built_only = built_only
        self.cover = known
        self.lock = threading.Lock()
        self.passed: Counter[str] = Counter()
        """How often a test passed without a change, after it had failed with one."""
        self.noticed: dict[str, Counter[str]] = {}
        self.results: list[Result] = []
        self.means_nothing = equivalent()

    def add(self, result: Result) -> None:
        self.results.append(result)
        if result.by and result.outcome == "killed":
            self.noticed.setdefault(result.change.path, Counter())[result.by] += 1
            self.passed[result.by] += 1

    def stages(self, tree: Tree, part: Part, change: Change) -> list[list[str]]:
        reached = self.cover.tests(change.path, change.line, part.tests)
        if not reached and (name := NAMED.match(change.old)) and change.path.endswith(".py"):
            lines = [line for path in self.cover.lines for line in speaking(tree.path, path, name[1])]
            reached = sorted(
                {test for path, line in lines for test in self.cover.tests(path, line, part.tests)},
                key=lambda test: self.cover.seconds[test],
            )
        ordered = cover.in_order(reached, self.cover.seconds, self.noticed.get(change.path, Counter()))
        stages = cover.in_parts(ordered, self.cover.seconds)
        stages = [
            stage if len(stage) <= ARGUMENTS else list(dict.fromkeys(test.partition("::")[0] for test in stage))
            for stage in stages
        ]
        if not reached and change.path.endswith(".py"):
            stages.append(part.near(tree.path, change.path) or part.tests[:1])
        return stages

    def limit(self, tests: list[str]) -> float:
        """What has hung: many times what the unchanged tests took, when they were watched beside others."""
        known = self.cover.seconds
        names = [test for name in tests for test in ([name] if name in known else known) if test.startswith(name)]
        return 60.0 + 6 * sum(known[test] for test in names)

    def failed(self, said: str) -> str:
        """The test, of those that are known, that pytest named first; what it says after the name may be anything."""
        for line in FAILED.findall(said):
            if found := max((test for test in self.cover.seconds if line.startswith(test)), key=len, default=""):
                return found
        return ""

    def attempt(self, tree: Tree, part: Part, change: Change) -> Result:
        path = tree.path / change.path
        before = path.read_text()
        start = time.monotonic()

        def result(outcome: str, by: str = "") -> Result:
            return Result(self.revision, part.name, change, outcome, round(time.monotonic() - start, 1), by)

        def build() -> int | None:
            return tree.run(part.build, 600.0)

        if (change.path, change.old.strip(), change.new.strip()) in self.means_nothing:
            return result("survived")  # as it would, after all tests

        code: int | None = 0
        stage: list[str] = []
        if tree.built != part.build:
            tree.run(tree.built, 600.0)  # without the change before
            tree.built = part.build
        tree.environment["CHANGED"] = path.stem
        in_c = change.path.endswith(".c")
        if in_c and change.path not in tree.made:
            tree.made[change.path] = compiled(tree, change.path)
        try:
            path.write_text(change.applied(before))
            if in_c and (now := compiled(tree, change.path)) in (None, tree.made[change.path]):
                return result("stillborn" if now is None else "same")
            code = build()
            if code == 0 and self.built_only:
                return result("waits")
            if code == 0:
                for stage in self.stages(tree, part, change):
                    code = tree.run(pytest(stage), self.limit(stage))
                    if code not in (0, NOTHING) and tree.stood:  # a test's own limits are over then
                        code = tree.run(pytest(stage), self.limit(stage))
                    if code not in (0, NOTHING):
                        break
            else:
                stage = []
            if code in (0, NOTHING):
                stage = []
                code = tree.run(part.last, 900.0)
            broadly = code == 0 and tree.run(part.broad, BROAD_S) not in (0, None)
            if code == 0 and not broadly:
                return result("survived")
            suspect = self.failed(tree.log.read_text(errors="replace"))
        finally:
            path.write_text(before)
        if broadly:
            good = build() == 0 and tree.run(part.broad, BROAD_S) == 0
            return result("killed", BROADLY) if good else result("survived")
        if suspect and self.passed[suspect] >= TRUSTED:
            return result("killed", suspect)
        if code is not None and not stage:
            return result("killed")  # a test in C
        # The same without the change must pass, on the machine as it is now.
        good = build() == 0 and (
            tree.run(pytest([suspect] if suspect else stage), self.limit(stage)) == 0
            if stage
            else tree.run(part.last, 900.0) == 0
        )
        if not good:
            shutil.copy(tree.log, WORK / f"unsure-{change.path.replace('/', '-')}-{change.line}.log")
        return result("killed" if good else "unsure", suspect)


def pytest(tests: list[str]) -> str:
    chosen = shlex.join(tests)
    return f".venv/bin/python -m pytest -x -q -p no:cacheprovider -m '{cover.MARKS}' {chosen}"


def compiled(tree: Tree, path: str) -> bytes | None:
    """What the compiler makes of a file in C, as it is shipped; None: it does not build. The core's build command runs
    its tests too: only the compiler tells a stillborn mutant."""
    made = tree.path / "build" / "mutant.o"
    code = tree.run(
        f"/usr/bin/gcc -std=gnu11 -O2 -fno-strict-aliasing -Wall -Wextra -Werror -Ilibdatacast/include -I. "
        f"-Ilibdatacast -Ihost_agent -Idpdk_cache -D_GNU_SOURCE "
        f"$(ls -d /usr/share/cargo/registry/blake3-*/c | sed 's/^/-isystem /') "
        f"$(pkg-config --cflags libdpdk | sed 's/-I/-isystem /g') -c {path} -o {made}"
    )
    return made.read_bytes() if code == 0 else None


def listed(tree: Path) -> list[tuple[Part, Change]]:
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


def try_listed(tree: Tree) -> int:
    """One line each; 0 when all are noticed. The lines without a change must pass as well."""

    def command(part: Part) -> str:
        tests = f".venv/bin/python -m pytest -x -q -p no:cacheprovider {' '.join(part.tests)}" if part.tests else "true"
        return f"{part.build} && {tests}"

    rows = listed(tree.path)
    for said in {command(part) for part, _ in rows}:
        if tree.run(said, LIMIT) != 0:
            sys.exit(f"the tests fail without any change: {said}: see {tree.log}")
    missed = 0
    for part, change in rows:
        path = tree.path / change.path
        before = path.read_text()
        began = time.monotonic()
        try:
            path.write_text(change.applied(before))
            code = tree.run(command(part), LIMIT)
        finally:
            path.write_text(before)
        missed += code == 0
        outcome = "survived" if code == 0 else "killed"
        print(f"{outcome:9} {time.monotonic() - began:6.1f} s  {change.path}:{change.line} {change.what}", flush=True)
    return 1 if missed else 0


def known() -> list[Result]:
    """All results, of any commit; the last of a change is what counts."""
    if not RESULTS.exists():
        return []
    found = []
    for line in RESULTS.read_text().splitlines():
        row = json.loads(line)
        row["change"] = Change(**row["change"])
        found.append(Result(**row))
    return [result for result in found if result.outcome != "unsure"]


@dataclass
class Trial:
    """One part's share of the mutants, and how far it is."""

    part: Part
    wanted: int
    candidates: list[Change]
    counted: int = 0
    begun: int = 0
    unsure: set[Change] = field(default_factory=set)

    def share(self) -> float:
        return (self.counted + self.begun) / self.wanted

    def open(self) -> bool:
        return self.counted + self.begun < self.wanted and bool(self.candidates)


def work(campaign: Campaign, trials: list[Trial], tree: Tree, until: float) -> None:
    """Takes changes of the part that is least far, until all have theirs or the time is over."""
    while time.monotonic() < until:
        with campaign.lock:
            left = [trial for trial in trials if trial.open()]
            if not left:
                return
            trial = min(left, key=Trial.share)
            change = trial.candidates.pop(0)
            trial.begun += 1
        result = campaign.attempt(tree, trial.part, change)
        with campaign.lock:
            trial.begun -= 1
            if result.outcome == "unsure" and change not in trial.unsure:
                trial.unsure.add(change)
                trial.candidates.append(change)  # once more when the others are through
            campaign.add(result)
            trial.counted += result.outcome in (*COUNTED, "waits")
            if result.outcome != "waits":
                with RESULTS.open("a") as file:
                    file.write(json.dumps(asdict(result)) + "\n")
            print(
                f"{trial.part.name}: {result.outcome:9} {result.seconds:6.1f} s  "
                f"{change.path}:{change.line} {change.what}  {result.by}",
                flush=True,
            )


def equivalent() -> dict[tuple[str, str, str], str]:
    """Reason by (path, old line, new line), without the spaces in front."""
    path = HERE / "equivalent.toml"
    rows = tomllib.loads(path.read_text()).get("mutant", []) if path.exists() else []
    return {(row["path"], row["old"].strip(), row["new"].strip()): row["because"] for row in rows}


def report(results: list[Result]) -> int:
    reasons = equivalent()
    counted = [r for r in {r.change: r for r in results}.values() if r.outcome in COUNTED]
    told = {
        r: why
        for r in counted
        if r.outcome == "survived" and (why := reasons.get((r.change.path, r.change.old.strip(), r.change.new.strip())))
    }
    survivors = [r for r in counted if r.outcome == "survived" and r not in told]
    same = sum(r.outcome == "same" for r in counted)
    print("part             tried  noticed  broadly  equivalent  open")
    for part in [*dict.fromkeys(r.part for r in counted), ""]:
        mine = [r for r in counted if part in ("", r.part)]
        noticed, left = (sum(r.outcome == "killed" for r in mine), sum(r in survivors for r in mine))
        broadly = sum(r.outcome == "killed" and r.by == BROADLY for r in mine)
        equal = len(mine) - noticed - left
        print(f"{part or 'all':16} {len(mine):5} {noticed:8} {broadly:8} {equal:11} {left:5}")
    for r in survivors:
        print(f"survived: {r.change.path}:{r.change.line} {r.change.what}")
        print(f"  - {r.change.old.strip()}\n  + {r.change.new.strip()}")
    for r, why in told.items():
        print(f"equivalent: {r.change.path}:{r.change.line} {r.change.what}: {why}")
    killed = sum(r.outcome == "killed" for r in counted)
    judged = len(counted) - len(told) - same
    print(f"{killed} of {judged} killed ({100 * killed / max(judged, 1):.1f} %), {len(told) + same} equivalent")
    return 0 if killed >= 0.95 * judged else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="mutants to try over all parts (default 300)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (default 1)")
    parser.add_argument("--part", action="append", help="only this part; may be given several times")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--revision", default="HEAD", help="which commit is changed (default HEAD)")
    parser.add_argument("--report", action="store_true", help="try nothing: say what is known")
    parser.add_argument("--again", action="store_true", help="only what survived so far and still can be changed so")
    parser.add_argument("--listed", action="store_true", help="only the mistakes of listed.toml, all of them")
    parser.add_argument("--built-only", action="store_true", help="only the C tests of the core: nothing is watched")
    parser.add_argument("--trees", type=int, default=1, help="so many side by side (default 1)")
    parser.add_argument("--time", type=float, default=1e9, help="begin none after so many seconds")
    options = parser.parse_args()
    until = time.monotonic() + options.time
    known_parts = parts()
    unknown = set(options.part or []) - {part.name for part in known_parts}
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}: choose of {', '.join(part.name for part in known_parts)}")
    revision = subprocess.run(
        ["git", "rev-parse", options.revision], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    if options.report:
        return report([result for result in known() if result.revision == revision])
    chosen = [part for part in known_parts if not options.part or part.name in options.part]
    builds = [part.build for part in chosen]
    trees = [Tree(number) for number in range(options.trees)]

    def end(number: int, frame: object) -> None:
        for tree in trees:
            tree.end()
        os._exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT):  # the second a shell's background job ignores, and tests send
        signal.signal(number, end)
    made = [WORK / f"{tree.path.name}.built" for tree in trees]
    if not made[0].exists() or made[0].read_text() != revision:
        trees[0].prepare(revision)
        made[0].write_text(revision)
    else:
        trees[0].unchanged(builds)
    if options.listed:
        return try_listed(trees[0])
    folders = dict.fromkeys(folder for part in chosen for folder in part.tests)
    known_cover = (
        Cover() if options.built_only else cover.watched(trees[0], folders, WORK / "reach" / revision[:10], until)
    )
    campaign = Campaign(revision, known_cover, options.built_only)
    for tree, built in list(zip(trees, made, strict=True))[1:]:
        if not built.exists() or built.read_text() != revision:
            tree.like(trees[0])
            built.write_text(revision)
        else:
            tree.unchanged(builds)
    if options.fresh and RESULTS.exists():
        RESULTS.unlink()
    results = known() if options.again else [result for result in known() if result.revision == revision]
    for result in results:
        campaign.add(result)
    total = sum(part.weight for part in known_parts)
    trials = []
    for part in chosen:
        candidates = part.changes(trees[0].path)
        random.Random(f"{options.seed} {part.name}").shuffle(candidates)
        done = {r.change: r for r in results if r.part == part.name}
        if options.again:
            left = [change for change in candidates if change in done and done[change].outcome == "survived"]
            left = [change for change in left if done[change].revision != revision]
            trials.append(Trial(part, len(left) or 1, left))
            continue
        counted = sum(r.outcome != "stillborn" for r in done.values())
        left = [change for change in candidates if change not in done]
        trials.append(Trial(part, max(1, round(options.count * part.weight / total)), left, counted))
    threads = [threading.Thread(target=work, args=(campaign, trials, tree, until)) for tree in trees]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return report(campaign.results)


if __name__ == "__main__":
    sys.exit(main())
