"""Sizes and rates that people write: one reader for commands, labs and services."""

from __future__ import annotations

import argparse

import pytest

from datacast.core.errors import UsageError
from datacast.core.quantities import parse_rate, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [("256M", 256 << 20), ("0", 0), ("7", 7), ("128K", 131072), ("1.5KiB", 1536), ("2gb", 2 << 30), ("3T", 3 << 40)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "rate"),
    [("100mbit", 10**8), ("1gbit", 10**9), ("2.5Gbit/s", 25 * 10**8), ("64000", 64000), ("250 kbps", 250_000)],
)
def test_rates(text: str, rate: int) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["", "M", "-1", "1 2", "12Q", "1 apple", "1KK", "9" * 400, "inf", "1e9", "١"])
def test_what_is_none(text: str) -> None:
    for parse in (parse_size, parse_rate):
        with pytest.raises(UsageError, match=r"is no (size|rate): give"):
            parse(text)


@pytest.mark.parametrize(("text", "least"), [("0", 1), ("0.5", 1), ("0mbit", 1), ("7.9kbit", 8000)])
def test_rates_that_are_too_low(text: str, least: int) -> None:
    with pytest.raises(UsageError, match=f"give at least {least} bit/s"):
        parse_rate(text, least)


def test_a_program_says_which_option_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=parse_rate)
    with pytest.raises(SystemExit):
        parser.parse_args(["--rate", "fast"])
    assert "--rate" in capsys.readouterr().err
