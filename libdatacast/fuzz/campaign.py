"""`make fuzz`: every fuzzer for TIME seconds, as many at once as JOBS says, and what each has executed and found.

With more processors than fuzzers these go round once more: processes of one fuzzer share what is new.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

EXECUTED = re.compile(r"^stat::number_of_executed_units: *(\d+)", re.M)
COVERED = re.compile(r"cov: (\d+)")
GRACE_S = 60.0
"""Inputs that are kept are run first, however long that takes. A single one that hangs is libFuzzer's to find."""
LATE = 72
"""What libFuzzer ends with when it is interrupted."""


@dataclass(frozen=True)
class Fuzzer:
    name: str
    corpus: Path
    folder: Path
    """Its program, logs, new inputs and findings."""
    leaks: bool

    def run(self, number: int, seconds: int) -> Ran:
        log, prefix = self.folder / f"{self.name}-{number}.log", self.folder / f"{self.name}-found-"
        new = self.folder / f"new-{self.name}"
        new.mkdir(exist_ok=True)
        command = [str(self.folder / self.name), f"-max_total_time={seconds}", "-max_len=4096", "-timeout=30"]
        command += ["-print_final_stats=1", f"-artifact_prefix={prefix}", str(new), str(self.corpus)]
        environment = {**os.environ, "ASAN_OPTIONS": f"detect_leaks={int(self.leaks)}"}
        began = time.monotonic()
        with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, env=environment) as process:
            try:
                code = process.wait(seconds + GRACE_S)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT)
                code = process.wait()
        text = log.read_text(errors="replace")
        executed, covered = EXECUTED.findall(text), COVERED.findall(text)
        return Ran(
            self.name,
            int(executed[-1]) if executed else 0,
            time.monotonic() - began,
            int(covered[-1]) if covered else 0,
            "" if code in (0, LATE) else f"ended with {code}, see {log}",
        )


@dataclass(frozen=True)
class Ran:
    """One process."""

    name: str
    executed: int
    seconds: float
    covered: int
    found: str


def show(name: str, ran: list[Ran]) -> None:
    executed = sum(one.executed for one in ran)
    seconds = sum(one.seconds for one in ran)
    found = "; ".join(one.found for one in ran if one.found) or "none"
    covered = max((one.covered for one in ran), default=0)
    print(f"{name:10} {len(ran):9} {executed:14,} {executed / max(seconds, 1e-9):12,.0f} {covered:8}  {found}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("fuzzers", nargs="+", metavar="NAME=CORPUS")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--time", type=int, default=60, help="seconds of each process")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes at once")
    parser.add_argument(
        "--no-leaks", default="", metavar="NAMES", help="fuzzers whose libraries keep what they allocated"
    )
    args = parser.parse_args()
    kept = args.no_leaks.split(",")
    pairs = [text.partition("=") for text in args.fuzzers]
    fuzzers = [Fuzzer(name, Path(corpus), args.folder, name not in kept) for name, _, corpus in pairs]
    turns = list(itertools.islice(itertools.cycle(fuzzers), max(args.jobs, len(fuzzers))))
    print(f"{len(turns)} processes of {len(fuzzers)} fuzzers, {args.jobs} at once, {args.time} s each", flush=True)
    with ThreadPoolExecutor(args.jobs) as pool:
        ran = list(pool.map(lambda turn: turn[1].run(turn[0], args.time), enumerate(turns)))
    print(f"{'':10} {'processes':>9} {'executions':>14} {'per second':>12} {'covered':>8}  findings")
    for fuzzer in fuzzers:
        show(fuzzer.name, [one for one in ran if one.name == fuzzer.name])
    show("all", ran)
    return 1 if any(one.found for one in ran) else 0


if __name__ == "__main__":
    sys.exit(main())
