"""`datacast lab exec`, `shell`, `capture`: the command lines that lead into a lab, and what is no place in it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from datacast.cli import lab_visit
from datacast.cli.main import main
from datacast.lab import visit
from datacast.lab.errors import LabError
from datacast.lab.state import State


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Command lines that this process would have turned into, from a lab of h0 and h1 on a switch s."""
    state = State(name="lab", identity="", slot=0, pid=os.getpid(), started=0)
    state.namespaces = dict.fromkeys(("h0", "h1", "s"), 7)
    state.ports = {"h0": ["x0"], "h1": ["x1"], "s": ["x2", "x3"]}
    state.neighbours = {"h0": ["s"], "h1": ["s"], "s": ["h0", "h1"]}
    monkeypatch.setattr(visit, "running", lambda name: state)
    found: list[list[str]] = []

    class Became(Exception):
        pass

    def execvp(program: str, command: list[str]) -> None:
        found.append(command)
        raise Became

    monkeypatch.setattr(os, "execvp", execvp)
    monkeypatch.setattr(lab_visit, "Became", Became, raising=False)
    return found


def run(*words: str) -> None:
    with pytest.raises(lab_visit.Became):  # type: ignore[attr-defined]
        main(["lab", *words])


INTO = ["mnexec", "-a", "7"]


def test_a_command_runs_where_a_node_is_with_its_own_options(became: list[list[str]]) -> None:
    run("exec", "h1", "ip", "-s", "link", "--json")
    assert became == [[*INTO, "ip", "-s", "link", "--json"]]


def test_a_shell_says_where_it_is(became: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PS1", "")
    run("shell", "s")
    assert became == [[*INTO, "bash", "--norc"]] and os.environ["PS1"] == "s# "


@pytest.mark.parametrize(("link", "interface"), [("h0:0", "x0"), ("s:1", "x3"), ("s-h1", "x3"), ("h1-s", "x1")])
def test_a_capture_into_a_file_begins_at_the_end_that_is_named(
    became: list[list[str]], capsys: pytest.CaptureFixture[str], tmp_path: Path, link: str, interface: str
) -> None:
    file = tmp_path / "frames.pcap"
    run("capture", link, "-w", str(file), "--count", "5", "--snap", "96")
    limits = ["-i", interface, "-s", "96", "-c", "5", "-w", str(file)]
    assert became == [[*INTO, "tcpdump", "-U", "-Z", "root", *limits]]
    assert "tshark -X lua_script:" in capsys.readouterr().err and visit.DISSECTOR.is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("exec", "h7", "ls"), "no node 'h7'\nthere are h0, h1, s"),
        (("capture", "h7:0", "-w", "x"), "no node 'h7'\nthere are h0, h1, s"),
        (("capture", "h0:1", "-w", "x"), "no port 'h0:1': h0 has 1"),
        (("capture", "h0-h1", "-w", "x"), "no cable 'h0-h1'\ngive NODE:PORT"),
    ],
)
def test_what_is_no_place_in_the_lab_is_named(
    became: list[list[str]], capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    with pytest.raises(SystemExit):
        main(["lab", *words])
    assert message in capsys.readouterr().err and not became


def test_packets_are_printed_by_tshark_whose_exit_code_counts(
    became: list[list[str]], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, script in (("mnexec", "echo frames of $8"), ("tshark", "cat; exit 3")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(SystemExit) as stop:
        main(["lab", "capture", "s:0"])
    assert stop.value.code == 3 and capfd.readouterr().out == "frames of x2\n"


def test_without_tshark_a_file_is_offered(
    became: list[list[str]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit):
        main(["lab", "capture", "s:0"])
    assert "tshark is not installed" in (err := capsys.readouterr().err) and "--write FILE" in err


def test_a_program_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LabError, match="cannot start /no/such: No such file"):
        lab_visit._become(["/no/such"])
