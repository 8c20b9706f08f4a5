"""What a person reads: a group with its sites and appliances, events, a transfer under way, other sites."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from answering import answering
from made_records import group, summary, topology
from rich.console import Console
from typer.testing import CliRunner

from datacast.cli import connection, events, sim, sites
from datacast.cli.connection import connect
from datacast.cli.events import told
from datacast.cli.following import ROWS_MAX, follow
from datacast.cli.main import COMMANDS, build, report
from datacast.cli.output import PIPE_COLUMNS, new_table, output
from datacast.cli.showing import show_group
from datacast.controller.api import ControllerClient
from datacast.controller.api.records import Event, GroupRecord, KnownSite
from datacast.fabric_manager.api.records import GroupChange
from datacast.origins import registry
from datacast.services.problems import Problem
from datacast.simulation.experiments.base import Result, Setting

GROUP: dict[str, Any] = {
    "id": "g-1",
    "state": "partial",
    "source": "h0",
    "other_sources": ["h9"],
    "source_path": "/srv/file",
    "size": 3 << 30,
    "error": {"code": "receivers_failed", "message": "1 of 2 receivers failed: h2: [disk] full"},
    "receivers": {
        "h1": {"state": "done", "fraction": 1, "rate_bps": 0, "finish_s": 2.5, "sha256_ok": True, "retransmissions": 7},
        "h2": {
            "state": "failed", "fraction": 0.25, "rate_bps": 2_000_000,
            "error": {"code": "disk", "message": "[disk] full [/srv]"},
        },
    },
    "sites": {
        "oak": {
            "state": "failed", "fraction": 0.5, "rate_bps": 1_000_000, "error": {"code": "cut", "message": "cut off"},
        }
    },
    "trees": {
        "4": {
            "state": "running", "depth": 2, "links": 5, "rate_bps": 50_000_000, "new_packets": 11, "dup_packets": 12,
            "retransmissions": 13,
        }
    },
    "report": {
        "start_s": 0.0131, "finish_s": 2.5, "ideal_s": 2.0, "finish_over_ideal": 1.25, "duplicate_ratio": 0.013,
        "plain_branches": ["s1", "s2"], "reactions": [{"appliances": [["s3", True], ["s4", False]]}],
        "start_ms": {}, "size": 3 << 30, "takeovers": 0, "trees": {"count": 1, "depth": 2, "links": [5]},
        "new_packets": 11, "dup_packets": 12, "refetched_bytes": 3 << 19,
    },
}  # fmt: skip


def test_a_group_says_who_has_it_how_fast_and_what_was_wrong(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    show_group(group(**GROUP))
    rows = capsys.readouterr().out.splitlines()
    assert [" ".join(row.split()) for row in rows] == [
        "g-1: partial, h0,h9:/srv/file (3.0 GiB), started in 13 ms, finished in 2.50 s (1.250 of the ideal), "
        "duplicates 1.30%",
        "1 of 2 receivers failed: h2: [disk] full",
        "1.5 MiB at most were fetched twice: a fetcher was slow or gone",
        "s1, s2 had no cache appliance: the source sent more",
        "the cache appliance of s3 came back",
        "the cache appliance of s4 went away: the source sends more",
        "receiver state progress rate finish sha256 retransmitted error",
        "h1 done 100% - 2.50 s ok 7",
        "h2 failed 25% 2.0 Mbit/s - - 0 [disk] full [/srv]",
        "site state progress rate error",
        "oak failed 50% 1.0 Mbit/s cut off",
        "tree id state depth links rate new packets duplicates retransmitted",
        "0 4 running 2 5 50.0 Mbit/s 11 12 13",
    ]
    assert [len(row) - len(row.lstrip()) for row in rows] == [0] + 5 * [2] + 7 * [0], "tables begin at the edge"


WHY = {"code": "unreachable", "message": "why"}


@pytest.mark.parametrize(
    ("whole", "row", "kept"),
    [
        ({}, {}, True),
        *[({}, {"error": {"code": code, "message": "why"}}, True) for code in ("cut_off", "no_agent", "no_fetcher")],
        *[({}, {"error": {"code": code, "message": "why"}}, False) for code in ("disk_full", "io", "digest")],
        ({}, {"error": None}, True),
        ({"error": {"code": "io", "message": "a"}}, {"error": {"code": "io", "message": "a"}}, True),
        ({"error": {"code": "io", "message": "a"}}, {"error": {"code": "io", "message": "b"}}, False),
        *[({"error": {"code": code, "message": "why"}}, {}, False) for code in ("changed", "digest")],
        ({}, {"fraction": 0}, False),
        ({}, {"state": "cancelled"}, False),
        ({"state": "failed"}, {}, True),
        *[({"state": state}, {}, False) for state in ("running", "done", "cancelled")],
        ({"id": "s-0123456789abcdef"}, {}, False),
    ],
)
def test_what_came_is_promised_to_a_resume_where_it_is_kept_and_of_use(
    capsys: pytest.CaptureFixture[str], whole: dict[str, Any], row: dict[str, Any], kept: bool
) -> None:
    """A receiver whose own disk failed has removed it, and of a file that has changed nothing is of use."""
    show_group(group(**GROUP | {"receivers": {"h2": {"state": "failed", "fraction": 0.5, "error": WHY} | row}} | whole))
    assert ("what came is kept" in capsys.readouterr().out) is kept


def test_an_error_of_the_whole_group_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    error = {"code": "origin_denied", "message": "nobody can fetch https://o.test/x: refused (h1,h2)"}
    rows = {name: {"state": "failed", "fraction": 0, "error": error} for name in ("h1", "h2")}
    show_group(
        group(**GROUP | {"source_path": "https://o.test/x", "error": error, "receivers": rows, "state": "failed"})
    )
    out = capsys.readouterr().out
    assert out.count("refused") == 1 and "resume" not in out
    assert out.startswith("g-1: failed, https://o.test/x (3.0 GiB)")


NODE = {"version": 2, "name": "s1", "kind": "switch", "forwards": True, "registered": True}


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (
            msgspec.to_builtins(summary(id="g-1", fraction=0.5, rate_bps=3_000_000)) | {"type": "group"},
            "group g-1 running 50%, 3.0",
        ),
        ({"type": "link", "version": 2, "u": "a", "v": "b", "up": False}, "link a - b down"),
        ({"type": "node", **NODE, "alive": True}, "node s1 alive"),
        ({"type": "node", **NODE, "alive": False}, "node s1 gone"),
        ({"type": "forgotten", "id": "g-2"}, "group g-2 forgotten"),
        ({"type": "ping"}, "the controller is there"),
        ({"type": "groups", "event": "1", "groups": [msgspec.to_builtins(summary(id="g-1"))] * 2}, "2 groups"),
        (
            msgspec.to_builtins(
                topology(spec="bcube:4,1", links=[{"u": "a", "v": "b", "up": up} for up in (True, False)])
            )
            | {"type": "topology"},
            "bcube:4,1, 1 links down",
        ),
    ],
)
def test_an_event_is_one_line(event: dict[str, Any], text: str) -> None:
    read: Any = msgspec.convert(event, Event)
    assert text in told(read) and "\n" not in told(read)


class Slow:
    """A controller of which the group gets on a step with every look, and which is away at the second."""

    def __init__(self, receivers: int) -> None:
        self.looks, self.names = 0, [f"h{i}" for i in range(receivers)]

    def at(self, step: int, **more: Any) -> GroupRecord:
        state = "done" if step == 3 else "running"
        part = {"state": state, "fraction": step / 3, "rate_bps": 1_000_000 * step}
        return group(id="g-1", state=state, receivers=dict.fromkeys(self.names, part), **more)

    def events(self, group: str, pings: bool = False) -> Iterator[Event]:
        yield msgspec.convert(msgspec.to_builtins(summary(id="g-1", state="done")) | {"type": "group"}, GroupChange)

    def group(self, group: str) -> GroupRecord:
        self.looks += 1
        if self.looks == 2:
            raise Problem(503, "away", "the controller is away")
        return self.at(self.looks - (self.looks > 2))


def test_many_receivers_are_followed_in_as_many_rows_as_fit_and_one_for_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=100, height=60)
    monkeypatch.setattr("datacast.cli.following.output", lambda **_: screen)
    slow = Slow(ROWS_MAX + 6)
    ended = follow(slow, slow.at(0), quiet=False, pause=lambda _: None)  # type: ignore[arg-type]
    assert ended.state == "done" and slow.looks == 4
    shown = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "h0" in shown and f"h{ROWS_MAX - 1}" in shown and f"h{ROWS_MAX} " not in shown
    assert "6 more" in shown and "66.7 %" in shown and "2.0 Mbit/s" in shown


def test_what_a_group_waits_for_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    class Waits(Slow):
        def at(self, step: int, **more: Any) -> GroupRecord:
            why = {"code": "site_away", "message": "site syd [10.0.0.9] has not taken the order yet: it is away"}
            return super().at(step, error=why if 0 < step < 3 else None)

    for quiet in (True, False):
        slow = Waits(1)
        follow(slow, slow.at(0), quiet=quiet, pause=lambda _: None)  # type: ignore[arg-type]
        told = capsys.readouterr().err
        assert told == ("" if quiet else "g-1 waits: site syd [10.0.0.9] has not taken the order yet: it is away\n")


@pytest.mark.parametrize(
    ("problem", "goes_on"),
    [
        (Problem(404, "no_group", "there is no group g-1"), False),
        (Problem(401, "unauthorized", "this token is revoked", remedy="another one"), True),
    ],
)
def test_a_controller_that_refuses_is_not_waited_for(problem: Problem, goes_on: bool) -> None:
    class Gone(Slow):
        def group(self, group: str) -> GroupRecord:
            raise problem

    gone = Gone(1)
    with pytest.raises(Problem) as caught:
        follow(gone, gone.at(0), quiet=True, pause=lambda _: None)  # type: ignore[arg-type]
    told = "another one; g-1 was not cancelled: `datacast status g-1` tells how it stands"
    assert caught.value is problem and problem.remedy == (told if goes_on else "")


def test_whose_token_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that is named, else the environment's, else the user's own."""

    def token(file: Path | None = None) -> str:
        sent: list[str] = []
        monkeypatch.setattr(connection, "ControllerClient", lambda _, token: sent.append(token))
        connect("http://127.0.0.1:9", file)
        return sent[0]

    home, named = tmp_path / "datacast" / "token", tmp_path / "named"
    home.parent.mkdir()
    home.write_text("own\n")
    named.write_text(" given \n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("DATACAST_TOKEN", raising=False)
    assert token() == "own"
    monkeypatch.setenv("DATACAST_TOKEN", "surroundings")
    assert token() == "surroundings"
    assert token(named) == "given"
    named.write_text("two words")
    with pytest.raises(Problem, match="holds spaces"):
        token(named)
    named.write_text("x" * 5000)
    with pytest.raises(Problem, match="no token is longer"):
        token(named)
    with pytest.raises(Problem, match=f"cannot read {tmp_path}/none"):
        token(tmp_path / "none")


def test_who_has_no_home_has_no_token_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container, under a number that no user has."""

    def nobody(number: int) -> None:
        raise KeyError(number)

    for name in ("HOME", "XDG_CONFIG_HOME", "DOCKER_CONFIG", "DATACAST_TOKEN", "DATACAST_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    connect("http://127.0.0.1:9", None).close()
    assert list(registry._logins("docker.io", None)) == []


def listed(monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]] | Problem, *words: str) -> tuple[int, str]:
    class Known:
        def sites(self) -> list[KnownSite]:
            if isinstance(rows, Problem):
                raise rows
            return msgspec.convert(rows, list[KnownSite])

    @contextmanager
    def connected(*_: object) -> Iterator[Known]:
        yield Known()

    monkeypatch.setattr(sites, "connect", connected)
    done = CliRunner().invoke(build(["sites"]), ["sites", "list", *words])
    if isinstance(done.exception, Problem):  # main() reports it, as any command's
        raise done.exception
    return done.exit_code, done.output


def test_other_sites_and_what_is_wrong_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"name": "sfo", "url": "https://h:1", "there": True, "heard_s": 1.0, "problem": ""},
        {"name": "oak", "url": None, "there": False, "heard_s": None, "problem": ""},
        {
            "name": "syd",
            "url": "https://h:2",
            "there": False,
            "heard_s": None,
            "problem": "its certificate has run out",
        },
    ]
    code, out = listed(monkeypatch, rows)
    assert code == 0 and [line.split() for line in out.splitlines()] == [
        ["sfo", "https://h:1", "there"],
        ["oak", "comes", "to", "us", "not", "heard", "of"],
        ["syd", "https://h:2", "its", "certificate", "has", "run", "out"],
    ]
    assert json.loads(listed(monkeypatch, rows, "--json")[1]) == rows
    assert listed(monkeypatch, []) == (0, "no other site is known\n")
    with pytest.raises(Problem, match="no controller answers at unix:/x"):
        listed(monkeypatch, Problem(503, "away", "no controller answers at unix:/x"))


def test_tables_that_go_into_a_pipe_are_not_cut_to_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert output().width == PIPE_COLUMNS != output(stderr=True).width, "of a terminal there may be one for errors only"
    monkeypatch.setenv("COLUMNS", "99")
    assert output().width == 99


def test_in_a_narrow_terminal_a_group_s_name_stays_whole_and_its_error_is_folded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is what the next command is given."""
    monkeypatch.setenv("COLUMNS", "60")
    table = new_table("group", "state", "error")
    table.add_row("g-0123456789abcdef", "cancelling", "nobody has a part of the file, and the source is gone for good")
    output().print(table)
    out = capsys.readouterr().out
    assert "g-0123456789abcdef  cancelling  nobody" in out and len(out.splitlines()) > 2


def test_what_each_command_does_is_not_cut_off_in_a_terminal_of_eighty_columns() -> None:
    names = [name for commands in COMMANDS.values() for name in commands if name != "join"]  # a script of its own
    for name in ("", *names):
        words = [name] if name else []
        told = CliRunner().invoke(build(words), [*words, "--help"], terminal_width=78).output  # two are left free
        cut = [line for line in told.splitlines() if line.endswith("...") and not line.startswith("Usage")]
        assert cut == [], name


def test_a_controller_of_another_version_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    client = ControllerClient("http://127.0.0.1:9")
    monkeypatch.setattr(client, "request", lambda *_: {"name": 7})
    with pytest.raises(Problem, match=r"the controller at http://127.0.0.1:9 answers what is not understood") as told:
        client.put_set("rack", ["h1"])
    assert "the same version" in told.value.remedy and "name" in told.value.message


def test_events_that_end_because_the_fabric_manager_is_gone_say_so() -> None:
    client = ControllerClient("http://127.0.0.1:9")
    gone = {**Problem(503, "unreachable", "no fabric manager at unix:/x").to_json(), "type": "error"}
    with pytest.raises(Problem, match="no fabric manager at unix:/x") as told:
        client._event(json.dumps(gone))
    assert told.value.status == 503


def test_a_page_of_somebody_else_is_no_answer_and_says_where() -> None:
    with answering(404, "<h1>Not Found</h1>") as url, ControllerClient(url) as client:
        for ask in (lambda: client.group("g-1"), lambda: next(iter(client.events()))):
            with pytest.raises(Problem, match="answers HTTP 404, and not as Datacast does") as told:
                ask()
            assert told.value.what == url
            assert report(told.value) == 1, "3 is for a group that is not there"


def test_names_from_elsewhere_do_not_move_the_cursor_or_end_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    odd = "/srv/a\x1b[2Jb\nc\x9b[x]"
    show_group(group(**{**GROUP, "source_path": odd}))
    assert "h0,h9:/srv/a\\x1b[2Jb\\x0ac\\x9b[x] (3.0 GiB)" in capsys.readouterr().out
    assert report(Problem(404, "group_not_found", "there is no group '\x1b]0;t\x07'")) == 3
    assert capsys.readouterr().err == "datacast: there is no group '\\x1b]0;t\\x07'\n"


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("datacast lab ", {"up", "run", "down", "shell"}),
        ("datacast lab run --real", {"--realtime"}),
        ("datacast send --to a --da", set()),
        ("datacast send --de", {"--dest", "--delivery", "--deadline"}),
        ("datacast to", {"token", "topology", "top"}),
    ],
)
def test_a_shell_completes_options_and_what_a_command_has(line: str, offered: set[str]) -> None:
    words = {"_DATACAST_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    command = [sys.executable, "-m", "datacast.cli.main"]
    done = subprocess.run(command, env={**os.environ, **words}, capture_output=True, text=True, timeout=60)
    given = set(done.stdout.split())
    assert offered <= given and bool(offered) == bool(given), done.stdout + done.stderr


def test_where_there_is_no_terminal_a_line_tells_now_and_then_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Half(Slow):
        def at(self, step: int, **more: Any) -> GroupRecord:
            return super().at(step, fraction=step / 3, rate_bps=95_000_000)

    monkeypatch.setattr("datacast.cli.following.PLAIN_S", 0.0)
    for quiet in (True, False):
        slow = Half(1)
        follow(slow, slow.at(0), quiet=quiet, pause=lambda _: None)  # type: ignore[arg-type]
        told = capsys.readouterr().err
        assert ("g-1 running 33.3%, 95.0 Mbit/s\n" in told) is not quiet


def test_the_exit_code_tells_who_asked_wrongly_from_what_is_not_there_and_who_does_not_answer() -> None:
    codes = {404: 3, 400: 2, 401: 2, 403: 2, 409: 2, 422: 2, 503: 4, 500: 1}
    assert {status: report(Problem(status, "x", "it went wrong")) for status in codes} == codes


@pytest.mark.parametrize(("quiet", "terminal"), [(False, True), (False, False), (True, True), (True, False)])
def test_the_step_of_a_simulation_is_shown_on_a_terminal_unless_quiet_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], quiet: bool, terminal: bool
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    screen = sim._Screen(quiet)
    screen.say("cell 3 of 27")
    screen.clear()
    told = capsys.readouterr()
    assert ("cell 3 of 27" in told.err) == (terminal and not quiet) and told.out == ""


def test_why_a_group_is_slow_is_said_once_whoever_it_is_that_asks_again(capsys: pytest.CaptureFixture[str]) -> None:
    class Refused(Slow):
        def at(self, step: int, **more: Any) -> GroupRecord:
            why = {"code": "throttled", "message": f"s3://b/k: the origin has no time (503) (h{step})"}
            return super().at(step, slow=why if 0 < step < 3 else None)

    slow = Refused(1)
    follow(slow, slow.at(0), quiet=False, pause=lambda _: None)  # type: ignore[arg-type]
    assert capsys.readouterr().err == "g-1 is slow: s3://b/k: the origin has no time (503) (h1)\n"
    show_group(slow.at(1))
    assert "  slow: s3://b/k: the origin has no time (503) (h1)\n" in capsys.readouterr().out


def test_switches_are_rows_with_what_is_wrong_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    about = {"id": "1", "peer": None, "connections": 1, "programmed_ms": None, "rules_bound": 9, "msd": None}
    rows = [
        {"name": "s0", "kind": "openflow", "connected": True, "programmed": True, "ports": 4, "ports_up": 3, "rules": 8,
         "appliance": None, "problems": ["port 2 is down", "no LLDP"], **about},
        {"name": "s1", "kind": "p4", "connected": False, "programmed": False, "ports": 2, "ports_up": 0, "rules": 0,
         "appliance": None, "problems": [], **about},
    ]  # fmt: skip
    with answering(200, json.dumps({"switches": rows, "discovered": [], "notes": []})) as url:
        monkeypatch.setenv("DATACAST_TOKEN", "t")
        monkeypatch.setenv("COLUMNS", "120")
        done = CliRunner().invoke(build(["switches"]), ["switches", "--controller", url])
    assert [line.split() for line in done.output.splitlines() if line.startswith("s")][-2:] == [
        ["s0", "openflow", "yes", "yes", "3/4", "8", "port", "2", "is", "down;", "no", "LLDP"],
        ["s1", "p4", "no", "no", "0/2", "0"],
    ], done.output


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("finish", None, "-"),
        ("loss", 0.0123, "1.23 %"),
        ("duplicate_ratio_lru", 0.5, "50 %"),
        ("finish_over_ideal", 1.0123456, "1.01235"),
        ("mbit", 98.76543, "98.765"),
        ("shares", [0.5, 12.34567], "0.5 12.35"),
        ("receivers", 3, "3"),
    ],
)
def test_a_cell_of_an_experiment(key: str, value: Any, text: str) -> None:
    assert sim.cell(key, value) == text


def test_the_table_of_an_experiment_has_its_first_rows_and_its_notes(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"case": f"c{n}", "mbit": float(n)} for n in range(4)]
    result = Result("x", "Shares", Setting(), rows, {"case": "case", "mbit": "Mb/s"}, notes=["Figure 3"])
    sim._table(result, 2)
    told = capsys.readouterr().out.split()
    assert {"Shares", "case", "Mb/s", "c0", "c1", "Figure"} <= {*told} and "c2" not in told
    sim._table(result, 0)
    assert "c3" in capsys.readouterr().out


def test_experiments_are_listed_with_what_they_are() -> None:
    done = CliRunner().invoke(build(["sim"]), ["sim", "list"])
    assert done.exit_code == 0 and any(line.split()[0] == "figure14" for line in done.output.splitlines())
    rows = json.loads(CliRunner().invoke(build(["sim"]), ["sim", "list", "--json"]).output)
    assert {"name": "table1", "title": "Throughput and duplicates against the cache"} in rows


@pytest.mark.parametrize(("status", "seen"), [(503, 2), (429, 2), (404, 1), (401, 1)])
def test_a_controller_whose_events_were_seen_is_waited_for_unless_it_refuses(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: int, seen: int
) -> None:
    """And one of whom nothing was ever seen is not."""
    gone: Any = msgspec.convert({"type": "forgotten", "id": "g-1", "event": "7"}, Event)
    asked: list[str] = []

    class Client:
        url = "http://c"

        def events(self, group: str | None, since: str) -> Iterator[Any]:
            asked.append(since)
            if len(asked) in (1, 3):
                yield gone
            raise Problem(status if len(asked) < 4 else 404, "x", "it is away")

    monkeypatch.setattr(events, "AGAIN_S", 0.0)
    told = []
    with pytest.raises(Problem):
        for event in events._lasting(Client(), None):  # type: ignore[arg-type]
            told.append(event)
    assert (len(told), asked) == (seen, ["none", "7", "7", "7"][: 4 if seen == 2 else 1])
    assert capsys.readouterr().err.count("it is away; trying again") == (2 if seen == 2 else 0)
    asked[:] = [""]
    with pytest.raises(Problem):
        next(events._lasting(Client(), None))  # type: ignore[arg-type]
