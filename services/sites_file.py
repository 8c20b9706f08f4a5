"""The file of `--sites`: this site's name, and the sites it knows, each by name, authority and URL.

    name: ams
    url: https://10.1.0.2:7580          where this site's own hosts reach the controller
    sites:
      sfo: {ca: /etc/datacast/sfo-ca.pem, url: https://sfo.example:7580}
      syd: {ca: /etc/datacast/syd-ca.pem}          no URL: it comes to us, from behind NAT

A site with a URL is asked for orders, and for what it has. One without only asks us. The file is read again when it
changes; one that cannot be used leaves what was known before.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from datacast.core.errors import DatacastError

from . import durable, yaml_file
from .address import AddressError, host_of
from .validation import first_error

SITES_MAX = 256
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$"
FILE_MAX = 1 << 20
Name = Annotated[str, Field(pattern=NAME)]


def _url(text: str) -> str:
    """Raises ValueError: whoever asks there would find out, again and again."""
    try:
        host_of(text)
    except AddressError as error:
        raise ValueError(f"{text!r} is not https://HOST:PORT") from error
    return text


Url = Annotated[str, Field(pattern=r"^https://[^/@\s]{1,255}$"), AfterValidator(_url)]


class SiteError(DatacastError):
    """A file of sites that cannot be used, or a site that cannot be spoken with. `code` for machines."""

    def __init__(self, message: str, what: str = "", code: str = "site", remedy: str = "") -> None:
        super().__init__(message, what=what)
        self.code, self.remedy = code, remedy


class Site(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    ca: Annotated[str, Field(min_length=1, max_length=4096)]
    """PEM file with the certificate of its authority."""
    url: Url | None = None
    """https://HOST:PORT of its controller."""


class Sites(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name
    url: Url
    sites: Annotated[dict[Name, Site], Field(max_length=SITES_MAX)] = {}


def read(path: Path) -> Sites:
    """Raises SiteError: no such file, no YAML, a key that is none, a name twice."""
    try:
        sites = Sites.model_validate(yaml_file.read(path, FILE_MAX))
    except OSError as error:
        raise SiteError(
            f"cannot read {path}: {error.strerror}", str(path), remedy="`datacast sites init` makes one"
        ) from error
    except ValidationError as error:
        raise SiteError(first_of(path, error), str(path)) from error
    except yaml_file.YamlError as error:
        raise SiteError(f"{path} {error}", str(path)) from error
    _check(path, sites)
    return sites


def first_of(path: Path, error: ValidationError) -> str:
    """What is wrong there, for a person."""
    name = "a name of letters, digits, '.', '_' and '-', 32 at most"
    _, text = first_error(error, "the file", form=lambda key: "https://HOST:PORT" if key == "url" else name)
    return f"{path}: {text}"


def _check(path: Path, sites: Sites) -> None:
    if "all" in (sites.name, *sites.sites):
        raise SiteError(f"{path}: a site cannot be called all: that stands for every host", "all")
    if sites.name in sites.sites:
        raise SiteError(
            f"{path}: two sites of the name {sites.name}: this one, and one that it knows", sites.name, "two_of_a_name",
            "sites that deal with each other need names of their own",
        )  # fmt: skip


def write(path: Path, sites: Sites) -> None:
    """Raises SiteError; also when it would not be read again."""
    _check(path, sites)
    try:
        durable.write(
            path, yaml.safe_dump(sites.model_dump(exclude_none=True), sort_keys=False).encode(), 0o644, replace=True
        )
    except OSError as error:
        raise SiteError(f"cannot write {path}: {error.strerror}", str(path)) from error


def host_port(url: str) -> str:
    """The part of a controller's URL that stands in site://…"""
    parts = urlsplit(url)
    return parts.netloc if parts.port else f"{parts.netloc}:443"


def is_name(text: str) -> bool:
    return re.match(NAME, text) is not None
