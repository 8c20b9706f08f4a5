"""Where what is sent comes from: a file of hosts, a URL, or a name that means one."""

from __future__ import annotations

import base64
import os
import re
from typing import Any

import typer

from datacast.origins.names import SCHEMES, resolve
from datacast.origins.parts import Named, OriginError, Part

URLS = ("https://", "http://", "s3://")


def parse_sources(texts: list[str]) -> dict[str, Any]:
    """Hosts, separated by commas or given several times. Raises typer.BadParameter."""
    names = [name.strip() for text in texts for name in text.split(",") if name.strip()]
    if not names:
        raise typer.BadParameter("--from names no host: give the host that has the file")
    return {"source": names[0], **({"other_sources": names[1:]} if names[1:] else {})}


def look_up(name: str, *platform: str) -> Named:
    """As `resolve`. Raises typer.BadParameter for what is no name; OriginError for what it does not lead to."""
    try:
        return resolve(name, *platform)
    except OriginError as error:
        if error.code == "bad_origin":
            raise typer.BadParameter(error.message) from None
        raise


def named(name: str) -> dict[str, Any]:
    """What a name of a registry or a hub means, as a request has it. Raises typer.BadParameter."""
    found = look_up(name)
    if not found.folder:
        [part] = found.parts
        return {"url": part.url, **({"sha256": part.sha256} if part.sha256 else {})}
    return folder_spec(found, None, None)


def folder_spec(found: Named, fetchers: str | None, policy: str | None) -> dict[str, Any]:
    """Of several files. Raises typer.BadParameter."""
    parts = [_part(part) for part in found.parts]
    return {"url": found.name, "parts": parts, "dest_path": folder_of(found.name), **_who(fetchers, policy)}


def _part(part: Part) -> dict[str, Any]:
    told = {"path": part.path, "size": part.size, "sha256": part.sha256}
    return told | ({"url": part.url} if part.url else {"data": base64.b64encode(part.data).decode()})


def folder_of(name: str) -> str:
    """What an image or a repository is called at receivers, where nobody says: name, and tag or revision."""
    return re.sub("[:@]", "-", name.rpartition("/")[2])


def parse_origin(file: str, sources: list[str], fetchers: str | None, policy: str | None) -> dict[str, Any]:
    """A file of hosts, or a URL or name that receivers fetch. Raises typer.BadParameter."""
    if not file.startswith((*URLS, *SCHEMES)):
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", file) and not sources:
            raise typer.BadParameter(
                f"{file}: nobody fetches that; give {', '.join((*URLS, *SCHEMES))}, or a path and --from"
            )
        if fetchers or policy:
            raise typer.BadParameter("--fetchers and --origin-policy are for a URL in place of a file")
        return {**parse_sources(sources), "source_path": os.path.abspath(file)}
    if sources:
        raise typer.BadParameter("--from is for a file of a host; a URL is fetched by receivers (--fetchers)")
    spec: dict[str, Any] = named(file) if file.startswith(SCHEMES) else {"url": file}
    return spec | _who(fetchers, policy)


def _who(fetchers: str | None, policy: str | None) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    if fetchers:
        names = [name.strip() for name in fetchers.split(",") if name.strip()]
        spec["fetchers"] = "all" if names == ["all"] else int(fetchers) if fetchers.isdecimal() else names
    return spec | ({"origin_policy": policy} if policy else {})
