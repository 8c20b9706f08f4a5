"""Ports in memory that is shared with a switch of the same machine: datacast-switch's own, and DPDK's net_memif."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from agent_harness import ASAN, CALM, PLAIN, ROOT, Net, Transfer, random_file, until
from made import made

from datacast.core import wire
from datacast.core.wire import Segment, Stop

pytestmark = pytest.mark.root
SWITCH = ROOT / "build" / "datacast-switch"
OWN = "memif"
DRIVER = "net_memif"


class Switch:
    """A switch with port 0 to a and port 1 to b. Sockets do not care for namespaces."""

    def __init__(self, folder: Path, ways: str) -> None:
        self.folder, self.ways = folder, ways
        self.sockets = [folder / f"port{i}" for i in range(2)]
        self.log = folder / "switch.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def way(self, i: int) -> dict[str, str]:
        path = self.sockets[i]
        if self.ways == OWN:
            return {"memif": str(path)}
        return {"vdev": f"net_memif{i},role=server,socket-abstract=no,bsize=16384,socket={path}"}

    def start(self) -> None:
        ports = [{"port": i, **self.way(i)} for i in range(2)]
        node = {"name": "s", "ports": ports, "cache": {"memory": "4M"}}
        config = {"nodes": [node], "mtu": 9000, "eal": {"huge": False}}
        path = self.folder / "switch.yaml"
        path.write_text(yaml.safe_dump(config))
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([str(SWITCH), "--config", str(path)], stdout=log, stderr=log)
        until(lambda: " ready: " in self.log.read_text() or self.process.poll() is not None, "the switch")
        assert self.process.poll() is None, self.log.read_text()

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(60)


@pytest.fixture(params=[OWN, DRIVER])
def switch(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Switch]:
    made(SWITCH)
    switch = Switch(tmp_path, request.param)
    yield switch
    switch.stop()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Switch]:
    made(SWITCH)
    switch = Switch(tmp_path, OWN)
    yield switch
    switch.stop()


def hosts(net: Net, switch: Switch, program: Path = PLAIN, workers: int = 1) -> Net:
    for i, host in enumerate("ab"):
        net.host(host)
        net.start(host, "--memif", f"0={switch.sockets[i]}", "--workers", str(workers), program=program)
    return net


def port_of(net: Net, host: str) -> dict:
    client = net.client(host)
    try:
        return client.request("node", net.member(host, {}), {"counters": True})[host]["ports"]["0"]
    finally:
        client.close()


def both(net: Net, up: bool) -> None:
    until(lambda: all(port_of(net, host)["up"] == up for host in "ab"), f"both ends up: {up}")


def over_switch() -> bytes:
    """From b to a: out of its port and the switch's 0, and back out of the switch's 1."""
    return wire.encode_route([Stop(fwd=Segment((0, 0))), Stop(ret=Segment((0, 1)))])


@pytest.mark.parametrize("program", [PLAIN, ASAN], ids=["plain", "sanitized"])
def test_a_file_goes_over_a_switch_in_shared_memory(
    make_net: Callable[[Path], Net], tmp_path: Path, switch: Switch, program: Path
) -> None:
    net = hosts(make_net(program), switch, program)
    both(net, True)
    source = random_file(tmp_path / "file", 20_000_001)
    Transfer(net, "a", source, {"b": over_switch()}, piece=8900, rate=10**10, extra=CALM).deliver()
    assert port_of(net, "a")["tx_data_payload"] == 20_000_001  # every byte once
    assert (tmp_path / "b" / "got").read_bytes() == source.read_bytes()


@pytest.mark.parametrize("program", [PLAIN, ASAN], ids=["plain", "sanitized"])
def test_each_worker_has_the_trees_that_are_its_own(
    make_net: Callable[[Path], Net], tmp_path: Path, own: Switch, program: Path
) -> None:
    """The first has the link as well."""
    net = hosts(make_net(program), own, program, workers=3)
    both(net, True)
    for tree in (6, 7, 8):
        source = random_file(tmp_path / f"file{tree}", 5_000_001)
        dest = {"b": str(tmp_path / "b" / f"got{tree}")}
        what = Transfer(net, "a", source, {"b": over_switch()}, dest, f"g-{tree}", 8900, rate=10**10, extra=CALM)
        what.tree = tree
        what.deliver()
        assert Path(dest["b"]).read_bytes() == source.read_bytes()
    assert port_of(net, "a")["tx_data_payload"] == 15_000_003


def test_several_workers_want_a_switch_that_knows_of_them(make_net: Callable[[Path], Net], tmp_path: Path) -> None:
    made(SWITCH)
    switch = Switch(tmp_path, DRIVER)
    net = hosts(make_net(PLAIN), switch, workers=2)
    try:
        until(lambda: "the other side is gone; it is tried again" in net.agents["a"].text(), "a refusal")
        assert not port_of(net, "a")["carrier"]
    finally:
        switch.stop()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_switch_that_goes_takes_the_carrier_and_brings_it_back(
    make_net: Callable[[Path], Net], tmp_path: Path, switch: Switch, how: int
) -> None:
    net = hosts(make_net(PLAIN), switch)
    both(net, True)
    switch.stop(how)
    both(net, False)
    assert not port_of(net, "a")["carrier"]
    for path in switch.sockets:
        if switch.ways == DRIVER:
            path.unlink(missing_ok=True)  # DPDK's driver leaves them, and does not start where they are
    switch.start()
    both(net, True)
    source = random_file(tmp_path / "file", 3_000_000)
    Transfer(net, "a", source, {"b": over_switch()}, piece=8900, rate=10**10, extra=CALM).deliver()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_transfer_outlives_its_switch(
    make_net: Callable[[Path], Net], tmp_path: Path, own: Switch, workers: int
) -> None:
    net = hosts(make_net(PLAIN), own, workers=workers)
    both(net, True)
    source = random_file(tmp_path / "file", 40_000_000)
    transfer = Transfer(net, "a", source, {"b": over_switch()}, piece=8900, rate=200_000_000)
    transfer.open()
    transfer.assign()
    until(lambda: port_of(net, "a")["tx_data_payload"] > 4_000_000, "a part of it")
    own.stop(signal.SIGKILL)
    both(net, False)
    own.start()
    assert transfer.wait_ended()["b"]["event"] == "done"
    assert (tmp_path / "b" / "got").read_bytes() == source.read_bytes()


def test_the_switch_sees_a_host_go_and_come(make_net: Callable[[Path], Net], own: Switch) -> None:
    net = hosts(make_net(PLAIN), own)
    both(net, True)
    net.agents["a"].stop(signal.SIGKILL)
    until(lambda: "port 0 (" in own.log.read_text() and "is down" in own.log.read_text(), "the switch's end down")
    assert port_of(net, "b")["up"]
    net.start("a", "--memif", f"0={own.sockets[0]}")
    both(net, True)


def test_only_the_switch_s_user_may_connect(own: Switch) -> None:
    assert [os.stat(path).st_mode & 0o777 for path in own.sockets] == [0o600, 0o600]


def test_what_memif_cannot_be_is_refused_in_words(tmp_path: Path) -> None:
    for wrong in ("0", "x=/s", "0=/s,-1", "0=/s,65536", "0=/s,0,100", f"0=/{'s' * 107}"):
        done = subprocess.run(
            [PLAIN, "--node", "a", "--listen", "127.0.0.1:7600", "--memif", wrong], capture_output=True, text=True
        )
        assert done.returncode == 2 and "--memif" in done.stderr and "wanted N=SOCKET" in done.stderr
