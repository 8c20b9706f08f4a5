"""Robber's five WAN scenarios (its section 4, Table 2) in the lab: four sites, real bytes, links that change.

    bench/lab/robber.py
    bench/lab/robber.py --scenarios fast,mayhem --size 64M --divide 8 --seed 2

The links of simulation/experiments/robber.py (the paper's text does not give its Figure 8), divided by --divide so
that two cores carry them, and changed as soon as for the paper's 600 MB by so much less. "Of the best": what no
method can exceed, with stores in every site and headers counted (lab/sites_best.py), over the time of the last host.
"Into": bytes over the WAN into the worst site, headers counted, over the file. Every copy's SHA-256 is compared.
Prints a Markdown table; --json for the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml
from alone import alone

from datacast.core.quantities import parse_size
from datacast.lab import site_run, sites
from datacast.lab.lab import LabOptions
from datacast.lab.report import plain
from datacast.lab.run import Quiet, Transfer
from datacast.simulation.experiments.robber import PAPER, scenario
from datacast.simulation.wan.clusters import Clusters

NAMES = "abcd"
DELAY_MS = 10
CARD = "100mbit"
CHANGES_MOST_S = 600.0
"""Later changes are left out: files of sites have a limit."""
HEAD = "| scenario | best s | last s | of the best | the paper's Robber | into | cpu bound |\n" + "| --- " * 7 + "|"


@dataclass(frozen=True)
class Row:
    scenario: str
    best_s: float
    last_s: float
    of_best: float
    paper: float
    into: float
    cpu_bound: bool

    def line(self) -> str:
        return (
            f"| {self.scenario} | {self.best_s:.1f} | {self.last_s:.1f} | {100 * self.of_best:.1f} % | "
            f"{self.paper:g} % | {self.into:.3f} | {'yes' if self.cpu_bound else 'no'} |"
        )


def described(network: Clusters, hosts: int, divide: float) -> dict[str, Any]:
    """As a file of `lab run --sites`."""

    def link(a: int, b: int, capacity: float, **more: Any) -> dict[str, Any]:
        return {"between": [NAMES[a], NAMES[b]], "rate": f"{round(capacity * 8 / divide / 1000)}kbit", **more}

    changes = [
        link(a, b, capacity, at=f"{change.at * divide:.3f}s")
        for change in network.changes
        if change.at * divide < CHANGES_MOST_S
        for (a, b), capacity in change.links.items()
        if a < b
    ]
    return {
        "sites": {name: {"hosts": hosts, "access": CARD, "card": CARD} for name in NAMES},
        "links": [link(a, b, rate, delay_ms=DELAY_MS) for (a, b), rate in network.links.items() if a < b],
        "changes": changes,
    }


def once(name: str, given: argparse.Namespace, folder: Path) -> Row:
    file = folder / f"{name}.yaml"
    network = scenario(name, given.size, given.seed)
    file.write_text(yaml.safe_dump(described(network, given.hosts, given.divide), sort_keys=False))
    transfer = Transfer(source=f"{NAMES[0]}-1", size=given.size, seed=given.seed)
    transfer = site_run.settle(sites.read(file), transfer, [])
    options = LabOptions(str(file), mtu=1500, realtime=given.realtime)
    report = plain(site_run.go(options, f"robber{os.getpid() % 1000}", transfer, Quiet()))
    if not report["ok"]:
        raise SystemExit(f"{name}: {report['state']}: {report['error']}")
    best = max(site["ideal_s"] for site in report["sites"].values())
    last = max(site["finish_s"] for site in report["sites"].values())
    into = max(
        sum(wan["over_file"] for link, wan in report["wan"].items() if link.endswith(f" to {site}"))
        for site in NAMES[1:]
    )
    return Row(name, best, last, best / last, PAPER[name][2], into, report["cpu_bound"])


def parse_scenarios(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in PAPER]:
        raise argparse.ArgumentTypeError(f"no scenario {unknown[0]!r}; there are {', '.join(PAPER)}")
    return names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", type=parse_scenarios, default=list(PAPER), help="by comma")
    parser.add_argument("--size", type=parse_size, default=128 << 20)
    parser.add_argument("--divide", type=float, default=4.0, help="the rates of the paper's links by this")
    parser.add_argument("--hosts", type=int, default=2, help="of each site")
    parser.add_argument("--seed", type=int, default=1, help="of the file and of mayhem's rates")
    parser.add_argument("--realtime", action="store_true", help="daemons of the data path go before others")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if not 2 <= given.hosts <= sites.HOSTS_MAX or given.divide <= 0:
        parser.error(f"--hosts: 2 to {sites.HOSTS_MAX}; --divide: above 0")
    rows = []
    with alone(), tempfile.TemporaryDirectory(prefix="robber-") as folder:
        print(HEAD, flush=True)
        for name in given.scenarios:
            rows.append(once(name, given, Path(folder)))
            print(rows[-1].line(), flush=True)
    if given.json:
        given.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
