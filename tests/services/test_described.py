"""Records that msgspec reads and writes, as pydantic describes them in OpenAPI."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from pydantic import TypeAdapter

from datacast.services.described import Described, part_of


class Part(Described, msgspec.Struct, frozen=True):
    """A part
    of it."""

    parent: str = msgspec.field(name="from")
    """Where it
    comes from."""
    bps: int = 7


class Whole(Described, msgspec.Struct, frozen=True, kw_only=True):
    parts: list[Part]
    """What it is made of."""
    first: Part | None = None
    told: int | UnsetType = UNSET
    """Left out where nobody told."""


class Larger(Whole, frozen=True, kw_only=True):
    name: str


def schema(form: type) -> dict[str, Any]:
    return TypeAdapter(form).json_schema(mode="serialization")


def test_members_have_their_names_defaults_and_notes() -> None:
    assert schema(Part) == {
        "title": "Part",
        "type": "object",
        "description": "A part\nof it.",
        "properties": {
            "from": {"title": "From", "type": "string", "description": "Where it comes from."},
            "bps": {"title": "Bps", "type": "integer", "default": 7},
        },
        "required": ["from"],
    }


def test_what_is_left_out_where_nobody_told_is_described_as_what_it_is_where_somebody_did() -> None:
    told = schema(Whole)
    assert told["required"] == ["parts"] and "description" not in told
    assert told["properties"]["told"] == {
        "title": "Told", "type": "integer", "description": "Left out where nobody told.",
    }  # fmt: skip
    assert told["properties"]["parts"]["items"] == {"$ref": "#/$defs/Part"} and list(told["$defs"]) == ["Part"]
    assert msgspec.json.encode(Whole(parts=[])) == b'{"parts":[],"first":null}'


def test_a_larger_form_has_the_notes_of_the_one_that_it_is_made_of() -> None:
    told = schema(Larger)
    assert told["properties"]["parts"]["description"] == "What it is made of."
    assert told["required"] == ["parts", "name"]


def test_a_part_of_a_form_needs_no_more_than_what_is_named() -> None:
    told = schema(part_of(Larger, "Row", "name"))
    assert told["title"] == "Row" and told["required"] == ["name"]
    assert set(told["properties"]) == set(schema(Larger)["properties"])
