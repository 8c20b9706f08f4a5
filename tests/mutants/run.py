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
import signal
import subprocess
import sys
import time
import tomllib
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
SLACK = 3.0
"""A mutant has so many times the time of the unchanged tests, and half a minute; then it has hung: noticed, too."""


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

    def command(self) -> str:
        tests = f".venv/bin/python -m pytest -x -q -p no:cacheprovider {' '.join(self.tests)}" if self.tests else "true"
        return f"{self.build} && {tests}"


@dataclass(frozen=True)
class Result:
    """What became of one mutant: killed, survived, or stillborn (it does not build)."""

    revision: str
    part: str
    change: Change
    outcome: str
    seconds: float


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


def baseline(part: Part) -> float:
    """Seconds that the unchanged tests take; they must pass, or nothing would be learned."""
    start = time.monotonic()
    if run(part.command()) != 0:
        sys.exit(f"{part.name}: the tests fail without any change: see {(WORK / 'last.log').relative_to(ROOT)}")
    return time.monotonic() - start


def attempt(part: Part, change: Change, usual: float, revision: str) -> Result:
    path = TREE / change.path
    before = path.read_text()
    start = time.monotonic()
    try:
        path.write_text(change.applied(before))
        # The core's build command runs its tests too: only the compiler tells a stillborn mutant.
        if (
            path.suffix == ".c"
            and run(
                f"gcc -std=gnu11 -fsyntax-only -Wall -Wextra -Werror -Ilibdatacast/include -I. "
                f"-Ilibdatacast -Ihost_agent -Idpdk_cache -D_GNU_SOURCE "
                f"$(ls -d /usr/share/cargo/registry/blake3-*/c | sed 's/^/-isystem /') "
                f"$(pkg-config --cflags libdpdk | sed 's/-I/-isystem /g') {change.path}"
            )
            != 0
        ):
            outcome = "stillborn"
        else:
            outcome = "survived" if run(part.command(), usual * SLACK + 30) == 0 else "killed"
    finally:
        path.write_text(before)
    return Result(revision, part.name, change, outcome, round(time.monotonic() - start, 1))


def listed() -> list[tuple[Part, Change]]:
    """The mistakes of listed.toml, each with the tests that should notice it. ValueError: a line is not there once."""
    found = []
    for row in tomllib.loads((HERE / "listed.toml").read_text())["mutant"]:
        lines = (TREE / row["path"]).read_text().split("\n")
        at = [number for number, line in enumerate(lines) if row["old"] in line]
        if len(at) != 1:
            raise ValueError(f"listed.toml: {row['what']}: its line stands {len(at)} times in {row['path']}")
        before = lines[at[0]]
        change = Change(row["path"], at[0] + 1, before, before.replace(row["old"], row["new"]), row["what"])
        found.append((Part("listed", 0, [row["path"]], row.get("tests", []), row.get("build", "true")), change))
    return found


def try_listed(revision: str) -> int:
    """One line each; 0 when all are noticed. The lines without a change must pass as well."""
    commands = {part.command(): part for part, _ in listed()}
    usual = {command: baseline(part) for command, part in commands.items()}
    results = []
    for part, change in listed():
        results.append(attempt(part, change, usual[part.command()], revision))
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
    return [result for result in found if result.revision == revision]


def equivalent() -> dict[tuple[str, str, str], str]:
    """Reason by (path, old line, new line), without the spaces in front."""
    path = HERE / "equivalent.toml"
    rows = tomllib.loads(path.read_text()).get("mutant", []) if path.exists() else []
    return {(row["path"], row["old"].strip(), row["new"].strip()): row["because"] for row in rows}


def report(results: list[Result]) -> int:
    reasons = equivalent()
    counted = [r for r in results if r.outcome != "stillborn"]
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
    parser.add_argument("--listed", action="store_true", help="only the mistakes of listed.toml, all of them")
    options = parser.parse_args()
    parts = [Part(**row) for row in tomllib.loads((HERE / "parts.toml").read_text())["part"]]
    unknown = set(options.part or []) - {part.name for part in parts}
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}: choose of {', '.join(part.name for part in parts)}")
    revision = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    prepare(revision)
    if options.listed:
        return try_listed(revision)
    if options.fresh and RESULTS.exists():
        RESULTS.unlink()
    results = known(revision)
    chosen = [part for part in parts if not options.part or part.name in options.part]
    total = sum(part.weight for part in chosen)
    for part in chosen:
        wanted = max(1, round(options.count * part.weight / total))
        candidates = part.changes()
        random.Random(f"{options.seed} {part.name}").shuffle(candidates)
        done = {r.change: r for r in results if r.part == part.name}
        usual = baseline(part) if any(c not in done for c in candidates[:wanted]) else 0.0
        for change in candidates:
            if sum(r.outcome != "stillborn" for r in done.values()) >= wanted:
                break
            if change in done:
                continue
            done[change] = result = attempt(part, change, usual, revision)
            results.append(result)
            with RESULTS.open("a") as file:
                file.write(json.dumps(asdict(result)) + "\n")
            print(
                f"{part.name}: {result.outcome:9} {result.seconds:6.1f} s  {change.path}:{change.line} {change.what}",
                flush=True,
            )
    return report(results)


if __name__ == "__main__":
    sys.exit(main())
