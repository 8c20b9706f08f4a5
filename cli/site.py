"""`datacast init`: what a site needs, from one file: authority, certificates, token, configuration of every machine."""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from datacast.core.errors import DatacastError

if TYPE_CHECKING:
    import networkx as nx

    from datacast.cli.site_file import Machine, Site
    from datacast.services.authority import Identity

ETC = "etc/datacast"
EXAMPLE = """topology: bcube:2,1        # or a GraphML or JSON file
controller: 192.0.2.1      # its address on the management network
link-rate: 10gbit
mtu: 9000
hosts:
  "00": {address: 192.0.2.10, ports: [eth1, eth2]}
switches:
  s0.0: {address: 192.0.2.50, ports: [eth1, eth2]}
"""
HELP = f"""Make a site in one go.

SITE is a YAML file; ports are interfaces by number, as in the topology:

\b
{EXAMPLE}
FOLDER gets the authority (its key stays there), a tarball per machine to unpack at /, an Ansible inventory, a token."""


def register(app: typer.Typer) -> None:
    app.command("init", help=HELP)(init)


def init(
    site: Annotated[Path, typer.Argument(metavar="SITE", help="The YAML file.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Made here; must not exist.")],
    days: Annotated[float, typer.Option("--days", metavar="N", min=1, max=3650, help="Certificates hold.")] = 365,
) -> None:
    from datacast.cli.site_file import load

    plan, graph = load(site)
    make(plan, graph, folder, days)
    print(
        f"{folder / 'controller.tar.gz'}: unpack it at / of {plan.controller}, then "
        "systemctl enable --now datacast-fabric-manager datacast-controller\n"
        f"{folder / 'hosts'}, {folder / 'switches'}: one for each machine, then systemctl enable --now datacast-agent "
        "(datacast-switch)\n"
        f"or, with keys that never travel: datacast admit {folder}, and `datacast join` there\n"
        f"{folder / 'inventory.ini'}: the same machines for Ansible\n"
        f"{folder / 'token'}: an administrator's token for REST and console\n"
        f"{folder / 'authority' / 'ca.key'}: keep it here, and safe"
    )


def make(site: Site, graph: nx.Graph, folder: Path, days: float) -> None:
    """Write everything, or nothing. Raises DatacastError when the folder is there already."""
    try:
        folder.mkdir(mode=0o700, parents=True)
    except FileExistsError as error:  # another authority in its place would know none of the machines
        text = f"{folder} is there already: a site is made once; give a folder that is not there"
        raise DatacastError(text, what=str(folder)) from error
    except OSError as error:
        raise DatacastError(f"{folder} cannot be made: {error.strerror}", what=str(folder)) from error
    try:
        _fill(site, graph, folder, days)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise DatacastError(f"{folder} cannot be made: {error.strerror}", what=str(folder)) from error
        raise


def _fill(site: Site, graph: nx.Graph, folder: Path, days: float) -> None:
    import json

    from datacast import topologies
    from datacast.services.authority import Authority, Identity
    from datacast.services.tokens import create

    authority = Authority.create(folder / "authority", name="datacast site", days=3650)
    _, secret = create(folder / "tokens.json", "site", "admin")
    (folder / "token").touch(0o600)
    (folder / "token").write_text(secret + "\n")

    def pair(identity: str, name: str) -> dict[str, bytes]:
        cert, key = authority.issue(Identity.parse(identity), days=days)
        return {f"tls/{name}.pem": cert.read_bytes(), f"tls/{name}.key": key.read_bytes()}

    ca = {"tls/ca.pem": authority.ca.read_bytes()}
    files = ca | pair("fabric-manager/main", "fabric-manager") | pair("master/main", "master")
    files |= pair("controller/main", "controller") | {"tokens.json": (folder / "tokens.json").read_bytes()}
    files |= _services(site, graph)
    _pack(folder / "controller.tar.gz", files)
    for identity in machines(site):
        where = folder / ("hosts" if identity.role == "agent" else "switches")
        files = ca | pair(str(identity), identity.role) | machine_files(site, graph, identity)
        _pack(where / f"{_file(identity.names[0])}.tar.gz", files)
    # For `datacast admit`, which makes the same for a machine that brings a key of its own.
    content = site.model_dump(mode="json", by_alias=True) | {"topology": "topology.json"}
    (folder / "site.yaml").write_bytes(_yaml("site", content)["site.yaml"])
    (folder / "topology.json").write_text(json.dumps(topologies.to_json(graph), indent=1))
    (folder / "inventory.ini").write_text(_inventory(site))


def machines(site: Site) -> list[Identity]:
    """Who they are in their certificates: hosts, then switches."""
    from datacast.services.authority import Identity

    return [Identity("agent", (name,)) for name in site.hosts] + [Identity("switch", (name,)) for name in site.switches]


def machine_files(site: Site, graph: nx.Graph, identity: Identity) -> dict[str, bytes]:
    """The configuration of a host's agent, or of a switch."""
    (name,) = identity.names
    if identity.role == "switch":
        ports = [{"port": i, "iface": interface} for i, interface in enumerate(site.switches[name].ports)]
        switch = {
            "nodes": [{"name": name, "ports": ports}],
            "control": "/run/datacast/switch.sock",
            "fabric_manager": site.at(7500),
            "tls": {key.removeprefix("tls-"): value for key, value in _tls("switch").items()},
            "mtu": site.mtu,
        }
        return _yaml("switch", switch)
    machine = site.hosts[name]
    agent: dict[str, object] = {
        "node": name,
        "listen": machine.at(7600),
        "fabric-manager": site.at(7500),
        **_tls("agent"),
        "port": [f"{i}={interface}" for i, interface in enumerate(machine.ports)],
        "dest-root": ["/var/lib/datacast/received"],
        "source-root": ["/srv/datacast"],
    }
    if not graph.nodes[name]["forwards"]:
        agent["no-forward"] = True
    return _yaml("agent", agent)


def _services(site: Site, graph: nx.Graph) -> dict[str, bytes]:
    import json

    from datacast import topologies

    fabric = {
        "topology": f"/{ETC}/topology.json",
        "signalling": site.at(7500),
        "http": "127.0.0.1:7501",
        "store": "/var/lib/datacast/fabric.sqlite",
        "link-rate": site.link_rate,
        "mtu": site.mtu,
        **_tls("fabric-manager"),
        "master-cert": f"/{ETC}/tls/master.pem",
        "master-key": f"/{ETC}/tls/master.key",
    }
    controller = {
        "listen": "127.0.0.1:7580",
        "tokens": f"/{ETC}/tokens.json",
        "audit": "/var/log/datacast/audit.jsonl",
        "fabric-manager": "https://127.0.0.1:7501",
        **_tls("controller"),
    }
    topology = json.dumps(topologies.to_json(graph), indent=1).encode()
    return _yaml("fabric-manager", fabric) | _yaml("controller", controller) | {"topology.json": topology}


def _tls(name: str) -> dict[str, str]:
    return {
        "tls-ca": f"/{ETC}/tls/ca.pem",
        "tls-cert": f"/{ETC}/tls/{name}.pem",
        "tls-key": f"/{ETC}/tls/{name}.key",
    }


def _yaml(name: str, content: Mapping[str, object]) -> dict[str, bytes]:
    import yaml

    text = f"# /{ETC}/{name}.yaml, made by `datacast init`.\n" + yaml.safe_dump(content, sort_keys=False)
    return {f"{name}.yaml": text.encode()}


def _file(name: str) -> str:
    return name.replace("/", "_")


def _pack(path: Path, files: dict[str, bytes]) -> None:
    """A tarball of /etc/datacast, for the user `datacast` alone where it holds keys."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.touch(0o600)
    path.write_bytes(tarball(files))


def tarball(files: dict[str, bytes]) -> bytes:
    """By name beneath /etc/datacast."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(f"{ETC}/{name}")
            info.size, info.mode = len(content), 0o600 if name.endswith((".key", "tokens.json")) else 0o644
            info.uname = info.gname = "datacast"
            tar.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def _inventory(site: Site) -> str:
    def lines(machines: dict[str, Machine]) -> list[str]:
        return [f"{_file(name)} ansible_host={machine.address}" for name, machine in machines.items()]

    hosts, switches = lines(site.hosts), lines(site.switches)
    return "\n".join(
        [
            "[datacast_controller]",
            site.controller,
            "",
            "[datacast_hosts]",
            *hosts,
            "",
            "[datacast_switches]",
            *switches,
            "",
        ]
    )
