"""The agent's command line."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from agent_harness import PLAIN, Net, agent_command, make_pair

GOOD = ["--node", "x", "--listen", "127.0.0.1:0", "--port", "0=lo"]


def agent(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(PLAIN), *arguments], capture_output=True, text=True, timeout=10)


def test_help_and_version() -> None:
    done = agent("--help")
    assert done.returncode == 0 and "--dest-root" in done.stdout and done.stderr == ""
    assert agent("--version").stdout.startswith("datacast-agent ")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "--node is missing"),
        (["--node", "x"], "--listen is missing"),
        (["--node", "x", "--listen", "127.0.0.1:1"], "--port"),
        (["--node", "a/b"], "--node a/b"),
        ([*GOOD, "--port", "2=lo"], "without gaps"),
        ([*GOOD, "--port", "0=lo"], "already"),
        ([*GOOD, "--port", "x"], "N=IFACE"),
        ([*GOOD, "--port", "1=lo,zz"], "N=IFACE"),
        ([*GOOD, "--port", "1=" + "i" * 16], "N=IFACE"),
        ([*GOOD, "--cache", "lots"], "--cache lots"),
        ([*GOOD, "--cache-memory", "5000M"], "--cache-memory"),
        ([*GOOD, "--groups", "0"], "--groups 0"),
        ([*GOOD, "--dest-root", "relative"], "absolute"),
        ([*GOOD, "--log-level", "loud"], "--log-level loud"),
        ([*GOOD, "--nonsense"], "--help"),
        ([*GOOD, "extra"], "--help"),
    ],
)
def test_wrong_usage(arguments: list[str], told: str) -> None:
    done = agent(*arguments)
    assert done.returncode == 2
    assert told in done.stderr, done.stderr


@pytest.mark.root
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (["--port", "0=absent0"], "interface absent0 does not exist"),
        (["--port", "0=lo"], "not Ethernet"),
        (["--dest-root", "/absent"], "folder /absent"),
        (["--listen", "nowhere"], "nowhere is not an address"),
        (["--listen", "203.0.113.1:7600"], "cannot listen on 203.0.113.1:7600"),
        (["--fabric-manager", "manager"], "manager is not an address"),
    ],
)
def test_what_cannot_run_says_why(make_net: object, change: list[str], told: str) -> None:
    net: Net = make_net(PLAIN)  # type: ignore[operator]
    net.host("a")
    net.host("b")
    net.cable("a", "b")
    options = {"--node": "a", "--listen": net.address("a"), "--port": "0=p0", change[0]: change[1]}
    command = ["ip", "netns", "exec", net.namespace("a"), str(PLAIN), "--insecure"]
    for name, value in options.items():
        command += [name, value]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    assert done.returncode == 1
    assert told in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) <= 2


@pytest.mark.root
def test_address_in_use(make_net: object, tmp_path: Path) -> None:
    net: Net = make_pair(make_net(PLAIN))  # type: ignore[operator]
    done = subprocess.run(agent_command(net, "--insecure"), capture_output=True, text=True, timeout=10)
    assert done.returncode == 1 and "Address already in use" in done.stderr
