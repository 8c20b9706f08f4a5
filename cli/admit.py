"""`datacast admit`: lets machines join a site, each once, for some minutes. Runs where the site's authority is."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from datacast.services.authority import Identity
    from datacast.services.enrolment import Enrolment
    from datacast.services.service import HttpServer

PORT = 7582
CONNECTIONS_MAX = 64
HELP = """Let machines join a site.

FOLDER is what `datacast init` made; NAMES are hosts and switches of it (default: all). Prints the line to type on each:
datacast join URL TOKEN. Every token is for one machine and counts once; it ends with the time, or with this command if
that is earlier. The machine makes its own key. Exit code 1 when somebody did not come."""


def register(app: typer.Typer) -> None:
    app.command("admit", help=HELP)(admit)


def admit(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The site's.")],
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]…", help="Hosts and switches.")] = None,
    listen: Annotated[
        str | None, typer.Option("--listen", metavar="ADDRESS:PORT", help=f"Default: the controller's, port {PORT}.")
    ] = None,
    minutes: Annotated[float, typer.Option("--minutes", metavar="N", min=0.01, max=1440, help="So long.")] = 30,
    days: Annotated[float, typer.Option("--days", metavar="N", min=1, max=3650, help="Certificates hold.")] = 365,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each thing that happens.")] = False,
) -> None:
    from datacast.cli.site import machine_files, machines, tarball
    from datacast.cli.site_file import SiteError, at, load
    from datacast.services import durable, service, tls
    from datacast.services.authority import Authority, Identity
    from datacast.services.enrolment import Enrolment, make_app

    site, graph = load(folder / "site.yaml")
    authority = Authority.open(folder / "authority")
    known = {identity.names[0]: identity for identity in machines(site)}
    for name in names or ():
        if name not in known:
            files = f"{folder / 'site.yaml'} and {folder / site.topology}"
            raise SiteError(f"the site has no {name}; add it, with its cables, to {files}", what=name)
    certificates = folder / "joined"
    certificates.mkdir(mode=0o700, exist_ok=True)

    def tell(event: str, text: str, **facts: str) -> None:
        print(json.dumps({"event": event, **facts}) if as_json else text, flush=True)

    def pack(identity: Identity, certificate: bytes) -> bytes:
        files = machine_files(site, graph, identity)
        return tarball(files | {"tls/ca.pem": authority.ca.read_bytes(), f"tls/{identity.role}.pem": certificate})

    def joined(identity: Identity, certificate: bytes, where: str) -> None:
        durable.write(certificates / f"{identity.stem}.pem", certificate, 0o644, replace=True)
        tell("joined", f"{identity.names[0]} has joined from {where}", name=identity.names[0], address=where)

    def refused(where: str, why: str) -> None:
        tell("refused", f"refused {where}: {why}", address=where, why=why)

    enrolment = Enrolment(authority, pack, days)
    address = listen or site.at(PORT)
    sock = service.listen(address)
    bound, _, port = service.address_of(sock).rpartition(":")
    host = bound.strip("[]")
    if ipaddress.ip_address(host).is_unspecified:
        host = site.controller
    url = f"https://{at(host, int(port))}"
    with tempfile.TemporaryDirectory() as work:
        # It names no process of the fabric: it is good for this door only.
        cert, key = authority.issue(
            Identity.parse("controller/door"),
            uris=(),
            ip=(host,),
            days=minutes / 1440 + 1,
            stem=Path(work) / "door",
        )
        context = tls.https_context(str(cert), str(key))
    server = service.HttpServer(make_app(enrolment, joined, refused), sock, context, CONNECTIONS_MAX)
    for name in names or known:
        token = enrolment.admit(known[name], time.monotonic(), minutes * 60)
        line = f"datacast join {url} {token}"
        tell("admitted", f"{name}: {line}", name=name, url=url, token=token)
    late = asyncio.run(_serve(server, enrolment))
    for identity in late:
        tell("missing", f"{identity.names[0]} did not come", name=identity.names[0])
    raise typer.Exit(1 if late else 0)


async def _serve(server: HttpServer, enrolment: Enrolment) -> list[Identity]:
    """Until all have come, the time is over, or somebody ends it. Returns who did not come."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    everybody = enrolment.waits(float("-inf"))
    await server.start()
    while enrolment.waits(time.monotonic()) and not stop.is_set():
        try:
            await asyncio.wait_for(stop.wait(), 0.25)
        except TimeoutError:
            continue
    await server.stop()
    still = enrolment.waits(float("-inf"))
    return [identity for identity in everybody if identity in still]
