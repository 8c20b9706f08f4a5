"""`datacast lab`: an emulated data centre up, down, and in one go for one file."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from datacast.cli import lab_visit
from datacast.core.errors import DatacastError

if TYPE_CHECKING:
    from datacast.lab.errors import LabError

FAILED, USAGE, NO_LAB, INTERRUPTED = 1, 2, 3, 130

EXIT_CODES = """Exit codes: 0 all is well (run: delivered to all and verified), 1 something was not delivered, 2 a wrong
option, 3 the lab could not be brought up or down, 130 interrupted."""

TOPOLOGY = typer.Option("bcube:4,1", "--topology", help="bcube:n,k, fattree:n,k, torus:n,k, or a GraphML or JSON file.")
SITES = typer.Option(None, "--sites", help="A file of sites on a wide area (lab/README.md), each with its controller.")
LINK = typer.Option("100mbit", "--link", help="Rate of every link, each way.")
MTU = typer.Option(9000, "--mtu", min=576, max=16000, help="MTU of every link.")
QUEUE = typer.Option(100, "--queue", min=8, max=10000, help="Packets that the queue of a port holds.")
DATAPLANE = typer.Option("dpdk", "--dataplane", help="dpdk, ovs, bmv2, p4 (no appliance), ovs+dpdk; ip: plain routers.")
WITHOUT = typer.Option(
    None, "--without-appliance", help="Switches whose cache appliance is absent, by comma, or 'all' (ovs, bmv2)."
)
APPLIANCE_LINK = typer.Option(
    None, "--appliance-link", help="Rate of the link between a switch and its cache appliance (default: unshaped)."
)
NAME = typer.Option(None, "--name", help="Name of the lab, for several at once (default: $DATACAST_LAB, else 'lab').")
REST_PORT = typer.Option(None, "--rest-port", help="Port of the REST API on loopback.")
FABRIC_PORT = typer.Option(None, "--fabric-port", help="Port of the fabric manager on loopback.")
WORK = typer.Option(None, "--work", help="Folder for the hosts' files (default: memory or disk, by size).")
REALTIME = typer.Option(True, help="Let switches and agents run before everything else on this machine.")
INSECURE = typer.Option(False, "--insecure", help="No TLS between the daemons (by default all speak it).")
KEEP = typer.Option(False, "--keep", help="Leave the hosts' files and the logs behind.")


def register(app: typer.Typer) -> None:
    lab = typer.Typer(help="An emulated data centre on this machine (root).", no_args_is_help=True, epilog=EXIT_CODES)
    lab.command(epilog=EXIT_CODES)(up)
    lab.command(epilog=EXIT_CODES)(run)
    lab.command(epilog=EXIT_CODES)(down)
    lab.command(epilog=EXIT_CODES)(status)
    lab_visit.register(lab)
    app.add_typer(lab, name="lab")


def _options(
    topology: str,
    link: str,
    mtu: int,
    queue: int,
    dataplane: str,
    rest_port: int | None,
    fabric_port: int | None,
    work: Path | None,
    realtime: bool,
    keep: bool,
    without: str | None,
    appliance_link: str | None,
    insecure: bool,
) -> Any:
    from datacast.lab.content import parse_rate
    from datacast.lab.controlled import without_appliance
    from datacast.lab.lab import LabOptions, load_topology

    given = (("rest_port", rest_port), ("fabric_port", fabric_port))
    ports: dict[str, Any] = {key: value for key, value in given if value}
    return LabOptions(
        topology=topology,
        rate_bps=parse_rate(link),
        mtu=mtu,
        queue_packets=queue,
        dataplane=dataplane,
        work=str(work) if work else None,
        realtime=realtime,
        keep=keep,
        without_appliance=without_appliance(without, load_topology(topology), dataplane) if without else (),
        appliance_bps=parse_rate(appliance_link) if appliance_link else 0,
        insecure=insecure,
        **ports,
    )


def _network(
    topology: str, sites: Path | None, dataplane: str, without: str | None, appliance_link: str | None, insecure: bool
) -> str:
    """--topology, or the file of --sites, with which these others say nothing. Raises LabError."""
    from datacast.lab.errors import LabError

    given = (topology != TOPOLOGY.default, dataplane != DATAPLANE.default, without, appliance_link, insecure)
    names = ("--topology", "--dataplane", "--without-appliance", "--appliance-link", "--insecure")
    if not sites:
        return topology
    for name in (name for name, there in zip(names, given, strict=True) if there):
        raise LabError(f"{name} and --sites exclude each other", what=name, remedy="sites are plain routers, with TLS")
    return str(sites)


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


def up(
    topology: str = TOPOLOGY,
    sites: Path = SITES,
    link: str = LINK,
    mtu: int = MTU,
    queue: int = QUEUE,
    dataplane: str = DATAPLANE,
    without: str = WITHOUT,
    appliance_link: str = APPLIANCE_LINK,
    name: str = NAME,
    rest_port: int = REST_PORT,
    fabric_port: int = FABRIC_PORT,
    work: Path = WORK,
    realtime: bool = REALTIME,
    keep: bool = KEEP,
    insecure: bool = INSECURE,
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object when it is up."),
) -> None:
    """Bring a lab up and leave it up until Ctrl-C or `datacast lab down`."""
    from datacast.cli.lab_show import Screen, sites_text, up_text
    from datacast.lab.down import describe
    from datacast.lab.lab import Lab
    from datacast.lab.signals import Signals
    from datacast.lab.site_lab import SitesLab
    from datacast.lab.state import lab_name

    screen = Screen(quiet=as_json)
    try:
        with (
            Signals(last=True) as signals,
            screen,
            (SitesLab if sites else Lab)(
                _options(
                    _network(topology, sites, dataplane, without, appliance_link, insecure),
                    link,
                    mtu,
                    queue,
                    dataplane,
                    rest_port,
                    fabric_port,
                    work,
                    realtime,
                    keep,
                    without,
                    appliance_link,
                    insecure,
                ),
                lab_name(name),
                screen.step,
                signals,
            ) as lab,
        ):
            lab.up()
            screen.close()
            assert lab.state is not None
            text = sites_text(lab) if isinstance(lab, SitesLab) else up_text(lab)
            print(json.dumps(describe(lab.state)) if as_json else text, flush=True)
            while True:
                lab.signals.sleep(0.5)
                lab.supervisor.check()
    except DatacastError as error:
        raise _fail(error) from error


def run(
    topology: str = TOPOLOGY,
    sites: Path = SITES,
    link: str = LINK,
    mtu: int = MTU,
    queue: int = QUEUE,
    dataplane: str = DATAPLANE,
    without: str = WITHOUT,
    appliance_link: str = APPLIANCE_LINK,
    size: str = typer.Option(None, "--size", help="Send so many random bytes, such as 256M (the default)."),
    file: Path = typer.Option(None, "--file", help="Send this file instead."),
    source: str = typer.Option(None, "--from", help="Host or hosts with the file (default: the first one)."),
    to: str = typer.Option(
        "all", "--to", help="Receivers, by comma, or 'all' (of all sites); with --sites SITE/all too."
    ),
    trees: int = typer.Option(None, "--trees", min=1, max=64, help="Most trees to use."),
    cache: str = typer.Option(None, "--cache", help="Packet cache per tree at a branch node, such as 128K."),
    credits: int = typer.Option(None, "--credits", min=1, max=4096, help="Interests a receiver may have out (w)."),
    delta: str = typer.Option(None, "--delta", help="Rate added per interval without a duplicate, such as 5mbit."),
    cc: str = typer.Option(None, "--cc", help="Rate control: steady (default), or the paper's, datacast."),
    delivery: str = typer.Option(None, "--delivery", help="stable (where receivers differ) or together."),
    planner: str = typer.Option(None, "--planner", help="Whose trees with rates (planners/README.md)."),
    seed: int = typer.Option(None, "--seed", help="Seed of the random bytes."),
    fault: list[str] = typer.Option(
        [], "--fault", help="Break something meanwhile, such as 'link 00:0 down at 2s'; again for more."
    ),
    json_path: Path = typer.Option(None, "--json", help="Write the report to this file ('-': print it)."),
    name: str = NAME,
    rest_port: int = REST_PORT,
    fabric_port: int = FABRIC_PORT,
    work: Path = WORK,
    realtime: bool = REALTIME,
    keep: bool = KEEP,
    insecure: bool = INSECURE,
) -> None:
    """Bring a lab up, send one file to a group, verify every copy, report beside the ideal, take the lab down."""
    from datacast.cli.lab_show import Screen, print_report, print_sites_report
    from datacast.lab import run as lab_run
    from datacast.lab import site_run
    from datacast.lab import sites as wan
    from datacast.lab.content import parse_rate, parse_size
    from datacast.lab.faults import parse_faults
    from datacast.lab.lab import load_topology
    from datacast.lab.signals import Signals
    from datacast.lab.state import lab_name

    quiet = str(json_path) == "-"
    screen = Screen(quiet=quiet)
    try:
        given = {
            "trees": trees,
            "cache_bytes": parse_size(cache) if cache else None,
            "credits": credits,
            "cc": cc,
            "delivery": delivery,
            "planner": planner,
            "delta_bps": parse_rate(delta) if delta else None,
        }
        sources = [part.strip() for part in (source or "").split(",") if part.strip()]
        transfer = lab_run.Transfer(
            source=sources[0] if sources else None,
            other_sources=tuple(sources[1:]),
            receivers=None if to == "all" else tuple(part.strip() for part in to.split(",") if part.strip()),
            size=parse_size(size) if size else None if file else 256 << 20,
            file=file,
            seed=seed,
            options={key: value for key, value in given.items() if value is not None},
        )
        options = _options(
            _network(topology, sites, dataplane, without, appliance_link, insecure),
            link,
            mtu,
            queue,
            dataplane,
            rest_port,
            fabric_port,
            work,
            realtime,
            keep,
            without,
            appliance_link,
            insecure,
        )
        if sites:
            transfer = site_run.settle(wan.read(sites), transfer, fault)
        else:
            graph = load_topology(topology)
            transfer = replace(lab_run.settle(graph, transfer), faults=parse_faults(fault, graph, dataplane))
    except DatacastError as error:
        _complain(error)
        raise typer.Exit(USAGE) from error
    try:
        with Signals(last=True) as signals, screen:
            report = (site_run.go if sites else lab_run.run)(options, lab_name(name), transfer, screen, signals)
    except DatacastError as error:
        raise _fail(error) from error
    text = json.dumps(report, indent=1)
    if quiet:
        print(text)
    else:
        (print_sites_report if sites else print_report)(report)
        if json_path:
            json_path.write_text(text + "\n")
            print(f"report: {json_path}")
    raise typer.Exit(0 if report["ok"] else FAILED)


def down(name: str = NAME) -> None:
    """Take a lab down from another terminal, or clean up after one that was killed."""
    from datacast.lab.down import take_down
    from datacast.lab.state import lab_name

    try:
        state = take_down(lab_name(name))
    except DatacastError as error:
        raise _fail(error) from error
    print(f"lab {state.name!r} is down")


def status(as_json: bool = typer.Option(False, "--json", help="Print JSON for machines.")) -> None:
    """List the labs of this machine."""
    from datacast.lab.down import describe
    from datacast.lab.state import Registry

    labs = [describe(state) for state in Registry().all()]
    if as_json:
        print(json.dumps(labs, indent=1))
        return
    if not labs:
        print("no lab is running")
    for lab in labs:
        print(
            f"{lab['name']}: {lab['status']}, {lab['topology']}, process {lab['pid']} with {lab['processes']} more, "
            f"REST {lab['rest']}, files in {lab['work']}"
        )
