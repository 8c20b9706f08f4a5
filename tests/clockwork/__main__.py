"""`PYTHONPATH=tests python -m clockwork 0:1000`: seeds; `… 17 -v` tells what happens in one; `--bugs`: how many
seeds it takes to find what is known to be wrong."""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from .bugs import BUGS, put_back

if TYPE_CHECKING:
    from .story import Result


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="clockwork", description="The control plane in simulated time.")
    parser.add_argument("seeds", nargs="?", default="0:60", help="a seed, FROM:TO, or several of these with commas")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("-v", "--verbose", action="store_true")
    parser.add_argument("--minutes", type=float, default=0.0, help="stop after so long")
    parser.add_argument("--first", action="store_true", help="stop at the first seed that fails")
    parser.add_argument("--bug", metavar="NAME", help="put this one back")
    parser.add_argument("--bugs", action="store_true", help="put each back in turn; all must be found")
    args = parser.parse_args(words)
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets of names are in the same order every time
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "clockwork", *sys.argv[1:]])
    if args.bugs:
        return _bugs(args)
    if args.bug:
        put_back(next(bug for bug in BUGS if bug.name == args.bug))
    return _run(args)


def _run(args: argparse.Namespace) -> int:
    from .story import tell  # a bug is put back before

    seeds: list[int] = []
    for some in args.seeds.split(","):
        first, _, last = some.partition(":")
        seeds += range(int(first), int(last) if last else int(first) + 1)
    if len(seeds) == 1:
        result = tell(seeds[0], args.verbose)
        print(result)
        return bool(result.violations)
    began, bad, done, virtual, takeovers, refused = time.monotonic(), 0, 0, 0.0, 0, 0
    states: dict[str, int] = {}
    with multiprocessing.Pool(args.jobs, _settle, maxtasksperchild=200) as pool:
        for result in pool.imap(_told, seeds):
            done, virtual = done + 1, virtual + result.virtual_s
            takeovers, refused = takeovers + result.takeovers, refused + result.refused
            for state, count in result.groups.items():
                states[state] = states.get(state, 0) + count
            if result.violations:
                bad += 1
                print(f"seed {result.seed}:", *result.violations, sep="\n  ", flush=True)
            if (args.minutes and time.monotonic() - began > 60 * args.minutes) or (bad and args.first):
                pool.terminate()
                break
    took = time.monotonic() - began
    print(
        f"{done} seeds, {bad} bad, {took:.1f} s ({done / took:.1f} a second), {virtual / 3600:.1f} simulated hours, "
        f"{sum(states.values())} groups ({', '.join(f'{n} {s}' for s, n in sorted(states.items()))}), "
        f"{takeovers} take-overs, {refused} requests of earlier masters refused"
    )
    return bool(bad)


def _settle() -> None:
    """What is loaded stays: garbage is looked for between seeds, and among what they left."""
    gc.collect()
    gc.freeze()
    gc.disable()


def _told(seed: int) -> Result:
    from .story import tell

    result = tell(seed)
    gc.collect()
    return result


def _bugs(args: argparse.Namespace) -> int:
    missed, began = 0, time.monotonic()
    for bug in BUGS:
        command = [
            sys.executable,
            "-m",
            "clockwork",
            bug.seeds(args.seeds),
            "-j",
            str(args.jobs),
            "--first",
            "--bug",
            bug.name,
        ]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = ran.stdout.splitlines()
        found = ran.returncode == 1 and bool(lines) and lines[0].startswith("seed ")
        missed += not found
        what = f"{lines[0]}{lines[1][:120]}" if found else f"NOT FOUND ({(ran.stderr or ran.stdout).strip()[-200:]})"
        print(f"{bug.name}: {what}", flush=True)
    print(f"{len(BUGS) - missed} of {len(BUGS)} found in {time.monotonic() - began:.0f} s")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
