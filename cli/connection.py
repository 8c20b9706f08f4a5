"""How a command finds the controller, and with which token."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

import typer

from datacast.controller.api import DEFAULT_URL, ENV_TOKEN, ENV_URL, ControllerClient
from datacast.services.problems import Problem

TOKEN_MAX = 4096

Controller = Annotated[
    str,
    typer.Option(
        "--controller",
        metavar="URL",
        envvar=ENV_URL,
        help="The controller: http://host:port or unix:/path; several divided by commas.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        envvar="DATACAST_TOKEN_FILE",
        help="File with the token for the controller (else $DATACAST_TOKEN, ~/.config/datacast/token, or the lab's).",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def connect(controller: str, token_file: Path | None) -> ControllerClient:
    """With the token from --token-file, the environment, the user's file, or a lab at this address, the first there is.
    Who names no controller but a lab ($DATACAST_LAB) means the lab's. Raises Problem."""
    if controller == DEFAULT_URL and ENV_URL not in os.environ:
        controller = _lab_rest() or controller
    token = None if token_file else os.environ.get(ENV_TOKEN)
    own = Path(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "datacast", "token")
    theirs = own.is_absolute() and os.path.isfile(own)  # not where somebody has no home
    path = token_file or (own if theirs else _lab_token(controller))  # another user's is not there
    if not token and path is not None:
        try:
            with open(path, errors="replace") as file:
                token = file.read(TOKEN_MAX + 1).strip()
        except OSError as error:
            raise Problem(400, "bad_token_file", f"cannot read {path}: {error.strerror}", what=str(path)) from error
    if token and len(token) > TOKEN_MAX:
        raise Problem(400, "bad_token", f"no token is longer than {TOKEN_MAX} letters", what=str(path or ENV_TOKEN))
    if token and not re.fullmatch(r"[!-~]+", token):
        raise Problem(400, "bad_token", "the token holds spaces, or nothing that is one", what=str(path or ENV_TOKEN))
    return ControllerClient(controller, token=token)


def _lab_rest() -> str | None:
    """Of the lab that $DATACAST_LAB names. Raises Problem where there is none: another lab's is not meant."""
    from datacast.lab.state import NAME_ENV, Registry, lab_name

    if not os.environ.get(NAME_ENV):
        return None
    name = lab_name(None)
    state = Registry().load(name)
    if state is None or not state.rest:
        remedy = "`datacast lab status` lists the labs there are; --controller asks another"
        raise Problem(503, "no_lab", f"no lab {name!r} is up ({NAME_ENV})", what=name, remedy=remedy)
    return state.rest


def _lab_token(controller: str) -> Path | None:
    """Of a lab of this machine, for whoever may read its file."""
    from datacast.lab.state import Registry

    for state in Registry().all():
        path = Registry().folder(state.name) / "token"
        if state.rest == controller and os.access(path, os.R_OK):
            return path
    return None
