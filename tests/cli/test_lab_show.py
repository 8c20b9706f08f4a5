"""What `datacast lab run` prints of a report, writes and returns; what it says while it works."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import made_records
import pytest
from msgspec import structs
from typer.testing import CliRunner

from datacast.cli.lab_show import Screen, print_report, print_sites_report
from datacast.cli.main import build
from datacast.lab.counters import CpuUse, Traffic
from datacast.lab.report import FaultReport, Measured, Report, Settings, make_report, plain
from datacast.lab.site_run import FaultOfSites, HostFigures, SiteFigures, SitesReport, SitesSettings, WanFigures


def report(lost: str = "", bound: bool = False, **told: Any) -> Report:
    """Of a group from a to b and c over one tree, as the lab makes it; `lost` has not got the file."""
    rows: dict[str, Any] = {}
    for name in "bc":
        rows[name] = {"state": "done", "finish_s": 1.25, "goodput_mbps": 6.4}
        if name == lost:
            rows[name] = {"state": "failed", "error": {"code": "disk_full", "message": f"{name}: no space left"}}
    arcs = [["a", "s"], ["s", "b"], ["s", "c"]]
    group = {
        "id": "g",
        "state": "partial" if lost else "done",
        "error": {"code": "receivers_failed", "message": "one has failed"} if lost else None,
        "trees": {"7": {"links": 3, "depth": 2, "arcs": arcs, "new_packets": 112, "dup_packets": 2}},
        "receivers": rows,
        "report": made_records.outcome(start_s=0.012, finish_s=1.25, **told),
    }
    rates = {(u, v): 10**7 for u, v in arcs}
    traffic = Traffic(3_060_000, hits={7: 41})
    cpu = CpuUse(0.5, 0.25, {"datacast-agent": 1.0 if bound else 0.1})
    settings = Settings(
        topology="net", link_bps=10**7, mtu=9000, queue_packets=100, dataplane="dpdk", source="a", to=["b", "c"],
        seed=None, options={}, sha256="",
    )  # fmt: skip
    whole = {name: name != lost for name in "bc"}
    return make_report(Measured(made_records.group(**group), 1_000_000, rates, traffic, cpu, whole, settings, []))


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`lab run` of a lab that reports this: (exit code, standard output)."""

    def go(made: Report, *words: str) -> tuple[int, str]:
        monkeypatch.setattr("datacast.lab.run.run", lambda *_: made)
        monkeypatch.setenv("COLUMNS", "160")
        done = CliRunner().invoke(build(["lab"]), ["lab", "run", "--size", "1M", *words])
        return done.exit_code, done.stdout

    return go


def words(text: str, begin: str) -> list[str]:
    """The row that begins so."""
    return next(line.split() for line in text.splitlines() if line.strip().startswith(begin))


def test_a_good_run_is_shown_beside_its_ideal_and_exits_with_0(ran: Any) -> None:
    made = report()
    code, out = ran(made)
    assert code == 0 and "delivered to 2 of 2 and verified" in out
    assert words(out, "first data packet")[-2:] == ["12", "ms"] and words(out, "finish ")[1:] == ["1.250", "s"]
    assert words(out, "ideal")[1:] == [f"{made.ideal_s:.3f}", "s"]
    assert words(out, "link stress")[-1] == "1.0200" and words(out, "duplicate data")[-2:] == ["1.79", "%"]
    assert words(out, "0 ") == ["0", "3", "2", "112", "2", "41"]
    assert words(out, "b ") == ["b", "1.250", "6.4", "ok"]


def test_a_run_that_somebody_has_not_got_says_who_and_why_and_exits_with_1(ran: Any) -> None:
    code, out = ran(report(lost="c"))
    assert code == 1 and "delivered to 1 of 2: one has failed" in out
    assert words(out, "c ") == ["c", "-", "-", "-", "c:", "no", "space", "left"]


def test_branches_that_only_forwarded_are_told(ran: Any) -> None:
    _, out = ran(report(plain_branches=["s"]))
    assert "s had no cache appliance: the source sent more" in out


def test_the_report_goes_to_a_file_or_alone_to_standard_output(ran: Any, tmp_path: Path) -> None:
    made, path = report(), tmp_path / "report.json"
    _, out = ran(made, "--json", str(path))
    assert json.loads(path.read_text()) == plain(made) and f"report: {path}" in out.replace("\n", "")
    code, out = ran(report(lost="b"), "--json", "-")
    assert code == 1 and not json.loads(out)["ok"]


def test_faults_are_shown_with_what_became_of_them(ran: Any) -> None:
    mended = FaultReport(
        spec="link a:0 down at 2s", at_s=2.0, failed_ns=1, error=None, detected_ms=0.4, known_ms=1.2,
        recomputed_ms=2.0, signalled_ms=6.1, resumed_ms=8.25, all_resumed_ms=None,
    )  # fmt: skip
    late = structs.replace(
        mended, spec="fill disk b at 9s", failed_ns=None, error="the transfer was over before", detected_ms=None
    )
    _, out = ran(structs.replace(report(), faults=[mended, late]))
    assert words(out, "link a:0")[-5:] == ["0.4", "1.2", "6.1", "8.2", "-"]
    assert "the transfer was over before" in out
    assert "faults" not in ran(report())[1]


def test_a_report_of_figures_has_no_line_of_headings(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(report())
    assert capsys.readouterr().out.startswith("first data packet after")


def test_sites_are_shown_with_their_links_and_what_went_wrong_with_a_fault(capsys: pytest.CaptureFixture[str]) -> None:
    one = report()
    made = SitesReport(
        ok=True,
        group="s-1",
        state="done",
        error=None,
        size=one.size,
        sites={"sfo": SiteFigures(2, 2, 3.5, 3.0, 1.1667)},
        wan={"ams-sfo": WanFigures(1_010_000, 1.01)},
        receivers={"sfo-0": HostFigures(3.5, True)},
        cpu_busy=one.cpu_busy,
        cpu_bound=one.cpu_bound,
        cpu_lab=one.cpu_lab,
        faults=[FaultOfSites("link ams-sfo down at 2s", 2.0, "it was over before"), FaultOfSites("x", 0.0, None)],
        settings=SitesSettings(
            sites={}, mtu=9000, queue_packets=100, source="ams-0", to=["*/all"], seed=None, options={}, sha256=""
        ),
    )
    print_sites_report(made)
    out = capsys.readouterr().out
    assert words(out, "sfo") == ["sfo", "2", "2", "3.500", "3.000", "1.167"]
    assert words(out, "ams-sfo") == ["ams-sfo", "1010000", "1.0100"]
    assert "link ams-sfo down at 2s: it was over before" in out and "x:" not in out


def test_steps_are_told_once_each_and_progress_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    group = made_records.group(id="g", fraction=0.5, receivers={"b": {"state": "running", "fraction": 0.5}})
    with Screen() as screen:
        for name in "abc":
            screen.step(f"agent {name}")
        screen.step("sending")
        for _ in range(3):
            screen.group(group)
    told = capsys.readouterr().err.splitlines()
    assert told[:2] == ["agent a …", "sending …"] and len(told) <= 3


def test_progress_of_several_sites_says_how_far_each_is(capsys: pytest.CaptureFixture[str]) -> None:
    part = {"state": "running", "rate_bps": 9_500_000, "error": None}
    parts = {"ams": {**part, "fraction": 1.0}, "sfo": {**part, "fraction": 0.25}}
    group = made_records.group(id="g", state="running", fraction=0.5, rate_bps=9_500_000, receivers={}, sites=parts)
    with Screen() as screen:
        screen.group(group)
    told = capsys.readouterr().err.split()
    assert " ".join(told) == "50.0 % 9.5 Mb/s, ams 100 %, sfo 25 %, running"


def test_quiet_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with Screen(quiet=True) as screen:
        screen.step("sending")
        screen.content(1, 0)
        screen.verified(1, 2)
    assert capsys.readouterr() == ("", "")
