"""What does not fit its schema, in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from . import ranges

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

_WHOLE, _NUMBER, _LIST = "must be a whole number", "must be a number", "must be a list"
_KEYS, _TRUTH = "must hold keys and values", "must be true or false"
WORDS = {
    "bool_parsing": _TRUTH,
    "bool_type": _TRUTH,
    "bytes_too_long": "may have {max_length} bytes at most",
    "dataclass_type": _KEYS,
    "dict_type": _KEYS,
    "enum": "must be {expected}",
    "extra_forbidden": "unknown key",
    "finite_number": "must be a number that is finite",
    "float_parsing": _NUMBER,
    "float_type": _NUMBER,
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be {ge} at least",
    "int_from_float": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": "has too many digits",
    "int_type": _WHOLE,
    "invalid_key": "keys must be text",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be {le} at most",
    "list_type": _LIST,
    "literal_error": "must be {expected}",
    "missing": "is missing",
    "model_attributes_type": _KEYS,
    "model_type": _KEYS,
    "none_required": "must be null",
    "string_pattern_mismatch": "must match {pattern}",
    "string_too_long": "may have {max_length} letters at most",
    "string_too_short": "must have {min_length} letters at least",
    "string_type": "must be text",
    "string_unicode": "must be text in UTF-8",
    "too_long": "may hold {max_length} at most",
    "too_short": "must hold {min_length} at least",
    "tuple_type": _LIST,
    "unexpected_keyword_argument": "unknown key",
}
"""For pydantic's, which speak of Python and of inputs."""


FORMS = {
    r"^[0-9a-f]{64}$": "64 hexadecimal digits, small letters",
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$": "a name of letters, digits, '.', '_' and '-', 64 at most",
    r"^[!-~]{1,128}$": "1 to 128 letters of ASCII without a blank",
    r"^s-[0-9a-f]{16}$": "s- and 16 hexadecimal digits",
    ranges.PATTERN: "bytes such as 0-4095 or 4096-, or a part such as 2/4",
}
"""What a text that matches a pattern is."""


def sentence(error: ErrorDetails, words: Mapping[str, str] = WORDS) -> str:
    """What is wrong, without where it is."""
    kind, given = error["type"], error.get("ctx", {})
    if kind in ("string_too_short", "too_short") and given["min_length"] == 1:
        return "must not be empty"
    if kind == "string_pattern_mismatch" and (form := FORMS.get(given["pattern"])):
        return f"must be {form}"
    if (text := words.get(kind)) is None:
        return error["msg"].removeprefix("Value error, ")
    whole = {key: int(n) for key, n in given.items() if isinstance(n, float) and n.is_integer()}
    return text.format(**{**given, **whole})


def either(sentences: Iterable[str]) -> str:
    """Where one of several things must be: all that would do."""
    each = list(dict.fromkeys(sentences))
    if len(each) > 1 and all(text.startswith("must be ") for text in each):
        words = [text.removeprefix("must be ") for text in each]
        return f"must be {', '.join(words[:-1])} or {words[-1]}"
    return ", or ".join(each)


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
    text = sentence(first, words)
    if first["type"] == "string_pattern_mismatch" and (wanted := form(str(first["loc"][-1]) if first["loc"] else "")):
        text = f"{first['input']!r} is not {wanted}"
    return where, f"{where}: {text}" if where else text
