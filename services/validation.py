"""What does not fit its schema, in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError

WORDS = {
    "extra_forbidden": "unknown key",
    "unexpected_keyword_argument": "unknown key",
    "missing": "is missing",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "model_type": "must hold keys and values",
    "model_attributes_type": "must hold keys and values",
}
"""Where pydantic's own speak of Python."""


def first_error(
    error: ValidationError,
    whole: str = "",
    words: Mapping[str, str] = WORDS,
    form: Callable[[str], str] = lambda key: "",
) -> tuple[str, str]:
    """Where it is (`whole`: nowhere in particular), and the sentence, which begins with that. `form` tells by the last
    key what a text should have looked like, if it can."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "[key]") or whole
    text = words.get(first["type"]) or first["msg"].removeprefix("Value error, ")
    if first["type"] == "string_pattern_mismatch" and (wanted := form(str(first["loc"][-1]) if first["loc"] else "")):
        text = f"{first['input']!r} is not {wanted}"
    return where, f"{where}: {text}" if where else text
