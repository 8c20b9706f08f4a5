"""What a mirror answers: what is there, by its digest, and 404 for all else."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import made_records
import pytest
from starlette.testclient import TestClient

from datacast.cli.prepull import oci_name
from datacast.controller.api.records import GroupRecord, GroupSummary
from datacast.fabric_manager.api import GroupSpec
from datacast.mirror import ondemand
from datacast.mirror.app import make_app
from datacast.mirror.main import _on_demand, main
from datacast.mirror.ondemand import AGAIN_S, AT_ONCE, OnDemand, Wish
from datacast.mirror.store import Store
from datacast.services.problems import Problem, Unreachable

BLOB = b"layer" * 1000
NAME = hashlib.sha256(BLOB).hexdigest()
MANIFEST = json.dumps({"mediaType": "application/vnd.oci.image.manifest.v1+json", "layers": []}).encode()
MANIFEST_NAME = hashlib.sha256(MANIFEST).hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    for folder, name, data in (
        ("blobs", NAME, BLOB),
        ("images/x/blobs/sha256", MANIFEST_NAME, MANIFEST),
        ("images/.y.datacast-g-1+/blobs/sha256", 64 * "1", b"half of it"),
    ):
        (tmp_path / "store" / folder).mkdir(parents=True)
        (tmp_path / "store" / folder / name).write_bytes(data)
    return Store(tmp_path / "store")


@pytest.fixture
def client(store: Store) -> TestClient:
    return TestClient(make_app(store, None))


def test_a_blob_a_part_of_it_and_a_manifest(client: TestClient) -> None:
    assert client.get("/v2/").status_code == 200
    whole = client.get(f"/v2/team/app/blobs/sha256:{NAME}")
    assert whole.content == BLOB and whole.headers["docker-content-digest"] == f"sha256:{NAME}"
    part = client.get(f"/v2/team/app/blobs/sha256:{NAME}", headers={"range": "bytes=4990-"})
    assert part.status_code == 206 and part.content == BLOB[4990:]
    head = client.head(f"/v2/team/app/blobs/sha256:{NAME}")
    assert head.headers["content-length"] == "5000" and not head.content
    told = client.get(f"/v2/x/manifests/sha256:{MANIFEST_NAME}")
    assert told.content == MANIFEST and told.headers["content-type"].startswith("application/vnd.oci.image.manifest")


@pytest.mark.parametrize(
    "path",
    [
        "/v2/x/manifests/latest",
        f"/v2/x/manifests/sha256:{64 * '0'}",
        f"/v2/x/blobs/sha256:{64 * '0'}",
        f"/v2/x/blobs/sha256:{64 * '1'}",
        "/v2/x/blobs/sha256:../../../etc/passwd",
        "/v2/x/blobs/..%2f..%2fetc%2fpasswd",
        f"/v2/X..Y/blobs/sha256:{NAME}",
        "/etc/passwd",
    ],
)
def test_all_else_is_not_there(client: TestClient, path: str) -> None:
    assert client.get(path).status_code in (400, 404)
    assert client.put(path).status_code in (404, 405)


def test_links_lead_nowhere(store: Store, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (store.folder / "blobs" / (64 * "2")).symlink_to(tmp_path / "secret")
    (tmp_path / "other" / "sha256").mkdir(parents=True)
    (tmp_path / "other" / "sha256" / (64 * "3")).write_text("secret")
    (store.folder / "images" / "z").mkdir()
    (store.folder / "images" / "z" / "blobs").symlink_to(tmp_path / "other")
    assert store.find("sha256:" + 64 * "2") is None and store.find("sha256:" + 64 * "3") is None
    assert store.find(f"sha256:{NAME}")


class Controller:
    """Groups by their Idempotency-Key, as the controller makes them; `brings`: what comes of one."""

    def __init__(self, brings: Any) -> None:
        self.brings, self.keys, self.specs, self._lock = brings, list[str](), list[GroupSpec](), threading.Lock()

    def __enter__(self) -> Controller:
        return self

    def __exit__(self, *exc: object) -> None: ...

    def groups(self, label: str) -> list[GroupSummary]:
        return []

    def create_group(self, spec: GroupSpec, key: str) -> GroupRecord:
        with self._lock:
            self.specs.append(spec)
            self.keys.append(key)
        return made_records.group(id="g-1", state=self.brings(spec))

    def group(self, group: str) -> GroupRecord:
        return made_records.group(id=group, state="failed", error={"code": "ended", "message": "it ended"})


async def fetched(store: Store, controller: Controller, *asked: tuple[str, str, str]) -> list[Path | None]:
    """All of it is asked for at once."""
    wish = Wish(GroupSpec(receivers="all"), frozenset({"r:1", "docker.io"}), "mirror")
    it = OnDemand(lambda: controller, store, wish)  # type: ignore[arg-type, return-value]
    return list(await asyncio.gather(*(it.fetch(*one) for one in asked)))


async def test_a_layer_that_is_not_here_is_ordered_once(store: Store) -> None:
    digest, name = "sha256:" + 64 * "4", 64 * "4"

    def brings(spec: GroupSpec) -> str:
        (store.folder / "blobs" / name).write_bytes(b"here")
        return "running"

    controller = Controller(brings)
    found = await fetched(store, controller, *[("docker.io", "library/debian", digest)] * 3)
    assert found == [store.folder / "blobs" / name] * 3 and len(controller.keys) == 1
    [spec] = controller.specs
    assert spec.url == f"https://registry-1.docker.io/v2/library/debian/blobs/{digest}"
    assert spec.dest_path == f"mirror/blobs/{name}" and spec.sha256 == name


async def test_a_layer_that_goes_again_before_it_is_looked_for_is_the_registrys(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    there = iter([store.folder / "blobs" / "it"])
    monkeypatch.setattr(store, "find", lambda digest: next(there, None))
    controller = Controller(lambda spec: "running")
    assert await fetched(store, controller, ("r:1", "x", "sha256:" + 64 * "6")) == [None]
    assert controller.keys == [] and "it had come: it is not here" in caplog.text


async def test_what_fails_or_may_not_be_asked_for_is_the_registrys(store: Store) -> None:
    def refuses(spec: GroupSpec) -> str:
        raise Problem(422, "too_few", "two receivers at least")

    digest, controller = "sha256:" + 64 * "5", Controller(refuses)
    assert await fetched(store, controller, ("r:1", "x", digest)) == [None] and len(controller.keys) == 1
    assert await fetched(store, controller, ("evil.example", "x", digest)) == [None] and len(controller.keys) == 1
    ends = Controller(lambda spec: "failed")
    it = OnDemand(lambda: ends, store, Wish(GroupSpec(), frozenset({"r:1"}), "mirror"))  # type: ignore[arg-type, return-value]
    assert await it.fetch("r:1", "x", digest) is None and await it.fetch("r:1", "x", digest) is None
    assert len(ends.keys) == 1, f"not again for {AGAIN_S} s"


def test_a_mirror_for_everybody_wants_to_be_asked_for(tmp_path: Path) -> None:
    mirror = [sys.executable, "-m", "datacast.mirror.main"]  # a process of its own: it gives its rights up
    found = subprocess.run(
        [*mirror, "--listen", "0.0.0.0:0", "--store", str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert found.returncode == 2 and "--insecure" in found.stderr


def test_names_as_containerd_has_them() -> None:
    assert oci_name("debian") == "oci://docker.io/library/debian"
    assert oci_name("debian:12") == "oci://docker.io/library/debian:12"
    assert oci_name("team/app:v1") == "oci://docker.io/team/app:v1"
    assert oci_name("10.0.0.1:5000/team/app:v1") == "oci://10.0.0.1:5000/team/app:v1"
    assert oci_name("localhost/x") == "oci://localhost/x" and oci_name("oci://h/x") == "oci://h/x"


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        ({"mediaType": "application/vnd.docker.distribution.manifest.v2+json"}, "docker.distribution.manifest.v2+json"),
        ({"manifests": []}, "oci.image.index.v1+json"),
        ({"mediaType": "a\r\nset-cookie: x", "manifests": []}, "oci.image.index.v1+json"),
        ({"mediaType": 7}, "oci.image.manifest.v1+json"),
        ([], "oci.image.manifest.v1+json"),
        ("{", "oci.image.manifest.v1+json"),
        ("[" * 100_000, "oci.image.manifest.v1+json"),
        ({"manifests": [], "mediaType": 1, "room": "x" * (4 << 20)}, "oci.image.manifest.v1+json"),
    ],
)
def test_a_manifest_is_of_the_kind_that_it_says_if_it_says_one(
    client: TestClient, store: Store, told: Any, kind: str
) -> None:
    data = told if isinstance(told, str) else json.dumps(told)
    (store.folder / "images/x/blobs/sha256" / (64 * "6")).write_text(data)
    answer = client.get(f"/v2/x/manifests/sha256:{64 * '6'}")
    assert answer.status_code == 200 and answer.headers["content-type"] == f"application/vnd.{kind}"
    assert "set-cookie" not in answer.headers


async def test_a_group_that_brings_it_already_is_followed_and_no_other_made(store: Store) -> None:
    digest, asked = "sha256:" + 64 * "7", []

    class Running(Controller):
        def groups(self, label: str) -> list[GroupSummary]:
            assert label == f"datacast.blob={digest}"
            return [made_records.summary(id="g-0", state="failed"), made_records.summary(id="g-1", state="running")]

        def group(self, group: str) -> GroupRecord:
            asked.append(group)
            if len(asked) == 2:
                (store.folder / "blobs" / (64 * "7")).write_bytes(b"here")
            return made_records.group(id=group, state="running")

    controller = Running(None)
    assert await fetched(store, controller, ("r:1", "x", digest)) == [store.folder / "blobs" / (64 * "7")]
    assert asked == ["g-1", "g-1"] and controller.keys == []


async def test_a_layer_whose_group_ended_while_it_was_asked_for_is_not_fetched_again(store: Store) -> None:
    digest, name = "sha256:" + 64 * "9", 64 * "9"

    class Ended(Controller):
        def groups(self, label: str) -> list[GroupSummary]:
            (store.folder / "blobs" / name).write_bytes(b"here")
            return [made_records.summary(id="g-1", state="done")]

    controller = Ended(lambda spec: "running")
    assert await fetched(store, controller, ("r:1", "x", digest)) == [store.folder / "blobs" / name]
    assert controller.keys == []


async def test_a_layer_that_is_gone_again_gets_a_new_group_though_older_ones_are_forgotten(store: Store) -> None:
    """They were counted: with the first of two forgotten the second, which had ended, was asked for once more."""
    made: dict[str, str] = {}

    class Forgets(Controller):
        def groups(self, label: str) -> list[GroupSummary]:
            return [made_records.summary(id=group, state="done") for group in made.values()]

        def create_group(self, spec: GroupSpec, key: str) -> GroupRecord:
            self.keys.append(key)
            group = made.setdefault(key, f"g-{len(self.keys)}")
            return made_records.group(id=group, state="done")

    controller, asked = Forgets(None), ("r:1", "x", "sha256:" + 64 * "e")
    await fetched(store, controller, asked)
    await fetched(store, controller, asked)
    del made[controller.keys[0]]
    await fetched(store, controller, asked)
    assert len({*controller.keys}) == 3 and all(len(key) <= 128 for key in controller.keys)


@pytest.mark.parametrize("away", ["asked", "ordered", "followed"])
async def test_a_controller_that_is_away_for_a_moment_is_asked_again_in_the_same_words(store: Store, away: str) -> None:
    """One host of many went to the registry for itself: the layer left it twice."""
    digest, name, told = "sha256:" + 64 * "b", 64 * "b", list[str]()

    class Away(Controller):
        def once(self, what: str) -> None:
            told.append(what)
            if what == away and told.count(what) == 1:
                raise Unreachable(503, "unreachable", "no controller")

        def groups(self, label: str) -> list[GroupSummary]:
            self.once("asked")
            return []

        def create_group(self, spec: GroupSpec, key: str) -> GroupRecord:
            made = super().create_group(spec, key)  # it may have been carried out
            self.once("ordered")
            return made

        def group(self, group: str) -> GroupRecord:
            self.once("followed")
            (store.folder / "blobs" / name).write_bytes(b"here")
            return made_records.group(id=group, state="done")

    controller = Away(lambda spec: "running")
    assert await fetched(store, controller, ("r:1", "x", digest)) == [store.folder / "blobs" / name]
    assert told.count(away) == 2 and len({*controller.keys}) == 1


async def test_a_controller_that_stays_away_is_not_asked_for_ever(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Away(Controller):
        def groups(self, label: str) -> list[GroupSummary]:
            self.keys.append(label)
            raise Unreachable(503, "unreachable", "no controller")

    controller = Away(None)
    monkeypatch.setattr(ondemand, "RETRY_S", 0.0)
    assert await fetched(store, controller, ("r:1", "x", "sha256:" + 64 * "c")) == [None]
    assert len(controller.keys) == 1


async def test_a_token_that_cannot_be_read_leaves_the_layer_to_the_registry(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ondemand, "RETRY_S", 0.0)
    where = {"controller": "http://127.0.0.1:1", "token_file": str(tmp_path / "gone"), "dest": "mirror"}
    args = argparse.Namespace(**where, to="all", registry=["r:1"], patience=600.0)
    it = _on_demand(args, store)
    assert await it.fetch("r:1", "x", "sha256:" + 64 * "d") is None


async def test_so_many_layers_are_waited_for_and_no_more(store: Store) -> None:
    free = threading.Event()

    def brings(spec: GroupSpec) -> str:
        assert free.wait(60)
        return "failed"

    controller = Controller(brings)
    wish = Wish(GroupSpec(receivers="all"), frozenset({"r:1"}), "mirror")
    it = OnDemand(lambda: controller, store, wish)  # type: ignore[arg-type, return-value]
    waits = [asyncio.create_task(it.fetch("r:1", "x", f"sha256:{n:064x}")) for n in range(AT_ONCE)]
    await asyncio.sleep(0)
    above = await asyncio.wait_for(it.fetch("r:1", "x", "sha256:" + 64 * "8"), 60)  # while none is through
    free.set()
    ended = await asyncio.gather(*waits)
    assert len(controller.specs) == AT_ONCE
    found = [above, *ended, await it.fetch("r:1", "x", "sha256:" + 64 * "8")]
    assert found == [None] * (AT_ONCE + 2) and len(controller.specs) == AT_ONCE + 1


class Told(BaseHTTPRequestHandler):
    """A controller that refuses groups and writes down what it was asked."""

    def do_GET(self) -> None:
        self.say(200, [])

    def do_POST(self) -> None:
        spec = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append((spec, self.headers["authorization"]))  # type: ignore[attr-defined]
        self.say(422, {"code": "too_few", "error": "two receivers at least"})

    def say(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None: ...


@pytest.mark.parametrize(
    ("to", "receivers"),
    [
        ("all", {"receivers": "all"}),
        ("@rack", {"receiver_set": "rack"}),
        ("h1,h2", {"receivers": ["h1", "h2"]}),
    ],
)
def test_the_program_orders_what_is_not_there_for_those_it_was_told_and_ends_when_it_is_to(
    store: Store, tmp_path: Path, to: str, receivers: dict[str, Any]
) -> None:
    (tmp_path / "token").write_text("secret-token\n")
    with HTTPServer(("127.0.0.1", 0), Told) as controller:
        controller.asked = []  # type: ignore[attr-defined]
        threading.Thread(target=controller.serve_forever, daemon=True).start()
        command = [sys.executable, "-m", "datacast.mirror.main", "--listen", "127.0.0.1:0"]
        command += ["--store", str(store.folder), "--registry", "r:1", "--to", to]
        command += ["--controller", f"http://127.0.0.1:{controller.server_port}"]
        mirror = subprocess.Popen(
            [*command, "--token-file", str(tmp_path / "token"), "--dest", "there"], stdout=subprocess.PIPE, text=True
        )
        try:
            assert mirror.stdout
            url = mirror.stdout.readline().split()[1]
            assert httpx.get(f"{url}/v2/x/blobs/sha256:{NAME}?ns=r:1", timeout=60).content == BLOB
            assert controller.asked == []  # type: ignore[attr-defined]
            assert httpx.get(f"{url}/v2/x/blobs/sha256:{64 * '9'}?ns=r:1", timeout=60).status_code == 404
        finally:
            mirror.terminate()
            code = mirror.wait(60)
            controller.shutdown()
    [(spec, token)] = controller.asked  # type: ignore[attr-defined]
    assert token == "Bearer secret-token" and code == 0
    assert spec["dest_path"] == f"there/blobs/{64 * '9'}" and {key: spec[key] for key in receivers} == receivers


@pytest.mark.root
def test_a_layer_that_the_mirror_may_not_read_is_the_registrys() -> None:
    """It was answered with 200 and no bytes, which ended containerd's pull."""
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are beneath one that is root's alone
        (Path(folder) / "blobs").mkdir()
        (Path(folder) / "blobs" / NAME).write_bytes(BLOB)
        (Path(folder) / "blobs" / NAME).chmod(0o600)
        Path(folder).chmod(0o755)
        command = [sys.executable, "-m", "datacast.mirror.main", "--listen", "127.0.0.1:0", "--user", "nobody"]
        mirror = subprocess.Popen([*command, "--store", folder], stdout=subprocess.PIPE, text=True)
        try:
            assert mirror.stdout
            url = mirror.stdout.readline().split()[1]
            assert httpx.get(f"{url}/v2/x/blobs/sha256:{NAME}", timeout=60).status_code == 404
        finally:
            mirror.terminate()
            mirror.wait(60)


def test_a_controller_without_registries_is_refused() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--store", "/srv", "--controller", "http://127.0.0.1:1"])
    assert ended.value.code == 2


async def test_a_controller_that_hangs_keeps_nobody_from_what_is_here(store: Store) -> None:
    free, asked = threading.Event(), threading.Semaphore(0)

    class Hangs(Controller):
        def groups(self, label: str) -> list[GroupSummary]:
            asked.release()
            assert free.wait(120)
            return []

    wish = Wish(GroupSpec(receivers="all"), frozenset({"r:1"}), "mirror")
    it = OnDemand(lambda: Hangs(lambda spec: "failed"), store, wish)  # type: ignore[arg-type, return-value]
    waiting = [asyncio.create_task(it.fetch("r:1", "x", f"sha256:{n:064x}")) for n in range(AT_ONCE)]
    app = httpx.ASGITransport(make_app(store, it))
    try:
        async with httpx.AsyncClient(transport=app, base_url="http://mirror") as client, asyncio.timeout(60):
            while not asked.acquire(blocking=False):
                await asyncio.sleep(0.01)
            answer = await client.get(f"/v2/team/app/blobs/sha256:{NAME}")
        assert answer.content == BLOB
    finally:
        free.set()
        await asyncio.gather(*waiting)
