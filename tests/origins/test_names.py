"""What names mean: images of a real registry, files of a hub, and those that lead nowhere."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

import pytest
import typer
from hub import COMMIT, REPO, Hub
from ports import free_ports
from registry import Registry, Tokens, certificate, sha256
from web import Nginx

from datacast.cli.origin import parse_origin
from datacast.fabric_manager.api import GroupSpec
from datacast.origins import asking
from datacast.origins import hub as of_hubs
from datacast.origins import registry as of_registries
from datacast.origins.asking import Answer
from datacast.origins.names import resolve
from datacast.origins.parts import OriginError, safe_path


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    cert, key = certificate(tmp_path, "127.0.0.2")
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    return cert, key


@pytest.fixture
def tokens(tls: tuple[Path, Path]) -> Iterator[Tokens]:
    it = Tokens(socket.create_server(("127.0.0.2", 0)), *tls)
    yield it
    it.close()


@pytest.fixture
def registry(tls: tuple[Path, Path], tokens: Tokens, tmp_path: Path) -> Iterator[Registry]:
    [port] = free_ports(1)
    realm = f"https://127.0.0.2:{tokens.port}/token"
    with Registry(tmp_path / "registry", "127.0.0.2", port, tls, realm) as it:
        yield it


LAYERS = [os.urandom(3000), os.urandom(70_000)]


def test_an_image_is_the_files_of_an_oci_layout(registry: Registry, tokens: Tokens) -> None:
    digest = registry.push("a/app", "v1", LAYERS, tokens)
    place = f"127.0.0.2:{registry.port}"
    named = resolve(f"oci://{place}/a/app:v1")
    files = {part.path: part for part in named.parts}
    assert named.folder and len(files) == 6
    assert json.loads(files["oci-layout"].data) == {"imageLayoutVersion": "1.0.0"}
    [row] = json.loads(files["index.json"].data)["manifests"]
    assert row["digest"] == digest
    manifest = files[f"blobs/sha256/{digest[7:]}"]
    assert sha256(manifest.data) == digest and manifest.size == len(manifest.data) == row["size"]
    for layer in LAYERS:
        part = files[f"blobs/sha256/{sha256(layer)[7:]}"]
        assert part.size == len(layer) and part.sha256 == sha256(layer)[7:]
        assert part.url == f"https://{place}/v2/a/app/blobs/{sha256(layer)}"
    layer = resolve(f"oci://{place}/a/app@{sha256(LAYERS[1])}")
    assert not layer.folder and layer.parts == (files[f"blobs/sha256/{sha256(LAYERS[1])[7:]}"],)
    asked = parse_origin(f"oci://{place}/a/app@{sha256(LAYERS[1])}", [], None, None)
    assert asked == GroupSpec(url=layer.parts[0].url, sha256=layer.parts[0].sha256)
    whole = parse_origin(f"oci://{place}/a/app:v1", [], None, None)
    assert whole.url.endswith(":v1") and whole.dest_path == "app-v1"
    assert {part.path: part.size for part in whole.parts} == {path: part.size for path, part in files.items()}
    again = resolve(f"oci://{place}/a/app@{digest}")
    assert {p.path: p.sha256 for p in again.parts if p.url} == {p.path: p.sha256 for p in named.parts if p.url}


def test_who_may_not_and_what_is_not_there(registry: Registry, tokens: Tokens, tmp_path: Path) -> None:
    registry.push("a/app", "v1", LAYERS, tokens)
    place = f"127.0.0.2:{registry.port}"
    for name, code in (
        ("a/app:v2", "not_found"),
        ("a/other:v1", "not_found"),
        ("a/app@sha256:" + 64 * "0", "not_found"),
    ):
        with pytest.raises(OriginError) as error:
            resolve(f"oci://{place}/{name}")
        assert error.value.code == code, error.value
    tokens.login = ("robot", "hidden-password")
    with pytest.raises(OriginError) as error:
        resolve(f"oci://{place}/a/app:v1")
    assert error.value.code == "origin_denied" and "docker login" in error.value.message
    auth = base64.b64encode(b"robot:hidden-password").decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {place: {"auth": auth}}}))
    assert resolve(f"oci://{place}/a/app:v1").folder


def test_a_registry_that_cannot_be_believed(tls: tuple[Path, Path], tmp_path: Path) -> None:
    [port] = free_ports(1)
    index = {"manifests": [{"platform": {"os": "linux", "architecture": "arm64", "variant": "v8"}, "digest": "x"}]}
    layer = {
        "layers": [{"digest": "sha256:../../etc", "size": 1}],
        "config": {"digest": "sha256:" + 64 * "a", "size": 3},
    }
    kinds = {"index": "application/vnd.oci.image.index.v1+json", "odd": "application/vnd.oci.image.manifest.v1+json"}
    rows = [
        f"location = /v2/x/manifests/{tag} {{ default_type {kinds[tag]}; return 200 '{json.dumps(body)}'; }}"
        for tag, body in (("index", index), ("odd", layer))
    ]
    rows += [
        f"location = /v2/x/manifests/{tag} {{ default_type {kinds['index']}; return 200 '{{\"manifests\": {body}}}'; }}"
        for tag, body in (("one", "1"), ("none", "null"), ("text2", '\"x\"'))
    ]
    rows.append("location = /v2/x/manifests/text { default_type text/html; return 200 'hello'; }")
    (tmp_path / "deep").write_text("[" * 100_000)
    rows.append(f"location = /v2/x/manifests/deep {{ alias {tmp_path}/deep; }}")
    rows.append("location = /v2/x/manifests/busy { add_header Retry-After 7 always; return 429; }")
    rows.append(f"location = /v2/x/manifests/sha256:{64 * '1'} {{ default_type {kinds['odd']}; return 200 '{{}}'; }}")
    rows.append("location = /v2/x/manifests/round { return 302 /v2/x/manifests/round; }")
    wanted = {
        ":index": ("not_found", "linux/arm64/v8"),
        ":odd": ("bad_answer", "digest"),
        ":text": ("bad_answer", "JSON"),
        ":deep": ("bad_answer", "JSON"),
    }
    wanted |= {":busy": ("throttled", "7 s"), f"@sha256:{64 * '1'}": ("digest", "expected")}
    wanted |= {f":{tag}": ("not_found", "is there for nothing") for tag in ("one", "none", "text2")}
    wanted |= {":round": ("bad_answer", "redirects")}
    with Nginx(tmp_path / "nginx", "127.0.0.2", port, tls=tls, more=" ".join(rows)):
        for what, (code, said) in wanted.items():
            with pytest.raises(OriginError) as error:
                resolve(f"oci://127.0.0.2:{port}/x{what}")
            assert (error.value.code, said in error.value.message) == (code, True), error.value
    with pytest.raises(OriginError) as error:
        resolve(f"oci://127.0.0.2:{port}/x")
    assert error.value.code == "origin_unreachable" and error.value.message.endswith(": Connection refused")


def test_a_layer_may_lie_with_somebody_else_who_sees_no_password(tls: tuple[Path, Path], tmp_path: Path) -> None:
    """Registries redirect to a store: the layer had no size then."""
    port, other = free_ports(2)
    digest = f"sha256:{64 * '2'}"
    (tmp_path / "layer").write_bytes(bytes(12_345))
    auth = base64.b64encode(b"robot:hidden-password").decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {f"127.0.0.2:{port}": {"auth": auth}}}))
    challenge = "add_header Www-Authenticate 'Basic realm=\"x\"' always; return 401;"
    asks = f"if ($http_authorization = '') {{ {challenge} }} return 307 https://127.0.0.2:{other}/there?signed=1;"
    row = f"location = /v2/x/blobs/{digest} {{ {asks} }}"
    there = f"location = /there {{ if ($http_authorization != '') {{ return 400; }} alias {tmp_path}/layer; }}"
    with (
        Nginx(tmp_path / "registry", "127.0.0.2", port, tls=tls, more=row),
        Nginx(tmp_path / "store", "127.0.0.2", other, tls=tls, more=there),
    ):
        [part] = resolve(f"oci://127.0.0.2:{port}/x@{digest}").parts
    assert part.size == 12_345 and part.url == f"https://127.0.0.2:{port}/v2/x/blobs/{digest}"


def test_a_certificate_of_nobody_is_named(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(OriginError) as error:
        resolve(f"oci://127.0.0.2:{registry.port}/a/app:v1")
    assert "certificate" in error.value.message.lower()


FILES = {"config.json": b"{}", "model/weights-1.safetensors": os.urandom(90_000)}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    port, other = free_ports(2)
    with Hub(tmp_path / "hub", "127.0.0.1", (port, other), FILES, {"model/weights-1.safetensors"}) as it:
        monkeypatch.setenv("HF_ENDPOINT", it.url)
        yield it


def test_a_file_of_a_hub_is_pinned_to_a_commit_and_has_a_digest(hub: Hub) -> None:
    named = resolve(f"hf://{REPO}/model/weights-1.safetensors")
    [part] = named.parts
    data = FILES[part.path]
    assert not named.folder and part.size == len(data) == named.size
    assert part.sha256 == hashlib.sha256(data).hexdigest()
    assert part.url == f"{hub.url}/{REPO}/resolve/{COMMIT}/model/weights-1.safetensors"
    [small] = resolve(f"hf://{REPO}@main/config.json").parts
    assert small.size == 2 and small.sha256 == "", "its ETag is git's, no digest of it alone"


def test_the_command_asks_for_what_a_name_means(hub: Hub) -> None:
    name = f"hf://{REPO}/model/weights-1.safetensors"
    [part] = resolve(name).parts
    assert parse_origin(name, [], "2", None) == GroupSpec(url=part.url, sha256=part.sha256, fetchers=2)
    with pytest.raises(OriginError, match="no such thing"):
        parse_origin(f"hf://{REPO}/none", [], None, None)
    with pytest.raises(typer.BadParameter, match="give hf://"):
        parse_origin("hf://meta", [], None, None)


def test_a_whole_repository(hub: Hub) -> None:
    named = resolve(f"hf://{REPO}")
    assert named.folder and [part.path for part in named.parts] == sorted(FILES)
    assert all(COMMIT in part.url for part in named.parts)
    config, weights = named.parts
    assert config.size == 2 and config.sha256 == ""
    assert weights == resolve(f"hf://{REPO}/model/weights-1.safetensors").parts[0], "one answer tells of all"
    assert len(hub.rows()) == 2, "and nothing else was asked"


def test_names_that_mean_nothing(hub: Hub) -> None:
    for name, code in {
        f"hf://{REPO}/none": "not_found",
        "hf://nobody/none": "not_found",
        "hf://meta": "bad_origin",
        f"hf://{REPO}/../../etc/passwd": "bad_answer",
        "oci://host": "bad_origin",
        "oci://host/UPPER": "bad_origin",
        "oci://user:password@host/x": "bad_origin",
    }.items():
        with pytest.raises(OriginError) as error:
            resolve(name)
        assert error.value.code == code, (name, error.value)


@pytest.mark.parametrize("size", ["", "-1", "1e3", "\u0663", str(1 << 53), "9" * 5000])
def test_a_size_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch, size: str) -> None:
    headers = Message()
    headers["content-length"] = size
    answer = Answer("https://r.test/x", 200, headers, b"")
    for module, name in ((of_registries, f"oci://r.test/x@sha256:{64 * 'a'}"), (of_hubs, "hf://a/b/c")):
        monkeypatch.setattr(module, "ask", lambda *_: answer)
        with pytest.raises(OriginError, match="does not say how large"):
            resolve(name)


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", "..", "a/../b", "./a", "a\nb", "a" * 1025])
def test_paths_that_would_lead_outside(path: str) -> None:
    assert not safe_path(path)
    assert safe_path("a/.b/c..d")


def test_a_password_that_is_none_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_text('{"auths": {"h": {"auth": "a"}, "h:5000": {"auth": "dTpw"}}}')
    assert list(of_registries._logins("h", None)) == [] and list(of_registries._logins("h", 5000)) == ["dTpw"]


@pytest.mark.parametrize(
    ("host", "realm", "goes"), [("r.test", "http", False), ("r.test", "https", True), ("localhost", "http", True)]
)
def test_what_is_asked_over_tls_has_its_tokens_over_tls(
    monkeypatch: pytest.MonkeyPatch, host: str, realm: str, goes: bool
) -> None:
    asked = []

    def answers(method: str, url: str, name: str, headers: dict[str, str]) -> Answer:
        asked.append(url)
        told = Message()
        told["www-authenticate"] = f'Bearer realm="{realm}://{host}/token"'
        token = "/token" in url
        return Answer(url, 200 if token else 401, told, b'{"token": "t"}' if token else b"")

    monkeypatch.setattr(of_registries, "ask", answers)
    with pytest.raises(OriginError) as error:
        resolve(f"oci://{host}/x")
    assert error.value.code == "origin_denied" and ("is no https://" in error.value.message) is not goes
    assert any("/token" in url for url in asked) is goes


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n", b"{"),
        (b"HTTP/1.1 200 OK\r\nx-a: ", b"a"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
)
def test_an_answer_that_trickles_is_given_up(monkeypatch: pytest.MonkeyPatch, head: bytes, piece: bytes) -> None:
    """A byte now and then is no silence: it would be read for weeks."""
    monkeypatch.setattr(asking, "WHOLE_S", 0.5)
    end = time.monotonic() + 20.0
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def trickles() -> None:
            sock, _ = listening.accept()
            with sock, contextlib.suppress(OSError):
                sock.sendall(head)
                while time.monotonic() < end:
                    sock.sendall(piece)
                    time.sleep(0.05)

        threading.Thread(target=trickles, daemon=True).start()
        with pytest.raises(OriginError, match="not whole after"):
            asking.ask("GET", f"http://127.0.0.1:{listening.getsockname()[1]}/x", "x")
