"""What sentences for people have in common."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from datacast.core.lists import few
from datacast.fabric_manager.api import GroupOptions, GroupSpec
from datacast.services.service import validation_problem
from datacast.services.validation import first_error


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], ""),
        (["a", 7], "a, 7"),
        (list("abcdefgh"), "a, b, c, d, e, f, g, h"),
        (list("abcdefghi"), "a, b, c, d, e, f, g, h and 1 more"),
    ],
)
def test_a_list_is_told_by_its_first_and_how_many_more(names: list[object], words: str) -> None:
    assert few(names) == words and few(iter(names)) == words


def test_thousands_are_told_in_a_short_line() -> None:
    assert few((f"h{at}" for at in range(4096)), 3, ",") == "h0,h1,h2 and 4093 more"


Word = Annotated[str, Field(pattern="^[a-z]+$")]


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Word
    parts: dict[Word, tuple[int, ...]] = {}

    @field_validator("name")
    @classmethod
    def _other(cls, name: str) -> str:
        if name == "all":
            raise ValueError("all stands for every host")
        return name


@pytest.mark.parametrize(
    ("given", "where", "sentence"),
    [
        ({"name": "a", "nonsense": 1}, "nonsense", "nonsense: unknown key"),
        ({}, "name", "name: is missing"),
        ({"name": "a", "parts": {"b": [1, "x"]}}, "parts.b.1", "parts.b.1: must be a whole number"),
        ({"name": "a", "parts": {"b": 1}}, "parts.b", "parts.b: must be a list"),
        ({"name": "a", "parts": {"B": []}}, "parts.B", "parts.B: 'B' is not a small word"),
        ({"name": "A"}, "name", "name: 'A' is not a small word"),
        ({"name": "all"}, "name", "name: all stands for every host"),
        ([], "the file", "the file: must hold keys and values"),
    ],
)
def test_what_does_not_fit_is_told_by_where_it_is(given: Any, where: str, sentence: str) -> None:
    with pytest.raises(ValidationError) as error:
        Shape.model_validate(given)
    assert first_error(error.value, "the file", form=lambda key: "a small word") == (where, sentence)


def test_where_it_is_nowhere_in_particular_the_sentence_is_all() -> None:
    with pytest.raises(ValidationError) as error:
        Shape.model_validate(3)
    assert first_error(error.value) == ("", "must hold keys and values")


ORDERS = TypeAdapter(GroupSpec)


def refused(**order: Any) -> dict[str, str]:
    """What a request is told, by field."""
    try:
        ORDERS.validate_python({"receivers": ["h1"], **order})
    except ValidationError as error:
        problem = validation_problem([{**one, "loc": ("body", *one["loc"])} for one in error.errors()])
        assert problem.message == f"{problem.fields[0]['field']}: {problem.fields[0]['message']}"
        return {field["field"]: field["message"] for field in problem.fields}
    return {}


@pytest.mark.parametrize(
    ("order", "told"),
    [
        ({"weight": 0}, {"weight": "must be 1 at least"}),
        ({"weight": 1001, "scatter": "maybe"}, {"weight": "must be 1000 at most", "scatter": "must be true or false"}),
        ({"weight": 1.5}, {"weight": "must be a whole number"}),
        ({"deadline_s": 0}, {"deadline_s": "must be more than 0"}),
        ({"source": 7}, {"source": "must be text"}),
        ({"source": 129 * "x"}, {"source": "may have 128 letters at most"}),
        ({"url": ""}, {"url": "must not be empty"}),
        ({"sha256": "12"}, {"sha256": "must be 64 hexadecimal digits, small letters"}),
        ({"shards": {"h": ["x"]}}, {"shards.h.0": "must be bytes such as 0-4095 or 4096-, or a part such as 2/4"}),
        ({"labels": []}, {"labels": "must hold keys and values"}),
        ({"priority": "high"}, {"priority": "must be 'normal' or 'background'"}),
        ({"fetchers": "three"}, {"fetchers": "must be a whole number, 'all' or a list"}),
        ({"fetchers": 99}, {"fetchers": "must be 32 at most, 'all' or a list"}),
        ({"receivers": [1]}, {"receivers.0": "must be text"}),
        ({"options": {"nonsense": 1}}, {"options.nonsense": "unknown key"}),
        ({"parts": [{}]}, {"parts.0.path": "is missing", "parts.0.size": "is missing"}),
    ],
)
def test_a_request_that_does_not_fit_is_told_what_would(order: dict[str, Any], told: dict[str, str]) -> None:
    assert refused(**order) == told


WRONG = [None, 1, -1, 1.5, "x", "", [], {}, True, [1], {"a": 1}, 10**30, ["", ""], "x" * 5000, [{}], {"h": ["x"]}]


def test_no_word_of_a_request_s_fault_is_of_python() -> None:
    orders = [{field.name: wrong} for field in fields(GroupSpec) for wrong in WRONG]
    orders += [{"options": {field.name: wrong}} for field in fields(GroupOptions) for wrong in WRONG]
    said = {text for order in orders for text in refused(**order).values()}
    of_python = ("Input", "input", "valid", "dictionary", "string", "integer", "instance", "^")
    assert len(said) > 30 and not [text for text in said if any(word in text for word in of_python)], said
