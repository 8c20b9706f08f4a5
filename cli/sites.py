"""`datacast sites`: the file of other sites that `datacast-controller --sites` reads (docs/sites.md)."""

from __future__ import annotations

import contextlib
import json
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from datacast.core.errors import DatacastError

from .connection import Controller, TokenFile, connect

if TYPE_CHECKING:
    from datacast.services.sites_file import Sites

File = Annotated[Path, typer.Argument(metavar="FILE", help="The controller's file of sites.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The site's name, the same everywhere.")]
Url = Annotated[str | None, typer.Option(metavar="https://HOST:PORT", help="Of its controller; none: it comes to us.")]
Authority = Annotated[
    Path, typer.Option("--ca", metavar="PEM", help="Certificate of its authority (its ca.pem, from `datacast certs`).")
]

FAILED, USAGE = 1, 2
HELP = """Make this site known to others, and others to it.

FILE is what `datacast-controller --sites FILE` reads, also while it runs. A group's receivers may then be SITE/HOST,
SITE/all, or */all: every host here and at every site below."""


def register(app: typer.Typer) -> None:
    sites = typer.Typer(help=HELP, no_args_is_help=True)
    sites.command("init")(init)
    sites.command("add")(add)
    sites.command("remove")(remove)
    sites.command("list")(listing)
    app.add_typer(sites, name="sites")


def init(
    file: File,
    name: Name,
    url: Annotated[str, typer.Option(metavar="https://HOST:PORT", help="Where hosts here reach the controller.")],
) -> None:
    """Make the file, with this site's own name."""
    if file.exists():
        raise _fail(f"{file} exists already")
    _write(file, {"name": name, "url": url, "sites": {}})
    print(f"{file}: site {name}; start the controller with --sites {file.absolute()}")


def add(file: File, name: Name, ca: Authority, url: Url = None) -> None:
    """Make another site known; what was said of it before is replaced."""
    try:
        authorities = ssl.create_default_context(cafile=str(ca)).get_ca_certs()
        why = "" if authorities else "the certificate is no authority's"
    except OSError as error:  # of TLS too
        why = "no certificate stands there" if isinstance(error, ssl.SSLError) else str(error.strerror)
    if why:
        raise _fail(f"--ca {ca}: {why}: give the other site's ca.pem", USAGE)
    with _changing(file) as known:
        known["sites"][name] = {"ca": str(ca.absolute()), **({"url": url} if url else {})}
    print(f"{file}: site {name} is known")


def remove(file: File, name: Name) -> None:
    """Forget a site: it is refused from then on."""
    with _changing(file) as known:
        if known["sites"].pop(name, None) is None:
            raise _fail(f"{file}: no site {name} is known")
    print(f"{file}: site {name} is forgotten")


def listing(
    controller: Controller = "",
    token_file: TokenFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """What the controller knows of other sites now."""
    from datacast.controller.api import DEFAULT_URL

    with connect(controller or DEFAULT_URL, token_file) as client:
        rows = client.sites()
    if as_json:
        print(json.dumps(msgspec.to_builtins(rows), indent=1))
        return
    for row in rows:
        state = ", but ".join(filter(None, ["there" if row.there else "", row.problem])) or "not heard of"
        print(f"{row.name:16} {row.url or 'comes to us':40} {state}")
    if not rows:
        print("no other site is known")


def _read(file: Path) -> Sites:
    from datacast.services import sites_file

    try:
        return sites_file.read(file)
    except DatacastError as error:
        raise _fail(error.message, USAGE) from error


@contextlib.contextmanager
def _changing(file: Path) -> Iterator[dict[str, Any]]:
    """What it says, to be changed in place; written when the block ends well. One command at a time."""
    from datacast.services import durable

    _read(file)  # where there is none, no lock is made for it
    try:
        with durable.locked(file):
            known = _read(file).model_dump(exclude_none=True)
            yield known
            _write(file, known)
    except OSError as error:
        raise _fail(f"cannot write {file}: {error.strerror}") from error


def _write(file: Path, what: dict[str, object]) -> None:
    from pydantic import ValidationError

    from datacast.services import sites_file

    try:
        sites_file.write(file, sites_file.Sites.model_validate(what))
    except ValidationError as error:
        raise _fail(sites_file.first_of(file, error), USAGE) from error
    except DatacastError as error:
        raise _fail(error.message, FAILED if isinstance(error.__cause__, OSError) else USAGE) from error


def _fail(text: str, code: int = FAILED) -> typer.Exit:
    print(f"datacast sites: {text}", file=sys.stderr)
    return typer.Exit(code)
