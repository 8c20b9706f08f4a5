"""Origins that do not do what they should, and secrets, in a whole lab: agents, controller and command together."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import unquote

import commands
import pytest
from liar import Liar
from origin_lab import HOSTS, OriginLab, origin_lab
from registry import certificate
from web import Nginx

from datacast.lab.state import marked
from datacast.origins.dealing import POLICIES

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(300)]

DATA = os.urandom((2 << 20) + 5)


@pytest.fixture(scope="module")
def its_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OriginLab]:
    with origin_lab(tmp_path_factory.mktemp("origins")) as it:
        yield it


@pytest.fixture
def place(its_lab: OriginLab) -> Iterator[tuple[OriginLab, Liar]]:
    """An origin of its own for each test, at a port of its own: agents keep connections to those before it."""
    with Liar(socket.create_server((its_lab.lab.plan.root_address, 0)), DATA) as liar:
        liar.true_to = len(DATA) // 2
        its_lab.allow({"prefix": liar.place})
        yield its_lab, liar


class Command:
    """`datacast` as somebody at a terminal has it."""

    def __init__(self, it: OriginLab, folder: Path) -> None:
        token = folder / "token"
        token.write_text(it.lab.credentials.token)
        token.chmod(0o600)
        self._where = ("--controller", it.lab.rest, "--token-file", str(token))

    def __call__(self, *words: str) -> tuple[int, str]:
        """Its exit code, and what it says on one line."""
        code, out, err = commands.command(*words, *self._where, environment={**os.environ, "COLUMNS": "2000"})
        return code, " ".join((out + err).split())

    def send(self, what: str, to: str, *more: str) -> tuple[int, str]:
        return self("send", what, "--to", "all", "--fetchers", "2", "--dest", to, *more)


def at(it: OriginLab, name: str) -> list[Path]:
    return [it.lab.host_folder(host) / name for host in HOSTS]


LIES = {
    "403": ("origin_denied", "403: the origin refuses (403): look at its entry in --origins ("),
    "404": ("not_found", "there is no such object (404)"),
    "416": ("changed", "is shorter than it was (416)"),
    "500": ("origin_failed", "the origin answers 500"),
    "no time": ("throttled", "the origin has no time (429)"),
    "other etag": ("changed", "changed while it was fetched"),
    "other size": ("changed", "changed while it was fetched"),
    "other bytes": ("bad_answer", "other bytes than those asked for"),
    "too much": ("bad_answer", "more bytes than those asked for"),
    "too little": ("truncated", "fewer bytes than those asked for"),
    "gzip": ("bad_answer", "the origin encodes what it sends (gzip)"),
    "whole": ("no_ranges", "does not answer range requests"),
    "circle": ("bad_answer", "redirects more than 5 times"),
    "redirects": ("bad_answer", "redirects to what is not https or http"),
}
"""What origins begin to do in the middle of the object; the code of the group's error, and what the command says."""


def test_what_an_origin_does_wrong_is_named_leaves_nothing_and_is_resumed_where_it_was(place, tmp_path: Path) -> None:
    it, liar = place
    liar.retry_after = "0"
    command = Command(it, tmp_path)
    with ThreadPoolExecutor(2) as some:
        told = dict(zip(LIES, some.map(lambda how: command.send(liar.url(how), how), LIES), strict=True))
    rows = [it.lab.rest_json("GET", f"/groups/{group['id']}") for group in it.lab.rest_json("GET", "/groups")]
    groups = {unquote(group["source_path"].removeprefix(liar.place)): group for group in rows}
    for how, (code, text) in LIES.items():
        group = groups[how]
        assert told[how][0] == 1 and text in told[how][1], (how, told[how])
        assert (group["state"], group["error"]["code"]) == ("failed", code), (how, group)
        assert not any(path.exists() for path in at(it, how)), f"{how}: nothing partial"
    liar.healed = True
    liar.given.clear()
    ids = {how: groups[how]["id"] for how in LIES}
    with ThreadPoolExecutor(2) as some:
        resumed = dict(zip(LIES, some.map(lambda how: command("resume", ids[how]), LIES), strict=True))
    for how in LIES:
        assert resumed[how][0] == 0 and "started in -" not in resumed[how][1], (how, resumed[how])
        assert all(path.read_bytes() == DATA for path in at(it, how)), how
        # Most of these end the group at once, when little is there yet.
        assert liar.given[how] <= len(DATA) * (0.75 if how == "403" else 1), f"{how}: what was there is fetched again"


def test_what_goes_wrong_once_costs_nothing_but_time(place, tmp_path: Path) -> None:
    it, liar = place
    liar.true_to, liar.retry_after = 0, "1"
    command = Command(it, tmp_path)
    for how in ("busy once", "breaks off once", "no time once"):
        assert command.send(liar.url(how), how)[0] == 0
        assert all(path.read_bytes() == DATA for path in at(it, how)), how


@pytest.mark.parametrize("after", [0, len(DATA) // 2])
def test_an_origin_that_has_no_time_is_waited_for_and_why_it_is_slow_is_told(place, tmp_path: Path, after: int) -> None:
    """From the first question on, or in the middle. Nine times in a row: what fails otherwise is given up after six."""
    it, liar = place
    liar.retry_after, liar.true_to, liar.last = "1", after, 9
    command, seen, url = Command(it, tmp_path), list[dict](), liar.url("no time for a while")
    with ThreadPoolExecutor(1) as some:
        sent = some.submit(command, "send", url, "--to", "all", "--fetchers", "1", "--dest", "slow")
        while not sent.done():
            seen += [group for group in it.lab.rest_json("GET", "/groups") if group["slow"]]
            time.sleep(0.1)
    code, said = sent.result()
    why = f"{url}: the origin has no time (429) (h"
    assert code == 0 and said.count(f"is slow: {why}") == 1 and "waits:" not in said, said
    assert seen and all(group["slow"]["code"] == "throttled" and group["error"] is None for group in seen)
    assert all(group["slow"] is None for group in it.lab.rest_json("GET", "/groups")), "it is over"
    assert all(path.read_bytes() == DATA for path in at(it, "slow"))


def test_what_is_refused_before_anything_is_fetched(place, tmp_path: Path) -> None:
    it, liar = place
    command, address = Command(it, tmp_path), it.lab.plan.root_address
    with Nginx(tmp_path / "tls", address, 8443, tls=certificate(tmp_path, address)) as nginx:
        (nginx.www / "object").write_bytes(DATA)
        it.allow({"prefix": liar.place}, {"prefix": nginx.url + "/"})
        refused = {
            "certificate": command.send(f"{nginx.url}/object", "a"),
            "wrong digest": command.send(liar.url("good"), "b", "--sha256", 64 * "1"),
            "other content": command.send(liar.url("wrong content"), "h", "--sha256", hashlib.sha256(DATA).hexdigest()),
            "not allowed": command.send("https://elsewhere.example/x", "c"),
            "a password": command.send(liar.url("x").replace("//", "//me:secret@"), "d"),
            "a policy": command.send(liar.url("good"), "e", "--origin-policy", "greedy"),
        }
        assert not nginx.rows(), "nothing was asked of it"
    words = {
        "certificate": "certificate is not that of its name and authority",
        "wrong digest": "SHA-256",
        "other content": "SHA-256",
        "not allowed": "no prefix",
        "a password": "credential",
        "a policy": "steal",
    }
    for what, (code, said) in refused.items():
        assert code != 0 and words[what] in said, (what, code, said)
    with pytest.raises(HTTPError) as error:
        part = {"path": "../evil", "size": 1, "url": liar.url("good")}
        it.group({"url": "hf://team/llama", "parts": [part], "receivers": HOSTS, "dest_path": "f"})
    assert error.value.code in (400, 422) and b"leads outside" in error.value.read()
    assert not any(path.exists() for name in "abcdefgh" for path in at(it, name))


def test_every_policy_brings_it_and_only_flat_fetches_more_than_once(place, tmp_path: Path) -> None:
    it, liar = place
    liar.true_to = 0
    command = Command(it, tmp_path)
    for policy in POLICIES:
        code, said = command.send(liar.url(f"good {policy}"), policy, "--origin-policy", policy)
        assert code == 0 and all(path.read_bytes() == DATA for path in at(it, policy)), (policy, said)
        given = liar.given[f"good {policy}"]
        assert given == len(DATA) if policy != "flat" else given > len(DATA), (policy, given)


def in_memory(pid: int, secrets: list[bytes]) -> list[bytes]:
    """Those that a process can write over: what it was told stands there."""
    found = set[bytes]()
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            where, rights = line.split()[:2]
            first, end = (int(part, 16) for part in where.split("-"))
            if rights.startswith("rw"):
                for page in range(first, end, 1 << 24):
                    try:
                        memory.seek(page)
                        some = memory.read(min(1 << 24, end - page))
                    except OSError:
                        continue
                    found |= {secret for secret in secrets if secret in some}
    return sorted(found)


def test_a_credential_stays_with_the_agent_that_fetches(place, tmp_path: Path) -> None:
    """Its origin refuses it, gives it back, and takes it; nobody else has it in a file or in memory."""
    it, liar = place
    access, secret = "HIDDENACCESSKEY", "the-most-hidden-of-all-keys"
    it.allow({"prefix": liar.place, "access_key": access, "secret_key": secret, "region": "eu-1"})
    command = Command(it, tmp_path)
    url = liar.url("gives back")
    code, said = command("send", url, "--to", "all", "--fetchers", "h1", "--dest", "refused")
    assert code == 1 and "the origin refuses (403)" in said
    told = said + json.dumps(it.lab.rest_json("GET", "/groups"))
    code, said = command("send", liar.url("good"), "--to", "all", "--fetchers", "h1", "--dest", "taken")
    assert code == 0 and any(access in header for header in liar.proofs), "it was shown to the origin"
    secrets = [access.encode(), secret.encode()]
    assert not any(one in (told + said).encode() for one in secrets)
    assert it.lab.state
    for folder in (it.lab.work, it.lab.run_folder):
        for path in folder.rglob("*"):
            if path.is_file() and not path.is_symlink():
                data = path.read_bytes()
                assert not any(one in data for one in secrets), path
    agents = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in marked(it.lab.state.identity)}
    fetching = [pid for pid, line in agents.items() if b"datacast-agent" in line and b"\0h1\0" in line]
    assert len(fetching) == 1, list(agents.values())
    for pid, line in agents.items():
        if pid not in fetching:
            assert not in_memory(pid, secrets), line
