"""`--sites FILE`: several sites on a wide area of plain routers. site_lab.py makes a fabric of each.

    sites:
      ams: {hosts: 4, access: 100mbit, card: 1gbit}    # hosts ams-0 … ams-3 behind one access link
      sfo: {hosts: 4, access: 100mbit, nat: true}      # nobody reaches its controller: it asks the others
    links:
      - {between: [ams, sfo], rate: 50mbit, delay_ms: 50}
    changes:
      - {at: 5s, between: [ams, sfo], rate: 10mbit}
      - {at: 8s, between: [ams, sfo], down_for: 5s}

Each site has a router that its hosts are on (`ams`) and a gateway (`ams-gw`); the cable between them is the access link
that all hosts of the site share. WAN links join gateways: with a rate, both ways, and a delay, each way. Sites that one
joins know each other. `changes` become faults of the run.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import networkx as nx
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from datacast.core.quantities import parse_rate
from datacast.lab.errors import LabError
from datacast.lab.plan import LINK_BPS_MIN
from datacast.services import yaml_file
from datacast.services.validation import first_error
from datacast.topologies.graph import DELAY_MS_MAX, add_host, add_link, add_switch, validate

SITES_MAX, HOSTS_MAX, CHANGES_MAX = 32, 64, 1000
NAME = re.compile(r"[a-z][a-z0-9]{0,5}")
"""Short: interfaces are called after nodes."""
Time = Annotated[str, Field(pattern=r"^[0-9]{1,8}(\.[0-9]{1,9})?(ms|s)$")]
"""As faults take it, and two of them together."""


def _rate(text: str) -> str:
    parse_rate(text, LINK_BPS_MIN)
    return text


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Site(_Part):
    hosts: Annotated[int, Field(ge=1, le=HOSTS_MAX)]
    access: str = "1gbit"
    card: str = "1gbit"
    nat: bool = False
    _check = field_validator("access", "card")(_rate)


class WanLink(_Part):
    between: tuple[str, str]
    rate: str
    delay_ms: Annotated[float, Field(ge=0, le=DELAY_MS_MAX)] = 0.0
    _check = field_validator("rate")(_rate)


class Change(_Part):
    """Exactly one of `rate` and `down_for`."""

    at: Time
    between: tuple[str, str]
    rate: str | None = None
    down_for: Time | None = None

    @field_validator("rate")
    @classmethod
    def _check(cls, rate: str | None) -> str | None:
        return rate if rate is None else _rate(rate)


class Sites(_Part):
    sites: Annotated[dict[str, Site], Field(min_length=1, max_length=SITES_MAX)]
    links: list[WanLink] = Field(default_factory=list)
    changes: Annotated[list[Change], Field(max_length=CHANGES_MAX)] = Field(default_factory=list)

    def neighbours(self, site: str) -> list[str]:
        """Over its WAN links."""
        pairs = [link.between for link in self.links if site in link.between]
        return [b if a == site else a for a, b in pairs]


def read(path: Path) -> Sites:
    """Raises LabError: no such file, no YAML, a key that is none, a link to nowhere, twice or to itself; sites that are
    not joined."""
    try:
        sites = Sites.model_validate(yaml_file.read(path))
    except OSError as error:
        raise LabError(f"{path}: {error.strerror}", what=str(path)) from error
    except ValidationError as error:
        where, text = first_error(error, "the file")
        raise LabError(f"{path}: {text}", what=where, remedy=__doc__.split("\n\n")[1]) from error
    except yaml_file.YamlError as error:
        raise LabError(f"{path} {error}", what=str(path)) from error
    _check(sites, path)
    return sites


def _check(sites: Sites, path: Path) -> None:
    for name in sites.sites:
        if not NAME.fullmatch(name):
            raise LabError(
                f"{path}: {name!r} is no name for a site", what=name, remedy="use up to six small letters and digits"
            )
    joined: set[frozenset[str]] = set()
    for link in sites.links:
        pair = frozenset(link.between)
        for name in sorted(pair - sites.sites.keys()):
            raise LabError(f"{path}: a link to {name}, which is no site", what=name)
        if len(pair) == 1 or pair in joined:
            raise LabError(
                f"{path}: a link between {' and '.join(link.between)} {'to itself' if len(pair) == 1 else 'twice'}",
                what="-".join(link.between),
            )
        if all(sites.sites[name].nat for name in pair):
            text = f"{path}: {' and '.join(link.between)} are both behind NAT: neither can ask the other"
            raise LabError(text, what="-".join(link.between), remedy="leave `nat` out at one of them")
        joined.add(pair)
    for change in sites.changes:
        what = "-".join(change.between)
        if frozenset(change.between) not in joined:
            raise LabError(f"{path}: a change of {what}, and there is no such link", what=what)
        if (change.rate is None) == (change.down_for is None):
            raise LabError(f"{path}: a change of {what} needs either rate or down_for", what=what)
    graph = nx.Graph([tuple(sorted(pair)) for pair in joined])
    graph.add_nodes_from(sites.sites)
    parts = sorted(([*part] for part in nx.connected_components(graph)), key=len)
    if len(parts) > 1:
        lost = ", ".join(sorted(parts[0]))
        raise LabError(f"{path}: no links lead from {lost} to the other sites", what=lost)


def graph(sites: Sites) -> nx.Graph:
    """The topology: hosts, a router and a gateway per site, WAN links with rate and delay."""
    g = nx.Graph(topology="sites")
    used: dict[str, int] = {}

    def port(node: str) -> int:
        used[node] = used.get(node, -1) + 1
        return used[node]

    def cable(u: str, v: str, rate: str, delay_ms: float = 0.0) -> None:
        add_link(g, u, port(u), v, port(v))
        g.edges[u, v]["rate_bps"] = parse_rate(rate)
        if delay_ms:
            g.edges[u, v]["delay_ms"] = delay_ms

    for name, site in sites.sites.items():
        for number in range(site.hosts):
            add_host(g, f"{name}-{number}")
    for name in sites.sites:
        add_switch(g, name)
        add_switch(g, f"{name}-gw")
    for name, site in sites.sites.items():
        for number in range(site.hosts):
            cable(f"{name}-{number}", name, site.card)
        cable(name, f"{name}-gw", site.access)
    for link in sites.links:
        cable(f"{link.between[0]}-gw", f"{link.between[1]}-gw", link.rate, link.delay_ms)
    return validate(g)


def faults(sites: Sites, g: nx.Graph) -> list[str]:
    """The changes, in the form of `--fault`."""
    out = []
    for change in sites.changes:
        u, v = (f"{name}-gw" for name in change.between)
        end = f"link {u}:{g.edges[u, v]['ports'][u]}"
        if change.rate is not None:
            out.append(f"{end} rate {change.rate} at {change.at}")
        else:
            assert change.down_for is not None
            over = _seconds(change.at) + _seconds(change.down_for)
            out.append(f"{end} down at {change.at}, up at {over:.9f}s")
    return out


def _seconds(text: str) -> float:
    return float(text[:-2]) / 1000 if text.endswith("ms") else float(text[:-1])
