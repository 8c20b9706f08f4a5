"""The figures of a results page once more, all by one revision: raw JSON beside the page, the tables in it.

    python bench/sim/figures.py transport [--only table1,figure12] [--list] [--busy]

Each table stands in the page between `<!-- figure NAME -->` and `<!-- /figure -->`, with its command and the revision;
the words around it are people's. The revision is the last one that changed what is simulated, so a change of a page or
a test does not make figures old. What has run is kept in build/figures/REVISION and not run again: a long page can be
stopped and gone on with. One at a time on a checkout, and none beside the benches that time something; not on a busy
machine unless told to: what is simulated does not depend on its load, but takes it from others."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pages import PAGES, Figure

from datacast.cli.sim import cell
from datacast.simulation.engine import rules
from datacast.simulation.experiments import Result, Setting, find
from datacast.simulation.ns3.witness import witness

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("libdatacast", "simulation", "master/plan.py", "fabric_manager/shares.py", "topologies", "planners")
SIMULATED = (*SOURCES, ":(exclude)*.md")
"""What the figures follow from."""
BUSY = 1.0
"""Load average, as a share of the processors, from which a machine is busy."""


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def markdown(found: dict[str, Any], rows: int, notes: int) -> str:
    """A table of so many rows (0: all), and so many of the notes under it."""
    columns = found["columns"]
    lines = ["| " + " | ".join(columns.values()) + " |", "|" + " --- |" * len(columns)]
    lines += [
        "| " + " | ".join(cell(key, row.get(key)) for key in columns) + " |" for row in found["rows"][: rows or None]
    ]
    return "\n".join([*lines, *([""] if notes else []), *(f"- {note}" for note in found["notes"][:notes])])


def put(page: Path, figure: Figure, text: str) -> None:
    """Replace the table of a figure in its page. Raises SystemExit when the page has no place for it."""
    begin, end = f"<!-- figure {figure.name} -->\n", "<!-- /figure -->"
    before, found, rest = page.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise SystemExit(f"{page}: no place for {figure.name}: write {begin.strip()} and {end} where it belongs")
    page.write_text(before + begin + text + end + after)


def rounded(value: object) -> object:
    if isinstance(value, list):
        return [rounded(x) for x in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def run_cell(figure: Figure, cell_changes: dict[str, object], kept: Path) -> dict[str, Any]:
    """One cell, or what is kept of it."""
    if kept.exists():
        found: dict[str, Any] = json.loads(kept.read_text())
        return found
    experiment = find(figure.experiment)
    setting = Setting().with_(**{**experiment.defaults, **figure.changes, **cell_changes})
    setting.check()
    result: Result = (
        witness(figure.experiment, setting, lambda text: None)
        if figure.witness
        else experiment.run(setting, lambda text: None)
    )
    found = {**result.to_json(), "columns": result.columns}
    kept.parent.mkdir(parents=True, exist_ok=True)
    part = kept.with_suffix(".part")
    part.write_text(json.dumps(found) + "\n")
    part.rename(kept)
    print(f"  {kept.stem}", flush=True)
    return found


def start(figure: Figure, keep: Path, pool: ThreadPoolExecutor) -> Callable[[], dict[str, Any]]:
    """Begin with all cells of a figure; the result waits for them and gives them as one. The engine leaves Python's
    lock while it runs, so threads are enough."""
    names = ["-".join([figure.name, *(str(v) for v in c.values())]).replace(":", "-") + ".json" for c in figure.cells]
    parts = [pool.submit(run_cell, figure, c, keep / n) for n, c in zip(names, figure.cells, strict=True)]

    def whole() -> dict[str, Any]:
        found = [part.result() for part in parts]
        return {**found[0], "rows": [row for part in found for row in part["rows"]]}

    return whole


def write(page: str, figure: Figure, found: dict[str, Any], revision: str) -> None:
    """The raw numbers beside the page, the table in it."""
    data = ROOT / "docs" / "results" / "data" / page
    data.mkdir(parents=True, exist_ok=True)
    raw = {k: v for k, v in found.items() if k != "columns"}
    raw["rows"] = [{k: rounded(v) for k, v in row.items()} for row in found["rows"]]
    (data / f"{figure.name}.json").write_text(json.dumps({"revision": revision, **raw}, indent=1) + "\n")
    words = ["`datacast sim", figure.experiment, *figure.options.split()] + ["--witness"] * figure.witness
    head = " ".join(words) + f"`, revision {revision}"
    put(ROOT / "docs" / "results" / f"{page}.md", figure, f"{head}\n\n{markdown(found, figure.rows, figure.notes)}\n")
    print(figure.name, flush=True)


def alone() -> Any:
    """The lock of all benches of this checkout (bench/lab/alone.py), held until the end."""
    (ROOT / "build").mkdir(exist_ok=True)
    lock = open(ROOT / "build" / "figures.lock", "w")  # noqa: SIM115 - held until the end
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit("another bench of this checkout holds build/figures.lock: wait for it")
    return lock


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", choices=PAGES)
    parser.add_argument("--only", default="", help="names, by comma")
    parser.add_argument("--list", action="store_true", help="print the names")
    parser.add_argument("--busy", action="store_true", help="also on a busy machine")
    parser.add_argument("--jobs", type=int, default=1, help="so many at once")
    args = parser.parse_args()
    known = [f.name for f in PAGES[args.page]]
    if args.list:
        return print("\n".join(known))
    wanted = args.only.split(",") if args.only else known
    if strange := sorted(set(wanted) - set(known)):
        sys.exit(f"no figure {strange[0]!r} on the page {args.page}; there are {', '.join(known)}")
    lock = alone()
    if git("status", "--porcelain", "--", *SIMULATED):
        sys.exit(f"figures are of one revision: commit what you changed in {', '.join(SOURCES)} first (git status)")
    load, most = os.getloadavg()[0], BUSY * (os.cpu_count() or 1)
    if load > most and not args.busy:
        sys.exit(f"the machine is busy (load {load:.1f} of {most:.0f}): wait, or say so with BUSY=1 (--busy)")
    revision = git("log", "-1", "--format=%h", "--", *SIMULATED)
    keep = ROOT / "build" / "figures" / revision / args.page
    chosen = [f for f in PAGES[args.page] if f.name in wanted]
    rules()  # the engine is loaded once, before threads ask for it
    with ThreadPoolExecutor(max(1, args.jobs)) as pool:
        started = [(figure, start(figure, keep, pool)) for figure in chosen]
        try:
            for figure, whole in started:
                write(args.page, figure, whole(), revision)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    lock.close()


if __name__ == "__main__":
    main()
