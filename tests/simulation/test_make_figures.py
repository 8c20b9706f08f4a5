"""`make figures`: whose tables the pages hold, and when it refuses."""

import fcntl
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner

from datacast.cli.main import build
from datacast.simulation.experiments import EXPERIMENTS, Result, Setting

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "sim"))
import figures  # noqa: E402
from pages import PAGES, Figure  # noqa: E402

ALL = [(page, figure) for page, those in PAGES.items() for figure in those]


@pytest.mark.parametrize(("page", "figure"), ALL, ids=[f"{page} {figure.name}" for page, figure in ALL])
def test_a_table_has_its_place_and_its_command_says_what_was_run(page, figure, monkeypatch):
    text = (ROOT / "docs" / "results" / f"{page}.md").read_text()
    assert text.count(f"<!-- figure {figure.name} -->") == 1
    told = []
    plain = EXPERIMENTS[figure.experiment]
    monkeypatch.setitem(
        EXPERIMENTS,
        figure.experiment,
        type(plain)(
            plain.name,
            plain.title,
            lambda s, report: told.append(s) or Result("", "", s, []),
            plain.plot,
            plain.defaults,
        ),
    )
    argv = ["sim", figure.experiment, *figure.options.split()]
    assert CliRunner().invoke(build(argv), argv).exit_code == 0
    assert told == [Setting().with_(**{**plain.defaults, **figure.changes})]


@pytest.mark.parametrize("page", PAGES)
def test_no_page_has_a_table_that_nothing_takes_again(page):
    text = (ROOT / "docs" / "results" / f"{page}.md").read_text()
    places = [line.split()[2] for line in text.splitlines() if line.startswith("<!-- figure ")]
    assert sorted(places) == sorted(f.name for f in PAGES[page])


def test_what_has_run_is_not_run_again(tmp_path, monkeypatch):
    ran = []
    plain = EXPERIMENTS["table1"]

    def run(s, report):
        ran.append(s.seed)
        if s.seed == 2 and len(ran) == 2:
            raise OSError
        return Result("table1", "", s, [{"seed": s.seed}], {"seed": "seed"})

    monkeypatch.setitem(EXPERIMENTS, "table1", type(plain)("table1", "", run, plain.plot))
    figure = Figure("some", "table1", cells=({"seed": 1}, {"seed": 2}, {"seed": 3}))
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(OSError):
            figures.start(figure, tmp_path, pool)()
        found = figures.start(figure, tmp_path, pool)()
    assert [row["seed"] for row in found["rows"]] == [1, 2, 3] and ran == [1, 2, 3, 2]
    assert figures.markdown(found, 2, 0) == "| seed |\n| --- |\n| 1 |\n| 2 |"
    assert figures.markdown({**found, "notes": ["Good.", "Else."]}, 0, 1).endswith("| 3 |\n\n- Good.")


def put_page(tmp_path):
    page = tmp_path / "docs" / "results" / "transport.md"
    page.parent.mkdir(parents=True)
    page.write_text("words\n<!-- figure table1 -->\nold\n<!-- /figure -->\nmore words\n")
    return page


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout of one page in which nothing is changed, on an idle machine."""
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    monkeypatch.setattr(figures, "git", lambda *words: "" if words[0] == "status" else "abc1234")
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    plain = EXPERIMENTS["table1"]

    def run(s, report):
        return Result("table1", "T", s, [{"x": 1.23456789}], {"x": "x"}, [])

    monkeypatch.setitem(EXPERIMENTS, "table1", type(plain)("table1", "", run, plain.plot))
    return put_page(tmp_path)


def call(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["figures.py", "transport", *words])
    figures.main()


def test_the_table_and_the_raw_numbers_are_of_one_revision(checkout, monkeypatch, tmp_path):
    call(monkeypatch, "--only", "table1")
    expected = "words\n<!-- figure table1 -->\n`datacast sim table1`, revision abc1234\n\n| x |\n| --- |\n| 1.2346 |\n"
    assert checkout.read_text() == f"{expected}<!-- /figure -->\nmore words\n"
    raw = json.loads((tmp_path / "docs" / "results" / "data" / "transport" / "table1.json").read_text())
    assert raw["revision"] == "abc1234" and raw["rows"] == [{"x": 1.23457}] and raw["product"]["credits"] == 48


def test_it_refuses_what_would_give_figures_of_nothing(checkout, monkeypatch, tmp_path):
    with pytest.raises(SystemExit, match="no figure 'tabel1'"):
        call(monkeypatch, "--only", "tabel1")
    monkeypatch.setattr(os, "getloadavg", lambda: (99.0, 0.0, 0.0))
    with pytest.raises(SystemExit, match="busy"):
        call(monkeypatch, "--only", "table1")
    call(monkeypatch, "--only", "table1", "--busy")
    with (tmp_path / "build" / "figures.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(SystemExit, match="another bench"):
            call(monkeypatch, "--only", "table1", "--busy")
    monkeypatch.setattr(figures, "git", lambda *words: " M libdatacast/src/cc_steady.c")
    with pytest.raises(SystemExit, match="one revision"):
        call(monkeypatch, "--only", "table1", "--busy")
    checkout.write_text("no place\n")
    monkeypatch.setattr(figures, "git", lambda *words: "" if words[0] == "status" else "abc1234")
    with pytest.raises(SystemExit, match="no place for table1"):
        call(monkeypatch, "--only", "table1", "--busy")
