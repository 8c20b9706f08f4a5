"""`datacast doctor` tells what is missing and the remedy; `datacast join` runs its script, or names its package."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from datacast.cli import doctor_site, join
from datacast.cli.main import build, main
from datacast.lab import checks
from datacast.lab.checks import Check

GOOD = Check("ip", True, True, "/usr/sbin/ip")
ABSENT = Check("tshark", False, False, "not found", "apt-get install tshark")
MISSING = Check("veth", False, True, "no veth links", "modprobe veth")


def doctor(monkeypatch: pytest.MonkeyPatch, found: list[Check], *words: str) -> tuple[int, str]:
    monkeypatch.setattr(checks, "all_checks", lambda: found)
    monkeypatch.setenv("COLUMNS", "120")
    done = CliRunner().invoke(build(["doctor"]), ["doctor", *words])
    return done.exit_code, done.output


def test_what_is_optional_is_told_and_fails_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out = doctor(monkeypatch, [GOOD, ABSENT])
    rows = [line.split() for line in out.splitlines()]
    assert code == 0 and rows[1][:2] == ["ok", "ip"] and rows[2][:2] == ["absent", "tshark"]
    assert "apt-get install tshark" in out and "This machine can run the lab." in out


@pytest.mark.parametrize(("site", "word"), [(False, "absent"), (True, "look")])
def test_what_a_deployment_should_look_at_is_not_called_absent(
    monkeypatch: pytest.MonkeyPatch, site: bool, word: str
) -> None:
    monkeypatch.setattr(doctor_site, "site_checks", lambda client: [ABSENT])
    code, out = doctor(monkeypatch, [ABSENT], *["--site"] * site)
    assert code == 0 and f"{word} tshark" in " ".join(out.split())


def test_what_is_required_makes_it_1(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out = doctor(monkeypatch, [GOOD, MISSING])
    assert code == 1 and "missing veth" in " ".join(out.split()) and "The lab cannot run here yet." in out
    code, out = doctor(monkeypatch, [GOOD, MISSING], "--json")
    told = json.loads(out)
    assert (code, told["ok"]) == (1, False) and told["checks"][1]["remedy"] == "modprobe veth"


def test_every_check_of_this_machine_that_fails_has_a_remedy() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "datacast.cli.main", "doctor", "--json"], capture_output=True, text=True, timeout=120
    )
    told = json.loads(done.stdout)
    assert done.returncode == (0 if told["ok"] else 1)
    assert {"ip", "tc", "datacast-agent"} <= {check["name"] for check in told["checks"]}
    assert all(check["ok"] or check["remedy"] for check in told["checks"])


def test_the_compiler_that_is_looked_for_is_the_one_that_make_p4_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    called = re.search(r"^P4C \?= (\S+)$", (Path(__file__).parents[2] / "p4src/build.mk").read_text(), re.MULTILINE)
    assert called
    monkeypatch.setattr(checks.shutil, "which", lambda name: f"/opt/bin/{name}" if name == called[1] else None)
    assert [check.name for check in checks.check_dataplanes() if "/opt/bin/" in check.detail] == [called[1]]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["trees", "--topology", "bcube:4,1", "--group", "x"], "'--group': must be a whole number"),
        (["admit", "site", "--minutes", "0"], "'--minutes': must be 0.01 at least"),
        (["token", "create", "f", "--role", "boss", "--name", "x"], "'--role': 'boss' is not one of"),
    ],
)
def test_an_option_that_does_not_fit_is_told_in_plain_words(words: list[str], told: str) -> None:
    done = CliRunner().invoke(build(words), words)
    assert done.exit_code == 2 and told in done.output, done.output


def test_join_hands_its_arguments_to_the_script(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "datacast.cli.main", "join"]
    environment = {**os.environ, "DATACAST_ETC": str(tmp_path / "etc")}
    told = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=60, env=environment)
    assert told.returncode == 0 and "Usage: datacast join [--again] URL TOKEN|-" in told.stdout
    refused = subprocess.run(
        [*command, "http://h:1", "dcj-1"], capture_output=True, text=True, timeout=60, env=environment
    )
    assert refused.returncode == 2 and "http://h:1 is no address" in refused.stderr
    refused = subprocess.run(
        [*command, "https://h:1", "dcj-1"], capture_output=True, text=True, timeout=60, env=environment
    )
    assert refused.returncode == 2 and "this is no token" in refused.stderr
    assert not (tmp_path / "etc").exists()


@pytest.mark.parametrize(("given", "told"), [(f"dcj-{'0' * 64}-{'0' * 48}", "does not answer"), ("", "no token")])
def test_join_takes_a_token_from_standard_input_without_the_end_of_its_line(
    tmp_path: Path, given: str, told: str
) -> None:
    words = ["sh", str(join.PLACES[1]), "https://127.0.0.1:9", "-"]
    environment = {**os.environ, "DATACAST_ETC": str(tmp_path)}
    done = subprocess.run(words, input=given, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 1 and told in done.stderr, done


def test_join_that_is_interrupted_leaves_no_key(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    environment = {**os.environ, "DATACAST_ETC": str(tmp_path / "etc"), "TMPDIR": str(work)}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url, token = f"https://127.0.0.1:{silent.getsockname()[1]}", f"dcj-{'0' * 64}-{'0' * 48}"
        command = ["sh", str(join.PLACES[1]), url, token]
        joining = subprocess.Popen(command, env=environment, start_new_session=True, stderr=subprocess.DEVNULL)
        with silent.accept()[0]:  # it asks
            assert list(work.iterdir())
            os.killpg(joining.pid, signal.SIGINT)  # as a terminal does
            assert joining.wait(60) in (1, 130), "the shell hears of it before or after its curl ends"
    assert not list(work.iterdir())


def test_join_without_its_script_names_the_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(join, "PLACES", (tmp_path / "join",))
    with pytest.raises(SystemExit) as stop:
        main(["join", "https://h:1", "dcj-1"])
    assert stop.value.code == 1
    assert "install the package datacast-common" in capsys.readouterr().err
