"""An agent that fetches a folder's files from their URLs as one stream, and one below it that makes the folder too."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from agent_harness import ASAN, Message, Net, until
from fetch_kit import BLOCK, Fetcher
from web import Nginx

from datacast.origins.bundle import Entry, Stream, stream

pytestmark = pytest.mark.root

FILES = {
    "index.json": b'{"small": 1}',
    "blobs/sha256/aa": os.urandom(300_001),
    "blobs/sha256/bb": os.urandom(7),
    "blobs/empty": b"",
    "blobs/zz": os.urandom(BLOCK),
}


def entries(files: dict[str, bytes]) -> dict[str, Entry]:
    return {name: Entry(len(data), hashlib.sha256(data).hexdigest()) for name, data in files.items()}


MADE = stream(entries(FILES))


@pytest.fixture
def fetcher(make_net: Callable[[Path], Net], tmp_path: Path) -> Fetcher:
    return Fetcher(make_net(ASAN), tmp_path / "origins.json", MADE.size)


@pytest.fixture
def nginx(fetcher: Fetcher, tmp_path: Path) -> Iterator[Nginx]:
    enter = ("ip", "netns", "exec", fetcher.net.namespace("a"))
    with Nginx(tmp_path / "nginx", fetcher.address, 8088, enter=enter) as it:
        fetcher.allow(prefix=it.url + "/")
        for name, data in FILES.items():
            (it.www / name).parent.mkdir(parents=True, exist_ok=True)
            (it.www / name).write_bytes(data)
        yield it


def opened(fetcher: Fetcher, nginx: Nginx, made: Stream = MADE, **more: object) -> Message:
    rows = [
        {"data": base64.b64encode(FILES[name]).decode()} if name == "index.json" else {"url": f"{nginx.url}/{name}"}
        for name in made.files
    ]
    origin = {"objects": rows, "manifest": base64.b64encode(made.manifest).decode()}
    promised = {"bundle": True, "sha256": hashlib.sha256(made.manifest).hexdigest(), **more}
    return fetcher.open_all(origin, **promised)


def seen(top: Path) -> dict[str, bytes]:
    return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}


def ended(fetcher: Fetcher, name: str, event: str) -> Message:
    fetcher.client.wait(lambda: fetcher.client.event(event, name), f"{name}: {event}")
    found = fetcher.client.event(event, name)
    assert found
    return found


def test_the_files_of_several_urls_become_a_folder_on_both(fetcher: Fetcher, nginx: Nginx) -> None:
    assert opened(fetcher, nginx)["ok"]
    fetcher.fetch()
    fetcher.pass_on()
    for name in "ab":
        top = fetcher.net.agents[name].folder / "got"
        assert seen(top) == FILES
        assert (top / "blobs").stat().st_mode & 0o777 == 0o755 and (top / "index.json").stat().st_mode & 0o777 == 0o644
        assert fetcher.net.agents[name].leftovers() == []
    wanted = sum(len(data) for name, data in FILES.items() if name != "index.json")

    def left() -> int:
        return sum(n for _, status, n in nginx.rows() if status == 206)

    until(lambda: left() >= wanted, "what nginx has sent: it says so a moment later")
    assert left() == wanted, "each byte left the origin once"


def test_the_stream_is_that_of_a_source_with_the_same_folder(fetcher: Fetcher, nginx: Nginx) -> None:
    told = fetcher.ask("stat", {"path": str(nginx.www)})
    assert told["ok"] and told["bundle"] == 3 + len(FILES) - 1, told
    assert told["size"] == stream({name: Entry(len(data)) for name, data in FILES.items()}).size


def test_a_part_with_another_digest_makes_nothing(fetcher: Fetcher, nginx: Nginx) -> None:
    (nginx.www / "blobs/sha256/bb").write_bytes(b"1234567")
    assert opened(fetcher, nginx)["ok"]
    fetcher.fetch()
    event = ended(fetcher, "b", "failed")
    assert event["code"] == "digest" and "blobs/sha256/bb" in event["error"], event
    assert not (fetcher.net.agents["b"].folder / "got").exists() and fetcher.net.agents["b"].leftovers() == []


def test_a_manifest_that_is_another_one_than_promised_makes_nothing(fetcher: Fetcher, nginx: Nginx) -> None:
    assert opened(fetcher, nginx, sha256=64 * "1")["ok"]
    fetcher.fetch()
    event = ended(fetcher, "b", "failed")
    assert event["code"] == "digest" and "list of files" in event["error"], event
    assert not (fetcher.net.agents["b"].folder / "got").exists()


def test_one_file_that_is_shorter_than_told_is_a_change(fetcher: Fetcher, nginx: Nginx) -> None:
    (nginx.www / "blobs/sha256/aa").write_bytes(FILES["blobs/sha256/aa"][:-1])
    assert opened(fetcher, nginx)["ok"]
    fetcher.fetch()
    event = fetcher.failure()
    assert event["code"] == "changed" and "blobs/sha256/aa" in event["error"], event


@pytest.mark.parametrize(
    ("name", "code"), [("../evil", "bad_bundle"), ("/etc/evil", "bad_bundle"), ("a//b", "bad_bundle")]
)
def test_names_that_lead_outside_are_refused_before_anything_is_fetched(
    fetcher: Fetcher, nginx: Nginx, name: str, code: str
) -> None:
    made = stream({name: Entry(MADE.size)})
    fetcher.size = made.size
    answer = fetcher.open_all(
        {"objects": [{"url": f"{nginx.url}/x"}], "manifest": base64.b64encode(made.manifest).decode()}, bundle=True
    )
    assert answer["code"] == code, answer


def test_a_url_that_this_host_may_not_fetch_is_refused(fetcher: Fetcher, nginx: Nginx) -> None:
    fetcher.allow(prefix=nginx.url + "/blobs/sha256/")
    answer = opened(fetcher, nginx)
    assert answer["code"] == "denied" and "blobs/zz" in answer["error"], answer
    told = fetcher.ask("stat", {"dest": str(fetcher.net.agents["b"].folder / "got"),
                                "urls": [f"{nginx.url}/blobs/sha256/aa", f"{nginx.url}/blobs/zz"]})  # fmt: skip
    assert told["objects"][0][0] == len(FILES["blobs/sha256/aa"]) and told["objects"][1]["code"] == "denied"


def test_an_agent_that_is_killed_goes_on_with_the_blocks_that_it_had(fetcher: Fetcher, nginx: Nginx) -> None:
    assert opened(fetcher, nginx)["ok"]
    fetcher.fetch(0, 5)
    fetcher.client.wait(lambda: len(fetcher.told()) == 5, "half of it")
    agent = fetcher.net.agents["b"]
    until(lambda: len(agent.noted(MADE.size)) == 5, "they are noted")
    agent.process.kill()
    agent.process.wait()
    fetcher.again()
    assert opened(fetcher, nginx)["ok"]
    fetcher.fetch()
    fetcher.pass_on()
    assert seen(fetcher.net.agents["b"].folder / "got") == FILES
    wanted = sum(len(data) for name, data in FILES.items() if name != "index.json")
    assert nginx.sent() <= wanted, "what was verified is not fetched again"
