"""The BitTorrent bars of the paper's Figure 14: BT-Cornet and BT-Optimized beside our trees."""

from __future__ import annotations

import random
from typing import Any

from datacast.topologies import hosts, parse

from .. import networks
from ..wan.cornet import Cornet
from .base import Experiment, Report, Result, Row, Setting
from .delivery import FIGURE14

RECEIVERS = (64,)


def cornet(s: Setting, report: Report) -> Result:
    rows: list[Row] = []
    size = s.size or 500_000_000
    for topology in FIGURE14 if s.topology == Setting.topology else (s.topology,):
        graph = parse(topology)
        for n in (s.receivers,) if s.receivers else RECEIVERS:
            source, *receivers = random.Random(f"{s.seed} {topology} {n}").sample(hosts(graph), n + 1)
            trees, _ = networks.steiner_trees(graph, source, sorted(receivers), 0)
            ours = size * 8 / s.rate / len(trees)
            stress = size * sum(len(arcs) for arcs in trees) / len(trees)
            row: Row = {
                "topology": topology,
                "receivers": n,
                "trees": len(trees),
                "ours_s": ours,
                "ours_gb": stress / 1e9,
            }
            for name, near in (("cornet", False), ("optimized", True)):
                report(f"{topology}, {n} receivers, {name}")
                members = [source, *sorted(receivers)]
                found = Cornet(graph, members, size, near, rate=s.rate / 8, seed=s.seed).run()
                row |= {f"{name}_s": found.seconds, f"{name}_times": found.seconds / ours}
                row |= {f"{name}_gb": found.stress / 1e9, f"{name}_stress": found.stress / stress}
            rows.append(row)
    columns = {"topology": "topology", "receivers": "receivers", "trees": "trees", "ours_s": "trees s"}
    for name in ("cornet", "optimized"):
        columns |= {f"{name}_s": f"BT-{name} s", f"{name}_times": "times", f"{name}_stress": "stress, times"}
    notes = [
        f"{size / 1e6:g} MB, blocks of 108 KB, {s.rate / 1e9:g} Gb/s. Trees: the ideal, without headers, as for "
        "BitTorrent; figure14 has what ours reach.",
        "The paper: Datacast is 1.1 to 3.7 times faster than BT-Optimized, which has 1.2 to 3.5 times its stress.",
    ]
    return Result("cornet", "BitTorrent on the networks of Figure 14", s, rows, columns, notes)


def plot_cornet(r: Result, ax: Any) -> None:
    names = [f"{row['topology']}, {row['receivers']}" for row in r.rows]
    for k, key in enumerate(("ours_s", "cornet_s", "optimized_s")):
        ax.bar([i + k * 0.25 for i in range(len(names))], [row[key] for row in r.rows], width=0.25, label=key[:-2])
    ax.set_xticks(range(len(names)), names)
    ax.set(ylabel="finish time (s)")
    ax.legend()


EXPERIMENTS = [Experiment("cornet", "BitTorrent on the networks of Figure 14", cornet, plot_cornet)]
