"""An agent that fetches from an S3 server: signatures, wrong keys, objects of several parts, objects that change."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from agent_harness import ASAN, PLAIN, Net, inside
from fetch_kit import Fetcher
from s3 import BUCKET, S3, program

pytestmark = pytest.mark.root

SIZE = (6 << 20) + 5
URL = f"s3://{BUCKET}/dir/weights+v1.bin"


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    program()


@pytest.fixture
def fetcher(make_net: Callable[[Path], Net], tmp_path: Path) -> Fetcher:
    return Fetcher(make_net(ASAN), tmp_path / "origins.json", SIZE)


@pytest.fixture
def s3(fetcher: Fetcher, tmp_path: Path) -> Iterator[S3]:
    space = fetcher.net.namespace("a")
    enter = ("ip", "netns", "exec", space)
    with S3(tmp_path / "s3", fetcher.address, 7070, enter, lambda act: inside(space, act)) as it:
        fetcher.allow(**it.entry())
        yield it


@pytest.fixture
def data() -> bytes:
    return os.urandom(SIZE)


def test_an_object_is_fetched_with_a_signature_and_passed_on(fetcher: Fetcher, s3: S3, data: bytes) -> None:
    s3.put("dir/weights+v1.bin", data)
    known = fetcher.deliver(URL)
    assert known["size"] == SIZE and known["etag"] == f'"{hashlib.md5(data).hexdigest()}"', known
    for name in "ab":
        assert (fetcher.net.agents[name].folder / "got").read_bytes() == data


def test_an_object_of_several_parts(fetcher: Fetcher, s3: S3, data: bytes) -> None:
    etag = s3.put_in_parts("dir/weights+v1.bin", data, 5 << 20)
    assert etag.endswith('-2"'), "it is no digest of the object"
    assert fetcher.stat(URL)["etag"] == etag
    assert fetcher.open(URL, etag)["ok"]
    fetcher.fetch()
    fetcher.pass_on()
    assert (fetcher.net.agents["a"].folder / "got").read_bytes() == data


@pytest.mark.parametrize(
    ("wrong", "said"),
    [  # as versitygw calls them
        ({"secret_key": "not-the-secret"}, "SignatureDoesNotMatch"),
        ({"access_key": "AKIANOBODY"}, "XAdminUserNotFound"),
        ({"region": "us-far-1"}, "AuthorizationHeaderMalformed"),
    ],
)
def test_wrong_credentials_are_named_and_not_shown(
    fetcher: Fetcher, s3: S3, data: bytes, wrong: dict[str, str], said: str
) -> None:
    s3.put("dir/weights+v1.bin", data)
    fetcher.allow(**s3.entry(**wrong))
    answer = fetcher.stat(URL)
    assert answer["code"] == "origin_denied" and said in answer["error"] and "--origins" in answer["error"], answer
    assert fetcher.open(URL)["ok"]
    fetcher.fetch(0, 1)
    assert fetcher.failure()["code"] == "origin_denied" and not fetcher.told()
    told = json.dumps(answer) + fetcher.everything_told()
    for hidden in {*wrong.values(), s3.secret, s3.access} - {"us-far-1"}:
        assert hidden not in told


def test_without_a_key_or_object_or_bucket(fetcher: Fetcher, s3: S3) -> None:
    assert fetcher.stat(f"s3://{BUCKET}/none")["code"] == "not_found"
    entry = s3.entry()
    del entry["access_key"], entry["secret_key"]
    fetcher.allow(**entry)
    assert fetcher.stat(URL)["code"] == "origin_denied"
    assert fetcher.stat("s3://other/none")["code"] == "denied", "no prefix allows that bucket"


@pytest.mark.parametrize(
    "key", ["dir/a b.bin", "a#b?c=d&e", "50%25 off", "gr\u00f6\u00dfe/\U0001f40d", "(a)'*,;:@!$+=~[x]", 'q"\\b|^`{}<>']
)
def test_a_key_is_named_as_the_store_shows_it(fetcher: Fetcher, s3: S3, key: str) -> None:
    """Escaped by the agent in the way that is signed; a prefix is written likewise."""
    s3.put(key, data := os.urandom(SIZE))
    url = f"s3://{BUCKET}/{key}"
    fetcher.allow(**s3.entry(prefix=url.rpartition("/")[0] + "/"))
    assert fetcher.deliver(url)["size"] == SIZE
    assert (fetcher.net.agents["a"].folder / "got").read_bytes() == data


def test_an_object_of_no_bytes(fetcher: Fetcher, s3: S3) -> None:
    """S3 says of it that it has not the first byte, and not how many it has."""
    s3.put("dir/empty", b"")
    known = fetcher.stat(f"s3://{BUCKET}/dir/empty")
    assert known["ok"] and known["size"] == 0, known


@pytest.mark.parametrize("parts", [False, True])
def test_an_object_that_is_written_again_meanwhile_is_no_mixture(
    fetcher: Fetcher, s3: S3, data: bytes, parts: bool
) -> None:
    put = (lambda d: s3.put_in_parts("dir/weights+v1.bin", d, 5 << 20)) if parts else (
        lambda d: s3.put("dir/weights+v1.bin", d)
    )  # fmt: skip
    put(data)
    assert fetcher.open(URL, fetcher.stat(URL)["etag"])["ok"]
    fetcher.fetch(0, 20)
    fetcher.client.wait(lambda: len(fetcher.told()) == 20, "a part of the first")
    put(os.urandom(SIZE))
    fetcher.fetch(20)
    event = fetcher.failure()
    assert event["code"] == "changed" and "changed" in event["error"], event
    assert len(fetcher.told()) == 20, "nothing of the second"
    assert fetcher.ask("close")["ok"]
    for name in "ab":
        assert not (fetcher.net.agents[name].folder / "got").exists()


def held_in_memory(pid: int, secret: bytes) -> bool:
    """Somewhere in what this process may write."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
        for line in maps:
            where, rights = line.split()[:2]
            first, end = (int(part, 16) for part in where.split("-"))
            if rights.startswith("rw") and end - first < 1 << 30:
                memory.seek(first)
                try:
                    if secret in memory.read(end - first):
                        return True
                except OSError:  # a device's
                    continue
    return False


def test_an_agent_that_does_not_fetch_has_no_credential(
    make_net: Callable[[Path], Net], tmp_path: Path, data: bytes
) -> None:
    fetcher = Fetcher(make_net(PLAIN), tmp_path / "origins.json", SIZE)
    space = fetcher.net.namespace("a")
    enter = ("ip", "netns", "exec", space)
    with S3(tmp_path / "s3", fetcher.address, 7070, enter, lambda act: inside(space, act)) as s3:
        fetcher.allow(**s3.entry())
        s3.put("dir/weights+v1.bin", data)
        assert fetcher.open(URL, fetcher.stat(URL)["etag"])["ok"]
        fetcher.fetch()
        pids = {name: fetcher.net.agents[name].process.pid for name in "ab"}
        fetcher.client.wait(lambda: fetcher.told(), "a block")
        assert held_in_memory(pids["b"], s3.secret.encode()), "it signs with it"
        fetcher.pass_on()
        assert not held_in_memory(pids["a"], s3.secret.encode())
        for hidden in (s3.secret, s3.access):
            assert hidden not in fetcher.everything_told()
