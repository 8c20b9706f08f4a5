"""Tests in processes side by side: each runs once, and what becomes of it is told as if there were one process."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
pytest_plugins = ["pytester"]
MARKS = "def pytest_configure(config):\n    for mark in ('lab', 'alone'): config.addinivalue_line('markers', mark)\n"
SAYS = (
    "import os, pathlib, time, pytest\n"
    "def say(word):\n"
    "    with open(pathlib.Path(__file__).parent / 'said', 'a') as file: file.write(f'{word} {os.getpid()}\\n')\n"
)


@pytest.fixture(autouse=True)
def _bare(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    pytester.makeconftest(MARKS)


def run(pytester: pytest.Pytester, *more: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("-p", "side_by_side", "-p", "no:cacheprovider", "--side-by-side", "3", *more)


def said(pytester: pytest.Pytester) -> list[tuple[str, str]]:
    return [tuple(line.split()) for line in (pytester.path / "said").read_text().splitlines()]  # type: ignore[misc]


def test_all_run_once_in_as_many_processes_and_what_they_say_is_one_report(pytester: pytest.Pytester) -> None:
    for name in "abc":
        pytester.makepyfile(
            **{f"test_{name}": f"{SAYS}@pytest.mark.parametrize('n', range(9))\n"
               f"def test_it(n, tmp_path): say(f'{name}{{n}}'); time.sleep(0.05)\n"}
        )  # fmt: skip
    pytester.makepyfile(test_d="import warnings\ndef test_bad(): print('shown'); assert 1 == 2\n"
                               "def test_warns(): warnings.warn('beware')\n")  # fmt: skip
    done = run(pytester)
    done.assert_outcomes(passed=28, failed=1, warnings=1)
    done.stdout.fnmatch_lines(["*assert 1 == 2*", "shown", "*UserWarning: beware*", "FAILED test_d.py::test_bad*"])
    assert sorted(word for word, _ in said(pytester)) == [f"{name}{n}" for name in "abc" for n in range(9)]
    assert len({process for _, process in said(pytester)}) == 3


def test_what_a_file_shares_is_made_once_and_what_is_left_of_a_long_file_is_taken_over(
    pytester: pytest.Pytester,
) -> None:
    shares = "@pytest.fixture(scope='module')\ndef shared():\n    say('made')\n    yield\n    say('gone')\n"
    short = f"{SAYS}{shares}def test_one(shared): say('one')\ndef test_two(shared): say('two')\n"
    long = f"{SAYS}@pytest.mark.parametrize('n', range(12))\ndef test_long(n): say('long'); time.sleep(0.2)\n"
    pytester.makepyfile(test_a=short, test_b=short, test_c=long)
    run(pytester).assert_outcomes(passed=16)
    words = said(pytester)
    assert [word for word, _ in words].count("made") == [word for word, _ in words].count("gone") == 2
    assert len({process for word, process in words if word == "long"}) == 3


def test_labs_have_processes_of_their_own_and_stay_with_their_file_and_what_is_alone_comes_last(
    pytester: pytest.Pytester,
) -> None:
    lab = (
        f"{SAYS}pytestmark = pytest.mark.lab\n@pytest.mark.parametrize('n', range(4))\n"
        "def test_lab(n): say(__name__); time.sleep(0.1)\n"
        "@pytest.mark.alone\ndef test_alone(): say('alone'); time.sleep(0.3)\n"
    )
    other = f"{SAYS}@pytest.mark.parametrize('n', range(6))\ndef test_other(n): say('other'); time.sleep(0.1)\n"
    pytester.makepyfile(test_a=lab, test_b=lab, test_c=other, test_d=lab)
    run(pytester, "--labs-at-once", "3").assert_outcomes(passed=21)
    words = said(pytester)
    labs = [{process for word, process in words if word == name} for name in ("test_a", "test_b", "test_d")]
    assert [len(one) for one in labs] == [1, 1, 1] and len(set.union(*labs)) == 3
    assert [word for word, _ in words[-3:]] == ["alone"] * 3 and len({process for _, process in words[-3:]}) == 2


def test_a_process_that_dies_is_told_as_its_test_and_another_goes_on(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"{SAYS}@pytest.mark.parametrize('n', range(8))\ndef test_it(n):\n    say(n)\n    if n == 2: os._exit(7)\n"
    )
    done = run(pytester)
    done.assert_outcomes(passed=7, failed=1)
    done.stdout.fnmatch_lines(["*its process ended under it: exit code 7*"])
    assert sorted(word for word, _ in said(pytester)) == [str(n) for n in range(8)]


def test_what_goes_wrong_after_the_last_test_fails_the_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest, os\n@pytest.fixture(scope='session')\ndef it():\n    yield\n    os._exit(3)\n"
                        "def test_it(it): pass\n")  # fmt: skip
    done = run(pytester)
    assert done.ret != 0
    done.stdout.fnmatch_lines(["*exit code 3*"])


def test_the_first_that_fails_may_end_the_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"{SAYS}@pytest.mark.parametrize('n', range(30))\ndef test_it(n):\n    say(n)\n    time.sleep(0.1)\n"
        "    assert n\n"
    )
    done = run(pytester, "-x")
    assert done.ret in (1, 2)
    assert len(said(pytester)) < 20


def test_an_interrupt_reaches_all_and_what_they_made_is_taken_away(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"{SAYS}@pytest.fixture\ndef it():\n    say('made')\n    yield\n    say('gone')\n"
        "@pytest.mark.parametrize('n', range(6))\ndef test_it(n, it): time.sleep(60)\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "side_by_side", "-p", "no:cacheprovider", "--side-by-side", "3"]
    with subprocess.Popen(command, cwd=pytester.path, stdout=subprocess.DEVNULL) as process:
        end = time.monotonic() + 60
        while not (pytester.path / "said").exists() or len(said(pytester)) < 3:
            assert time.monotonic() < end
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 2
    assert [word for word, _ in said(pytester)] == ["made"] * 3 + ["gone"] * 3
