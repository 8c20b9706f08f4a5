"""`datacast certs`: a fabric's own authority, and the certificates by which its processes know each other."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from datacast.services.authority import Authority, Identity

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The authority's folder.")]
Days = Annotated[float, typer.Option("--days", metavar="N", min=0.01, max=36500, help="How long they hold.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]

HELP = """Make a fabric's authority, and certificates for processes.

Keep DIR where certificates are made: ca.key must not leave it. Every machine gets ca.pem, and the pair of each of its
processes: --tls-ca ca.pem --tls-cert agent-00.pem --tls-key agent-00.key. Roles: agent, switch, master, fabric-manager,
controller."""


def register(app: typer.Typer) -> None:
    certs = typer.Typer(help=HELP, no_args_is_help=True)
    certs.command()(init)
    certs.command()(issue)
    certs.command()(renew)
    certs.command()(show)
    app.add_typer(certs, name="certs")


def init(
    folder: Folder,
    name: Annotated[str, typer.Option("--name", help="The authority's name.")] = "datacast",
    days: Days = 3650,
    as_json: Json = False,
) -> None:
    """Make an authority. An existing one is never overwritten."""
    from datacast.services.authority import Authority, describe

    authority = Authority.create(folder, name=name or "datacast", days=days)
    if as_json:
        print(json.dumps(asdict(describe(authority.ca))))
    else:
        print(f"{authority.ca}: give it to every machine\n{folder / 'ca.key'}: keep it here")


def issue(
    folder: Folder,
    who: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ROLE/NAME]…", help="Such as agent/00; switch/s0.0,s0.1 for one process of two nodes."),
    ] = None,
    topology: Annotated[
        str | None,
        typer.Option(metavar="SPEC|FILE", help="All nodes of a topology such as bcube:4,1, and one of each service."),
    ] = None,
    days: Days = 365,
    dns: Annotated[list[str] | None, typer.Option(metavar="NAME", help="A host name for https (controller).")] = None,
    ip: Annotated[list[str] | None, typer.Option(metavar="ADDRESS", help="An address for https (controller).")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Make anew what is there.")] = False,
    as_json: Json = False,
) -> None:
    """Make certificates with their keys. Nothing is written when one of them exists already."""
    from datacast.services.authority import Authority, Identity

    wanted = [Identity.parse(text) for text in who or ()]
    wanted += _of_topology(topology) if topology else []
    if not wanted:
        raise typer.BadParameter("name a process (ROLE/NAME), or give --topology")
    authority = Authority.open(folder)
    made = authority.issue_all(wanted, days=days, dns=dns or (), ip=ip or (), replace=replace)
    _print(authority, [cert for cert, _ in made], as_json)


def renew(
    folder: Folder,
    who: Annotated[list[str] | None, typer.Argument(metavar="[ROLE/NAME]…", help="These, whenever they end.")] = None,
    within: Annotated[
        float, typer.Option(metavar="DAYS", min=0, max=36500, help="Otherwise all that end within so many days.")
    ] = 30,
    days: Days = 365,
    as_json: Json = False,
) -> None:
    """Make certificates anew that expire soon or have expired. Keys are new, too; restart the processes afterwards."""
    from datacast.services.authority import Authority, AuthorityError, Identity, describe

    authority = Authority.open(folder)
    named = {Identity.parse(text).stem for text in who or ()}
    made: list[Path] = []
    for path in _certificates(folder):
        says = describe(path)
        if says.authority or says.identity is None:
            continue
        if path.stem in named or (not named and says.days_left < within):
            identity = Identity.parse(says.identity)
            stem = path.with_suffix("")
            cert, _ = authority.issue(identity, days=days, replace=True, stem=stem, dns=says.dns, ip=says.ip)
            named.discard(path.stem)
            made.append(cert)
    if named:
        missing = sorted(named)[0]
        raise AuthorityError(f"{folder} holds no {missing}.pem", missing, "make it with `datacast certs issue`")
    if not made and not as_json:
        print(f"nothing in {folder} ends within {within:g} days")
        return
    _print(authority, made, as_json)


def show(
    path: Annotated[Path, typer.Argument(metavar="DIR|FILE", help="An authority's folder, or a certificate.")],
    as_json: Json = False,
) -> None:
    """Show what certificates say. Exit code 1 when one has expired, is not valid yet, or is of another authority."""
    from datacast.core.visible import visible
    from datacast.services.authority import AuthorityError, describe, read_certificate

    folder = path if path.is_dir() else path.parent
    authority = read_certificate(folder / "ca.pem") if (folder / "ca.pem").exists() else None
    paths = _certificates(path) if path.is_dir() else [path]
    if not paths:
        raise AuthorityError(f"{path} holds no certificates", str(path), "make an authority with `datacast certs init`")
    found = [describe(one, authority) for one in paths]
    if as_json:
        print(json.dumps([asdict(says) for says in found], indent=1))
    else:
        for says in found:
            who = visible("authority" if says.authority else says.identity or "names nobody")
            names = "".join(f" {visible(name)}" for name in (*says.dns, *says.ip))
            left = f"until {says.not_after[:19]}Z ({says.days_left:.0f} days)"
            print(f"{says.file}: {who}{names}, {left}, {says.state.replace('_', ' ')}, serial {says.serial}")
    if any(says.state not in ("ok", "expires_soon") for says in found):
        raise typer.Exit(1)


def _certificates(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.pem") if not path.name.startswith("."))


def _of_topology(text: str) -> list[Identity]:
    """Raises TopologyError."""
    from datacast import topologies
    from datacast.services.authority import Identity

    graph: Any = topologies.from_file(text) if Path(text).exists() else topologies.parse(text)
    roles = {"host": "agent", "switch": "switch"}
    nodes = [f"{roles[data['kind']]}/{name}" for name, data in graph.nodes(data=True)]
    return [Identity.parse(one) for one in ("fabric-manager/main", "master/main", "controller/main", *nodes)]


def _print(authority: Authority, paths: list[Path], as_json: bool) -> None:
    from datacast.services.authority import describe

    found = [(describe(path, authority.certificate), str(path.with_suffix(".key"))) for path in paths]
    if as_json:
        print(json.dumps([{**asdict(says), "key": key} for says, key in found], indent=1))
        return
    for says, _ in found:
        print(f"{says.file}: {says.identity}, until {says.not_after[:19]}Z")
