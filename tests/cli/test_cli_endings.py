"""How commands end: with nothing to show, interrupted, given something bad."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import typer
from commands import command
from made_records import group
from rich.console import Console
from typer.testing import CliRunner

from datacast.cli import cordons, following, groups, origin, plan, send, starting
from datacast.cli import main as whole
from datacast.cli.lab_show import Screen, sites_text, up_text
from datacast.cli.main import build, report
from datacast.controller.api import ControllerClient
from datacast.controller.api.records import GroupRecord
from datacast.fabric_manager.api import GroupOptions, GroupSpec
from datacast.fabric_manager.api.records import AllGroups, Cordon, Cut, Gap, Plan, PlannedTree
from datacast.lab.errors import Interrupted
from datacast.lab.lab import LabOptions
from datacast.lab.state import Registry, start_time
from datacast.origins.parts import Named, OriginError, Part
from datacast.services import tokens
from datacast.services.authority import Authority, AuthorityError
from datacast.services.authority import Identity as Name
from datacast.services.problems import Problem, Unreachable
from datacast.services.tls import Identity, TlsError

AWAY = Problem(503, "unreachable", "no controller at http://c")


def ran(monkeypatch: pytest.MonkeyPatch, module: Any, client: Any, *words: str, fails: bool = False) -> tuple[int, str]:
    """Exit code and output of a command whose controller is `client`; of one that fails what it says."""

    @contextlib.contextmanager
    def connected(*_: object) -> Iterator[Any]:
        yield client

    monkeypatch.setattr(module, "connect", connected)
    monkeypatch.setenv("COLUMNS", "160")
    done = CliRunner().invoke(build([words[0]]), [*words])
    if fails:
        assert isinstance(done.exception, Problem)
        return report(done.exception), f"{done.exception}; {done.exception.remedy}"
    return done.exit_code, done.output


def test_a_list_without_groups_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    client = SimpleNamespace(groups=lambda state: [])
    assert ran(monkeypatch, groups, client, "groups") == (0, "no groups\n")
    assert ran(monkeypatch, groups, client, "groups", "--state", "done") == (0, "no groups in state done\n")
    assert ran(monkeypatch, groups, client, "groups", "--json") == (0, "[]\n")


def test_a_group_that_does_not_end_when_it_is_cancelled_is_told_and_exits_with_1(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(groups, "CANCEL_PATIENCE_S", 0.0)
    client = SimpleNamespace(cancel_group=lambda name: group(id=name))
    assert ran(monkeypatch, groups, client, "cancel", "g-1") == (1, "g-1 is running\n")
    assert ran(monkeypatch, groups, client, "cancel", "g-1", "--no-wait") == (0, "g-1 is running\n")


def test_a_drain_goes_on_when_the_controller_is_away_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the maintenance that hosts are drained for."""
    monkeypatch.setattr(cordons, "AGAIN_S", 0.0)

    def away(**_: object) -> None:
        raise AWAY

    row = SimpleNamespace(name="h1", groups=[])
    client = Mock(
        topology=lambda: SimpleNamespace(nodes=[]), events=away, cordon=lambda *_: Cordon(name="h1", cordoned="drained")
    )
    client.hosts.side_effect = [AWAY, Problem(429, "too_many_requests", "more than 200 a second"), [row]]
    assert ran(monkeypatch, cordons, client, "drain", "h1") == (0, "no group runs on h1\n")
    client.hosts.side_effect = AWAY
    assert ran(monkeypatch, cordons, client, "drain", "h1", "--timeout", "0")[0] == 1


class Restarted:
    """A controller that is away for a while, with a group that ends meanwhile."""

    def __init__(self, *answers: Problem | str) -> None:
        self.answers = list(answers)

    def events(self, name: str, pings: bool) -> Iterator[AllGroups]:
        yield AllGroups(event="1", groups=[])

    def group(self, name: str) -> GroupRecord:
        answer = self.answers.pop(0)
        if isinstance(answer, Problem):
            raise answer
        return group(id=name, state=answer)


def test_a_controller_that_is_away_for_a_moment_is_waited_for_and_one_that_refuses_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following, "REFRESH_S", 0.0)
    runs = group(id="g-1")
    looks = (
        lambda client: following.wait(client, runs, 60.0),
        lambda client: following.follow(client, runs, quiet=True, pause=lambda _: None),
    )
    for look in looks:
        back = Restarted(AWAY, Problem(429, "too_many_requests", "more than 200 a second"), "running", "done")
        assert look(back).state == "done" and not back.answers
    with pytest.raises(Problem, match="no group g-1"):
        following.wait(Restarted(Problem(404, "no_group", "there is no group g-1")), runs, 60.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("back", [True, False])
def test_who_is_told_to_end_while_the_controller_is_away_cancels_its_group_when_that_is_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], back: bool
) -> None:
    """The transfer went on, and nobody said so."""
    monkeypatch.setattr(following, "REFRESH_S", 0.0)
    monkeypatch.setattr(following, "CANCEL_PATIENCE_S", 60.0 if back else 0.05)
    asked = []

    def cancel_group(name: str) -> GroupRecord:
        asked.append(name)
        if back and len(asked) == 3:
            return group(id=name, state="cancelled")
        raise Problem(503, "unreachable", "no controller at http://c", remedy="start it")

    client = SimpleNamespace(cancel_group=cancel_group)
    if back:
        assert following.cancel_and_wait(client, "g-1").state == "cancelled"  # type: ignore[arg-type]
        assert "g-1 is cancelled" in capsys.readouterr().err
    else:
        with pytest.raises(Problem) as away:
            following.cancel_and_wait(client, "g-1")  # type: ignore[arg-type]
        assert away.value.remedy == "start it; g-1 was not cancelled: `datacast cancel g-1` ends it"
    assert len(asked) >= 2


PLANNED = Plan(
    source="h0",
    receivers=["h1", "h2"],
    unreachable=["h3", "h4"],
    rate_bps=2 * 10**9,
    size=None,
    expected_s=None,
    deadline_met=None,
    trees=[PlannedTree(depth=2, links=2, share_bps=2 * 10**9, arcs=[("h0", "s"), ("s", "h1")])],
    wanted_bytes={"h1": 3 << 20, "h2": 1 << 20},
    receiver_bps={},
    bound_bps={"h2": 4 * 10**9},
    gap=Gap(part=0.25, receiver="h2"),
    cut=Cut(receiver="h2", bps=4 * 10**9, arcs=[("s", "h2")]),
)


def test_a_plan_names_what_each_wants_and_whom_no_path_reaches(monkeypatch: pytest.MonkeyPatch) -> None:
    client = SimpleNamespace(plan=lambda spec, size: PLANNED)
    code, out = ran(monkeypatch, plan, client, "plan", "--from", "h0", "--to", "h1,h2,h3,h4")
    assert code == 0 and "wanted: h1 3.0 MiB, h2 1.0 MiB" in out and "no path leads to h3, h4" in out
    assert "gap 25.0%: h2 gets less than its bound of 4000.0 Mbit/s" in out
    assert "2 receivers, 2000.0 Mbit/s\n" in out and "s>h2" in out


def test_a_name_of_one_file_is_its_url_and_one_of_several_their_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    digest = "ab" * 32
    one = Part("weights.bin", 9, "https://hub/w", digest)
    known = {
        "hf:org/one": Named("hf:org/one@main", False, (one,)),
        "hf:org/bare": Named("hf:org/bare@main", False, (Part("w", 9, "https://hub/w"),)),
        "hf:org/two": Named("hf:org/two@v1", True, (one, Part("small.json", 2, "", digest, b"{}"))),
    }
    monkeypatch.setattr(origin, "resolve", lambda name, *_: known[name])
    assert origin.named("hf:org/one") == GroupSpec(url="https://hub/w", sha256=digest)
    assert origin.named("hf:org/bare") == GroupSpec(url="https://hub/w")
    both = origin.named("hf:org/two")
    assert both.dest_path == "two-v1" and [part.path for part in both.parts] == ["weights.bin", "small.json"]
    assert both.parts[0].url == "https://hub/w" and (both.parts[1].url, both.parts[1].data) == ("", "e30=")


def test_what_is_no_origin_is_named() -> None:
    for words, text in (
        (("ftp://host/file", [], None, None), "nobody fetches that"),
        (("/srv/file", ["h0"], "2", None), "--fetchers and --origin-policy are for a URL"),
        (("https://host/file", ["h0"], None, None), "--from is for a file of a host"),
        (("/srv/file", [], None, None), "--from names no host"),
    ):
        with pytest.raises(typer.BadParameter, match=text):
            origin.parse_origin(*words)  # type: ignore[arg-type]


def test_a_name_that_is_none_is_wrong_use_and_one_that_leads_nowhere_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for code, kind in (("bad_origin", typer.BadParameter), ("origin_status", OriginError)):

        def fails(name: str, *_: str, code: str = code) -> Named:
            raise OriginError(code, f"{name}: that is nothing")

        monkeypatch.setattr(origin, "resolve", fails)
        with pytest.raises(kind, match="that is nothing"):
            origin.look_up("hf:x")


@pytest.mark.parametrize("module", ["cli", "controller", "fabric_manager", "master", "mirror"])
def test_the_version_is_told(module: str) -> None:
    """On standard output, whatever else the program would need."""
    code, out, _ = command("--version", module=module)
    name = "datacast" if module == "cli" else f"datacast-{module.replace('_', '-')}"
    assert (code, out) == (0, f"{name} {metadata.version('datacast')}\n")


@pytest.mark.parametrize(
    ("error", "code"), [(BrokenPipeError(errno.EPIPE, "Broken pipe"), 1), (KeyboardInterrupt(), 130)]
)
def test_who_stops_reading_or_presses_ctrl_c_gets_an_exit_code_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int
) -> None:
    def app(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(whole, "build", lambda argv: app)
    with pytest.raises(SystemExit) as ended:
        whole.main(["groups"])
    assert ended.value.code == code and capsys.readouterr() == ("", "")


@pytest.mark.parametrize("where", ["full", "gone"])
def test_what_is_printed_where_no_room_is_has_failed(tmp_path: Path, where: str) -> None:
    """Python found out when it ended: 120, and an exception that it ignored."""
    path = tmp_path / "tokens.json"
    tokens.create(path, "x", "viewer")
    read, write = os.pipe()
    os.close(read)
    if where == "full":
        os.dup2(full := os.open("/dev/full", os.O_WRONLY), write)
        os.close(full)
    line = [sys.executable, "-m", "datacast.cli.main", "token", "list", str(path)]
    done = subprocess.run(line, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    said = "datacast: the output cannot be written: No space left on device\n" if where == "full" else ""
    assert (done.returncode, done.stderr) == (1, said)


def test_a_file_in_a_folder_that_is_closed_to_this_user_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As an authority's, of whoever is not root: tokens and certificates ended with tracebacks."""

    def closed(path: Path, **_: object) -> os.stat_result:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "stat", closed)
    for words in (["certs", "show", "/shut/a"], ["token", "create", "/shut/b"], ["token", "revoke", "/shut/c", "x"]):
        with pytest.raises(SystemExit) as ended:
            whole.main(words)
        assert ended.value.code == 1 and capsys.readouterr().err == f"datacast: {words[2]}: Permission denied\n"


def test_who_closes_what_a_command_would_print_to_gets_its_exit_code(tmp_path: Path) -> None:
    """As `>&-` of a shell: there was a traceback, and 1."""
    path = tmp_path / "tokens.json"
    tokens.create(path, "x", "viewer")
    for words, code in ((["token", "list", str(path)], 0), (["token", "list", str(tmp_path)], 1), (["trees"], 2)):
        line = shlex.join([sys.executable, "-m", "datacast.cli.main", *words])
        done = subprocess.run(["sh", "-c", f"exec {line} <&- >&-"], stderr=subprocess.PIPE, text=True)
        assert done.returncode == code and "Traceback" not in done.stderr, done
        assert subprocess.run(["sh", "-c", f"exec {line} <&- >&- 2>&-"]).returncode == code
    words = "trees --topology bcube:2,1 --group 2 --repeat 1"
    done = subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -m datacast.cli.main {words} >&-"], stderr=subprocess.PIPE, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_nobody_foresaw_ends_with_the_traceback_that_python_shows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not one with frames and the values of variables, among which are tokens."""
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    monkeypatch.setattr(tokens, "read", Mock(side_effect=RuntimeError("unforeseen")))
    with pytest.raises(RuntimeError) as error:
        whole.main(["token", "list", "tokens.json"])
    sys.excepthook(error.type, error.value, error.tb)
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback (most recent call last):\n") and shown.endswith("RuntimeError: unforeseen\n")


def test_ctrl_c_while_a_command_is_loaded_ends_it_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def interrupted(argv: list[str]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(whole, "build", interrupted)
    with pytest.raises(SystemExit) as ended:
        whole.main(["groups"])
    assert ended.value.code == 130 and capsys.readouterr() == ("", "")

    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import datacast.cli.main"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


# ---- labs ----
def test_labs_are_listed_and_one_that_is_none_is_not_taken_down(tmp_path: Path) -> None:
    own = {**os.environ, "DATACAST_RUNTIME": str(tmp_path)}
    assert command("lab", "status", environment=own) == (0, "no lab is running\n", "")
    code, _, err = command("lab", "down", "--name", "mine", environment=own)
    assert code == 3 and "no lab 'mine' is running" in err and "datacast lab status" in err
    registry = Registry(tmp_path)
    state = registry.claim("mine")
    state.topology, state.status, state.rest, state.work = "bcube:2,1", "up", "http://127.0.0.1:1", "/tmp/none"
    state.started = start_time(state.pid) or 0
    registry.save(state)
    shown = command("lab", "status", environment=own)[1]
    assert shown.startswith(f"mine: up, bcube:2,1, process {os.getpid()} with ") and "REST http://127.0.0.1:1" in shown
    [row] = json.loads(command("lab", "status", "--json", environment=own)[1])
    assert row["name"] == "mine" and row["pid"] == os.getpid()
    state.pid = 1 << 30
    registry.save(state)
    assert "mine: left over" in command("lab", "status", environment=own)[1]


class Laid:
    hosts = ("00", "01", "10")
    switches = (SimpleNamespace(nodes=[1, 2]), SimpleNamespace(nodes=[3]))


def test_a_lab_that_is_up_says_how_to_use_it_and_an_interrupted_one_that_it_is_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Fake:
        def __init__(self, options: object = None, name: str = "lab", *_: object) -> None:
            self.name = name
            self.options = LabOptions(topology="bcube:2,1", rest_port=0)
            self.plan, self.rest, self.work, self.state = Laid, "http://127.0.0.1:7", Path("/tmp/lab"), object()
            self.signals, self.supervisor = SimpleNamespace(sleep=self._sleep), SimpleNamespace(check=lambda: None)

        def _sleep(self, _: float) -> None:
            raise Interrupted(signal.SIGINT)

        def __enter__(self) -> Fake:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def up(self) -> None:
            pass

    monkeypatch.setattr("datacast.lab.lab.Lab", Fake)
    monkeypatch.delenv("DATACAST_LAB", raising=False)
    assert "`datacast lab down`, takes" in CliRunner().invoke(build(["lab"]), ["lab", "up"]).output
    done = CliRunner().invoke(build(["lab"]), ["lab", "up", "--name", "two"])
    assert done.exit_code == 130 and "`datacast lab down --name two`, takes" in done.output
    assert "bcube:2,1, 3 hosts, 3 switches" in done.output and "interrupted; everything was taken down" in done.output
    assert "DATACAST_CONTROLLER=http://127.0.0.1:7 datacast send FILE --from 00 --to 01,10" in done.output
    usual = Fake()
    usual.options = LabOptions(topology="bcube:2,1")
    assert "DATACAST_CONTROLLER" not in up_text(usual)  # type: ignore[arg-type]


@pytest.mark.parametrize("there", [False, True])
def test_a_run_that_is_interrupted_leaves_no_empty_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, there: bool
) -> None:
    def interrupted(*_: object) -> None:
        assert path.exists(), "that it can be written is known before the run"
        raise Interrupted(signal.SIGINT)

    monkeypatch.setattr("datacast.lab.run.run", interrupted)
    path = tmp_path / "report.json"
    if there:
        path.write_text("an earlier one")
    done = CliRunner().invoke(build(["lab"]), ["lab", "run", "--topology", "bcube:2,1", "--json", str(path)])
    assert done.exit_code == 130, done.output
    assert path.read_text() == "an earlier one" if there else not path.exists()


def test_sites_that_are_up_say_where_each_is(tmp_path: Path) -> None:
    lab = SimpleNamespace(
        home="a",
        rest="https://10.0.0.1:1",
        rest_of=lambda name: f"https://{name}",
        daemons={name: SimpleNamespace(folder=tmp_path / name, first=f"{name}/00") for name in "ab"},
        work="/tmp/lab",
        name="lab",
    )
    text = sites_text(lab)  # type: ignore[arg-type]
    assert f"DATACAST_CA={tmp_path}/a/tls/ca.pem" in text and f"b: https://b, its files in {tmp_path}/b" in text
    assert "--from a/00" in text


def test_on_a_terminal_a_lab_shows_bars_that_go_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100, height=30)
    monkeypatch.setattr("datacast.cli.lab_show.Console", lambda **_: console)
    with Screen() as screen:
        screen.step("starting three hosts")
        screen.group(group(id="g-1", fraction=0.5, receivers={"h1": {"state": "running"}}))
        assert screen.live is not None and screen._tasks
        screen.step("the next")
        assert not screen._tasks
    assert screen.live is None
    assert "the next" in console.file.getvalue()  # type: ignore[attr-defined]


# ---- authorities ----
def test_an_authority_whose_key_cannot_be_used_says_why(tmp_path: Path) -> None:
    authority = Authority.create(tmp_path / "a", sync=False)
    key = tmp_path / "a" / "ca.key"
    key.write_text("no key")
    with pytest.raises(AuthorityError, match=r"ca\.key is no private key without a password"):
        Authority.open(tmp_path / "a")
    key.unlink()
    with pytest.raises(AuthorityError, match=r"cannot read .*ca\.key: No such file") as gone:
        Authority.open(tmp_path / "a")
    assert gone.value.remedy == "certificates are made where the authority's key is"
    with pytest.raises(AuthorityError, match=r"cannot write .*none/x\.pem: No such file"):
        authority.issue(Name.parse("agent/x"), stem=tmp_path / "none" / "x")


def test_a_certificate_of_another_authority_is_no_identity(tmp_path: Path) -> None:
    a, b = (Authority.create(tmp_path / name, sync=False) for name in "ab")
    cert, key = map(str, a.issue(Name.parse("controller/x")))
    assert Identity(str(a.ca), cert, key, "controller").own.role == "controller"
    with pytest.raises(TlsError, match=r"controller-x\.pem does not hold before .*b/ca\.pem"):
        Identity(str(b.ca), cert, key, "controller")


@pytest.mark.parametrize(("status", "code"), [(413, 2), (422, 2), (429, 2), (404, 3), (503, 4), (500, 1)])
def test_a_refused_request_ends_with_what_the_help_says(
    capsys: pytest.CaptureFixture[str], status: int, code: int
) -> None:
    assert report(Problem(status, "no", "it is refused")) == code
    assert capsys.readouterr().err == "datacast: it is refused\n"


@pytest.mark.parametrize(
    ("words", "asked", "options"),
    [
        ("", {}, {}),
        ("--dest d/f", {"dest_path": "d/f"}, {}),
        ("--weight 7 --most 3mbit", {"weight": 7, "most_bps": 3_000_000}, {}),
        ("--background --deadline 2.5 --size 3k", {"priority": "background", "deadline_s": 2.5, "size": 3 << 10}, {}),
        (f"--sha256 {'AB' * 32}", {"sha256": "ab" * 32}, {}),
        ("--label job=7 --label a=b=c", {"labels": {"job": "7", "a": "b=c"}}, {}),
        ("--scatter", {"scatter": True}, {}),
        ("--shard b=0-9,1/2 --shard b=20-", {"shards": {"b": ["0-9", "1/2", "20-"]}}, {}),
        ("--holds a=0-9 --unfinished a=g-1", {"holds": {"a": ["0-9"]}, "unfinished": {"a": "g-1"}}, {}),
        ("--from c", {"other_sources": ["c"]}, {}),
        ("--trees 3 --credits 5 --cc datacast", {}, {"trees": 3, "credits": 5, "cc": "datacast"}),
        ("--cache 2M --rate 9mbit --quorum 1", {}, {"cache_bytes": 2 << 20, "rate_bps": 9_000_000, "quorum": 1}),
        ("--lease 90.5", {}, {"lease_ms": 90_500}),
        ("--delivery together", {}, {"delivery": "together"}),
        ("--planner stable", {}, {"planner": "stable"}),
    ],
)
def test_what_send_asks_for_is_what_its_options_say_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, words: str, asked: dict[str, Any], options: dict[str, Any]
) -> None:
    made: list[GroupSpec] = []
    client = SimpleNamespace(create_group=lambda spec, key: made.append(spec) or group(id="g-1"))
    line = ["send", "/f", "--from", "a", "--to", "b", "--no-watch", *words.split()]
    assert ran(monkeypatch, send, client, *line)[0] == 0
    plain: dict[str, Any] = {"source": "a", "source_path": "/f", "receivers": ["b"]}
    assert made == [GroupSpec(**plain | asked, options=GroupOptions(**options))]


@pytest.mark.parametrize("lost", [0, 2, 99])
def test_a_group_whose_answer_was_lost_is_asked_for_again_under_the_same_key(
    monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    """A controller that takes the request and goes, then is away for a while; and one that is not there at all."""
    keys: list[str] = []
    clock = iter(range(1000))
    monkeypatch.setattr(starting, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda _: None))

    def create_group(_: GroupSpec, key: str) -> GroupRecord:
        keys.append(key)
        if len(keys) > lost > 0:
            return group(id="g-1")
        problem = Unreachable(503, "unreachable", "nobody answers")
        problem.asked = lost > 0 and len(keys) == 1
        raise problem

    line = ["send", "/f", "--from", "a", "--to", "b", "--no-watch"]
    code, out = ran(monkeypatch, send, SimpleNamespace(create_group=create_group), *line, fails=lost != 2)
    assert len(set(keys)) == 1 and len(keys[0]) == 32
    if lost == 2:
        assert (code, out.strip(), len(keys)) == (0, "g-1", 3)
    else:
        assert len(keys) == 1 if not lost else 1 < len(keys) < lost
        assert ("may have been started all the same" in out) is bool(lost)


def test_what_was_asked_and_not_answered_may_have_been_carried_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        closes = threading.Thread(target=lambda: server.accept()[0].close())
        closes.start()
        port = server.getsockname()[1]
        with pytest.raises(Unreachable) as told, ControllerClient(f"http://127.0.0.1:{port}") as client:
            client.create_group(GroupSpec(source="a", source_path="/f", receivers=["b"]))
        closes.join()
    with pytest.raises(Unreachable) as other, ControllerClient(f"http://127.0.0.1:{port}") as client:
        client.create_group(GroupSpec(source="a", source_path="/f", receivers=["b"]))
    assert (told.value.asked, other.value.asked) == (True, False)


@pytest.mark.parametrize(
    ("words", "asked", "options", "size"),
    [
        ("", {}, {}, None),
        ("--size 3k --weight 7 --most 3mbit", {"weight": 7, "most_bps": 3_000_000}, {}, 3 << 10),
        ("--background --scatter", {"priority": "background", "scatter": True}, {}, None),
        ("--shard b=0-9", {"shards": {"b": ["0-9"]}}, {}, None),
        ("--delivery together --planner stable", {}, {"delivery": "together", "planner": "stable"}, None),
    ],
)
def test_what_plan_asks_for_is_what_its_options_say_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, words: str, asked: dict[str, Any], options: dict[str, Any], size: int | None
) -> None:
    made: list[tuple[GroupSpec, int | None]] = []
    client = SimpleNamespace(plan=lambda *what: made.append(what) or PLANNED)
    assert ran(monkeypatch, plan, client, "plan", "--from", "a", "--to", "b", *words.split())[0] == 0
    plain: dict[str, Any] = {"source": "a", "source_path": "/plan", "receivers": ["b"]}
    assert made == [(GroupSpec(**plain | asked, options=GroupOptions(**options)), size)]
