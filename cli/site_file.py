"""The file that `datacast init` reads: topology, controller, and every machine with its address and interfaces."""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from datacast.core.errors import UsageError
from datacast.core.quantities import parse_rate
from datacast.services.validation import first_error

if TYPE_CHECKING:
    import networkx as nx

INTERFACE = re.compile(r"[A-Za-z0-9_.:-]{1,15}")
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
"""As agents take one."""


class Checked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


def _address(value: str) -> str:
    given = ipaddress.ip_address(value)
    if given.is_unspecified or given.is_multicast:
        raise ValueError(f"{value} is no machine's address: give one that the others reach it at")
    return str(given)


def at(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


class Machine(Checked):
    """A host or a switch."""

    address: str
    """On the management network."""
    ports: tuple[Annotated[str, Field(min_length=1, max_length=15)], ...]
    """Interfaces by port number."""

    def at(self, port: int) -> str:
        return at(self.address, port)

    _checked = field_validator("address")(_address)

    @field_validator("ports")
    @classmethod
    def _interfaces(cls, ports: tuple[str, ...]) -> tuple[str, ...]:
        for port in ports:
            if not INTERFACE.fullmatch(port):
                raise ValueError(f"{port!r} is no interface")
            if ports.count(port) > 1:
                raise ValueError(f"{port} stands twice")
        return ports


class Site(Checked):
    topology: str
    controller: str
    link_rate: str = Field("10gbit", alias="link-rate")
    mtu: int = Field(9000, ge=576, le=16000)
    hosts: dict[str, Machine]
    switches: dict[str, Machine] = {}

    def at(self, port: int) -> str:
        """There on the controller's machine."""
        return at(self.controller, port)

    _checked = field_validator("controller")(_address)

    @field_validator("link_rate")
    @classmethod
    def _rate(cls, rate: str) -> str:
        parse_rate(rate)
        return rate

    @field_validator("hosts", "switches")
    @classmethod
    def _named(cls, machines: dict[str, Machine]) -> dict[str, Machine]:
        for name in machines:
            if not NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no name for a machine: give 1 to 64 letters, digits or ._-")
        return machines


class SiteError(UsageError):
    """The file, what is wrong with it, and what helps."""


def load(path: Path) -> tuple[Site, nx.Graph]:
    """Read and hold against the topology. Raises DatacastError."""
    from datacast import topologies
    from datacast.services import yaml_file

    try:
        site = Site.model_validate(yaml_file.read(path))
    except OSError as error:
        raise SiteError(f"cannot be read: {error.strerror}", what=str(path), where=str(path)) from error
    except ValidationError as error:
        name, text = first_error(error, "the file")
        raise SiteError(text, what=name, where=str(path)) from error
    except yaml_file.YamlError as error:
        raise SiteError(str(error), what=str(path), where=str(path)) from error
    spec = path.parent / site.topology
    graph = topologies.from_file(spec) if os.path.exists(spec) else topologies.parse(site.topology)
    for name, data in graph.nodes(data=True):
        kind = "hosts" if data["kind"] == "host" else "switches"
        machine = getattr(site, kind).get(name)
        if machine is None and kind == "switches":
            continue  # programmed by the controller, or not ours
        if machine is None:
            raise SiteError(f"{kind} has no {name}, which is in the topology", what=name, where=str(path))
        if len(machine.ports) != graph.degree[name]:
            raise SiteError(
                f"{name} has {len(machine.ports)} ports here and {graph.degree[name]} in the topology",
                what=name,
                where=str(path),
            )
    for kind in ("hosts", "switches"):
        at: dict[str, str] = {}
        for name, machine in getattr(site, kind).items():
            if (other := at.setdefault(machine.address, name)) != name:
                raise SiteError(f"{other} and {name} have the address {machine.address}", what=name, where=str(path))
            if name not in graph or (graph.nodes[name]["kind"] == "host") != (kind == "hosts"):
                raise SiteError(f"the topology has no {name} among its {kind}", what=name, where=str(path))
    return site, graph
