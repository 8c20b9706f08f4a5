"""The figures of a results page once more, all by one revision: raw JSON beside the page, the tables in it.

    python bench/sim/figures.py transport [--only table1,figure12] [--list]

Each table stands in the page between `<!-- figure NAME -->` and `<!-- /figure -->`, with its command and the revision;
the words around it are people's. What is simulated does not depend on the machine's load; a table takes a minute at
most."""

from __future__ import annotations

import argparse
import fcntl
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from datacast.cli.sim import cell
from datacast.simulation.experiments import Result, Setting, find

ROOT = Path(__file__).resolve().parents[2]
KB = 1024


@dataclass(frozen=True)
class Figure:
    """One table: an experiment and what it is told."""

    name: str
    experiment: str
    changes: dict[str, object]
    options: str = ""
    """The same for the command line."""


TRANSPORT = [
    Figure("table1", "table1", {}),
    Figure("table1-paper", "table1", {"cc": "datacast"}, "--cc datacast"),
    Figure("figure11", "figure11", {}),
    Figure("theorem1", "theorem1", {}),
    Figure("figure12", "figure12", {}),
    Figure("figure12-wire", "figure12", {"loss_on_wire": True}, "--loss-on-wire"),
    Figure("figure13a", "figure13a", {"seconds": 5.0}, "--seconds 5"),
    Figure("figure13b", "figure13b", {"seconds": 5.0}, "--seconds 5"),
    Figure("matrix", "matrix", {}),
    Figure("cachepolicy", "cachepolicy", {"cache": (64 * KB, 128 * KB, 256 * KB)}, "--cache 64K,128K,256K"),
    *(
        Figure(
            f"figure14-{t.split(':')[0]}-{n}",
            "figure14",
            {"topology": t, "receivers": n, "size": 20_000_000},
            f"--topology {t} --receivers {n} --size 20000000",
        )
        for t in ("fattree:24,3", "bcube:8,3", "torus:16,3")
        for n in (8, 64)
    ),
    Figure("testbed", "testbed", {}),
    Figure("testbed-paper", "testbed", {"cc": "datacast"}, "--cc datacast"),
    Figure("tradeoff", "tradeoff", {}),
    Figure("range", "range", {}),
    Figure("pauses", "pauses", {}),
    Figure("pauses-paper", "pauses", {"cc": "datacast"}, "--cc datacast"),
]
PAGES = {"transport": TRANSPORT}


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def markdown(result: Result) -> str:
    lines = ["| " + " | ".join(result.columns.values()) + " |", "|" + " --- |" * len(result.columns)]
    lines += ["| " + " | ".join(cell(key, row.get(key)) for key in result.columns) + " |" for row in result.rows]
    return "\n".join(lines)


def put(page: Path, figure: Figure, text: str) -> None:
    """Replace the table of a figure in its page. Raises SystemExit when the page has no place for it."""
    begin, end = f"<!-- figure {figure.name} -->\n", "<!-- /figure -->"
    before, found, rest = page.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise SystemExit(f"{page}: no place for {figure.name}: write {begin.strip()} and {end} where it belongs")
    page.write_text(before + begin + text + end + after)


def rounded(value: object) -> object:
    return float(f"{value:.5g}") if isinstance(value, float) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", choices=PAGES)
    parser.add_argument("--only", default="", help="names, by comma")
    parser.add_argument("--list", action="store_true", help="print the names")
    args = parser.parse_args()
    figures = [f for f in PAGES[args.page] if not args.only or f.name in args.only.split(",")]
    if args.list:
        sys.exit("\n".join(f.name for f in figures))
    lock = open(ROOT / "build" / "figures.lock", "w")  # noqa: SIM115 - held until the end
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit("another `make figures` runs on this checkout")
    if git("status", "--porcelain", "--", ":!docs"):
        sys.exit("figures are of one revision: commit what you changed first (git status)")
    revision = git("rev-parse", "--short", "HEAD")
    data = ROOT / "docs" / "results" / "data" / args.page
    data.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        print(figure.name, flush=True)
        experiment = find(figure.experiment)
        setting = Setting().with_(**{**experiment.defaults, **figure.changes})
        result = experiment.run(setting, lambda text: None)
        found = result.to_json()
        found["rows"] = [{k: rounded(v) for k, v in row.items()} for row in found["rows"]]
        (data / f"{figure.name}.json").write_text(json.dumps({"revision": revision, **found}, indent=1) + "\n")
        head = " ".join(["`datacast sim", figure.experiment, *figure.options.split()]) + f"`, revision {revision}"
        put(ROOT / "docs" / "results" / f"{args.page}.md", figure, f"{head}\n\n{markdown(result)}\n")


if __name__ == "__main__":
    main()
