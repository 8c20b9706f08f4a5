"""What tests make up is the same in every run, and is drawn by chance where one asks for more of it (drawing.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
pytest_plugins = ["pytester"]
COPIED = ("conftest.py", "drawing.py", "left_over.py", "skips.py", "may_skip.toml")
DRAWS = """
from drawing import examples
from hypothesis import given, settings, strategies as st

@given(st.integers())
def test_drawn(number): print("drawn", number)

@settings(max_examples=examples(30))
@given(st.integers())
def test_few(number): print("few", number)
"""


def drawn(pytester: pytest.Pytester) -> tuple[list[str], list[str]]:
    done = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-s", "-q")
    done.assert_outcomes(passed=2)
    lines = [line.lstrip(".") for line in done.outlines]
    return [line for line in lines if line.startswith("drawn")], [line for line in lines if line.startswith("few")]


@pytest.mark.slow
def test_draws_are_the_same_each_time_and_other_ones_when_many_are_asked_for(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("DATACAST_DRAWS", raising=False)
    for name in COPIED:
        (pytester.path / name).write_text((HERE / name).read_text())
    pytester.makepyfile(DRAWS)
    first = drawn(pytester)
    assert drawn(pytester) == first and (len(first[0]), len(first[1])) == (100, 30)
    monkeypatch.setenv("DATACAST_DRAWS", "3")
    many = drawn(pytester)
    assert (len(many[0]), len(many[1])) == (300, 90) and many[0][:100] != first[0]


def test_no_test_has_a_number_of_examples_of_its_own() -> None:
    """`make draws` would not multiply it."""
    own = [path.name for path in HERE.rglob("test_*.py") if path != Path(__file__)
           for part in path.read_text().split("max_examples=")[1:] if not part.startswith("examples(")]  # fmt: skip
    assert not own
