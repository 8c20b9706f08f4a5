"""`datacast sim`: the paper's experiments and this project's, in the deterministic simulator."""

from __future__ import annotations

import json
import os
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from datacast.core.errors import UsageError
from datacast.core.quantities import parse_rate, parse_size

from .output import output

if find_spec("datacast.simulation") is None:  # packaging/environment
    raise ImportError("the packages leave the simulator out, a source tree has it")

if TYPE_CHECKING:
    from datacast.simulation.experiments import Experiment, Result

EPILOG = """Examples: `datacast sim list`;
`datacast sim table1 --cc steady --cache 8K,32K --slow 50mbit --receivers 12 --seed 3`;
`datacast sim figure12 --json`; `datacast sim figure14 --topology torus:16,3 --receivers 64 --svg figure14.svg`.
Exit codes: 0 done, 1 failed, 2 unknown experiment or impossible parameters, 130 interrupted."""

UNSET: Any = None
SPAN_NS_MAX = 1000 * 10**9


def register(app: typer.Typer) -> None:
    """Add `sim` to the command line."""
    app.command("sim", epilog=EPILOG)(sim)


def sim(
    name: Annotated[str, typer.Argument(metavar="EXPERIMENT", help="Which one; `list` shows them.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: the setting, and one object per row.")] = False,
    svg: Annotated[Path | None, typer.Option("--svg", help="Draw the plot into this file (.svg, .png, .pdf).")] = None,
    cc: Annotated[str, typer.Option(help="Rule of rate control: steady, or datacast (the paper's).")] = UNSET,
    topology: Annotated[str, typer.Option(help="bcube:n,k, fattree:n,k, torus:n,k, or a file.")] = UNSET,
    source: Annotated[str, typer.Option(help="Host that sends.")] = UNSET,
    receivers: Annotated[int, typer.Option(help="How many receivers (0: the paper's own).")] = UNSET,
    cache: Annotated[str, typer.Option(help="Cache sizes, such as 8K,32K.")] = UNSET,
    rate: Annotated[str, typer.Option(help="Rate of every link, such as 1gbit.")] = UNSET,
    slow: Annotated[str, typer.Option(help="Rate of the slow link, such as 100mbit.")] = UNSET,
    delay: Annotated[float, typer.Option(help="Delay of every link, microseconds.")] = UNSET,
    queue: Annotated[int, typer.Option(help="Packets in a link's queue.")] = UNSET,
    mtu: Annotated[int, typer.Option(help="Bytes of a full data packet.")] = UNSET,
    delta: Annotated[str, typer.Option(help="The rate's increase delta, such as 5mbit.")] = UNSET,
    interval: Annotated[float, typer.Option("--T", help="The interval T, milliseconds.")] = UNSET,
    rate_init: Annotated[str, typer.Option(help="The source's first rate (default: as masters set it).")] = UNSET,
    credits: Annotated[int, typer.Option(help="Credits w of a receiver (default: as masters set them).")] = UNSET,
    only: Annotated[str, typer.Option(help="Cells of the matrix with this word, such as fair, tcp or bbr.")] = UNSET,
    rto_min: Annotated[float, typer.Option(help="Least retransmission timeout, milliseconds.")] = UNSET,
    loss: Annotated[float, typer.Option(help="Share of data packets lost towards the slow receiver.")] = UNSET,
    loss_on_wire: Annotated[
        bool, typer.Option("--loss-on-wire/--loss-in-queue", help="What is lost has taken the link's time, or not.")
    ] = UNSET,
    seconds: Annotated[float, typer.Option(help="Length of the ideal transfer, or of a phase.")] = UNSET,
    size: Annotated[str, typer.Option(help="Bytes of the file, such as 500000000 or 64M.")] = UNSET,
    trees: Annotated[int, typer.Option(help="Most trees (0: all there are).")] = UNSET,
    planner: Annotated[str, typer.Option(help="Whose trees with rates: clusters, joining (default: all).")] = UNSET,
    policy: Annotated[str, typer.Option(help="Content store: fifo; for experiments lru, lfu.")] = UNSET,
    framing: Annotated[str, typer.Option(help="Bytes of a frame: paper (16-byte headers) or ethernet.")] = UNSET,
    tcp: Annotated[str, typer.Option(help="TCP in figure13b: cubic, newreno, bbr.")] = UNSET,
    cases: Annotated[int, typer.Option(help="Cases of a sweep.")] = UNSET,
    seed: Annotated[int, typer.Option(help="Everything random follows from it.")] = UNSET,
    engine: Annotated[str, typer.Option(help="What simulates: datacast, or ns3 with the same core.")] = UNSET,
    witness: Annotated[bool, typer.Option("--witness", help="Run in both simulators, side by side.")] = False,
    rows: Annotated[int, typer.Option(min=0, help="Rows of the table to print (0: all; a sweep prints 15).")] = UNSET,
) -> None:
    """Run an experiment in the deterministic simulator and show it beside the paper's numbers and the theory."""
    from datacast.simulation.experiments import EXPERIMENTS, Setting, find

    if name == "list":
        known = list(EXPERIMENTS.values())
        told = [f"{e.name:<13} {e.title}" for e in known]
        print(json.dumps([{"name": e.name, "title": e.title} for e in known], indent=1) if as_json else "\n".join(told))
        return
    experiment = find(name)
    given: dict[str, object] = {
        "cc": cc,
        "topology": topology,
        "source": source,
        "receivers": receivers,
        "queue": queue,
        "mtu": mtu,
        "credits": credits,
        "only": only,
        "loss": loss,
        "loss_on_wire": loss_on_wire,
        "seconds": seconds,
        "trees": trees,
        "planner": planner,
        "policy": policy,
        "framing": framing,
        "tcp": tcp,
        "cases": cases,
        "seed": seed,
        "engine": engine,
        "rate": _rate(rate),
        "slow": _rate(slow),
        "delta": _rate(delta),
        "rate_init": _rate(rate_init),
        "size": _size(size),
        "delay": _ns("delay", delay, 1_000),
        "interval": _ns("T", interval, 1_000_000),
        "rto_min": _ns("rto-min", rto_min, 1_000_000),
        "cache": None if cache is None else tuple(_size(part) or 0 for part in cache.split(",")),
    }
    setting = Setting().with_(**{**experiment.defaults, **{k: v for k, v in given.items() if v is not None}})
    setting.check()
    if svg is not None:
        _check_drawable(svg)  # not after the run
    screen = _Screen(as_json)
    began = time.monotonic()
    if witness:
        from datacast.simulation.ns3.witness import witness as both

        result = both(name, setting, screen.say)
    else:
        result = experiment.run(setting, screen.say)
    screen.clear()
    if as_json:
        json.dump(result.to_json(), sys.stdout, indent=1)
        print()
    else:
        limit = rows if rows is not None else 15 if name == "sweep" else 0
        _table(result, limit)
        print(f"{time.monotonic() - began:.1f} s; cc={setting.cc}, seed {setting.seed}")
    if svg is not None:
        _draw(experiment, result, svg)
        print(f"plot: {svg}", file=sys.stderr)


def _rate(text: str | None) -> int | None:
    return None if text is None else parse_rate(text)


def _ns(option: str, value: float | None, unit: int) -> int | None:
    """Of a time in units of so many nanoseconds. Raises UsageError."""
    if value is None:
        return None
    if not abs(value) * unit <= SPAN_NS_MAX:
        most = SPAN_NS_MAX // unit
        raise UsageError(f"--{option} is {value}: give a number up to {most}, which are 1000 s", what=option)
    return round(value * unit)


def _size(text: str | None) -> int | None:
    return None if text is None else parse_size(text)


class _Screen:
    """The running step, on a terminal only."""

    def __init__(self, quiet: bool) -> None:
        self.live = not quiet and sys.stderr.isatty()

    def say(self, text: str) -> None:
        if self.live:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self.live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


SHARES = (
    "duplicate_ratio",
    "ns3_duplicate_ratio",
    "loss",
    "added_finish",
    "least_added",
    "paper_added_finish",
    "paper_duplicate_ratio",
    "theory_duplicate_ratio",
    "left",
)
"""Shown in percent."""


def cell(key: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        if key in SHARES or key.startswith("duplicate_ratio_"):
            return f"{100 * value:.4g} %"
        return f"{value:.6g}" if key.startswith("finish_over") else f"{value:.5g}"
    if isinstance(value, list):
        return " ".join(f"{x:.4g}" for x in value)
    return str(value)


def _table(result: Result, limit: int) -> None:
    from rich.table import Table

    table = Table(title=result.title, title_justify="left")
    for key, heading in result.columns.items():
        numbers = all(not isinstance(row.get(key), str) for row in result.rows)
        table.add_column(heading, justify="right" if numbers else "left")
    for row in result.rows[: limit or None]:
        table.add_row(*(cell(key, row.get(key)) for key in result.columns))
    console = output()
    console.print(table)
    for note in result.notes:
        console.print(note, highlight=False)


def _check_drawable(path: Path) -> None:
    """Raises ExperimentError."""
    from matplotlib.backend_bases import FigureCanvasBase

    from datacast.simulation.errors import ExperimentError

    why = ""
    if path.suffix.lower().removeprefix(".") not in FigureCanvasBase.get_supported_filetypes():
        why = "give a name that ends with .svg, .png or .pdf"
    elif path.is_dir():
        why = "it is a directory"
    elif not path.parent.is_dir():
        why = f"there is no folder {path.parent}"
    elif not os.access(path if path.exists() else path.parent, os.W_OK):
        why = "it may not be written"
    if why:
        raise ExperimentError(f"cannot draw {path}: {why}", what=str(path))


def _draw(experiment: Experiment, result: Result, path: Path) -> None:
    import matplotlib

    from datacast.simulation.errors import ExperimentError

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "datacast"  # the same picture is the same file
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    experiment.plot(result, axes)
    try:
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    except (OSError, ValueError) as error:
        raise ExperimentError(f"cannot draw {path}: {error}", what=str(path)) from error
    finally:
        pyplot.close(figure)
