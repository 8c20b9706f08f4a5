"""`datacast lab`: an emulated data centre up, down, and in one go for one file."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from datacast.cli import lab_visit
from datacast.cli.lab_flags import LabFlags, Name, Option, takes_lab
from datacast.cli.planner import Planner
from datacast.core.errors import DatacastError

if TYPE_CHECKING:
    from datacast.lab.errors import LabError

FAILED, USAGE, NO_LAB, INTERRUPTED = 1, 2, 3, 130

EXIT_CODES = """Exit codes: 0 all is well (run: delivered to all and verified), 1 something was not delivered, 2 a wrong
option, 3 the lab could not be brought up or down, 130 interrupted."""


def register(app: typer.Typer) -> None:
    lab = typer.Typer(help="An emulated data centre on this machine (root).", no_args_is_help=True, epilog=EXIT_CODES)
    lab.command(epilog=EXIT_CODES)(takes_lab(up))
    lab.command(epilog=EXIT_CODES)(takes_lab(run))
    lab.command(epilog=EXIT_CODES)(down)
    lab.command(epilog=EXIT_CODES)(status)
    lab_visit.register(lab)
    app.add_typer(lab, name="lab")


def _complain(error: DatacastError) -> None:
    remedy = getattr(error, "remedy", "")
    message = f"{error.where}: {error.message}" if error.where else error.message
    print(f"datacast lab: {message}" + (f"\n{remedy}" if remedy else ""), file=sys.stderr)


def _fail(error: LabError | DatacastError) -> typer.Exit:
    from datacast.lab.errors import Interrupted

    if isinstance(error, Interrupted):
        print("datacast lab: interrupted; everything was taken down", file=sys.stderr)
        return typer.Exit(INTERRUPTED)
    _complain(error)
    return typer.Exit(NO_LAB)


def _misused(error: DatacastError) -> typer.Exit:
    _complain(error)
    return typer.Exit(USAGE)


def up(
    flags: LabFlags,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object when it is up.")] = False,
) -> None:
    """Bring a lab up, until Ctrl-C or `datacast lab down`."""
    from datacast.cli.lab_show import Screen, sites_text, up_text
    from datacast.lab.down import describe
    from datacast.lab.lab import Lab
    from datacast.lab.signals import Signals
    from datacast.lab.site_lab import SitesLab
    from datacast.lab.state import lab_name

    screen, signals = Screen(quiet=as_json), Signals(last=True)
    kind = SitesLab if flags.sites else Lab
    try:
        lab = kind(flags.options(), lab_name(flags.name), screen.step, signals)
    except DatacastError as error:
        raise _misused(error) from error
    try:
        with signals, screen, lab:
            lab.up()
            screen.close()
            assert lab.state is not None
            text = sites_text(lab) if isinstance(lab, SitesLab) else up_text(lab)
            print(json.dumps(asdict(describe(lab.state))) if as_json else text, flush=True)
            while True:
                lab.signals.sleep(0.5)
                lab.supervisor.check()
    except DatacastError as error:
        raise _fail(error) from error


def run(
    flags: LabFlags,
    size: Annotated[str | None, Option(help="Send so many random bytes, such as 256M (the default).")] = None,
    file: Annotated[Path | None, Option(help="Send this file instead.")] = None,
    source: Annotated[
        str | None, Option("--from", help="Host or hosts with the file (default: the first one).")
    ] = None,
    to: Annotated[str, Option(help="Receivers, by comma, or 'all' (of all sites); with --sites SITE/all too.")] = "all",
    trees: Annotated[int | None, Option(min=1, max=64, help="Most trees to use.")] = None,
    cache: Annotated[str | None, Option(help="Packet cache per tree at a branch node, such as 128K.")] = None,
    credits: Annotated[int | None, Option(min=1, max=4096, help="Interests a receiver may have out (w).")] = None,
    delta: Annotated[str | None, Option(help="Rate added per interval without a duplicate, such as 5mbit.")] = None,
    cc: Annotated[str | None, Option(help="Rate control: steady (default), or the paper's, datacast.")] = None,
    delivery: Annotated[str | None, Option(help="stable (where receivers differ) or together.")] = None,
    planner: Planner = None,
    seed: Annotated[int | None, Option(help="Seed of the random bytes.")] = None,
    fault: Annotated[
        list[str] | None,
        Option(help="Break something meanwhile, such as 'link 00:0 down at 2s'; again for more."),
    ] = None,
    json_path: Annotated[Path | None, Option("--json", help="Write the report to this file ('-': print it).")] = None,
) -> None:
    """Send one file over a lab of its own, and verify every copy. Reports beside the ideal; the lab is taken down."""
    from datacast.cli.lab_show import Screen, print_report, print_sites_report
    from datacast.core.quantities import parse_rate, parse_size
    from datacast.fabric_manager.api import Delivery, GroupOptions, PlannerName, RuleName
    from datacast.lab import run as lab_run
    from datacast.lab import site_run
    from datacast.lab import sites as wan
    from datacast.lab.dataplane import data_plane
    from datacast.lab.faults import parse_faults
    from datacast.lab.lab import load_topology
    from datacast.lab.report import Report, text
    from datacast.lab.signals import Signals
    from datacast.lab.state import lab_name

    quiet = str(json_path) == "-"
    screen = Screen(quiet=quiet)
    try:
        of_group = GroupOptions(
            trees=trees,
            cache_bytes=parse_size(cache) if cache else None,
            credits=credits,
            cc=cast(RuleName | None, cc),
            delivery=cast(Delivery | None, delivery),
            planner=cast(PlannerName | None, planner),
            delta_bps=parse_rate(delta) if delta else None,
        )
        sources = [part.strip() for part in (source or "").split(",") if part.strip()]
        transfer = lab_run.Transfer(
            source=sources[0] if sources else None,
            other_sources=tuple(sources[1:]),
            receivers=None if to == "all" else tuple(part.strip() for part in to.split(",") if part.strip()),
            size=parse_size(size) if size else None if file else 256 << 20,
            file=file,
            seed=seed,
            options=of_group,
        )
        options = flags.options()
        if flags.sites:
            transfer = site_run.settle(wan.read(flags.sites), transfer, fault or [])
        else:
            graph = load_topology(flags.topology)
            faults = parse_faults(fault or [], graph, flags.dataplane)
            transfer = replace(lab_run.settle(graph, transfer), faults=faults)
            data_plane(flags.dataplane)
        made = json_path if json_path and not quiet and not json_path.exists() else None
        if json_path and not quiet:
            json_path.open("a").close()  # not after the run
    except DatacastError as error:
        raise _misused(error) from error
    except OSError as error:
        raise _misused(DatacastError(f"{error.filename or json_path}: {error.strerror}")) from error
    try:
        with Signals(last=True) as signals, screen:
            go = site_run.go if flags.sites else lab_run.run
            report = go(options, lab_name(flags.name), transfer, screen, signals)
    except DatacastError as error:
        if made:
            made.unlink(missing_ok=True)
        raise _fail(error) from error
    if quiet:
        print(text(report))
    else:
        print_report(report) if isinstance(report, Report) else print_sites_report(report)
        if json_path:
            json_path.write_text(text(report) + "\n")
            print(f"report: {json_path}")
    raise typer.Exit(0 if report.ok else FAILED)


def down(name: Name = None) -> None:
    """Take a lab down, or clean up after one that was killed. For another terminal."""
    from datacast.lab.down import take_down
    from datacast.lab.state import lab_name

    try:
        state = take_down(lab_name(name))
    except DatacastError as error:
        raise _fail(error) from error
    print(f"lab {state.name!r} is down")


def status(as_json: Annotated[bool, Option("--json", help="Print JSON for machines.")] = False) -> None:
    """List the labs of this machine."""
    from datacast.lab.down import describe
    from datacast.lab.state import Registry

    labs = [describe(state) for state in Registry().all()]
    if as_json:
        print(json.dumps([asdict(lab) for lab in labs], indent=1))
        return
    if not labs:
        print("no lab is running")
    for lab in labs:
        print(
            f"{lab.name}: {lab.status}, {lab.topology}, process {lab.pid} with {lab.processes} more, "
            f"REST {lab.rest}, files in {lab.work}"
        )
