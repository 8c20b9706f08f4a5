"""An agent that fetches from a container registry: tokens, names and passwords, and where they must not go."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from agent_harness import ASAN, Net, inside
from fetch_kit import Fetcher
from registry import Registry, Tokens, certificate
from web import Nginx

pytestmark = pytest.mark.root

SIZE = (2 << 20) + 5
NAME = "models/llama"
LOGIN = ("robot", "hidden-password")


@pytest.fixture
def fetcher(make_net: Callable[[Path], Net], tmp_path: Path) -> Fetcher:
    return Fetcher(make_net(ASAN), tmp_path / "origins.json", SIZE)


@pytest.fixture
def tls(fetcher: Fetcher, tmp_path: Path) -> tuple[Path, Path]:
    """A certificate of its own for both servers."""
    return certificate(tmp_path, fetcher.address)


@pytest.fixture
def tokens(fetcher: Fetcher, tls: tuple[Path, Path]) -> Iterator[Tokens]:
    made = inside(fetcher.net.namespace("a"), lambda: socket.create_server((fetcher.address, 5001)))
    it = Tokens(made, *tls)
    yield it
    it.close()


@pytest.fixture
def registry(fetcher: Fetcher, tls: tuple[Path, Path], tokens: Tokens, tmp_path: Path) -> Iterator[Registry]:
    space = fetcher.net.namespace("a")
    realm = f"https://{fetcher.address}:5001/token"
    enter = ("ip", "netns", "exec", space)
    with Registry(tmp_path / "reg", fetcher.address, 5000, tls, realm, enter, lambda act: inside(space, act)) as it:
        fetcher.allow(prefix=it.url + "/", ca=str(tls[0]))
        yield it


def blob(registry: Registry, tokens: Tokens) -> tuple[str, bytes]:
    data = os.urandom(SIZE)
    registry.push(NAME, "v1", [data], tokens)
    return f"{registry.url}/v2/{NAME}/blobs/sha256:{hashlib.sha256(data).hexdigest()}", data


def test_a_layer_is_fetched_with_a_token_that_anybody_gets(
    fetcher: Fetcher, registry: Registry, tokens: Tokens
) -> None:
    url, data = blob(registry, tokens)
    assert fetcher.deliver(url)["size"] == SIZE
    assert (fetcher.net.agents["a"].folder / "got").read_bytes() == data
    assert tokens.asked[0]["scope"] == [f"repository:{NAME}:pull"] and tokens.logins[0] == ""
    assert len(tokens.asked) <= 5, "one to ask for the size, one at most of each connection"


def test_a_name_and_password_go_where_the_entry_says(fetcher: Fetcher, registry: Registry, tokens: Tokens) -> None:
    url, _ = blob(registry, tokens)
    tokens.login = LOGIN
    entry = {"prefix": registry.url + "/", "ca": str(registry.tls[0]), "user": LOGIN[0], "password": LOGIN[1]}
    assert fetcher.stat(url)["code"] == "origin_denied", "nobody without them"
    fetcher.allow(**entry)
    tokens.logins.clear()
    answer = fetcher.stat(url)
    assert answer["code"] == "origin_denied" and "token_from" in answer["error"], answer
    assert not tokens.logins, "another port is another place"
    fetcher.allow(**entry, token_from=f"https://{fetcher.address}:5001/")
    assert fetcher.stat(url)["size"] == SIZE
    fetcher.allow(**{**entry, "password": "wrong-one"}, token_from=f"https://{fetcher.address}:5001/")
    answer = fetcher.stat(url)
    assert answer["code"] == "origin_denied", answer
    told = json.dumps(answer) + fetcher.everything_told()
    assert LOGIN[1] not in told and "wrong-one" not in told


@contextmanager
def moody(fetcher: Fetcher, tls: tuple[Path, Path], statuses: list[int]) -> Iterator[list[str]]:
    """A server that answers so, one after another, the last for ever, and what it was given to let somebody in."""
    given: list[str] = []
    realm = f'Bearer realm="https://{fetcher.address}:5001/token",service="registry.test",scope="repository:x:pull"'

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status = statuses[min(len(given), len(statuses) - 1)]
            given.append(self.headers.get("Authorization", ""))
            body = b"x" if status == 206 else b""
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if status == 401:
                self.send_header("WWW-Authenticate", realm)
            if status == 206:
                self.send_header("Content-Range", f"bytes 0-0/{SIZE}")
                self.send_header("ETag", '"e"')
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    plain = inside(fetcher.net.namespace("a"), lambda: socket.create_server((fetcher.address, 5002)))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*tls)
    with ThreadingHTTPServer(("", 0), Answers, bind_and_activate=False) as server:
        server.socket.close()
        server.socket = context.wrap_socket(plain, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield given
        server.shutdown()


@pytest.mark.parametrize(("statuses", "known"), [([401, 500, 206], True), ([401, 500, 500, 206], False)])
def test_a_request_that_only_told_where_tokens_are_is_no_try(
    fetcher: Fetcher, tls: tuple[Path, Path], tokens: Tokens, statuses: list[int], known: bool
) -> None:
    """Who asks for a size tries twice."""
    fetcher.allow(prefix=f"https://{fetcher.address}:5002/", ca=str(tls[0]))
    with moody(fetcher, tls, statuses) as given:
        answer = fetcher.stat(f"https://{fetcher.address}:5002/v2/x/blobs/y")
    assert answer["ok"] == known, answer
    assert len(given) == 3 and [text != "" for text in given] == [False, True, True] and len(tokens.asked) == 1


def test_a_password_in_the_clear_is_refused(fetcher: Fetcher) -> None:
    fetcher.allow(prefix="http://192.0.2.1/", user=LOGIN[0], password=LOGIN[1])
    answer = fetcher.stat("http://192.0.2.1/v2/x")
    assert answer["code"] == "bad_origin" and "https://" in answer["error"]


def test_a_redirect_to_another_place_gets_no_token(fetcher: Fetcher, tls: tuple[Path, Path], tmp_path: Path) -> None:
    """What a hub does for large files: the object lies elsewhere, under an address that is a secret of its own."""
    enter = ("ip", "netns", "exec", fetcher.net.namespace("a"))
    log = "access_log %s/seen.log seen; location /hub/ { return 302 https://%s:8444/object?signature=x; }"
    (tmp_path / "two" / "www").mkdir(parents=True)
    data = os.urandom(SIZE)
    (tmp_path / "two" / "www" / "object").write_bytes(data)
    with (
        Nginx(tmp_path / "one", fetcher.address, 8443, enter=enter, tls=tls, seen=True,
              more=log % (tmp_path / "one", fetcher.address)) as one,
        Nginx(tmp_path / "two", fetcher.address, 8444, enter=enter, tls=tls, seen=True,
              more=f"access_log {tmp_path / 'two' / 'seen.log'} seen;"),
    ):  # fmt: skip
        fetcher.allow(prefix=one.url + "/", bearer="hf_hidden", ca=str(tls[0]))
        url = f"{one.url}/hub/object"
        fetcher.deliver(url)
        assert (fetcher.net.agents["a"].folder / "got").read_bytes() == data
        first, second = ((tmp_path / name / "seen.log").read_text() for name in ("one", "two"))
        assert "hf_hidden" in first, "who answers first gets it"
        assert second and "hf_hidden" not in second
        assert "hf_hidden" not in fetcher.everything_told() and "signature" not in fetcher.everything_told()


def test_a_redirect_to_what_anybody_can_read_is_not_followed(
    fetcher: Fetcher, tls: tuple[Path, Path], tmp_path: Path
) -> None:
    enter = ("ip", "netns", "exec", fetcher.net.namespace("a"))
    away = f"location / {{ return 302 http://{fetcher.address}:8088/object; }}"
    with (
        Nginx(tmp_path / "safe", fetcher.address, 8443, enter=enter, tls=tls, more=away) as safe,
        Nginx(tmp_path / "open", fetcher.address, 8088, enter=enter) as clear,
    ):
        (clear.www / "object").write_bytes(os.urandom(SIZE))
        fetcher.allow(prefix=safe.url + "/", ca=str(tls[0]))
        answer = fetcher.stat(f"{safe.url}/object")
        assert answer["code"] == "bad_answer", answer
        assert not clear.rows(), "nothing was asked of it"
