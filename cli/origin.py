"""Where what is sent comes from: a file of hosts, a URL, or a name that means one."""

from __future__ import annotations

import base64
import os
import re
from dataclasses import replace
from typing import cast

import typer

from datacast.fabric_manager.api import GroupSpec, OriginPolicy, PartSpec
from datacast.origins.names import SCHEMES, resolve
from datacast.origins.parts import Named, OriginError, Part

URLS = ("https://", "http://", "s3://")


def parse_sources(texts: list[str]) -> list[str]:
    """Hosts, separated by commas or given several times, at least one. Raises typer.BadParameter."""
    names = [name.strip() for text in texts for name in text.split(",") if name.strip()]
    if not names:
        raise typer.BadParameter("--from names no host: give the host that has the file")
    return names


def look_up(name: str, *platform: str) -> Named:
    """As `resolve`. Raises typer.BadParameter for what is no name; OriginError for what it does not lead to."""
    try:
        return resolve(name, *platform)
    except OriginError as error:
        if error.code == "bad_origin":
            raise typer.BadParameter(error.message) from None
        raise


def named(name: str) -> GroupSpec:
    """What a name of a registry or a hub means, as a request has it. Raises typer.BadParameter."""
    found = look_up(name)
    if not found.folder:
        [part] = found.parts
        return GroupSpec(url=part.url, sha256=part.sha256 or None)
    return folder_spec(found)


def folder_spec(found: Named) -> GroupSpec:
    """Of several files."""
    return GroupSpec(url=found.name, parts=[_part(part) for part in found.parts], dest_path=folder_of(found.name))


def _part(part: Part) -> PartSpec:
    data = "" if part.url else base64.b64encode(part.data).decode()
    return PartSpec(path=part.path, size=part.size, sha256=part.sha256, url=part.url, data=data)


def folder_of(name: str) -> str:
    """What an image or a repository is called at receivers, where nobody says: name, and tag or revision."""
    return re.sub("[:@]", "-", name.rpartition("/")[2])


def parse_origin(file: str, sources: list[str], fetchers: str | None, policy: str | None) -> GroupSpec:
    """A file of hosts, or a URL or name that receivers fetch. Raises typer.BadParameter."""
    if any("\udc80" <= letter <= "\udcff" for letter in file):
        remedy = "keys of S3 are" if file.startswith("s3://") else "rename it, or send the folder that it lies in"
        raise typer.BadParameter(f"{file!r} is no UTF-8: {remedy}")
    if not file.startswith((*URLS, *SCHEMES)):
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", file) and not sources:
            raise typer.BadParameter(
                f"{file}: nobody fetches that; give {', '.join((*URLS, *SCHEMES))}, or a path and --from"
            )
        if not sources and (found := re.match("([a-z0-9]+):/?", file)) and f"{found[1]}://" in (*URLS, *SCHEMES):
            meant = f"{found[1]}://{file[found.end() :]}"
            raise typer.BadParameter(f"{file}: is {meant} meant? A file of a host needs --from")
        if fetchers or policy:
            raise typer.BadParameter("--fetchers and --origin-policy are for a URL in place of a file")
        if not file:  # os.path.abspath would make the working folder of it
            raise typer.BadParameter("FILE is empty: give the file's path at the source, or a URL")
        first, *others = parse_sources(sources)
        return GroupSpec(source=first, other_sources=others, source_path=os.path.abspath(file))
    if sources:
        raise typer.BadParameter("--from is for a file of a host; a URL is fetched by receivers (--fetchers)")
    spec = named(file) if file.startswith(SCHEMES) else GroupSpec(url=file)
    return with_fetchers(replace(spec, origin_policy=cast(OriginPolicy, policy or spec.origin_policy)), fetchers)


def with_fetchers(spec: GroupSpec, fetchers: str | None) -> GroupSpec:
    """`all`, how many, or which."""
    if fetchers is None:
        return spec
    names = [name.strip() for name in fetchers.split(",") if name.strip()]
    if not names or re.fullmatch(r"[+-][0-9]+|[0-9]+\.[0-9]*", fetchers):
        raise typer.BadParameter(f"--fetchers {fetchers!r}: give how many, all, or receivers")
    return replace(spec, fetchers="all" if names == ["all"] else int(fetchers) if fetchers.isdecimal() else names)
