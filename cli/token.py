"""`datacast token`: tokens for the REST API, in the file that `datacast-controller --tokens` reads."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from datacast.services.tokens import Token

File = Annotated[Path, typer.Argument(metavar="FILE", help="The controller's token file.")]
Role = Literal["viewer", "operator", "admin"]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]

HELP = """Make, list and revoke tokens for the REST API.

FILE is what `datacast-controller --tokens FILE` reads, also while it runs. It holds hashes; a token itself is shown
once. Roles: viewer (look), operator (order and cancel groups too), admin (change sets, cordons, caps and the topology
too)."""


def register(app: typer.Typer) -> None:
    token = typer.Typer(help=HELP, no_args_is_help=True)
    token.command("create")(create)
    token.command("list")(listing)
    token.command("revoke")(revoke)
    app.add_typer(token, name="token")


def create(
    file: File,
    role: Annotated[Role, typer.Option(help="What it may do.")] = "operator",
    name: Annotated[str, typer.Option(help="Whose it is, for the list.")] = "",
    days: Annotated[float | None, typer.Option(metavar="N", min=0.01, max=36500, help="How long it holds.")] = None,
    as_json: Json = False,
) -> None:
    """Make a token and print it: the only time it is shown. Use it with `datacast --token-file` or $DATACAST_TOKEN."""
    from datacast.services import tokens

    token, secret = tokens.create(file, name, role, days)
    print(json.dumps({**_shown(token), "token": secret}) if as_json else secret)


def listing(file: File, as_json: Json = False) -> None:
    """List the tokens: id, role, name, end."""
    from datacast.core.visible import visible
    from datacast.services import tokens

    found = tokens.read(file, service=False)
    if as_json:
        print(json.dumps([_shown(token) for token in found], indent=1))
        return
    for token in found:
        until = "for ever" if token.expires is None else f"{'expired' if token.expired else 'until'} {token.expires}"
        print(f"{token.id}  {token.role:8}  {until}  {visible(token.name)}")


def revoke(
    file: File, number: Annotated[str, typer.Argument(metavar="ID", help="As `list` shows it.")], as_json: Json = False
) -> None:
    """Take a token back. A running controller refuses it from its next request on."""
    from datacast.core.visible import visible
    from datacast.services import tokens

    token = tokens.revoke(file, number)
    print(json.dumps(_shown(token)) if as_json else f"{token.id} ({visible(token.name) or token.role}) is revoked")


def _shown(token: Token) -> dict[str, object]:
    return {key: value for key, value in asdict(token).items() if key != "sha256"}
