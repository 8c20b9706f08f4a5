"""Does the number of trees meet the max-flow bound? Seeded trials over the paper's topologies, small ones.

    python bench/trees/trials.py [--trials 10000]

Prints JSON: trials, how many the quick way alone and the whole engine fell short, and the longest whole computation.
"""

from __future__ import annotations

import argparse
import json
import random
import time

from datacast import topologies
from datacast.core.trees import Network, TreeSet

SPECS = ["bcube:8,3", "torus:16,3", "bcube:4,2", "torus:4,3", "torus:6,2", "hypercube:6", "bcube:4,1", "torus:10,2"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    graphs = {spec: topologies.parse(spec) for spec in SPECS}
    networks = {spec: Network(g) for spec, g in graphs.items()}
    links = {spec: list(g.edges) for spec, g in graphs.items()}
    hosts = {spec: topologies.hosts(g) for spec, g in graphs.items()}
    done = {spec: {"trials": 0, "cut_off": 0, "quick_short": 0, "short": 0, "below_degree_bound": 0} for spec in SPECS}
    longest = 0.0
    for trial in range(args.trials):
        spec = SPECS[trial % len(SPECS)]
        rng = random.Random(args.seed * 1_000_003 + trial)
        network, row = networks[spec], done[spec]
        rate = rng.choice((0.0, 0.01, 0.03, 0.05, 0.1))
        down = rng.sample(links[spec], round(rate * len(links[spec])))
        for u, v in down:
            network.set_up(u, v, False)
        size = min(int(2 ** rng.uniform(1, 12)), len(hosts[spec]) - 1)
        members = rng.sample(hosts[spec], size + 1)
        found = TreeSet(network, *network.members(members[0], members[1:]))
        quick = found.compute(exact=False)
        if quick == 0:
            row["cut_off"] += 1
        else:
            begin = time.thread_time()
            trees = found.compute()
            longest = max(longest, time.thread_time() - begin)
            bound = found.bound_maxflow
            row["trials"] += 1
            row["quick_short"] += quick < bound
            row["short"] += trees < bound
            row["below_degree_bound"] += trees < found.bound_degree
        for u, v in down:
            network.set_up(u, v, True)
    total = {key: sum(row[key] for row in done.values()) for key in next(iter(done.values()))}
    print(json.dumps({"total": total, "longest_ms": round(longest * 1e3, 2), "by_topology": done}, indent=1))


if __name__ == "__main__":
    main()
