"""One slow receiver among six: what it costs the others, and itself. BCube(4,1), 50 Mbit/s, 32 MiB to six receivers.

Host 31 is slow by its two links as declared, by its links from the first second on, by its disk, or by its processor.
Each case is run without host 31, with it alone, and with all six. Prints a Markdown table; --json for the figures.

    bench/lab/unequal.py
    bench/lab/unequal.py --cases disk,cpu --size 128M --realtime
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datacast import topologies
from datacast.core.quantities import parse_rate, parse_size
from datacast.lab.faults import parse_faults
from datacast.lab.lab import Lab, LabOptions
from datacast.lab.report import plain
from datacast.lab.run import DISK_SPARE, Quiet, Transfer, send, settle

SIX = ("02", "10", "21", "23", "31", "33")
SLOW = "31"
FIVE = tuple(name for name in SIX if name != SLOW)
CASES = {
    "declared": (),
    "links": ("link 31:0 rate {slow}bit at 1s", "link 31:1 rate {slow}bit at 1s"),
    "disk": ("agent 31 disk {disk}byte at 1s",),
    "cpu": ("agent 31 cpu 2% at 1s",),
}


@dataclass(frozen=True)
class Row:
    case: str
    five_alone_s: float
    slow_alone_s: float
    five_s: float
    slow_s: float
    stress: float | None
    duplicates: float
    planned_ms: float | None
    plans: int
    cpu_bound: bool

    def line(self) -> str:
        cells = [
            self.case,
            f"{self.five_alone_s:.2f}",
            f"{self.five_s:.2f}",
            f"{self.five_s / self.five_alone_s:.3f}",
            f"{self.slow_alone_s:.2f}",
            f"{self.slow_s:.2f}",
            f"{self.slow_s / self.slow_alone_s:.3f}",
            f"{self.stress:.3f}" if self.stress else "",
            f"{100 * self.duplicates:.2f} %",
            f"{self.planned_ms / 1000:.2f}" if self.planned_ms is not None else "",
            str(self.plans),
            "yes" if self.cpu_bound else "no",
        ]
        return "| " + " | ".join(cells) + " |"


HEAD = """| 31 slow by | five without it, s | with it, s | ratio | 31 alone, s | with the five, s | ratio | stress | \
duplicates | plan after, s | plans | cpu bound |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


def once(lab: Lab, size: int, receivers: tuple[str, ...], faults: tuple[str, ...], number: int) -> dict[str, Any]:
    what = Transfer(
        source="00", receivers=receivers, size=size, seed=number, faults=parse_faults(list(faults), lab.graph, "dpdk")
    )
    report = plain(send(lab, settle(lab.graph, what), Quiet(), dest=f"file-{number}", mend=True))
    if not report["ok"]:
        raise SystemExit(f"{receivers}: {report['error']}")
    for name in receivers:
        (lab.host_folder(name) / f"file-{number}").unlink()
    return report


def finish(report: dict[str, Any], names: tuple[str, ...]) -> float:
    return max(report["receivers"][name]["finish_s"] for name in names)


def case(name: str, args: argparse.Namespace, ports: tuple[int, int]) -> Row:
    rate, slow, size = parse_rate(args.link), parse_rate(args.slow), parse_size(args.size)
    graph = topologies.parse("bcube:4,1")
    for u, v, data in graph.edges(data=True):
        data["rate_bps"] = slow if name == "declared" and SLOW in (u, v) else rate
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.json"
        path.write_text(json.dumps(topologies.to_json(graph)))
        # As much as the two slow links would bring it.
        faults = tuple(spec.format(slow=slow, disk=2 * slow // 8) for spec in CASES[name])
        options = LabOptions(
            str(path),
            rate,
            rest_port=ports[0],
            fabric_port=ports[1],
            room=8 * size,
            realtime=args.realtime,
            slow_disks=((SLOW, size + DISK_SPARE),) if name == "disk" else (),
        )
        with Lab(options, f"unequal-{os.getpid()}") as lab:
            lab.up()
            five = once(lab, size, FIVE, (), 1)
            alone = once(lab, size, (SLOW,), faults, 2)
            six = once(lab, size, SIX, faults, 3)
    failed = max((fault["failed_ns"] or 0 for fault in six["faults"]), default=0)
    plans = [row["recomputed_ns"] for row in six["reactions"] if row.get("lost") and row["recomputed_ns"] > failed]
    return Row(
        name,
        finish(five, FIVE),
        finish(alone, (SLOW,)),
        finish(six, FIVE),
        finish(six, (SLOW,)),
        six["link_stress"],
        six["duplicate_ratio"],
        (plans[0] - failed) / 1e6 if plans and failed else None,
        len(plans),
        six["cpu_bound"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES), help=f"of {', '.join(CASES)}")
    parser.add_argument("--size", default="32M")
    parser.add_argument("--link", default="50mbit")
    parser.add_argument("--slow", default="5mbit")
    parser.add_argument("--ports", default="7680,7601", help="REST's and the fabric manager's")
    parser.add_argument("--realtime", action="store_true", help="daemons of the data path go before others")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rest, fabric = (int(port) for port in args.ports.split(","))
    print(HEAD, flush=True)
    rows = []
    for name in args.cases.split(","):
        rows.append(case(name, args, (rest, fabric)))
        print(rows[-1].line(), flush=True)
    if args.json:
        args.json.write_text(json.dumps([row.__dict__ for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
