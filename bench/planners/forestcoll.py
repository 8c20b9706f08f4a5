"""ForestColl's fabrics (arXiv 2402.06787), filled by our trees to the optimum of its allgather?

    python bench/planners/forestcoll.py

An allgather is a broadcast of a node that has an arc of rate x to every GPU (its section 5): the optimum is the largest
x for which each GPU has a max-flow of x times their number. GB/s of the whole gathered data, as NCCL counts algorithmic
bandwidth. A100 and MI250 are as in its repository's topologies.py. H100 is not there: ours has what NVIDIA's DGX H100
and ForestColl's text say, 450 GB/s from a GPU to its NVSwitches and 50 GB/s to its rail of InfiniBand.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import networkx as nx

from datacast.core.rates import RatedTrees, arc_rates, rated_trees
from datacast.core.trees import Network

FINE = 1000
"""Parts of a GB/s that rates are counted in."""
SOURCE = "all"
Fabric = tuple[list[tuple[str, str, int]], list[str]]

MI250 = {  # Infinity Fabric links between the dies of one box, 50 GB/s each
    (0, 1): 4, (0, 4): 2, (0, 8): 1, (1, 5): 1, (1, 9): 1, (1, 10): 1, (2, 3): 4, (2, 6): 1, (2, 9): 1, (2, 10): 1,
    (3, 7): 2, (3, 11): 1, (4, 5): 4, (4, 6): 1, (5, 6): 1, (5, 7): 1, (6, 7): 4, (8, 9): 4, (8, 12): 2, (9, 13): 1,
    (10, 11): 4, (10, 14): 1, (11, 15): 2, (12, 13): 4, (12, 14): 1, (13, 14): 1, (13, 15): 1, (14, 15): 4,
}  # fmt: skip


def _boxes(boxes: int, nvlink: int, nic: int, rails: int) -> Fabric:
    """Boxes of eight GPUs on NVSwitches, a NIC for each GPU, GPU i's in rail i modulo `rails`."""
    edges, gpus = [], []
    for box in range(boxes):
        for i in range(8):
            gpus.append(f"g{box}.{i}")
            edges += [(gpus[-1], f"nvswitch{box}", nvlink), (gpus[-1], f"nic{box}.{i}", nic)]
            edges.append((f"nic{box}.{i}", f"ib{i % rails}", nic))
    return edges, gpus


def a100(boxes: int) -> Fabric:
    return _boxes(boxes, 300, 25, 2)


def h100(boxes: int) -> Fabric:
    return _boxes(boxes, 450, 50, 8)


def mi250(boxes: int) -> Fabric:
    edges = [(f"g{box}.{a}", f"g{box}.{b}", 50 * n) for box in range(boxes) for (a, b), n in MI250.items()]
    edges += [(f"g{box}.{i}", "ib", 16) for box in range(boxes) for i in range(16)]
    return edges, [f"g{box}.{i}" for box in range(boxes) for i in range(16)]


def half_mi250(boxes: int) -> Fabric:
    """Eight of the sixteen dies of each box, as a job that gets half of each."""
    edges, gpus = mi250(boxes)
    left = {gpu for gpu in gpus if int(gpu.split(".")[1]) < 8}
    return [edge for edge in edges if {*edge[:2]} <= left | {"ib"}], sorted(left)


def with_source(fabric: Fabric, x: int) -> nx.Graph:
    """`x` in parts of a GB/s."""
    edges, gpus = fabric
    g = nx.Graph()
    ports: Counter[str] = Counter()
    for u, v, rate in [*((u, v, rate * FINE) for u, v, rate in edges), *((SOURCE, gpu, x) for gpu in gpus)]:
        g.add_edge(u, v, rate_bps=rate, ports={u: ports[u], v: ports[v]})
        ports.update([u, v])
    for name, data in g.nodes(data=True):
        data |= {"kind": "host" if name in gpus or name == SOURCE else "switch", "forwards": True}
    return g


def optimum(fabric: Fabric) -> int:
    """The largest x, in parts of a GB/s, by max-flows that are networkx's."""
    gpus = fabric[1]

    def reached(x: int) -> bool:
        g = with_source(fabric, x)
        d = nx.DiGraph()
        for u, v, data in g.edges(data=True):
            for a, b in ((u, v), (v, u)):
                if b != SOURCE:
                    d.add_edge(a, b, capacity=data["rate_bps"])
        return all(nx.maximum_flow_value(d, SOURCE, gpu) == x * len(gpus) for gpu in gpus)

    low, high = 1, max(rate for *_, rate in fabric[0]) * FINE
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if reached(middle) else (low, middle - 1)
    return low


def filled(fabric: Fabric, x: int) -> RatedTrees:
    """Trees for one common rate from the source of such an allgather."""
    g = with_source(fabric, x)
    network = Network(g)
    return rated_trees(network, SOURCE, fabric[1], arc_rates(network, g), together=True, most=512)


def main() -> None:
    rows: list[tuple[str, Callable[[int], Fabric], int]] = [
        ("A100", a100, 2),
        ("A100", a100, 4),
        ("H100", h100, 2),
        ("H100", h100, 4),
        ("MI250", mi250, 2),
        ("MI250, 8 of 16 dies", half_mi250, 2),
    ]
    print("| fabric | boxes | GPUs | optimum, GB/s | ours | of it | trees | ms |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, make, boxes in rows:
        fabric = make(boxes)
        x = optimum(fabric)
        begin = time.thread_time()
        plan = filled(fabric, x)
        ms = (time.thread_time() - begin) * 1e3
        best, ours = x * len(fabric[1]) / FINE, plan.common / FINE
        print(
            f"| {name} | {boxes} | {len(fabric[1])} | {best:.1f} | {ours:.1f} | {ours / best:.4f} | {len(plan.trees)} "
            f"| {ms:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
