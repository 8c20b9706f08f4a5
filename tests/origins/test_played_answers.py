"""What registries and hubs may answer, played: each answer to a name has its meaning, or its error."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from datacast.origins import asking, bundle
from datacast.origins import hub as of_hubs
from datacast.origins import registry as of_registries
from datacast.origins.asking import Answer
from datacast.origins.bundle import Entry
from datacast.origins.dealing import Dealing
from datacast.origins.names import resolve
from datacast.origins.parts import OriginError
from datacast.origins.ranges import Range
from datacast.origins.registry import OCI_INDEX, OCI_MANIFEST

Play = Callable[[dict[str, Any]], list[tuple[str, dict[str, str]]]]
LAYER = {"digest": f"sha256:{64 * 'a'}", "size": 7}
LINUX = {"os": "linux", "architecture": "amd64"}


def different(layers: int) -> list[dict[str, Any]]:
    return [{**LAYER, "digest": f"sha256:{n:064x}"} for n in range(layers)]


def answer(status: int = 200, body: Any = "", **headers: str) -> Answer:
    told = Message()
    for name, value in headers.items():
        told[name.replace("_", "-")] = value
    text = body if isinstance(body, str) else json.dumps(body)
    return Answer("https://r.test/v2/x", status, told, text.encode())


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    """Answers by the end of what is asked for; what was asked, and with which headers."""

    def begin(answers: dict[str, Any]) -> list[tuple[str, dict[str, str]]]:
        asked: list[tuple[str, dict[str, str]]] = []

        def ask(method: str, url: str, name: str, headers: dict[str, str] | None = None) -> Answer:
            asked.append((url, dict(headers or {})))
            found = next(told for end, told in answers.items() if url.endswith(end))
            return found.pop(0) if isinstance(found, list) else found

        for module in (of_registries, of_hubs):
            monkeypatch.setattr(module, "ask", ask)
        return asked

    return begin


def refused(name: str) -> OriginError:
    with pytest.raises(OriginError) as error:
        resolve(name, "linux/amd64")
    return error.value


def test_of_an_index_the_image_of_the_platform_is_taken(play: Play) -> None:
    other = {"digest": f"sha256:{64 * 'b'}", "platform": {"os": "linux", "architecture": "s390x"}}
    manifest = answer(body={"config": LAYER, "layers": []}, content_type=OCI_MANIFEST)
    digest = "sha256:" + hashlib.sha256(manifest.body).hexdigest()
    index = answer(body={"manifests": [other, {"digest": digest, "platform": LINUX}]}, content_type=OCI_INDEX)
    asked = play({"/latest": index, f"/manifests/{digest}": manifest})
    named = resolve("oci://r.test/x", "linux/amd64")
    assert [url.rpartition("/")[2] for url, _ in asked] == ["latest", digest]
    inside = {part.path.rpartition("/")[2]: part for part in named.parts}
    assert {digest[7:], 64 * "a"} <= inside.keys() and inside[digest[7:]].data == manifest.body
    [row] = json.loads(inside["index.json"].data)["manifests"]
    assert (row["digest"], row["mediaType"]) == (digest, OCI_MANIFEST), "of the image, not of the index"


@pytest.mark.parametrize(
    ("kind", "layers", "code", "why"),
    [("text/plain", 0, "bad_answer", "'text/plain'"), (OCI_MANIFEST, 509, "too_many", "512")],
)
def test_a_manifest_that_is_none_or_is_too_large(play: Play, kind: str, layers: int, code: str, why: str) -> None:
    play({"/v": answer(body={"config": LAYER, "layers": different(layers)}, content_type=kind)})
    error = refused("oci://r.test/x:v")
    assert error.code == code and why in error.message


def test_as_many_layers_as_a_group_takes_files(play: Play) -> None:
    play({"/v": answer(body={"config": LAYER, "layers": different(508)}, content_type=OCI_MANIFEST)})
    assert len(resolve("oci://r.test/x:v", "linux/amd64").parts) == 512


def test_a_layer_that_is_somewhere_else_again_and_again(play: Play) -> None:
    play({"": answer(302, location="https://s.test/next")})
    assert "how large" in refused(f"oci://r.test/x@sha256:{64 * 'a'}").message


@pytest.mark.parametrize("challenge", ["Negotiate", 'Bearer service="s"', ""])
def test_a_login_of_another_kind(play: Play, challenge: str) -> None:
    play({"": answer(401, www_authenticate=challenge)})
    assert refused("oci://r.test/x").code == "origin_denied"


@pytest.mark.parametrize("told", [{}, {"token": ""}, {"token": 7}, {"access_token": None}])
def test_a_token_that_is_none(play: Play, told: dict[str, Any]) -> None:
    play({"/t?": answer(body=told), "": answer(401, www_authenticate='Bearer realm="https://r.test/t"')})
    assert "gives no token" in refused("oci://r.test/x").message


def test_dockers_own_login_is_its_registrys(play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    login = base64.b64encode(b"me:secret").decode()
    rows = {"registry-1.docker.io": {"auth": 7}, "https://index.docker.io/v1/": {"auth": login}}
    (tmp_path / "config.json").write_text(json.dumps({"auths": rows}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    challenge = answer(401, www_authenticate='Bearer realm="https://auth.docker.io/token",service="s",scope="a b"')
    image = answer(body={"config": LAYER}, content_type=OCI_MANIFEST)
    challenge = replace(challenge, url="https://registry-1.docker.io/v2/")
    asked = play({"/latest": [challenge, image], "/token?service=s&scope=a+b": answer(body={"access_token": "t"})})
    assert resolve("oci://docker.io/library/x", "linux/amd64").folder
    assert [url.split("/")[2] for url, _ in asked] == ["registry-1.docker.io", "auth.docker.io", "registry-1.docker.io"]
    assert asked[1][1] == {"Authorization": f"Basic {login}"} and asked[2][1]["Authorization"] == "Bearer t"


@pytest.mark.parametrize(
    ("told", "code", "why"),
    [
        ({"sha": "main", "siblings": [{"rfilename": "a", "size": 1}]}, "bad_answer", "no commit"),
        ({"sha": "abcdef0", "siblings": []}, "bad_answer", "no file"),
        ({"sha": "abcdef0", "siblings": [{"rfilename": f"{n}", "size": 1} for n in range(513)]}, "too_many", "513"),
        ({"sha": "abcdef0", "siblings": [{"rfilename": "../a", "size": 1}]}, "bad_answer", "'../a'"),
        ({"sha": "abcdef0", "siblings": [{"rfilename": "a", "size": -1}]}, "bad_answer", "how large a is"),
        ({"sha": "abcdef0", "siblings": [{"rfilename": "a", "size": True}]}, "bad_answer", "how large a is"),
        ({"sha": "abcdef0", "siblings": [{"rfilename": "a", "size": 1, "lfs": {"sha256": "A"}}]}, "bad_answer", "what"),
    ],
)
def test_a_repository_that_cannot_be_fetched(play: Play, told: Any, code: str, why: str) -> None:
    play({"": answer(body=told)})
    error = refused("hf://a/b")
    assert error.code == code and why in error.message


def test_a_hub_that_fails(play: Play) -> None:
    play({"": answer(503)})
    error = refused("hf://a/b/c")
    assert (error.code, error.message) == ("origin_failed", "hf://a/b/c: r.test answers 503")


@pytest.mark.parametrize(
    ("told", "later"),
    [
        ("7", "7 s"),
        ("", "a while"),
        ("-1", "a while"),
        ("Wed, 21 Oct 2026 07:28:00 GMT", "a while"),
        ("5\x1b[2J", "a while"),
        ("9" * 5000, "a while"),
    ],
)
def test_when_to_ask_again_is_told_as_seconds_or_not_at_all(play: Play, told: str, later: str) -> None:
    """Whatever a registry said went to the terminal, and a time of day as seconds."""
    play({"": answer(429, retry_after=told)})
    assert refused("oci://r.test/x").message == f"oci://r.test/x: r.test has no time (429); ask again after {later}"


@pytest.mark.parametrize(("length", "sent", "why"), [(10, 9, "breaks off"), (20, 20, "more than 0 MiB")])
def test_an_answer_that_breaks_off_or_does_not_end(
    monkeypatch: pytest.MonkeyPatch, length: int, sent: int, why: str
) -> None:
    monkeypatch.setattr(asking, "TEXT_MAX", 19)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answers() -> None:
            sock, _ = listening.accept()
            with sock:
                sock.recv(1 << 16)
                sock.sendall(f"HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n".encode() + b"x" * sent)

        threading.Thread(target=answers, daemon=True).start()
        with pytest.raises(OriginError, match=why):
            asking.ask("GET", f"http://127.0.0.1:{listening.getsockname()[1]}/x", "x")


def test_a_file_beneath_a_file_is_no_stream() -> None:
    with pytest.raises(ValueError, match="a/b is a file and a folder"):
        bundle.stream({"a/b": Entry(1), "a/b/c": Entry(1)})


def test_a_fetcher_that_comes_late_has_all_where_each_fetches_for_itself() -> None:
    it = Dealing(40, ["a"], policy="flat")
    it.gone("a")
    it.lost([Range(3, 4)])  # nobody's, as each fetches all
    it.joins("b")
    assert (it.take("b"), it.left()) == (Range(0, 40), 0)
