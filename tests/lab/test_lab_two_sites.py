"""Two sites with a controller each: a file from one to all of the other, and everybody who must not have it."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import subprocess
import time
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from authority import Authority
from lab_kit import DATACAST, eventually
from sites_kit import Wan, wan

from datacast.cli.lab_show import sites_text
from datacast.services.framing import Decoder, encode

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]

SITES = """
sites:
  ams: {hosts: 2}
  sfo: {hosts: 3}
  syd: {hosts: 1}
links:
  - {between: [ams, sfo], rate: 200mbit, delay_ms: 5}
  - {between: [ams, syd], rate: 200mbit, delay_ms: 5}
"""
MIB = 1 << 20


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory):
    with wan(tmp_path_factory.mktemp("wan"), SITES) as up:
        yield up


def issue(site: Wan, name: str, identity: str) -> ssl.SSLContext:
    """A client with a certificate of a site's own authority."""
    from datacast.services import authority

    folder = site.lab.daemons[name].folder / "tls"
    maker = authority.Authority.open(folder, sync=False)
    stem = site.folder / f"{name}-{identity.replace('/', '-')}"
    cert, key = maker.issue(authority.Identity.parse(identity), stem=stem, replace=True)
    return client(cert, key)


def client(cert: str | Path | None = None, key: str | Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if cert is not None:
        context.load_cert_chain(cert, key)
    return context


def ask(
    site: Wan, name: str, path: str, who: ssl.SSLContext, method: str = "GET", body: Any = None, **headers: str
) -> tuple[int, bytes]:
    host, _, port = site.lab.rest_of(name).removeprefix("https://").rpartition(":")
    connection = http.client.HTTPSConnection(host, int(port), context=who, timeout=60)
    sent = {key.replace("_", "-"): value for key, value in headers.items()}
    connection.request(method, path, None if body is None else json.dumps(body), sent)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, data


def test_a_file_of_one_site_reaches_all_hosts_of_the_other_over_the_wide_area_once(sites: Wan):
    path = sites.file(16 * MIB)
    with sites.carried(16 * MIB) as links:
        group = sites.end("ams", sites.order("ams", path, ["sfo/all"]))
    assert group["state"] == "done", sites.told(group)
    assert all(sites.has(host, path) for host in ("sfo-0", "sfo-1", "sfo-2"))
    assert not sites.has("ams-1", path) and not sites.has("syd-0", path)
    assert 1.0 <= links["ams", "sfo"] < 1.05  # with the headers of TCP, TLS and HTTP
    assert set(group["sites"]) == {"sfo"} and set(group["receivers"]) == {"sfo/sfo-0", "sfo/sfo-1", "sfo/sfo-2"}
    there = next(row for row in sites.lab.ask("sfo", "GET", "/groups") if row["id"] == group["id"])
    assert there["state"] == "done" and there["requested_by"] == "site ams"


def test_parts_of_a_file_travel_only_to_the_sites_and_hosts_that_want_them(sites: Wan):
    """A scatter over both sites, and ranges of which two hosts there want the same."""
    path = sites.file(16 * MIB)
    whole = path.read_bytes()
    there = [f"sfo/sfo-{n}" for n in range(3)]
    some = {there[0]: ["1000000-3999999"], there[1]: ["1000000-3999999"], there[2]: ["12000000-"]}
    for to, more, wanted in (
        (["ams-1", *there], {"scatter": True}, 12 * MIB),
        (there, {"shards": some}, 3_000_000 + 16 * MIB - 12_000_000),
    ):
        name = "-".join(more)
        with sites.carried(wanted) as links:
            group = sites.end("ams", sites.order("ams", path, to, dest_path=name, **more))
        assert group["state"] == "done", sites.told(group)
        assert 1.0 <= links["ams", "sfo"] < 1.09, name  # with headers, and blocks at the ends of ranges
        for host, [text] in group["shards"].items():
            first, _, last = text.partition("-")
            copy = sites.lab.host_folder(host.rpartition("/")[2]) / name
            assert copy.stat().st_size == len(whole) and copy.stat().st_blocks * 512 < 7 * MIB, host
            assert copy.read_bytes()[int(first) : int(last) + 1] == whole[int(first) : int(last) + 1], host


def seen(top: Path) -> dict[str, tuple[int, object]]:
    """Of everything beneath: its rights, and its bytes or where it leads."""
    return {
        str(path.relative_to(top)): (path.lstat().st_mode & 0o777, os.readlink(path) if path.is_symlink()
                                     else path.read_bytes() if path.is_file() else None)
        for path in top.rglob("*")
    }  # fmt: skip


def test_a_file_and_a_directory_for_hosts_there_and_here(sites: Wan):
    path = sites.file(3 * MIB + 5)
    group = sites.end("ams", sites.order("ams", path, ["sfo/sfo-1", "ams-1"]))
    assert group["state"] == "done", sites.told(group)
    assert sites.has("sfo-1", path) and sites.has("ams-1", path) and not sites.has("sfo-0", path)
    assert set(group["sites"]) == {"ams", "sfo"}
    folder = sites.folder / "model"
    (folder / "deep" / "none").mkdir(parents=True)
    (folder / "weights").write_bytes(path.read_bytes())
    (folder / "empty").touch()
    (folder / "deep" / "run").write_text("#!/bin/sh")
    (folder / "deep" / "run").chmod(0o750)
    (folder / "latest").symlink_to("deep/run")
    (folder / "deep").chmod(0o555)
    group = sites.end("ams", sites.order("ams", folder, ["sfo/all", "ams-1"]))
    assert group["state"] == "done", sites.told(group)
    for host in ("sfo-0", "sfo-1", "sfo-2", "ams-1"):
        assert seen(sites.lab.host_folder(host) / "model") == seen(folder), host


def test_everywhere_and_empty(sites: Wan):
    path = sites.file(0)
    group = sites.end("ams", sites.order("ams", path, ["*/all"]))
    assert group["state"] == "done", sites.told(group)
    assert all(sites.has(host, path) for host in ("ams-1", "sfo-0", "sfo-1", "sfo-2", "syd-0"))


def test_whoever_is_not_offered_an_object_does_not_get_it(sites: Wan, tmp_path):
    path = sites.file(2 * MIB)
    group = sites.end("ams", sites.order("ams", path, ["sfo/sfo-0", "sfo/sfo-1"]))
    assert group["state"] == "done", group
    where, one = f"/site/objects/{group['id']}", "bytes=0-99"
    friend = issue(sites, "sfo", "controller/main")
    status, data = ask(sites, "ams", where, friend, range=one)
    assert (status, data) == (206, path.read_bytes()[:100])  # what is refused below is not refused for another reason
    assert ask(sites, "ams", where, client(), range=one)[0] == 401
    assert ask(sites, "ams", where, issue(sites, "sfo", "agent/sfo-0"), range=one)[0] == 403
    assert ask(sites, "ams", where, issue(sites, "sfo", "fabric-manager/main"), range=one)[0] == 403
    assert ask(sites, "ams", where, issue(sites, "syd", "controller/main"), range=one)[0] == 404
    assert ask(sites, "ams", where, issue(sites, "ams", "controller/main"), range=one)[0] == 403
    assert ask(sites, "ams", where, issue(sites, "ams", "agent/ams-1"), range=one)[0] == 404  # it comes from here
    stranger = Authority(tmp_path / "stranger").issue("controller/main")
    with pytest.raises((ssl.SSLError, OSError)):
        ask(sites, "ams", where, client(*stranger), range=one)
    assert ask(sites, "ams", "/site/objects/s-0000000000000000", friend, range=one)[0] == 404
    # a host asks for orders, a site tells of a part that it has not, a site gives itself more
    assert ask(sites, "sfo", "/site/orders", issue(sites, "sfo", "agent/sfo-0"))[0] == 403
    told = {"state": "done"}
    other = issue(sites, "syd", "controller/main")
    headers = {"content_type": "application/json"}
    assert ask(sites, "ams", f"/site/groups/{group['id']}/progress", other, "POST", told, **headers)[0] == 404
    bad = {"state": "done", "fraction": 7}
    assert ask(sites, "ams", f"/site/groups/{group['id']}/progress", friend, "POST", bad, **headers)[0] == 422


@pytest.mark.parametrize(
    "path",
    [
        "/site/objects/../../groups",
        "/site/../groups",
        "/site/%2e%2e/groups",
        "/site/objects/%2e%2e%2f%2e%2e%2fgroups",
        "/site/objects/s-0/../../etc",
        "//site/orders",
        "/groups",
        "/topology",
        "/metrics",
        "/site",
        "/site/objects/",
        "/site/groups",
    ],
)
def test_a_site_reads_nothing_else_by_any_path(sites: Wan, path: str):
    status, _ = ask(sites, "ams", path, issue(sites, "sfo", "controller/main"))
    assert status in (401, 404, 422), path


def test_ranges_that_are_none_too_long_or_of_another_object(sites: Wan):
    path = sites.file(40 * MIB)
    group = sites.end("ams", sites.order("ams", path, ["sfo/sfo-2", "sfo/sfo-1"]))
    where, friend = f"/site/objects/{group['id']}", issue(sites, "sfo", "controller/main")
    for text in ("bytes=0-", "bytes=-5", "bytes=5-4", "bytes=0-1,5-6", "items=0-1", "bytes=0-9" + 20 * "9", "x"):
        assert ask(sites, "ams", where, friend, range=text)[0] == 416, text
    assert ask(sites, "ams", where, friend)[0] == 416
    assert ask(sites, "ams", where, friend, range=f"bytes=0-{17 * MIB}")[0] == 416
    assert ask(sites, "ams", where, friend, range=f"bytes={40 * MIB}-{40 * MIB + 1}")[0] == 416
    assert ask(sites, "ams", where, friend, range="bytes=0-9", if_match='"another"')[0] == 412
    assert ask(sites, "ams", where, friend, range=f"bytes={40 * MIB - 1}-{40 * MIB + 1}")[1] == path.read_bytes()[-1:]


def test_a_flood_of_ranges_costs_the_flood_its_own(sites: Wan):
    """80 at once, none of which reads on: the port answers others, and a file passes."""
    path = sites.file(12 * MIB)
    group = sites.end("ams", sites.order("ams", path, ["sfo/sfo-2", "sfo/sfo-1"]))
    friend = issue(sites, "sfo", "controller/main")
    host, _, port = sites.lab.rest_of("ams").removeprefix("https://").rpartition(":")
    request = f"GET /site/objects/{group['id']} HTTP/1.1\r\nhost: x\r\nrange: bytes=0-{12 * MIB - 1}\r\n\r\n".encode()

    def one(_: int) -> ssl.SSLSocket:
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.settimeout(20)
        raw.connect((host, int(port)))
        sock = friend.wrap_socket(raw)
        sock.sendall(request)
        return sock

    with ThreadPoolExecutor(8) as pool:
        flood = list(pool.map(one, range(80)))
    try:
        first = [sock.recv(12)[9:12] for sock in flood]
        assert first.count(b"206") <= 64 and b"429" in first
        assert ask(sites, "ams", "/healthz", client())[0] == 200
        other = sites.file(MIB)
        assert sites.end("ams", sites.order("ams", other, ["syd/all"]))["state"] == "done", sites.logs()
    finally:
        for sock in flood:
            sock.close()
    third = sites.file(MIB)
    assert sites.end("ams", sites.order("ams", third, ["sfo/all"]))["state"] == "done", sites.logs()


def test_an_agent_is_read_by_controllers_only_and_takes_no_orders_from_them(sites: Wan):
    path = sites.file(1000)
    read = {"type": "read", "id": 7, "path": str(path), "off": 0, "len": 10}
    stat = {"type": "request", "id": 8, "op": "stat", "tree": {"n": "ams-0", "b": {"path": str(path)}}}

    def tell(identity: str, message: dict[str, Any]) -> dict[str, Any]:
        host, _, port = sites.lab.agent_address("ams-0").rpartition(":")
        with issue(sites, "ams", identity).wrap_socket(socket.create_connection((host, int(port)), 5)) as sock:
            sock.sendall(encode(message))
            decoder, data = Decoder(), b""
            while part := sock.recv(1 << 16):
                data += part
                size = 4 + int.from_bytes(data[:4], "big") if len(data) > 3 else 1 << 30
                if len(data) >= size:
                    return decoder.feed(data[:size])[0]
        raise AssertionError("no answer")

    assert tell("controller/main", read)["n"] == 10
    assert tell("agent/ams-1", read)["code"] == tell("master/main", read)["code"] == "denied"
    assert tell("controller/main", stat)["code"] == "denied"
    assert "results" in tell("master/main", stat)
    for wrong in (
        {**read, "len": 1 << 30},
        {**read, "off": -1},
        {**read, "path": "/etc/../etc/shadow"},
        {**read, "dest": "x"},
        {"type": "read", "id": 1, "dest": "../../etc/passwd", "off": 0, "len": 1},
        {"type": "read", "id": 1, "group": "s-none", "off": 0, "len": 1},
    ):
        assert tell("controller/main", wrong)["type"] == "error", wrong


def test_what_cannot_be_is_said(sites: Wan, tmp_path):
    path = sites.file(1000)

    def refused(status: int, code: str, to: list[str], source: Path = path) -> str:
        with pytest.raises(urllib.error.HTTPError) as caught:
            sites.order("ams", source, to)
        body = json.loads(caught.value.read())
        assert (caught.value.code, body["code"]) == (status, code), body
        return str(body["detail"])

    assert "no site mars is known" in refused(422, "unknown_site", ["sfo/all", "mars/all"])
    assert "nowhere" in refused(409, "not_found", ["sfo/all"], Path("/nowhere"))
    # one that is known, and never came
    file = sites.lab.daemons["ams"].folder / "sites.yaml"
    before, absent = file.read_text(), Authority(tmp_path / "absent")
    try:
        file.write_text(before + f"  moon: {{ca: {absent.ca}}}\n")
        eventually(lambda: len(sites.lab.ask("ams", "GET", "/sites")) == 3, 60, "the file is read again")
        assert "has not asked for orders" in refused(409, "site_away", ["moon/all"])
        # a name twice, this site's own name, an authority twice: what was known stays, and the log says why
        ca = sites.lab.daemons["sfo"].folder / "tls" / "ca.pem"
        for line, why in ((f"  sfo: {{ca: {ca}}}\n", "twice"), (f"  ams: {{ca: {ca}}}\n", "two sites of the name ams"),
                          (f"  frisco: {{ca: {ca}}}\n", "same authority")):  # fmt: skip
            file.write_text(before + line)
            eventually(lambda why=why: why in sites.logs(), 60, why)
    finally:
        file.write_text(before)
        eventually(lambda: len(sites.lab.ask("ams", "GET", "/sites")) == 2, 60, "the file is good again")
    # an unknown host there
    group = sites.end("ams", sites.order("ams", path, ["sfo/nobody", "syd/all"]))
    assert group["state"] == "partial" and "nobody" in group["sites"]["sfo"]["error"]["message"]


def test_a_file_that_changes_meanwhile_is_no_mixture(sites: Wan):
    path = sites.file(64 * MIB)
    group = sites.order("ams", path, ["sfo/all"])
    sites.until("ams", group, 0.05, "sfo")
    with path.open("r+b") as out:
        out.seek(60 * MIB)
        out.write(b"changed")
    group = sites.end("ams", group)
    assert group["state"] == "failed" and group["sites"]["sfo"]["error"]["code"] == "changed", group
    assert not any((sites.lab.host_folder(host) / path.name).exists() for host in ("sfo-0", "sfo-1", "sfo-2"))


def test_a_cancel_reaches_the_other_site(sites: Wan):
    path = sites.file(64 * MIB)
    group = sites.order("ams", path, ["sfo/all"])
    sites.until("ams", group, 0.05, "sfo")
    sites.lab.ask("ams", "POST", f"/groups/{group['id']}/cancel")
    group = sites.end("ams", group, 10)
    assert group["state"] == "cancelled" and group["sites"]["sfo"]["state"] == "cancelled", group
    time.sleep(1.0)
    with sites.carried(MIB) as links:
        time.sleep(1.0)
    assert links["ams", "sfo"] < 0.1  # nothing goes there any more


def test_a_person_sends_with_what_the_lab_says(sites: Wan):
    """`datacast lab up --sites` ends with what to set; with that, and over HTTPS, the command finds the controller."""
    told = dict(word.split("=", 1) for word in sites_text(sites.lab).split() if word.startswith("DATACAST_"))
    path = sites.file(MIB)

    def send(to: str) -> subprocess.CompletedProcess[str]:
        command = [DATACAST, "send", str(path), "--from", "ams-1", "--to", to, "--dest", path.name]
        return subprocess.run(
            command, env={**os.environ, **told, "COLUMNS": "400"}, capture_output=True, text=True, timeout=120
        )

    done = send("sfo/sfo-1")
    assert done.returncode == 0 and "sfo/sfo-1" in done.stdout, done
    assert sites.has("sfo-1", path)
    done = send("tokyo/all")
    assert done.returncode == 2 and "no site tokyo is known" in done.stderr, done


def test_nothing_secret_is_told(sites: Wan):
    for name, site in sites.lab.daemons.items():
        keys = [path.read_text() for path in (site.folder / "tls").glob("*.key")]
        told = sites.logs() + json.dumps(sites.lab.ask(name, "GET", "/groups"))
        assert keys and site.credentials.token not in told and not any(key[40:80] in told for key in keys)
