"""Do equal receivers lose by being planned for as if they might differ? Fifteen hosts of BCube(4,1), all links alike.

The same file goes out with the delivery left to the plan and with `delivery: together`, in turns, in one lab.
Prints a Markdown table; --json for the figures.

    bench/lab/equal.py --realtime
    bench/lab/equal.py --link 20mbit --size 32M --repeat 5
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path

from datacast.core.quantities import parse_rate, parse_size
from datacast.fabric_manager.api import GroupOptions
from datacast.lab.lab import Lab, LabOptions
from datacast.lab.report import plain
from datacast.lab.run import Quiet, Transfer, send, settle

WAYS = {"left to the plan": GroupOptions(), "together": GroupOptions(delivery="together")}


@dataclass(frozen=True)
class Run:
    way: str
    mean_s: float
    last_s: float
    over_ideal: float
    duplicates: float
    plans: int
    cpu_bound: bool


def once(lab: Lab, way: str, size: int, number: int) -> Run:
    what = settle(lab.graph, Transfer("00", size=size, seed=number, options=WAYS[way]))
    report = plain(send(lab, what, Quiet(), dest=f"file-{number}"))
    if not report["ok"]:
        raise SystemExit(f"{way}: {report['error']}")
    times = [row["finish_s"] for row in report["receivers"].values()]
    for name in report["receivers"]:
        (lab.host_folder(name) / f"file-{number}").unlink()
    plans = sum(bool(row.get("lost")) for row in report["reactions"])
    return Run(
        way,
        statistics.mean(times),
        max(times),
        report["finish_over_ideal"],
        report["duplicate_ratio"],
        plans,
        report["cpu_bound"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="64M")
    parser.add_argument("--link", default="50mbit")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each way")
    parser.add_argument("--ports", default="7880,7801", help="REST's and the fabric manager's")
    parser.add_argument("--realtime", action="store_true", help="daemons of the data path go before others")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rest, fabric = (int(port) for port in args.ports.split(","))
    size = parse_size(args.size)
    options = LabOptions(
        "bcube:4,1",
        parse_rate(args.link),
        rest_port=rest,
        fabric_port=fabric,
        room=20 * size,
        realtime=args.realtime,
    )
    runs: list[Run] = []
    with Lab(options, f"equal-{os.getpid()}") as lab:
        lab.up()
        for number in range(2 * args.repeat):
            # Neither way always goes first.
            ways = list(WAYS) if number // 2 % 2 else list(WAYS)[::-1]
            runs.append(once(lab, ways[number % 2], size, number + 1))
    print("| delivery | runs | median mean, s | median last, s | over ideal | duplicates | plans | cpu bound |")
    print("| --- " * 8 + "|")
    means = {}
    for way in WAYS:
        mine = [run for run in runs if run.way == way]
        means[way] = statistics.median(run.mean_s for run in mine)
        print(
            f"| {way} | {len(mine)} | {means[way]:.3f} | {statistics.median(run.last_s for run in mine):.3f} | "
            f"{statistics.median(run.over_ideal for run in mine):.4f} | "
            f"{100 * statistics.median(run.duplicates for run in mine):.2f} % | {sum(run.plans for run in mine)} | "
            f"{'yes' if any(run.cpu_bound for run in mine) else 'no'} |"
        )
    print(f"\nleft to the plan takes {means['left to the plan'] / means['together']:.4f} of the time of together")
    if args.json:
        args.json.write_text(json.dumps([asdict(run) for run in runs], indent=1) + "\n")


if __name__ == "__main__":
    main()
