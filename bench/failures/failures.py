"""Seeded link failures under transfers in a lab: how soon they are detected, decided, signalled, and data flows again.

    .venv/bin/python bench/failures/failures.py --failures 200 --seed 1 --json failures.json

Every run of `datacast lab run` breaks a cable of a member, mends it, and breaks another one. Per figure the median and
the 99th percentile are given, with the number of failures that had one: a link that no tree uses has no decision.
Root.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

MEMBERS = ["02", "10", "21", "23", "31", "33"]
FIGURES = ("detected_ms", "known_ms", "recomputed_ms", "signalled_ms", "resumed_ms", "all_resumed_ms")


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def one_run(chosen: random.Random, index: int, port: int, size: str, silent: bool) -> dict[str, Any] | None:
    faults, at = [], 600
    for host in chosen.sample(MEMBERS, 2):
        number = chosen.randrange(2)
        if silent:
            switch, its_port = (f"s0.{host[0]}", host[1]) if number == 0 else (f"s1.{host[1]}", host[0])
            faults.append(f"blackhole {switch}:{its_port} at {at}ms, off at {at + 700}ms")
        else:
            faults += [f"link {host}:{number} down at {at}ms", f"link {host}:{number} up at {at + 700}ms"]
        at += 1400
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        command = [str(Path(sys.executable).parent / "datacast"), "lab", "run", "--name", f"failures{index}"]
        command += ["--rest-port", str(port), "--fabric-port", str(port + 1), "--size", size, "--from", "00"]
        command += ["--to", ",".join(MEMBERS), "--json", str(path)]
        for fault in faults:
            command += ["--fault", fault]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if not path.exists():
            print(f"run {index}: {done.stderr[-400:]}", file=sys.stderr)
            return None
        return json.loads(path.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--failures", type=int, default=200, help="how many (default %(default)s), two per run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", default="64M")
    parser.add_argument("--port", type=int, default=18580)
    parser.add_argument("--silent", action="store_true", help="black holes, whose carrier stays")
    parser.add_argument("--json", type=Path, default=None)
    args = parser.parse_args()
    chosen = random.Random(args.seed)
    found: dict[str, list[float]] = {figure: [] for figure in FIGURES}
    failures, incomplete, broken, busy = 0, 0, 0, []
    for index in range(-(-args.failures // 2)):
        report = one_run(chosen, index, args.port, args.size, args.silent)
        if report is None:
            broken += 1
            continue
        incomplete += not report["ok"]
        busy.append(report["cpu_busy"])
        for fault in report["faults"]:
            if " up at " in fault["spec"] or fault["error"]:
                continue
            failures += 1
            for figure in FIGURES:
                if fault[figure] is not None:
                    found[figure].append(fault[figure])
    result = {
        "seed": args.seed,
        "kind": "silent" if args.silent else "carrier",
        "failures": failures,
        "transfers_not_delivered": incomplete,
        "runs_without_report": broken,
        "cpu_busy": round(statistics.mean(busy), 3) if busy else None,
        **{
            figure: {"n": len(v), "p50": round(statistics.median(v), 3), "p99": round(percentile(v, 0.99), 3)}
            for figure, v in found.items()
            if v
        },
    }
    text = json.dumps(result, indent=1)
    print(text)
    if args.json:
        args.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
