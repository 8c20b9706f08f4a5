"""The mixed-speed clusters of Table 1 (Takahashi and others, 4.2) in the lab: real frames over shaped links.

Four clusters, ten receivers, the rates of simulation/networks.py divided by --divide, so that two cores carry them.
Every planner whose trees run over cables sends the file once: switches make the copies, for all of them. Those that go
from host to host (flat tree, random pipeline, and Dijkstra's and FPFR's trees as in the paper) have no form in the lab;
their rates are in bench/planners/paper.py. Aggregate: of every receiver the file over its finish time, added up.
Prints a Markdown table; --json for the figures.

    bench/lab/clusters.py
    bench/lab/clusters.py --planners datacast,depth-first --size 32M --realtime
    bench/lab/clusters.py --joining --planners datacast,depth-first --size 48M --realtime

--joining: D's host, a ninth as fast as most, joins the other nine; what the nine get together before and after.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import networkx as nx

from datacast import topologies
from datacast.core.quantities import parse_size
from datacast.fabric_manager.api import GroupOptions, PlannerName
from datacast.lab.lab import Lab, LabOptions
from datacast.lab.report import plain
from datacast.lab.run import Quiet, Transfer, send, settle
from datacast.master.plan import make_plan
from datacast.simulation.experiments.clusters import ONE_RATE
from datacast.simulation.networks import MBIT, TABLE1, clusters

COUNT = 10
PLANNERS = ("datacast", "dijkstra", "balanced", "fpfr", "depth-first", "max-bottleneck")
MTU = 9000


@dataclass(frozen=True)
class Row:
    planner: str
    trees: int
    planned_mbps: float
    aggregate_mbps: float
    fast_s: float
    last_s: float
    stress: float | None
    duplicates: float
    cpu_bound: bool

    def line(self) -> str:
        cells = [
            self.planner,
            str(self.trees),
            f"{self.planned_mbps:.1f}",
            f"{self.aggregate_mbps:.1f}",
            f"{self.aggregate_mbps / self.planned_mbps:.3f}",
            f"{self.fast_s:.2f}",
            f"{self.last_s:.2f}",
            f"{self.stress:.3f}" if self.stress else "",
            f"{100 * self.duplicates:.2f} %",
            "yes" if self.cpu_bound else "no",
        ]
        return "| " + " | ".join(cells) + " |"


@dataclass(frozen=True)
class Joined:
    planner: str
    before_mbps: float
    after_mbps: float
    duplicates: float
    cpu_bound: bool

    def line(self) -> str:
        return (
            f"| {self.planner} | {self.before_mbps:.1f} | {self.after_mbps:.1f} | "
            f"{100 * self.after_mbps / self.before_mbps:.2f} % | {100 * self.duplicates:.2f} % | "
            f"{'yes' if self.cpu_bound else 'no'} |"
        )


JOINING_HEAD = """| planner | the nine before, Mb/s | after | left | duplicates | cpu bound |
| --- | --- | --- | --- | --- | --- |"""
HEAD = """| planner | trees | planned Mb/s | aggregate Mb/s | of the plan | first s | last s | stress | duplicates | \
cpu bound |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


def network(divide: int) -> tuple[nx.Graph, list[str]]:
    """Table 1's smallest group; the rates of its links divided."""
    graph, names = clusters(TABLE1[COUNT])
    for _, _, data in graph.edges(data=True):
        data["rates_bps"] = {node: rate // divide for node, rate in data["rates_bps"].items()}
        data["rate_bps"] = min(data["rates_bps"].values())
        data["mtu"], data["up"] = MTU, True
    return graph, names


def planned(graph: nx.Graph, source: str, receivers: list[str], options: GroupOptions) -> tuple[int, float]:
    """Trees, and Mbit/s of payload of all receivers together."""
    plan = make_plan(graph, source, receivers, replace(options, delivery="stable"))
    assert plan.rated is not None
    return len(plan.trees), sum(plan.rated.got.values()) * plan.payload / plan.frame_bytes / MBIT


def options_of(planner: str) -> GroupOptions:
    if planner == "datacast":
        return GroupOptions(delivery="stable")
    return GroupOptions(planner=cast(PlannerName, planner))


def sent(lab: Lab, planner: str, names: list[str], size: int, number: int) -> dict[str, Any]:
    """The report of one transfer."""
    source, *receivers = names
    what = Transfer(source, receivers=tuple(receivers), size=size, seed=number, options=options_of(planner))
    report = plain(send(lab, settle(lab.graph, what), Quiet(), dest=f"file-{number}"))
    if not report["ok"]:
        raise SystemExit(f"{planner}: {report['error']}")
    for name in receivers:
        (lab.host_folder(name) / f"file-{number}").unlink()
    return report


def aggregate(report: dict[str, Any], names: list[str], size: int) -> float:
    return sum(size * 8 / report["receivers"][name]["finish_s"] for name in names) / MBIT


def once(lab: Lab, planner: str, names: list[str], size: int, number: int) -> Row:
    source, *receivers = names
    report = sent(lab, planner, names, size, number)
    times = [report["receivers"][name]["finish_s"] for name in receivers]
    trees, rate = planned(lab.graph, source, receivers, options_of(planner))
    return Row(
        planner,
        trees,
        rate,
        aggregate(report, receivers, size),
        min(times),
        max(times),
        report["link_stress"],
        report["duplicate_ratio"],
        report["cpu_bound"],
    )


def joined(lab: Lab, planner: str, names: list[str], size: int, number: int) -> Joined:
    nine = [name for name in names if not name.startswith("D")]
    before = sent(lab, planner, nine, size, number)
    after = sent(lab, planner, names, size, number + 1)
    return Joined(
        planner,
        aggregate(before, nine[1:], size),
        aggregate(after, nine[1:], size),
        after["duplicate_ratio"],
        before["cpu_bound"] or after["cpu_bound"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--planners", default=",".join(PLANNERS), help="by comma")
    parser.add_argument("--size", default="16M")
    parser.add_argument("--divide", type=int, default=20, help="the rates of Table 1's links by this")
    parser.add_argument("--joining", action="store_true", help="nine receivers, then a slow one more")
    parser.add_argument("--ports", default="7780,7701", help="REST's and the fabric manager's")
    parser.add_argument("--realtime", action="store_true", help="daemons of the data path go before others")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rest, fabric = (int(port) for port in args.ports.split(","))
    graph, names = network(args.divide)
    size = parse_size(args.size)
    rows: list[Row] = []
    pairs: list[Joined] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.json"
        path.write_text(json.dumps(topologies.to_json(graph)))
        most = max(rate for *_, data in graph.edges(data=True) for rate in data["rates_bps"].values())
        options = LabOptions(
            str(path), most, rest_port=rest, fabric_port=fabric, room=2 * len(names) * size, realtime=args.realtime
        )
        print(JOINING_HEAD if args.joining else HEAD, flush=True)
        with Lab(options, f"clusters-{os.getpid()}") as lab:
            lab.up()
            for number, planner in enumerate(args.planners.split(","), 1):
                if args.joining:
                    pairs.append(joined(lab, planner, names, size, 2 * number))
                    print(pairs[-1].line(), flush=True)
                    continue
                rows.append(once(lab, planner, names, size, number))
                print(rows[-1].line(), flush=True)
    ours = [row.aggregate_mbps for row in rows if row.planner == "datacast"]
    others = [row.aggregate_mbps for row in rows if row.planner in ONE_RATE]
    if ours and others:
        print(f"\ndatacast's is {max(ours) / max(others):.2f} times the best that gives all one rate")
    if args.json:
        args.json.write_text(json.dumps([asdict(row) for row in [*rows, *pairs]], indent=1) + "\n")


if __name__ == "__main__":
    main()
