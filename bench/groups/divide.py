"""What it costs to divide links among very many groups: `divide.py [--groups 1000] [--receivers 64]`.

The trees of each group are computed, entered into the scheduler (fabric_manager/shares.py), and all shares computed at
once, as when all have begun. Memory is this process's own: what entering adds for good, and what dividing needs beside
it for a moment. Processor seconds and bytes do not depend on what else the machine does. One JSON object at the end.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path

from memory import status_mb

from datacast import topologies
from datacast.core.trees import Network
from datacast.fabric_manager.shares import Ask, Shares, TreeUse
from datacast.services import garbage


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--receivers", type=int, default=64)
    parser.add_argument("--topology", default="bcube:8,3")
    parser.add_argument("--bps", type=float, default=1e9, help="of each link")
    parser.add_argument("--interest", type=float, default=0.01, help="bits back for each bit of data")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    draw = random.Random(args.seed)
    graph = topologies.parse(args.topology)
    network = Network(graph)
    hosts = [name for name, data in graph.nodes(data=True) if data["kind"] == "host"]
    groups = []
    for _ in range(args.groups):
        source, *receivers = draw.sample(hosts, 1 + args.receivers)
        trees = network.steiner_trees(source, receivers)
        groups.append({tree.id: TreeUse(tree.arcs, args.bps, args.interest) for tree in trees})
        trees.put_away()
    garbage.give_back_large()
    shares = Shares()
    for u, v in graph.edges:
        shares.set_capacity((u, v), args.bps)
        shares.set_capacity((v, u), args.bps)
    garbage.give_back()
    empty, began = status_mb("RSS"), time.thread_time()
    for number, trees in enumerate(groups):
        shares.put(str(number), Ask(trees))
    entered, took = status_mb("RSS"), time.thread_time()
    Path("/proc/self/clear_refs").write_text("5")  # the most there was is counted from here
    rates = shares.compute()
    computed = time.thread_time()
    told = {
        "groups": len(rates), "trees": sum(map(len, groups)),
        "arcs": sum(len(tree.arcs) for trees in groups for tree in trees.values()),
        "enter_s": round(took - began, 2), "divide_s": round(computed - took, 2),
        "held_mb": round(entered - empty, 1), "moment_mb": round(status_mb("HWM") - entered, 1),
        "bps": round(sum(sum(trees.values()) for trees in rates.values())),
    }  # fmt: skip
    print(json.dumps(told))


if __name__ == "__main__":
    main()
