"""The lab's figures of docs/results/lab.md, run again: `make bench-lab`, or `figures.py --only NAME,… --out DIR`.

Every row is one `datacast lab run` (or two groups in one lab), its command, its figures and the limits they must keep.
Prints a Markdown table; exit code 1 when a limit is broken.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from datacast.lab.lab import Lab, LabOptions
from datacast.lab.report import plain
from datacast.lab.run import Quiet, Transfer, send, settle

DATACAST = Path(sys.executable).parent / "datacast"
FIGURE_10 = "02,10,21,23,31,33"


@dataclass(frozen=True)
class Row:
    """A run and what it must keep: figure name -> highest value."""

    name: str
    arguments: str
    limits: dict[str, float] = field(default_factory=dict)


DEMO = {"finish_over_ideal": 1.05, "link_stress": 1.01, "duplicate_ratio": 0.02, "cpu_bound": 0}
ROWS = [
    Row("demo", f"--size 256M --from 00 --to {FIGURE_10}", DEMO),
    Row("one tree", f"--size 256M --from 00 --to {FIGURE_10} --trees 1", {"finish_over_ideal": 1.05}),
    Row("all 15", "--size 256M --from 00 --to all", {"finish_over_ideal": 1.10}),
    Row("all 15, MTU 1500", "--size 64M --from 00 --to all --mtu 1500 --link 25mbit", {"cpu_bound": 0}),
    Row("Torus(4,2)", "--topology torus:4,2 --size 128M --from 00 --to all", {"cpu_bound": 0}),
    Row("Fattree(4,3)", "--topology fattree:4,3 --size 128M --to all"),
    Row("1 byte", f"--size 1 --from 00 --to {FIGURE_10}", {"start_s": 0.3}),
    Row("empty", f"--size 0 --from 00 --to {FIGURE_10}"),
    Row("1,000,003 bytes", f"--size 1000003 --from 00 --to {FIGURE_10}", {"start_s": 0.3}),
]


def one(row: Row, out: Path) -> dict[str, Any]:
    path = out / f"{row.name.replace(' ', '-')}.json"
    path.unlink(missing_ok=True)  # of an earlier run
    command = [str(DATACAST), "lab", "run", *shlex.split(row.arguments), "--json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    if not path.exists():
        raise SystemExit(f"{row.name}: {done.stderr}")
    return json.loads(path.read_text())


def two_groups(out: Path) -> list[dict[str, Any]]:
    """Two sources at once in one lab; each one's report."""

    reports: dict[str, dict[str, Any]] = {}
    with Lab(LabOptions(room=2 << 30), "two-groups") as lab:
        lab.up()
        transfers = []
        for source, to in (("00", FIGURE_10), ("11", "00,03,12,20,22,33")):
            path = lab.work / f"from-{source}.bin"
            with open(path, "wb") as content, open("/dev/urandom", "rb") as random:
                content.write(random.read(64 << 20))
            transfers.append(settle(lab.graph, Transfer(source, receivers=tuple(to.split(",")), file=path)))

        def go(transfer: Transfer) -> None:
            reports[str(transfer.source)] = plain(send(lab, transfer, Quiet(), dest=f"from-{transfer.source}.bin"))

        threads = [threading.Thread(target=go, args=(transfer,)) for transfer in transfers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for source, report in reports.items():
        report["link_stress"] = None  # the counters of the links hold both groups
        (out / f"two-groups-{source}.json").write_text(json.dumps(report, indent=1))
    return [reports[source] for source in sorted(reports)]


def broken(row: Row, report: dict[str, Any]) -> list[str]:
    wrong = [] if report["ok"] else ["not delivered"]
    for key, most in row.limits.items():
        value = report[key]
        if value is None or value > most:
            wrong.append(f"{key} {value} > {most}")
    return wrong


def line(name: str, report: dict[str, Any]) -> str:
    def number(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    good = sum(figures["sha256_ok"] for figures in report["receivers"].values())
    return (
        f"| {name} | {good}/{len(report['receivers'])} | {report['trees']['count']} "
        f"| {number(report['finish_s'], '.3f')} "
        f"| {number(report['ideal_s'], '.3f')} | {number(report['finish_over_ideal'], '.3f')} "
        f"| {number(report['link_stress'], '.4f')} | {100 * report['duplicate_ratio']:.2f} % "
        f"| {number(report['start_s'] and 1000 * report['start_s'], '.0f')} | {100 * report['cpu_busy']:.0f} % |"
    )


HEAD = (
    "| run | verified | trees | finish s | ideal s | over ideal | link stress | duplicates | start ms | processor |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="names by comma")
    parser.add_argument("--out", type=Path, default=Path("build/figures"), help="folder for the reports")
    args = parser.parse_args()
    wanted = args.only.split(",") if args.only else [*(row.name for row in ROWS), "two groups"]
    args.out.mkdir(parents=True, exist_ok=True)
    wrong = []
    print(HEAD, flush=True)
    for row in ROWS:
        if row.name in wanted:
            report = one(row, args.out)
            print(line(row.name, report), flush=True)
            wrong += [f"{row.name}: {what}" for what in broken(row, report)]
    if "two groups" in wanted:
        for source, report in zip(("00", "11"), two_groups(args.out), strict=True):
            print(line(f"two groups, from {source}", report), flush=True)
            wrong += [f"two groups: {what}" for what in broken(Row("", ""), report)]
    for what in wrong:
        print(what, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
