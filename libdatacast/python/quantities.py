"""Sizes and rates as people write them."""

from __future__ import annotations

import re
from typing import TypeGuard

from .errors import UsageError

NUMBER = r"([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([kmgt]?)"
UNITS = " kmgt"
RATE_MAX = 10**15
"""Bit/s of a link: a petabit. Sums of more do not fit the numbers that they are counted in."""


def is_rate(value: object) -> TypeGuard[int]:
    """Of a link: whole bit/s."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= RATE_MAX


class QuantityError(UsageError, ValueError):
    """A text that is no such quantity."""


def parse_size(text: str) -> int:
    """`128K`, `1M`, `512KiB`, `4096`: bytes, in powers of 1024. Raises QuantityError."""
    match = re.fullmatch(NUMBER + "(?:i?b)?", text.strip().lower())
    if not match:
        raise QuantityError(f"{text!r} is no size: give bytes, or a number with K, M, G or T, such as 256M", what=text)
    return int(float(match[1]) * 1024 ** UNITS.index(match[2] or " "))


def parse_rate(text: str, least_bps: int = 1) -> int:
    """`100mbit`, `2.5Gbit/s`, `64000`: bit/s, in powers of 1000. Raises QuantityError, also for one below the least."""
    match = re.fullmatch(NUMBER + "(?:bit(?:/s)?|bps|b/s)?", text.strip().lower())
    if not match:
        raise QuantityError(f"{text!r} is no rate: give something like 50mbit or 10gbit", what=text)
    value = int(float(match[1]) * 1000 ** UNITS.index(match[2] or " "))
    if value < least_bps:
        raise QuantityError(f"{text!r} is too low a rate: give at least {least_bps} bit/s", what=text)
    return value
