"""The lab's figures once more: bench/lab/figures.py."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location(
    "bench_lab_figures", Path(__file__).resolve().parents[2] / "bench" / "lab" / "figures.py"
)
assert SPEC and SPEC.loader
figures = sys.modules[SPEC.name] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(figures)


def test_a_run_that_fails_does_not_show_the_figures_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "demo.json").write_text('{"ok": true, "finish_over_ideal": 1.0}')
    monkeypatch.setattr(figures, "DATACAST", Path("/bin/false"))
    with pytest.raises(SystemExit, match=r"^demo: "):
        figures.one(figures.Row("demo", "--size 1"), tmp_path)
