"""Hosts of a lab that have no processor for some milliseconds, each by itself, again and again, in simulated time: what
bench/lab/busy.py does to a rule of rate control, without a lab.

Figure 10's group over both trees of BCube(4,1), frames of 9,000 bytes. A host, or all switches together (one process of
a lab), stands still for some milliseconds on the average, then runs for some. Prints a Markdown table of means.

    bench/sim/stalls.py
    bench/sim/stalls.py --rate 1gbit --cases 1:4,3:10,5:50,20:200 --seconds 0.3
"""

from __future__ import annotations

import argparse
import random
from statistics import mean

from datacast.core.quantities import parse_rate
from datacast.simulation.engine import SECOND
from datacast.simulation.experiments import Setting
from datacast.simulation.experiments.delivery import deliver
from datacast.simulation.networks import FIGURE10_RECEIVERS
from datacast.topologies import parse

STEP_MS = 0.5
GIVE_UP_MS = 200_000.0


def run(rate: int, still_ms: float, runs_ms: float, seconds: float, seed: int) -> tuple[float, float, float]:
    """Finish over the trees' time, duplicates, link stress."""
    rng = random.Random(seed)
    g = parse("bcube:4,1")
    s = Setting(
        rate=rate, slow=rate, mtu=9000, delay=50_000, seed=seed, framing="ethernet", size=int(rate * 2 * seconds / 8)
    )
    sim, group = deliver(s.with_(cache=(s.product(hops=4).cache_bytes,)), g, FIGURE10_RECEIVERS)
    hosts = [v for v in g if g.nodes[v]["kind"] == "host"]
    processes = [[h] for h in hosts] + [[v for v in g if v not in hosts]]
    due = [rng.expovariate(1 / runs_ms) for _ in processes]
    at = 0.0
    while at < GIVE_UP_MS and not all(r["whole"] for r in group.receiver_stats().values()):
        at += STEP_MS
        for i, process in enumerate(processes):
            if at >= due[i]:
                still = rng.expovariate(1 / still_ms)
                for v in process:
                    for neighbour in g.neighbors(v):
                        sim.hold(v, neighbour, int(still * 1e6))
                due[i] = at + still + rng.expovariate(1 / runs_ms)
        sim.run(until=int(at * 1e6))
    return group.finish() / SECOND / seconds, group.duplicate_ratio(), sim.link_stress()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=parse_rate, default=100_000_000, help="of every link (default: 100mbit)")
    parser.add_argument(
        "--cases", default="3:10,10:60,30:300", help="ms still : ms that it runs (default: %(default)s)"
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="that the file takes without (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=8, help="of each case (default: %(default)s)")
    args = parser.parse_args()
    print("| still, runs (ms) | finish over ideal | duplicates | link stress |\n| --- | --- | --- | --- |", flush=True)
    for case in args.cases.split(","):
        still, runs = (float(part) for part in case.split(":"))
        rows = [run(args.rate, still, runs, args.seconds, seed) for seed in range(1, args.seeds + 1)]
        finish, duplicates, stress = (mean(column) for column in zip(*rows, strict=True))
        print(f"| {still:g}, {runs:g} | {finish:.3f} | {100 * duplicates:.1f} % | {stress:.4f} |", flush=True)


if __name__ == "__main__":
    main()
