"""What sentences for people have in common."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from datacast.core.lists import few
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
