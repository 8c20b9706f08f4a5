"""`datacast prepull`: an image's layers onto hosts before a container there wants them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Annotated

import typer

from datacast.controller.api import DEFAULT_URL
from datacast.fabric_manager.api import Fetchers
from datacast.fabric_manager.api.records import Receiver
from datacast.fabric_manager.api.reports import GroupFailure

from .arguments import with_receivers
from .connection import Controller, Json, TokenFile, connect
from .origin import folder_spec, look_up, with_fetchers
from .output import json_text
from .showing import show_group
from .starting import Ending

HAD = ("exists", "is_directory")
"""What a receiver says that has the image: it is called by its digest."""


def register(app: typer.Typer) -> None:
    app.command("prepull")(prepull)


def oci_name(image: str) -> str:
    """`oci://HOST/NAME:TAG` of what containerd calls an image: `debian`, `docker.io/library/debian`, `host:5000/x`."""
    if image.startswith("oci://"):
        return image
    first, _, rest = image.partition("/")
    if rest and ("." in first or ":" in first or first == "localhost"):
        host, name = first, rest
    else:
        host, name = "docker.io", image
    return f"oci://{host}/{name if host != 'docker.io' or '/' in name else 'library/' + name}"


def prepull(
    image: Annotated[str, typer.Argument(metavar="IMAGE", help="As containerd names it, or oci://HOST/NAME:TAG.")],
    to: Annotated[list[str], typer.Option("--to", metavar="HOST,HOST…|all|@SET", help="The hosts.")],
    fetchers: Annotated[
        str | None, typer.Option(metavar="N|all|HOST,…", help="How many hosts fetch, or which (default: 8 at most).")
    ] = None,
    platform: Annotated[str, typer.Option(metavar="OS/ARCH", help="Of an image for several.")] = "linux/amd64",
    dest: Annotated[str, typer.Option(metavar="PATH", help="The mirrors' --dest.")] = "mirror",
    as_json: Json = False,
    controller: Controller = DEFAULT_URL,
    token_file: TokenFile = None,
) -> None:
    """Put an image on hosts, where their containerd finds it (datacast-mirror). Each byte leaves the registry once.

    Exit code 0 when every host has it, 1 when any has not; a host that had it already has it. Ctrl-C cancels it, and so
    does SIGTERM.
    """
    name = oci_name(image)
    if not re.fullmatch("[a-z0-9]+/[a-z0-9]+(/[a-z0-9]+)?", platform):
        raise typer.BadParameter(f"--platform {platform!r}: give OS/ARCH, such as linux/arm64")
    if not dest:
        raise typer.BadParameter("--dest is empty: give the folder that the mirrors have as theirs")
    found = look_up(name, platform)
    index = next((part for part in found.parts if part.path == "index.json"), None)
    if index is None:
        raise typer.BadParameter(f"{name} is a layer; give an image")
    digest = json.loads(index.data)["manifests"][0]["digest"]
    spec = with_receivers(with_fetchers(folder_spec(found), fetchers), to)
    spec = replace(spec, dest_path=f"{dest.rstrip('/')}/images/{digest.removeprefix('sha256:')}")
    with connect(controller, token_file) as client, Ending() as ending:
        group = ending.carried_out(client, spec, as_json=as_json)
        rows = group.receivers.items()
        had = [host for host, row in rows if _had(row, group.error)]
        lacking = [host for host, row in rows if row.state != "done" and host not in had]
        if had and lacking:  # those who were to fetch had it
            spec = replace(spec, receivers=lacking, receiver_set=None, fetchers=_among(spec.fetchers, lacking))
            group = ending.carried_out(client, spec, as_json=as_json)
            lacking = [host for host, row in group.receivers.items() if row.state != "done"]
    if as_json:
        print(json_text(group))
    elif len(had) < len(group.receivers):
        show_group(group)
    if had and not as_json:
        print(f"had it already: {', '.join(had)}")
    raise typer.Exit(1 if lacking else 0)


def _among(fetchers: Fetchers, hosts: list[str]) -> Fetchers:
    """Who of them fetches, where fetchers were named; whoever does by default, when it is none of them."""
    return [name for name in fetchers if name in hosts] or None if isinstance(fetchers, list) else fetchers


def _had(row: Receiver, of_the_group: GroupFailure | None) -> bool:
    """Itself: where all fetchers had it, the group fails, and who lacks it has the group's error."""
    error = row.error
    return row.state == "failed" and error is not None and error.code in HAD and error != of_the_group
