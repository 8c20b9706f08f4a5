"""What REST and files of settings take, and what REST answers, beside tests/golden/rest.txt: bounds that change show.

Where one was to change, write the file anew and look at the difference:
    .venv/bin/python tests/controller/test_rest_golden.py >tests/golden/rest.txt
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from pydantic import BaseModel

from datacast.cli import site_file
from datacast.controller.app import make_app
from datacast.controller.southbound.config import Southbound
from datacast.fabric_manager.api import FabricManagerClient
from datacast.fabric_manager.http import make_app as make_fabric_app
from datacast.lab import sites
from datacast.services import sites_file

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "rest.txt"
SAID = {"description", "title", "examples", "example", "properties", "required", "discriminator"}
"""What is told and not held to, and what has lines of its own."""


def form(schema: Any) -> str:
    """A schema in a line: its type, its bounds, its default."""
    if not isinstance(schema, dict):
        return repr(schema)
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    words = []
    for key, value in sorted(schema.items()):
        if key in SAID:
            continue
        if key in ("anyOf", "allOf", "oneOf", "prefixItems"):
            words.append(f"{key}({' | '.join(map(form, value))})")
        elif key in ("items", "additionalProperties", "schema", "propertyNames"):
            words.append(f"{key}({form(value)})")
        else:
            words.append(f"{key}={value!r}")
    return " ".join(words)


def members(schema: dict[str, Any]) -> Iterator[str]:
    for name, member in schema.get("properties", {}).items():
        yield f"  {name}{'!' if name in schema.get('required', ()) else ''} {form(member)}"


def lines(described: dict[str, Any]) -> Iterator[str]:
    """`!`: it must be there."""
    for path, methods in described["paths"].items():
        for method, one in methods.items():
            yield f"{method.upper()} {path}"
            for given in one.get("parameters", []):
                must = "!" if given.get("required") else ""
                yield f"  {given['in']} {given['name']}{must} {form(given['schema'])}"
            body = one.get("requestBody", {})
            for kind, content in body.get("content", {}).items():
                yield f"  body{'!' if body.get('required') else ''} {kind} {form(content['schema'])}"
            for status, answer in one["responses"].items():
                kinds = [f"{kind} {form(c.get('schema', {}))}" for kind, c in answer.get("content", {}).items()]
                yield f"  {' '.join([status, *kinds])}".rstrip()
    for name, schema in described.get("components", {}).get("schemas", {}).items():
        yield f"{name} {form(schema)}"
        yield from members(schema)


def settings(*forms: type[BaseModel]) -> Iterator[str]:
    """Of files that operators write."""
    for one in forms:
        schema = one.model_json_schema()
        for name, part in [(one.__name__, schema), *schema.get("$defs", {}).items()]:
            yield name
            yield from members(part)


def whole() -> str:
    apps = {
        "controller": make_app(FabricManagerClient("http://127.0.0.1:9")),
        "fabric manager": make_fabric_app(MagicMock(), MagicMock(), MagicMock(), MagicMock()),
    }
    parts = {name: lines(app.openapi()) for name, app in apps.items()}
    parts["settings"] = settings(Southbound, sites_file.Sites, site_file.Site, sites.Sites)
    return "".join(f"# {name}\n" + "\n".join(part) + "\n" for name, part in parts.items())


def test_requests_answers_and_settings_are_what_they_were() -> None:
    assert whole() == GOLDEN.read_text()


if __name__ == "__main__":
    print(whole(), end="")
