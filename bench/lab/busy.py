"""A machine with too much to do: two labs at once, each for half of two cores, and processes that never rest.

What a host that does other work, too, costs a transfer: daemons run late, receivers fall out of the caches, links seem
silent for a moment. The bar is the same file with the paper's rule, and the ideal. Each way is run `--runs` times;
prints a Markdown table, --json the figures.

    bench/lab/busy.py
    bench/lab/busy.py --hogs 6 --runs 3 --ways default,together,paper
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from alone import alone

DATACAST = Path(sys.executable).parent / "datacast"
WAYS = {
    "default": (),
    "together": ("--delivery", "together"),
    "paper": ("--delivery", "together", "--cc", "datacast"),
}
LABS = 2
PORTS = 17600
"""The first of two ports per lab, on loopback."""
GIVE_UP_S = 150
HOG = "while True: bytes(1 << 22)[::-1]"


@dataclass(frozen=True)
class Row:
    """A transfer; `finish_over_ideal` None: not all had it in time."""

    way: str
    run: int
    lab: int
    finish_over_ideal: float | None
    duplicates: float | None


@contextlib.contextmanager
def hogs(count: int) -> Iterator[None]:
    """Processes of ordinary priority that take all the processor they get."""
    running = [subprocess.Popen([sys.executable, "-c", HOG]) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def transfers(way: str, run: int, size: str, folder: Path, options: Sequence[str]) -> list[Row]:
    """The labs are begun at the same time, and end by themselves."""
    labs = []
    for lab in range(LABS):
        report = folder / f"{way}-{run}-{lab}.json"
        ports = ("--rest-port", str(PORTS + 2 * lab), "--fabric-port", str(PORTS + 2 * lab + 1))
        group = ("--from", "00", "--to", "02,10,21,23,31,33", "--size", size)
        command = [str(DATACAST), "lab", "run", "--name", f"busy{lab}", *group, *ports, *WAYS[way], *options]
        quiet = subprocess.DEVNULL
        labs.append((report, subprocess.Popen([*command, "--json", str(report)], stdout=quiet, stderr=quiet)))
    rows = []
    for lab, (report, process) in enumerate(labs):
        try:
            process.wait(GIVE_UP_S)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait()
        told = json.loads(report.read_text()) if report.exists() else {}
        finish = told.get("finish_over_ideal") if told.get("ok") else None
        rows.append(Row(way, run, lab, finish, told.get("duplicate_ratio")))
    return rows


def table(rows: list[Row]) -> str:
    lines = ["| way | finish over ideal | duplicates |", "| --- | --- | --- |"]
    for way in dict.fromkeys(row.way for row in rows):
        mine = [row for row in rows if row.way == way]
        finish = ", ".join(f"{row.finish_over_ideal:.2f}" if row.finish_over_ideal else "not ended" for row in mine)
        again = ", ".join(f"{100 * row.duplicates:.0f} %" if row.duplicates is not None else "-" for row in mine)
        lines.append(f"| {way} | {finish} | {again} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", default="default,together", help="of " + ", ".join(WAYS) + " (default: %(default)s)")
    parser.add_argument("--hogs", type=int, default=6, help="processes that never rest (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=2, help="of each way (default: %(default)s)")
    parser.add_argument("--no-realtime", action="store_true", help="daemons of ordinary priority")
    parser.add_argument("--size", default="128M", help="bytes of the file (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the figures there")
    args = parser.parse_args()
    ways = args.ways.split(",")
    if wrong := sorted(set(ways) - set(WAYS)):
        parser.error(f"no way is called {wrong[0]!r}; there are {', '.join(WAYS)}")
    options = ["--no-realtime"] if args.no_realtime else []
    with alone(), hogs(args.hogs), tempfile.TemporaryDirectory() as folder:
        rows = [
            row
            for run in range(args.runs)
            for way in ways
            for row in transfers(way, run, args.size, Path(folder), options)
        ]
    if args.json:
        args.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    print(table(rows))
    return 0 if all(row.finish_over_ideal for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
