"""The table of tests/may_skip.toml is kept: what it does not name fails."""

from __future__ import annotations

from pathlib import Path

import pytest
import skips

HERE = Path(__file__).parent
pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs inside need no plugin; to load them all takes longer than the runs."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def as_here(pytester: pytest.Pytester) -> None:
    for name in ("conftest.py", "drawing.py", "left_over.py", "skips.py"):
        (pytester.path / name).write_text((HERE / name).read_text())


def test_a_skip_without_a_row_fails_and_one_with_a_row_skips(pytester: pytest.Pytester) -> None:
    (pytester.path / "may_skip.toml").write_text(
        '[[row]]\ntests = "*::test_known"\nreason = "no such thing"\nbecause = "it is a test"\n'
        '[[row]]\ntests = "*::test_at_hand"\nreason = "no sh"\nbecause = "sh is at hand"\nunless = ["sh"]\n'
    )
    as_here(pytester)
    pytester.makepyfile(
        "import pytest\n"
        "def test_known(): pytest.skip('no such thing here')\n"
        "def test_at_hand(): pytest.skip('no sh here')\n"
        "def test_unknown(): pytest.skip('the weather')\n"
        "def test_fine(): pass\n"
    )
    done = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    done.assert_outcomes(passed=1, skipped=1, failed=2)
    done.stdout.fnmatch_lines(["*test_unknown skips and may not: the weather*"])


def test_a_module_that_skips_as_a_whole_is_held_to_the_table_too(pytester: pytest.Pytester) -> None:
    (pytester.path / "may_skip.toml").write_text("row = []\n")
    as_here(pytester)
    pytester.makepyfile("import pytest\npytest.skip('as a whole', allow_module_level=True)\n")
    assert pytester.runpytest_subprocess("-p", "no:cacheprovider").ret != 0


def test_every_row_says_why() -> None:
    assert all(row.because and row.tests and row.reason for row in skips.read())


def test_a_row_with_an_unknown_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text('[[row]]\ntests = "*"\nreason = "x"\nbecause = "y"\nunles = ["sh"]\n')
    with pytest.raises(ValueError, match="unles"):
        skips.read(tmp_path / "t.toml")
