"""The program of a controller, what it refuses, and its client where nothing is as it should be."""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import logging
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import yaml
from answering import answering
from authority import Authority
from commands import command

from datacast.controller import api, console
from datacast.controller.api import ControllerClient
from datacast.controller.app import make_app
from datacast.controller.audit import Audit
from datacast.controller.main import FABRIC_MANAGER_S, rest_until
from datacast.fabric_manager.api import FabricManagerClient, GroupSpec
from datacast.services.problems import Problem, Unreachable
from datacast.services.service import listen

NOBODY = "http://127.0.0.1:9"
ORDER = {"source": "h0", "receivers": ["h1"], "source_path": "/srv/file"}


def sites_file(folder: Path, other: Authority) -> Path:
    file = folder / "sites.yaml"
    rows = {"sfo": {"ca": str(other.ca), "url": "https://127.0.0.1:9"}}
    file.write_text(yaml.safe_dump({"name": "ams", "url": "https://127.0.0.1:1", "sites": rows}))
    return file


def lives(*words: str, lines: int = 1) -> tuple[list[str], str]:
    """The program: the first lines that it says, and what its log holds after a signal, on which it ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "datacast.controller.main", "--listen", "127.0.0.1:0", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(lines)]
        place = urlsplit(told[0].split("REST at ")[1].split()[0])
        with socket.create_connection((place.hostname, place.port), timeout=60) as there:  # it says so when it answers
            if place.scheme == "https":
                ssl._create_unverified_context().wrap_socket(there).close()
            else:
                there.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
                assert there.recv(5) == b"HTTP/"
        process.terminate()
        _, log = process.communicate(timeout=60)
        assert process.returncode == 0, log
        return told, log
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_one_without_tokens_says_that_everybody_may_give_orders_and_ends_on_a_signal() -> None:
    told, log = lives()
    assert "REST at http://127.0.0.1:" in told[0] and "no --tokens: whoever reaches" in log


@pytest.mark.slow
def test_one_of_a_site_with_switches_says_so_and_ends_on_a_signal_though_nobody_else_is_there(tmp_path: Path) -> None:
    ams, sfo = Authority(tmp_path / "ams"), Authority(tmp_path / "sfo")
    switches = tmp_path / "switches.yaml"
    one = {"name": "s0", "openflow": {"dpid": 1}, "ports": [{"port": 0, "number": 1}]}
    switches.write_text(yaml.safe_dump({"switches": [one], "openflow_listen": "127.0.0.1:0"}))
    words = ["--fabric-manager", "https://127.0.0.1:9", "--switches", str(switches)]
    words += ["--sites", str(sites_file(tmp_path, sfo)), *ams.options("controller/main")]
    told, _ = lives(*words, lines=3)
    assert "REST at https://127.0.0.1:" in told[0], told
    assert "programs 1 switches" in told[1] and "site ams, knows 1 others" in told[2], told


def test_an_address_in_use_is_named() -> None:
    with listen("127.0.0.1:0") as sock:
        address = f"127.0.0.1:{sock.getsockname()[1]}"
        code, _, told = command("--listen", address, module="controller")
    assert code == 1 and f"cannot listen on {address}" in told


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--sites", "SITES"], 2, "--sites needs --tls-ca, --tls-cert and --tls-key"),
        (["--sites", "ABSENT", "TLS"], 1, "cannot read"),
        (["--sites", "SITES", "TLS", "--rest-cert", "SITES", "--rest-key", "SITES"], 1, "is no PEM file"),
        (["--switches", "ABSENT"], 2, "cannot read"),
        (["--switches", "SITES"], 2, "switches"),
        (["--listen", "127.0.0.1:http"], 2, "is no address"),
        (["--listen", "everywhere"], 2, "'everywhere' is no address"),
        (["--listen", "192.0.2.1:7580"], 2, "without --tokens is refused"),
        (["--rest-cert", "SITES"], 2, "--rest-cert and --rest-key belong together"),
        (["--sites", "SITES", "TLS", "--rest-key", "SITES"], 2, "--rest-cert and --rest-key belong together"),
        (["--rest-cert", "ABSENT", "--rest-key", "SITES"], 1, "cannot read"),
        (["--tls-ca", "SITES"], 2, "belong together"),
        (["--rate", "-1"], 2, "--rate must be a number from 0 up"),
        (["--rate", "nan"], 2, "--rate must be a number from 0 up"),
        (["--connections", "0"], 2, "--connections between 1 and 65536"),
        (["--realtime", "100"], 2, "must be between 0 and 99"),
        (["--audit", "ABSENT/log"], 1, "cannot write the audit log"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_word_about_it(
    tmp_path: Path, options: list[str], code: int, words: str
) -> None:
    names = {"SITES": str(sites_file(tmp_path, Authority(tmp_path / "sfo"))), "ABSENT": str(tmp_path / "absent")}
    given: list[str] = []
    for option in options:
        if option == "TLS":
            given += Authority(tmp_path / "ams").options("controller/main")
        else:
            first, slash, rest = option.partition("/")
            given.append(names.get(first, first) + slash + rest)
    found, _, told = command("--listen", "127.0.0.1:0", *given, module="controller")
    assert found == code and words in told, told


def asked(act: Callable[[httpx.AsyncClient], Any], **parts: Any) -> Any:
    """Of a controller whose fabric manager is not there."""

    async def steps() -> Any:
        async with FabricManagerClient(NOBODY) as client:
            transport = httpx.ASGITransport(app=make_app(client, **parts))
            async with httpx.AsyncClient(transport=transport, base_url="http://controller") as http:
                return await act(http)

    return asyncio.run(steps())


def test_the_end_of_the_certificate_of_rest_is_among_those_that_are_told(tmp_path: Path) -> None:
    cert, _ = Authority(tmp_path).issue("controller/main", days=(0, 3))
    until = rest_until(argparse.Namespace(rest_cert=cert))
    assert until is not None and abs(until - time.time() - 3 * 86400) < 3600
    assert rest_until(argparse.Namespace(rest_cert=None)) is None
    text = asked(lambda http: http.get("/metrics"), until=until).text
    (told,) = [line for line in text.splitlines() if line.startswith("datacast_certificate_end_timestamp_seconds ")]
    assert float(told.split()[1]) == until


def test_an_audit_log_that_cannot_be_written_is_told_of_and_costs_nobody_an_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    audit = Audit(folder / "audit.jsonl")
    (folder / "audit.jsonl").unlink()
    folder.rmdir()

    async def act(http: httpx.AsyncClient) -> tuple[httpx.Response, str]:
        for _ in range(2):
            answer = await http.post("/groups", json=ORDER)
            assert caplog.text.count("audit.jsonl cannot be written: No such file or directory") == 1
        folder.mkdir()
        await http.post("/groups", json=ORDER)
        return answer, (await http.get("/metrics")).text

    with caplog.at_level(logging.WARNING):
        answer, metrics = asked(act, audit=audit)
    assert answer.status_code == 503 and answer.json()["code"] == "unreachable"
    assert caplog.text.count("audit.jsonl cannot be written: No such file or directory") == 1
    assert caplog.text.count("audit.jsonl is written again: 2 lines are missing") == 1
    assert "datacast_audit_lines_lost_total 2.0" in metrics
    assert len((folder / "audit.jsonl").read_text().splitlines()) == 1


@pytest.mark.root
def test_a_full_disk_leaves_no_half_line_in_the_audit_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What is there was written whole, and lines go on as soon as there is room."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "audit", str(tmp_path)], check=True)
    try:
        audit, other = Audit(tmp_path / "audit.jsonl"), tmp_path / "other"
        other.write_bytes(bytes(4096))
        for number in range(100):
            audit.write("anna", "t1", "192.0.2.1", "POST", f"/groups/{number}", 201)
        there = [json.loads(line)["path"] for line in audit.path.read_text().splitlines()]
        assert there == [f"/groups/{number}" for number in range(len(there))]
        assert 0 < len(there) == 100 - audit.lost and audit.path.stat().st_size + 200 > 4096
        other.unlink()
        audit.write("anna", "t1", "192.0.2.1", "POST", "/groups/last", 201)
        assert json.loads(audit.path.read_text().splitlines()[-1])["path"] == "/groups/last"
        assert "No space left on device" in caplog.text
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_without_a_console_its_pages_say_how_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "folder", lambda: None)
    answer = asked(lambda http: http.get("/"))
    assert answer.status_code == 404 and answer.json()["remedy"] == "make build"


def test_who_signs_out_has_no_cookie_any_more_and_one_that_is_none_is_nobody_s() -> None:
    answer = asked(lambda http: http.delete("/console/session"))
    cookie = answer.headers["set-cookie"].lower()
    assert answer.status_code == 204 and console.COOKIE in cookie and "max-age=0" in cookie
    assert console.cookie_of({"cookie": "a@b=1"}) == "" == console.cookie_of({})


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "127.0.0.1:7580", "unix", "http://h:99999", "http://a..b"])
def test_an_address_of_no_kind_is_refused(url: str) -> None:
    with pytest.raises(Problem, match="is no address of a controller"):
        ControllerClient(url)


def test_where_no_controller_is_each_address_is_asked_and_the_last_one_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ControllerClient(f"{NOBODY}, unix:{tmp_path}/none") as client, pytest.raises(Unreachable, match="none"):
        client.sites()
    (tmp_path / "ca.pem").write_text("no certificate")
    monkeypatch.setenv(api.ENV_CA, str(tmp_path / "ca.pem"))
    with pytest.raises(Problem, match="holds no certificate of an authority"):
        ControllerClient("https://127.0.0.1:9")
    monkeypatch.setenv(api.ENV_CA, str(tmp_path / "absent.pem"))
    with pytest.raises(Problem, match="No such file"):
        ControllerClient("https://127.0.0.1:9")


def test_an_order_that_may_have_been_carried_out_is_given_to_no_other_controller() -> None:
    """A question is, and so is an order where nobody listens."""
    seen: list[str] = []
    order = GroupSpec(source="h0", receivers=["h1"], source_path="/f")
    with answering(None) as broken, answering(200, "[]", seen) as other:
        with ControllerClient(f"{broken},{other}") as client:
            assert client.sites() == [] and seen == ["GET"]
        with ControllerClient(f"{broken},{other}") as client, pytest.raises(Unreachable, match=broken):
            client.create_group(order)
        assert seen == ["GET"]
        with ControllerClient(f"{NOBODY},{other}") as client, pytest.raises(Problem, match="not understood"):
            client.create_group(order)
        assert seen == ["GET", "POST"]


def test_a_stream_of_events_that_is_refused_breaks_off_or_ends_by_an_error_says_so() -> None:
    refused = json.dumps({"code": "unauthorized", "detail": "a token is missing", "status": 401})
    over = 'data: {"type": "error", "code": "unreachable", "detail": "the fabric manager is away", "status": 503}\n\n'
    cases = [(401, refused, 401, "a token is missing"), (200, over, 503, "manager is away"), (None, "", 503, "127.0")]
    for answer, text, status, words in cases:
        with (
            answering(answer, text) as url,
            ControllerClient(url) as client,
            pytest.raises(Problem, match=words) as error,
        ):
            list(client.events())
        assert error.value.status == status


def test_who_asks_waits_longer_than_the_controller_waits_for_a_fabric_manager_that_hangs() -> None:
    """Else it is the controller that seems to be gone."""
    patience = inspect.signature(ControllerClient).parameters["timeout"].default
    assert patience >= FABRIC_MANAGER_S + 2
