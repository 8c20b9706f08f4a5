"""`--side-by-side N`: so many test processes, forked from the one that has found the tests.

Each would need some five seconds of a processor to find them by itself. A process takes file after file, so that what
a file's tests share is made once; when no file is left, it takes over half of what another one has before it. Files of
whole labs go to `--labs-at-once` processes of their own, from the beginning, and stay whole; those processes go on
with the other tests. Labs that are marked `alone` come last, with nothing beside them but one other of them.
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
import signal
import sys
import time
import warnings
from collections import deque
from collections.abc import Iterable
from itertools import groupby
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

import pytest

NICER = 7
"""Labs go before the other tests: their links are slow, and while they wait the others have the processors."""
ALONE_AT_ONCE = 2
"""They wait for slow links, and none takes a processor: two measure what one does."""
PATIENCE_S = 90.0
"""For processes that were interrupted: a lab is taken down meanwhile."""


class Hooks:
    """For plugins that keep something for each process."""

    def pytest_process_begins(self, config: pytest.Config) -> None:
        """In a new process, before its first test."""

    def pytest_process_ends(self, config: pytest.Config) -> None:
        """In that process, after its last test."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(Hooks)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--side-by-side", type=int, default=0, help="so many test processes (default: this one)")
    parser.addoption("--labs-at-once", type=int, default=1, help="so many more for whole labs (default 1)")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    option = session.config.option
    if not option.side_by_side or option.collectonly or session.testsfailed:
        return None  # pytest's own loop
    Run(session).all()
    return True


# ---- a process that runs tests ----
class Mute:
    """In place of the terminal's reporter, which the first process has. A test that takes too long writes by it."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self._tw = reporter._tw
        self.stats: dict[str, list[Any]] = {}


class Sender:
    """What tests say goes to the first process."""

    def __init__(self, config: pytest.Config, link: Connection) -> None:
        self.config, self.link = config, link

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.link.send(("report", self.config.hook.pytest_report_to_serializable(config=self.config, report=report)))

    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage, when: str, nodeid: str) -> None:
        told = str(warning_message.message), warning_message.category.__name__
        self.link.send(("warning", (*told, warning_message.filename, warning_message.lineno), when, nodeid))


def _interrupted(number: int, frame: object) -> None:
    """Once: the terminal sends it to all, and the first process once more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _of_its_own(session: pytest.Session, link: Connection) -> None:
    """What processes that were forked must not share."""
    config = session.config
    signal.signal(signal.SIGINT, _interrupted)
    random.seed()
    if (capture := config.pluginmanager.getplugin("capturemanager")) is not None:
        capture.stop_global_capturing()
        capture.start_global_capturing()
        capture.suspend_global_capture()
    paths = config._tmp_path_factory  # type: ignore[attr-defined]
    paths._basetemp = paths.getbasetemp() / str(os.getpid())
    paths._basetemp.mkdir(mode=0o700)
    reporter = config.pluginmanager.unregister(name="terminalreporter")
    config.pluginmanager.unregister(name="at_once")
    config.pluginmanager.register(Mute(reporter), "terminalreporter")
    config.pluginmanager.register(Sender(config, link))
    config.hook.pytest_process_begins(config=config)


def _serve(session: pytest.Session, link: Connection) -> None:
    """Run what one is told to until there is no more."""
    _of_its_own(session, link)
    nicer = False
    try:
        while (order := link.recv()) is not None:
            at, following = order
            item = session.items[at]
            if not nicer and not item.get_closest_marker("lab"):
                nicer = True
                os.nice(NICER)
            item.config.hook.pytest_runtest_protocol(
                item=item, nextitem=None if following is None else session.items[following]
            )
            link.send(("done",))
    except (EOFError, OSError):
        pass  # the first process is gone
    finally:
        session._setupstate.teardown_exact(None)
        session.config.hook.pytest_process_ends(config=session.config)


# ---- the first process ----
class Worker:
    """One process, and what it is to run, in order: the first of it runs."""

    def __init__(self, session: pytest.Session, labs: bool, others: Iterable[Worker]) -> None:
        self.labs = labs
        self.before_it: deque[int] = deque()
        self.following: int | None = None
        """The test it was told it will run next: what both share stays."""
        self.link, far = Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid:
            far.close()
            self.ended = os.pidfd_open(self.pid)
            return
        code = 1
        try:
            for link in [self.link, *(other.link for other in others)]:
                link.close()
            _serve(session, far)
            code = 0
        except KeyboardInterrupt:
            pass
        except BaseException:
            session.config.notify_exception(pytest.ExceptionInfo.from_current())
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def run(self) -> None:
        self.following = self.before_it[1] if len(self.before_it) > 1 else None
        self._tell((self.before_it[0], self.following))

    def end(self) -> None:
        self._tell(None)

    def _tell(self, order: object) -> None:
        with contextlib.suppress(OSError):  # it has just died, which is seen next
            self.link.send(order)


class Run:
    def __init__(self, session: pytest.Session) -> None:
        self.session, self.config = session, session.config
        self.workers: list[Worker] = []
        whole: dict[object, list[int]] = {}
        alone: dict[object, list[int]] = {}
        others: list[int] = []
        for at, item in enumerate(session.items):
            if item.get_closest_marker("alone"):
                alone.setdefault(item.path, []).append(at)
            elif item.get_closest_marker("lab"):
                whole.setdefault(item.path, []).append(at)
            else:
                others.append(at)
        self.labs = deque(whole.values())
        self.others = deque([*unit] for _, unit in groupby(others, lambda at: session.items[at].path))
        self.alone = list(alone.values())

    def all(self) -> None:
        self.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        gc.collect()
        gc.freeze()  # what was loaded stays, and is shared
        try:
            for _ in range(min(self.config.option.labs_at_once, len(self.labs))):
                self.start(True)
            for _ in range(self.config.option.side_by_side):
                self.start(False)
            self.serve()
            if self.alone and not self.stopped():
                self.labs.extend(self.alone)
                for _ in range(min(ALONE_AT_ONCE, len(self.alone))):
                    self.start(True)
                self.serve()
        except BaseException:
            self.interrupt()
            raise
        if self.session.shouldfail:
            raise self.session.Failed(self.session.shouldfail)
        if self.session.shouldstop:
            raise self.session.Interrupted(self.session.shouldstop)

    def stopped(self) -> bool:
        return bool(self.session.shouldfail or self.session.shouldstop)

    def start(self, labs: bool, before_it: Iterable[int] = ()) -> None:
        worker = Worker(self.session, labs, self.workers)
        self.workers.append(worker)
        worker.before_it.extend(before_it)
        self.more(worker)

    def more(self, worker: Worker) -> None:
        """Its next test, or its end."""
        if len(worker.before_it) < 2 and not self.stopped():
            worker.before_it.extend(self.take(worker))
        if worker.before_it and not self.stopped():
            worker.run()
        else:
            worker.end()

    def take(self, worker: Worker) -> Iterable[int]:
        if worker.labs and self.labs:
            return self.labs.popleft()
        if self.others:
            return self.others.popleft()
        if worker.before_it:  # it has one yet
            return ()
        return self.taken_over()

    def taken_over(self) -> list[int]:
        """Half of what the one that has most has not begun. Whole labs stay with their files."""

        def left(worker: Worker) -> int:
            lab = worker.before_it and self.session.items[worker.before_it[-1]].get_closest_marker("lab")
            return 0 if lab else len(worker.before_it) - (1 if worker.following is None else 2)

        most = max(self.workers, key=left)
        return [most.before_it.pop() for _ in range((left(most) + 1) // 2)][::-1]

    def serve(self) -> None:
        """Until all processes have ended."""
        while self.workers:
            ready = wait([worker.link for worker in self.workers] + [worker.ended for worker in self.workers])
            for worker in list(self.workers):
                if worker.link in ready:
                    self.hear(worker)
                elif worker.ended in ready:
                    self.bury(worker)

    def hear(self, worker: Worker) -> None:
        try:
            kind, *told = worker.link.recv()
        except (EOFError, OSError):
            self.bury(worker)
            return
        if kind == "done":
            worker.before_it.popleft()
            self.more(worker)
        elif kind == "report":
            hook = self.config.hook
            report = hook.pytest_report_from_serializable(config=self.config, data=told[0])
            hook.pytest_runtest_logreport(report=report)
            if report.when == "teardown":
                hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)
        else:
            (message, name, file, line), when, test = told
            category = type(name, (Warning,), {})
            self.config.hook.pytest_warning_recorded.call_historic(
                kwargs={
                    "warning_message": warnings.WarningMessage(message, category, file, line),
                    "when": when,
                    "nodeid": test,
                    "location": None,
                }
            )

    def bury(self, worker: Worker) -> None:
        """It has ended. One that had something to do has died under its test, and another takes its place."""
        self.workers.remove(worker)
        _, status = os.waitpid(worker.pid, 0)
        os.close(worker.ended)
        worker.link.close()
        if not worker.before_it and status:
            raise RuntimeError(f"a test process ended with exit code {os.waitstatus_to_exitcode(status)}")
        if not worker.before_it or self.stopped():
            return
        item = self.session.items[worker.before_it.popleft()]
        why = f"its process ended under it: exit code {os.waitstatus_to_exitcode(status)}"
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", why, "call")
        self.config.hook.pytest_runtest_logreport(report=report)
        self.start(worker.labs, worker.before_it)

    def interrupt(self) -> None:
        for worker in self.workers:
            worker.link.close()
            os.kill(worker.pid, signal.SIGINT)
        end = time.monotonic() + PATIENCE_S
        try:
            for worker in self.workers:
                while not wait([worker.ended], max(0.0, end - time.monotonic())):
                    os.kill(worker.pid, signal.SIGKILL)
        except KeyboardInterrupt:  # once more
            for worker in self.workers:
                os.kill(worker.pid, signal.SIGKILL)
