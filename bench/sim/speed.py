"""Packet hops per second of the simulator: the paper's three large topologies against a small network, in one run.

    python bench/sim/speed.py [--receivers 1024,64] [--hops 20] [--cc fair] [--json]

Every case is a delivery as in Figure 14 (edge-disjoint trees, 128 KB caches, 1,500-byte frames), cut off after about so
many million packet hops. Times are of the process's processor clock, so waiting for a processor does not count; sharing
its caches with other jobs does, and the large networks live on them. The small network (BCube(4,1), six receivers) is
measured before, between and after, and its median stands for 1.

DATACAST_SIM_LIBRARY names a folder with another build of libdatacast_sim.so to measure.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from typing import Any

from datacast.simulation.experiments import find
from datacast.simulation.experiments.base import Setting
from datacast.simulation.experiments.delivery import FIGURE14, deliver
from datacast.topologies import hosts, parse

SMALL = ("bcube:4,1", 6)
STEP = 2_000_000  # virtual nanoseconds between two looks at the hops


def measure(s: Setting, topology: str, receivers: int, hops: float) -> dict[str, Any]:
    """Hops per second of processor time, after a tenth of the hops to get going."""
    g = parse(topology)
    source, *group = random.Random(f"{s.seed} {topology} {receivers}").sample(hosts(g), receivers + 1)
    sim, _ = deliver(s.with_(source=source, topology=topology), g, sorted(group))
    until = 0

    def run(goal: float) -> None:
        nonlocal until
        before = -1
        while before < sim.hops < goal:
            before = sim.hops
            until += STEP
            sim.run(until=until)

    run(hops / 10)
    warm, began = sim.hops, time.process_time()
    run(hops)
    took = time.process_time() - began
    counted = sim.hops - warm
    return {"topology": topology, "receivers": receivers, "hops": counted, "cpu_s": took, "hops_per_s": counted / took}


def main() -> None:
    """Measure all and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--receivers", default="64,1024", help="group sizes on the large topologies")
    parser.add_argument("--topologies", default=" ".join(FIGURE14), help="which, blanks between")
    parser.add_argument("--hops", type=float, default=20, help="million packet hops per case")
    parser.add_argument("--cc", default="fair")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    size = 500_000_000
    s = Setting().with_(**find("figure14").defaults, cc=args.cc, size=size, cache=(128 * 1024,))
    small: list[float] = []
    rows: list[dict[str, Any]] = []

    def reference() -> None:
        rows.append(measure(s, *SMALL, args.hops * 1e6))
        small.append(rows[-1]["hops_per_s"])

    reference()
    for n in (int(x) for x in args.receivers.split(",") if x):
        for topology in args.topologies.split():
            rows.append(measure(s, topology, n, args.hops * 1e6))
        reference()
    one = statistics.median(small)
    for row in rows:
        row["of_small"] = row["hops_per_s"] / one
    if args.json:
        print(json.dumps(rows, indent=1))
        return
    print(f"{'topology':<14}{'receivers':>10}{'hops':>12}{'cpu s':>8}{'Mhops/s':>9}{'of small':>10}")
    for r in rows:
        print(
            f"{r['topology']:<14}{r['receivers']:>10}{r['hops']:>12,}{r['cpu_s']:>8.2f}"
            f"{r['hops_per_s'] / 1e6:>9.2f}{r['of_small']:>10.2f}"
        )


if __name__ == "__main__":
    main()
