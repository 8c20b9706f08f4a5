"""Shared by all tests: what needs root is skipped without it; who may skip; who may be tried again."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import inspect
import os
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "services_kit"))  # its `lab` is another than the product's
sys.path.insert(0, str(Path(__file__).parent))
import drawing
import left_over
import skips

ROOT = Path(__file__).resolve().parents[1]
TRIES_AGAIN = 2
"""Whole labs share two cores with whatever else runs: what fails is tried again so often, and the summary names it."""
FIRST_LINES, LAST_LINES = 10, 40
"""Of what went wrong: what was found begins it, logs that are shown with it end it."""
ROWS = skips.read()
GRACE_S = 60.0
"""Beyond the time of a test. What loops in C hears no signal, which is how pytest-timeout ends a test: the process
tells where it is, and ends (pytest-xdist says which test that was, and goes on)."""

HANGS_S = 280.0
"""Less than the time of a test: one that hangs fails with what it waited for."""

gc.set_threshold(50_000, 20, 100)  # looking for more than goes with each test took a tenth of their processor
drawing.register()
os.environ.pop("PYTHONUNBUFFERED", None)  # users have it not: a program whose first line is not flushed shows none


def pytest_sessionstart(session: pytest.Session) -> None:
    if os.geteuid() == 0 and not hasattr(session.config, "workerinput"):
        left_over.remove()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    root = os.geteuid() == 0
    skip = pytest.mark.skip(reason="needs root: network namespaces and raw sockets")
    for item in items:
        whole_lab = item.get_closest_marker("lab")  # not a keyword: a folder's name is one too
        if not root and (whole_lab or item.get_closest_marker("root")):
            item.add_marker(skip)
        if whole_lab:
            item.add_marker(pytest.mark.flaky(reruns=TRIES_AGAIN, reruns_delay=2))
    for path in {item.path for item in items if item.get_closest_marker("lab")}:
        if "pytest.mark.lab" not in path.read_text():  # the Makefile looks for it
            raise pytest.UsageError(
                f"{path}: write pytest.mark.lab in the file itself, or `make test` does not find its labs"
            )
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(
        key=lambda item: item.path not in slow
    )  # whole files, as their tests share things; what is short fills up


def _judge(report: pytest.TestReport | pytest.CollectReport) -> None:
    skipped = report.skipped and not hasattr(report, "wasxfail") and isinstance(report.longrepr, tuple)
    if skipped and (why := skips.refusal(ROWS, report.nodeid, str(report.longrepr[2]))):
        report.outcome, report.longrepr = "failed", why


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    _judge(report)
    return report


def _status(*names: str) -> list[str]:
    return [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(names)]


OF_RIGHTS, OF_SIGNALS = ("Uid:", "CapEff:", "NoNewPrivs:"), ("SigBlk:", "SigIgn:")
RIGHTS = _status(*OF_RIGHTS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A service that is run in this process gives its rights up, and every test after it would fail. One that ignores
    signals leaves that to every program that is started after it."""
    signals = _status(*OF_SIGNALS)
    mark = item.get_closest_marker("timeout")
    if item.config.pluginmanager.hasplugin("timeout"):
        limit_s = float(mark.args[0] if mark else item.config.getini("timeout"))
        faulthandler.dump_traceback_later(limit_s + GRACE_S, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
    if _status(*OF_RIGHTS) != RIGHTS:
        pytest.fail("it took this process's rights: run what gives them up in a process of its own")
    if _status(*OF_SIGNALS) != signals:
        pytest.fail("it left signals ignored or blocked: programs that tests start after it would not end")


async def _in_time(steps: Coroutine[None, None, None]) -> None:
    async with asyncio.timeout(HANGS_S):
        await steps


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test may be a coroutine. It has a loop of its own: Python's, on the clock of clockwork where it is marked
    `simulated`, or the one that services have (`uvloop`)."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    steps = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames})
    if simulated := pyfuncitem.get_closest_marker("simulated"):
        from simulated import run

        run(steps, **simulated.kwargs)
    elif pyfuncitem.get_closest_marker("uvloop"):
        from datacast.services import eventloop

        eventloop.run(_in_time(steps))
    else:
        asyncio.run(_in_time(steps))
    return True


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    report = yield
    _judge(report)
    return report


def went_wrong(report: pytest.TestReport) -> str:
    lines = report.longreprtext.splitlines()
    found = next((at for at, line in enumerate(lines) if line.startswith("E ")), 0)
    return "\n".join(lines[found : max(found, min(found + FIRST_LINES, len(lines) - LAST_LINES))] + lines[-LAST_LINES:])


class AtOnce:
    """Names what fails when it fails: a run that is ended says nothing afterwards."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self.terminal = terminal

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.terminal.ensure_newline()
            self.terminal.write_line(f"\n{report.when} of {report.nodeid} failed")
            self.terminal.write_line(went_wrong(report))


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if terminal := config.pluginmanager.get_plugin("terminalreporter"):  # a process beside others has none
        config.pluginmanager.register(AtOnce(terminal))


@pytest.fixture(scope="session")
def project() -> Path:
    """The folder of the source tree."""
    return ROOT


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Why what was tried again had failed: that it passed then says nothing about it."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.section(f"{report.nodeid} had failed", sep="-")
        terminalreporter.write_line(went_wrong(report))
