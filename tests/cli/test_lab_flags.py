"""`datacast lab up` and `lab run`: what says what a lab is means the same to both."""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from datacast.cli.lab_flags import LabFlags
from datacast.cli.main import build
from datacast.lab.errors import LabError
from datacast.lab.lab import LabOptions

GIVEN = ["--topology", "bcube:3,1", "--link", "25mbit", "--mtu", "1500", "--queue", "64", "--dataplane", "bmv2"]
GIVEN += ["--without-appliance", "all", "--appliance-link", "50mbit", "--name", "two", "--rest-port", "7001"]
GIVEN += ["--fabric-port", "7002", "--work", "/tmp/there", "--no-realtime", "--keep", "--insecure"]


class Asked(LabError):
    """Instead of a lab."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[LabOptions, str]]:
    """What labs were asked for; none is brought up."""
    seen: list[tuple[LabOptions, str]] = []

    def note(options: LabOptions, name: str, *rest: Any) -> None:
        seen.append((options, name))
        raise Asked("asked", what=name)

    monkeypatch.setattr("datacast.lab.site_lab.SitesLab", note)
    monkeypatch.setattr("datacast.lab.lab.Lab", note)
    monkeypatch.setattr("datacast.lab.run.run", note)
    return seen


def lab(*words: str) -> int:
    return CliRunner().invoke(build(["lab"]), ["lab", *words]).exit_code


@pytest.mark.parametrize("given", [[], GIVEN], ids=["nothing", "everything"])
def test_up_and_run_ask_for_the_same_lab(given: list[str], asked: list[tuple[LabOptions, str]]) -> None:
    assert (lab("up", *given), lab("run", "--size", "1M", *given)) == (2, 3)
    up, run = asked
    assert up == run


def test_every_option_arrives(asked: list[tuple[LabOptions, str]]) -> None:
    lab("up", *GIVEN)
    options, name = asked[0]
    assert name == "two"
    assert (options.topology, options.rate_bps, options.mtu, options.queue_packets) == ("bcube:3,1", 25e6, 1500, 64)
    assert (options.dataplane, options.appliance_bps, options.work) == ("bmv2", 50e6, "/tmp/there")
    assert options.without_appliance, "all appliances were to be absent"
    assert (options.rest_port, options.fabric_port) == (7001, 7002)
    assert (options.realtime, options.keep, options.insecure) == (False, True, True)


SITES = Path(__file__).parents[2] / "examples" / "sites.yaml"


def test_a_file_of_sites_is_a_lab_of_sites(asked: list[tuple[LabOptions, str]]) -> None:
    assert lab("up", "--sites", str(SITES), "--link", "25mbit") == 2
    assert (asked[0][0].topology, asked[0][0].rate_bps) == (str(SITES), 25e6)


@pytest.mark.parametrize(
    "other",
    [
        ["--topology", "bcube:3,1"],
        ["--dataplane", "ovs"],
        ["--without-appliance", "all"],
        ["--appliance-link", "1mbit"],
        ["--insecure"],
    ],
    ids=lambda words: words[0],
)
def test_what_says_nothing_of_sites_is_refused(other: list[str], asked: list[tuple[LabOptions, str]]) -> None:
    done = CliRunner().invoke(build(["lab"]), ["lab", "run", "--sites", str(SITES), *other])
    assert done.exit_code == 2 and f"{other[0]} and --sites exclude each other" in done.output
    assert not asked


@pytest.mark.parametrize("command", ["up", "run"])
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--mtu", "17"], "--mtu"),
        (["--link", "fast"], "'fast' is no rate"),
        (["--topology", "ring"], "'ring' is no topology"),
        (["--dataplane", "smoke"], "no data plane 'smoke'"),
        (["--dataplane", "ip", "--without-appliance", "all"], "no cache appliances with ip"),
        (["--dataplane", "p4", "--appliance-link", "1mbit"], "no cache appliances with p4"),
    ],
)
def test_a_wrong_option_is_named_and_exits_with_2(command: str, words: list[str], told: str) -> None:
    done = CliRunner().invoke(build(["lab"]), ["lab", command, *words])
    assert (done.exit_code, told in done.output) == (2, True), done.output


def test_a_report_that_cannot_be_written_is_refused_before_the_run(asked: list[tuple[LabOptions, str]]) -> None:
    done = CliRunner().invoke(build(["lab"]), ["lab", "run", "--json", "/nowhere/report.json"])
    assert done.exit_code == 2 and "/nowhere/report.json: No such file or directory" in done.output
    assert not asked


def test_a_file_to_send_that_may_not_be_read_is_named(
    asked: list[tuple[LabOptions, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was told as the report's, `None`."""

    def settle(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "/closed/file")

    monkeypatch.setattr("datacast.lab.run.settle", settle)
    done = CliRunner().invoke(build(["lab"]), ["lab", "run", "--file", "/closed/file"])
    assert done.exit_code == 2 and "datacast lab: /closed/file: Permission denied" in done.output and not asked


def test_both_commands_have_every_option_of_a_lab_and_help_for_it() -> None:
    commands = get_command(build(["lab"])).commands["lab"].commands  # type: ignore[attr-defined]
    names = {f.name for f in fields(LabFlags)}
    for command in (commands["up"], commands["run"]):
        has = {p.name: p for p in command.params}
        assert names <= set(has)
        assert all(inspect.cleandoc(has[name].help) for name in names)
