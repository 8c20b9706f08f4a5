"""The options that say what a lab is: written once, taken by `datacast lab up` and `lab run`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from datacast.lab.plan import LINK_BPS_MIN, MTU_MAX, MTU_MIN, QUEUE_MAX, QUEUE_MIN

if TYPE_CHECKING:
    from datacast.lab.lab import LabOptions

Option = typer.Option
Name = Annotated[str | None, Option(help="Name of the lab, for several at once (default: $DATACAST_LAB, else 'lab').")]
NOT_OF_SITES = ("topology", "dataplane", "without_appliance", "appliance_link", "insecure")


@dataclass(frozen=True)
class LabFlags:
    topology: Annotated[str, Option(help="bcube:n,k, fattree:n,k, torus:n,k, or a GraphML or JSON file.")] = "bcube:4,1"
    sites: Annotated[
        Path | None, Option(help="A file of sites on a wide area (lab/README.md), each with its controller.")
    ] = None
    link: Annotated[str, Option(help="Rate of every link, each way.")] = "100mbit"
    mtu: Annotated[int, Option(min=MTU_MIN, max=MTU_MAX, help="MTU of every link.")] = 9000
    queue: Annotated[int, Option(min=QUEUE_MIN, max=QUEUE_MAX, help="Packets that the queue of a port holds.")] = 100
    dataplane: Annotated[
        str, Option(help="dpdk, ovs, bmv2, p4 (no appliance), ovs+dpdk; memif: hosts in memory; ip: plain routers.")
    ] = "dpdk"
    without_appliance: Annotated[
        str | None, Option(help="Switches whose cache appliance is absent, by comma, or 'all' (ovs, bmv2).")
    ] = None
    appliance_link: Annotated[
        str | None, Option(help="Rate of the link between a switch and its cache appliance (default: unshaped).")
    ] = None
    name: Name = None
    rest_port: Annotated[int | None, Option(min=1, max=65535, help="Port of the REST API on loopback.")] = None
    fabric_port: Annotated[int | None, Option(min=1, max=65535, help="Port of the fabric manager on loopback.")] = None
    work: Annotated[Path | None, Option(help="Folder for the hosts' files (default: memory or disk, by size).")] = None
    realtime: Annotated[bool, Option(help="Let switches and agents run before everything else on this machine.")] = True
    keep: Annotated[bool, Option("--keep", help="Leave the hosts' files and the logs behind.")] = False
    insecure: Annotated[bool, Option("--insecure", help="No TLS between the daemons (by default all speak it).")] = (
        False
    )

    def network(self) -> str:
        """A topology, or the file of sites, with which some of the others say nothing. Raises LabError."""
        from datacast.lab.errors import LabError

        if not self.sites:
            return self.topology
        for f in fields(self):
            if f.name in NOT_OF_SITES and getattr(self, f.name) != f.default:
                name = "--" + f.name.replace("_", "-")
                remedy = "sites are plain routers, with TLS"
                raise LabError(f"{name} and --sites exclude each other", what=name, remedy=remedy)
        return str(self.sites)

    def options(self) -> LabOptions:
        """Raises LabError."""
        from datacast.core.quantities import parse_rate
        from datacast.lab.controlled import need_appliances, without_appliance
        from datacast.lab.lab import LabOptions, load_topology

        topology, without = self.network(), self.without_appliance
        if self.appliance_link:
            need_appliances("--appliance-link", self.dataplane)
        return LabOptions(
            topology=topology,
            rate_bps=parse_rate(self.link, LINK_BPS_MIN),
            mtu=self.mtu,
            queue_packets=self.queue,
            dataplane=self.dataplane,
            work=str(self.work) if self.work else None,
            realtime=self.realtime,
            keep=self.keep,
            without_appliance=without_appliance(without, load_topology(self.topology), self.dataplane)
            if without
            else (),
            appliance_bps=parse_rate(self.appliance_link, LINK_BPS_MIN) if self.appliance_link else 0,
            insecure=self.insecure,
            rest_port=self.rest_port or LabOptions.rest_port,
            fabric_port=self.fabric_port or LabOptions.fabric_port,
        )


def takes_lab(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose first parameter is a LabFlags, as one that has these options beside its own. typer reads a
    signature, and knows no options that several commands share."""
    hints = get_type_hints(LabFlags, include_extras=True)
    lab = [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
        for f in fields(LabFlags)
    ]
    own = [
        p.replace(kind=p.KEYWORD_ONLY) for p in list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    ]

    def told(**given: Any) -> None:
        command(LabFlags(**{p.name: given.pop(p.name) for p in lab}), **given)

    told.__name__, told.__doc__ = command.__name__, command.__doc__
    told.__annotations__ = {p.name: p.annotation for p in [*lab, *own]}
    told.__signature__ = inspect.Signature([*lab, *own])  # type: ignore[attr-defined]
    return told
