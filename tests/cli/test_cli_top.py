"""What `datacast top` shows."""

from __future__ import annotations

import io
from contextlib import nullcontext

import made_records
import pytest
from rich.console import Console

from datacast.cli import top
from datacast.cli.top import GROUPS_MAX, look
from datacast.services.problems import Problem


class Fabric:
    """A controller that answers from memory."""

    def __init__(self, groups):
        self.all, self.asked = groups, []

    def topology(self):
        nodes = [{"name": "a", "kind": "host"}, {"name": "b", "kind": "host", "registered": False}]
        return made_records.topology(spec="pair", nodes=nodes, links=[{"u": "a", "v": "b", "up": False}])

    def groups(self):
        return [made_records.summary(**group) for group in self.all]

    def group(self, name):
        self.asked.append(name)
        receivers = {"b": {"fraction": 0.25}, "c": {"fraction": 0.75}}
        return made_records.group(
            id=name, source="a", fraction=0.5, rate_bps=8_000_000, receivers=receivers, trees={"1": {}}
        )


def shown(fabric):
    console = Console(width=120, record=True)
    console.print(look(fabric))
    return console.export_text()


def test_it_names_what_is_down_what_runs_and_who_is_slowest():
    text = shown(Fabric([{"id": "g-1", "state": "running"}, {"id": "g-0", "state": "partial"}]))
    assert "1 down: a-b" in text and "1 not registered: b" in text
    assert "g-1" in text and "8.0" in text and "b 25 %" in text
    assert "g-0" in text and "partial" in text


def test_it_asks_for_a_bounded_number_of_groups():
    fabric = Fabric([{"id": f"g-{i}", "state": "running"} for i in range(3 * GROUPS_MAX)])
    shown(fabric)
    assert len(fabric.asked) == GROUPS_MAX


def test_a_fabric_at_rest_is_no_error():
    assert "none is running" in shown(Fabric([]))


class Refusing(Fabric):
    """At the second look."""

    def __init__(self, problem: Problem) -> None:
        super().__init__([])
        self.looks, self.problem = 0, problem

    def topology(self):
        self.looks += 1
        if self.looks == 2:
            raise self.problem
        return super().topology()


def test_looks_are_repeated_and_a_controller_that_is_away_is_said(monkeypatch):
    fabric = Refusing(Problem(503, "away", "no controller answers"))
    console, pauses = Console(width=120, record=True, force_terminal=True), []
    monkeypatch.setattr(top, "connect", lambda *_: nullcontext(fabric))
    monkeypatch.setattr(top, "Console", lambda: console)
    monkeypatch.setattr(top.time, "sleep", pauses.append)
    top.top(interval=7.0, count=3, controller="", token_file=None)
    text = console.export_text()
    assert (fabric.looks, pauses) == (3, [7.0, 7.0])
    assert "no controller answers; trying again" in text and text.count("pair: 2 hosts") == 2


def test_it_ends_with_its_token(monkeypatch):
    fabric = Refusing(Problem(401, "unauthorized", "this token is revoked"))
    monkeypatch.setattr(top, "connect", lambda *_: nullcontext(fabric))
    monkeypatch.setattr(top, "Console", lambda: Console(width=120, record=True, force_terminal=True))
    monkeypatch.setattr(top.time, "sleep", lambda _: None)
    with pytest.raises(Problem, match="revoked"):
        top.top(interval=7.0, count=3, controller="", token_file=None)
    assert fabric.looks == 2


def test_into_a_pipe_the_last_look_ends_its_line_and_a_terminal_gets_none_more(monkeypatch):
    monkeypatch.setattr(top, "connect", lambda *_: nullcontext(Fabric([])))
    ends = {}
    for terminal in (False, True):
        console = Console(width=120, record=True, force_terminal=terminal, file=io.StringIO())
        monkeypatch.setattr(top, "Console", lambda console=console: console)
        top.top(interval=7.0, count=1, controller="", token_file=None)
        ends[terminal] = console.export_text().endswith("\n")
    assert ends == {False: True, True: False}
