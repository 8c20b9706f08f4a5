"""Agents that can open no file for a while: too many others are open, here or on the whole machine."""

from __future__ import annotations

import contextlib
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_harness import ASAN, Agent, Net, Transfer, make_pair, path_direct, random_file, until

pytestmark = pytest.mark.root


@pytest.fixture
def net(make_net) -> Net:  # type: ignore[no-untyped-def]
    return make_pair(make_net(ASAN))


@contextlib.contextmanager
def no_descriptors(agent: Agent) -> Iterator[None]:
    soft, hard = resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE, (3, hard))
    yield
    resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE, (soft, hard))


def test_a_source_looks_at_its_file_again_when_it_can(net: Net, tmp_path: Path) -> None:
    source = random_file(tmp_path / "src", 4_000_000)
    transfer = Transfer(net, "a", source, {"b": path_direct()}, rate=20_000_000)
    transfer.open()
    transfer.assign()
    with no_descriptors(net.agents["a"]):
        time.sleep(0.7)
    assert transfer.wait_ended()["b"]["event"] == "done" and not transfer.client.event("failed", "a")
    assert Path(transfer.dest["b"]).read_bytes() == source.read_bytes()


def test_a_directory_s_files_are_read_when_they_can_be_opened(net: Net, tmp_path: Path) -> None:
    """What was not read is as if lost on its way; what was not hashed is hashed later."""
    (folder := tmp_path / "many").mkdir()
    for number in range(200):
        random_file(folder / f"{number}", 20_000)
    transfer = Transfer(net, "a", folder, {"b": path_direct()}, per_block=16, rate=20_000_000)
    transfer.more = {"bundle": True}
    transfer.size = transfer.client.request("stat", net.member("a", {"path": str(folder)}))["a"]["size"]
    assert all(r["ok"] for r in transfer.open().values())
    transfer.assign()
    until(lambda: transfer.status()["b"]["bytes"] > 0, "the first bytes")
    with no_descriptors(net.agents["a"]):
        time.sleep(0.7)
    assert transfer.wait_ended()["b"]["event"] == "done" and not transfer.client.event("failed", "a")
    assert {p.name: p.read_bytes() for p in Path(transfer.dest["b"]).iterdir()} == {
        p.name: p.read_bytes() for p in folder.iterdir()
    }


def test_who_asks_is_told_to_ask_again(net: Net, tmp_path: Path) -> None:
    transfer = Transfer(net, "a", random_file(tmp_path / "src", 1000), {"b": path_direct()})
    parts = {"a": {"path": str(transfer.path)}, "b": {"dest": transfer.dest["b"]}}
    for name, part in parts.items():
        client = net.client(name)
        assert client.request("stat", net.member(name, part))[name]["ok"]
        with no_descriptors(net.agents[name]):
            refused = client.request("stat", net.member(name, part))[name]
        assert refused["code"] == "busy" and "Too many open files" in refused["error"], refused
    transfer.deliver()
