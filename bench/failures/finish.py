"""What a failure costs the finish: all 15 receivers of BCube(4,1), runs in one lab with the same settings.

    .venv/bin/python bench/failures/finish.py --json finish.json

- a cable cut on the way, beside the new ideal: the ideal rate of the trees before, and of those that can be after it;
- a receiver killed, and one stopped: the others' finish beside that of the run without a failure.

`--runs` repeats all. Exit code 1 when something that should have arrived did not. Root.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any

from datacast.core.errors import DatacastError
from datacast.core.trees import Network
from datacast.lab.faults import parse_faults
from datacast.lab.lab import Lab, LabOptions
from datacast.lab.report import plain
from datacast.lab.run import Quiet, Transfer, send, settle

SOURCE, CUT, GONE = "00", "22:0", "31"


def one(lab: Lab, args: argparse.Namespace, fault: str | None, index: int) -> dict[str, Any]:
    """A transfer, with its report."""
    faults = parse_faults([fault] if fault else [], lab.graph, "dpdk")
    transfer = settle(lab.graph, Transfer(SOURCE, size=args.size << 20, seed=args.seed + index, faults=faults))
    dest = f"finish-{index}.bin"
    report = plain(send(lab, transfer, Quiet(), dest=dest))
    for host in transfer.receivers or ():
        (lab.host_folder(host) / dest).unlink(missing_ok=True)
    print(f"{fault or 'no failure'}: finish {report['finish_s']} s, processor {report['cpu_busy']}", file=sys.stderr)
    return report


def trees_without(lab: Lab, cable: str) -> int:
    """How many edge-disjoint trees there can be without a cable."""
    network = Network(lab.graph)
    node, _, port = cable.partition(":")
    for u, v, data in lab.graph.edges(node, data=True):
        if int(data["ports"][node]) == int(port):
            network.set_up(u, v, False)
    hosts = [name for name, data in lab.graph.nodes(data=True) if data["kind"] == "host" and name != SOURCE]
    return int(network.steiner_trees(SOURCE, hosts).bound_maxflow)


def new_ideal(ideal: float, trees: int, left: int, at: float) -> float:
    """Seconds from the first packet: `trees` until the cut at `at`, `left` of them after it."""
    return at + (ideal - at) * trees / left


def others(report: dict[str, Any], without: str) -> float:
    """When the last of the other receivers had the file."""
    finish = [r["finish_s"] for name, r in report["receivers"].items() if name != without]
    return max(finish) if all(finish) else float("inf")


def one_set(lab: Lab, args: argparse.Namespace, first: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    whole = one(lab, args, None, first)
    at = round(whole["ideal_s"] / 3, 2)
    cut = one(lab, args, f"link {CUT} down at {at}s", first + 1)
    lab.network.set_port(CUT.partition(":")[0], int(CUT.partition(":")[2]), True)
    lab.supervisor.wait(lambda: lab.fabric_json("/healthz")["links_down"] == 0, 20.0, "the mended link")
    stopped = one(lab, args, f"stop agent {GONE} for 120s at {at}s", first + 2)
    lab.supervisor.wait(lambda: lab.fabric_json("/healthz")["links_down"] == 0, 20.0, "the stopped agent")
    killed = one(lab, args, f"kill agent {GONE} at {at}s", first + 3)
    lab.start_agent(GONE)
    lab.supervisor.wait(lambda: lab.fabric_json("/healthz")["links_down"] == 0, 20.0, "the killed agent")
    before = others(whole, GONE)
    ideal = new_ideal(whole["ideal_s"], whole["trees"]["count"], trees_without(lab, CUT), at - cut["start_s"])
    return {
        "finish_over_ideal": whole["finish_over_ideal"],
        "cut_over_new_ideal": cut["finish_s"] / ideal,
        "stopped_over_whole": others(stopped, GONE) / before,
        "killed_over_whole": others(killed, GONE) / before,
        "seconds": {"whole": before, "ideal": whole["ideal_s"], "cut": cut["finish_s"], "new_ideal": ideal}
        | {"stopped": others(stopped, GONE), "killed": others(killed, GONE)},
        "cpu_busy": [r["cpu_busy"] for r in (whole, cut, stopped, killed)],
        "cpu_bound": [r["cpu_bound"] for r in (whole, cut, stopped, killed)],
    }, [whole, cut, stopped, killed]


def delivered(reports: list[dict[str, Any]]) -> bool:
    return all(r["sha256_ok"] for report in reports for name, r in report["receivers"].items() if name != GONE)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--link", type=int, default=30, metavar="MBIT", help="rate of all links (default %(default)s)")
    parser.add_argument("--size", type=int, default=128, metavar="MIB", help="default %(default)s")
    parser.add_argument("--port", type=int, default=18600, help="REST's; the next one is the fabric manager's")
    parser.add_argument("--json", type=Path, default=None)
    parser.add_argument("--reports", type=Path, default=None, help="folder for the reports of the transfers")
    args = parser.parse_args()
    options = LabOptions(
        rate_bps=args.link * 10**6, rest_port=args.port, fabric_port=args.port + 1, room=17 * (args.size << 20)
    )
    sets, good = [], True
    try:
        with Lab(options, "bench-finish", lambda text: None) as lab:
            lab.up()
            for run in range(args.runs):
                figures, reports = one_set(lab, args, 4 * run)
                sets.append(figures)
                good = good and delivered(reports)
                for name, report in zip(("whole", "cut", "stopped", "killed"), reports, strict=True):
                    if args.reports:
                        args.reports.mkdir(parents=True, exist_ok=True)
                        (args.reports / f"{run}-{name}.json").write_text(json.dumps(report, indent=1))
    except DatacastError as error:
        print(f"finish: {error}", file=sys.stderr)
        return 1
    keys = [key for key in sets[0] if key.endswith(("_ideal", "_whole"))]
    result = {
        "link_mbit": args.link,
        "size_mib": args.size,
        "load_average": os.getloadavg(),
        "median": {key: round(statistics.median(s[key] for s in sets), 4) for key in keys},
        "runs": sets,
    }
    text = json.dumps(result, indent=1)
    print(text)
    if args.json:
        args.json.write_text(text + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
