"""The agent's command line."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from agent_harness import PLAIN, Net, agent_command, make_pair

GOOD = ["--node", "x", "--listen", "127.0.0.1:7600", "--port", "0=lo"]


def agent(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(PLAIN), *arguments], capture_output=True, text=True, timeout=90)


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
        ([*GOOD, "--port", "2=veth0"], "without gaps"),
        ([*GOOD, "--port", "0=veth0"], "this port was given already"),
        ([*GOOD, "--port", "1=lo"], "another port is there already"),
        ([*GOOD, "--tunnel", "1=10.0.0.1,10.0.0.2", "--tunnel", "2=10.0.0.1,10.0.0.2"], "is there already"),
        ([*GOOD, "--memif", "1=/run/m", "--memif", "2=/run/m,0"], "another port is there already"),
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
        ([*GOOD, "--listen", "0.0.0.0:7600"], "0.0.0.0:7600: others are told so"),
        ([*GOOD, "--listen", "[::]:7600"], "[::]:7600: others are told so"),
        ([*GOOD, "--listen", "127.0.0.1:0"], "127.0.0.1:0: others are told so"),
    ],
)
def test_wrong_usage(arguments: list[str], told: str) -> None:
    done = agent(*arguments)
    assert done.returncode == 2
    assert told in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("node: x\nlisten: 127.0.0.1:7600\nport: [0=lo, 1=veth0]\ngroups: 0\n", "--groups 0"),
        ("node: x\nlisten: 127.0.0.1:7600\nport: [0=lo, 2=veth0]\n", "without gaps"),
        ("node: x\nnonsense: 1\n", "line 2: nonsense: there is no such option"),
        ("node: x\nnode: y\n", "line 2: node: this option was given already"),
        ("no-sync: 1\n", "line 1: no-sync: wanted true or false"),
        ("node: {a: b}\n", "line 1: node: wanted a value"),
        ("port: [[0=lo]]\n", "line 1: port: wanted a list of values"),
        ("node: [\n", "line 2"),
        ("node: x\n---\nlisten: 127.0.0.1:7600\n", "line 3: a second document begins before this"),
        ("node: x\n---\n[\n", "line 4"),
        ("- node\n", "wanted lines such as"),
        ("config: other.yaml\n", "--config other.yaml: wanted once"),
        ("# nothing\n", "--node is missing"),
        ("dest-root: [" + "/a, " * 2000 + "]\n", "too many options"),
    ],
)
def test_a_file_of_options_that_is_wrong_is_refused_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(text)
    done = agent("--config", str(file))
    assert done.returncode == 2
    assert told in done.stderr, done.stderr


def test_a_file_of_options_comes_first_and_once(tmp_path: Path) -> None:
    assert "absent.yaml" in agent("--config", "absent.yaml").stderr
    assert "as the first option" in agent("--node", "x", "--config", "agent.yaml").stderr
    file = tmp_path / "agent.yaml"
    file.write_text("node: x\nno-sync: true\nkeep-partial: false\nlisten: 127.0.0.1:7600\nport: 0=lo\n")
    done = agent("--config", str(file), "--cache", "lots")
    assert "--cache lots" in done.stderr


@pytest.mark.root
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (["--cache", "3"], "a cache of 3 bytes (--cache) holds no packet of this host's ports"),
        (["--port", "0=absent0"], "interface absent0 does not exist"),
        (["--port", "0=lo"], "not Ethernet"),
        (["--dest-root", "/absent"], "folder /absent"),
        (["--listen", "nowhere"], "nowhere is not an address"),
        (["--listen", "127.0.0.1:65536"], "127.0.0.1:65536 is not an address"),
        (["--listen", "203.0.113.1:7600"], "cannot listen on 203.0.113.1:7600"),
        (["--fabric-manager", "manager"], "manager is not an address"),
        (["--fabric-manager", "198.18.0.1:7500,"], "198.18.0.1:7500, is not an address"),
        (["--fabric-manager", ",".join(["198.18.0.1:7500"] * 9)], "is not an address such as"),
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
    done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert done.returncode == 1
    assert told in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) <= 2


@pytest.mark.root
def test_address_in_use(make_net: object, tmp_path: Path) -> None:
    net: Net = make_pair(make_net(PLAIN))  # type: ignore[operator]
    done = subprocess.run(agent_command(net, "--insecure"), capture_output=True, text=True, timeout=90)
    assert done.returncode == 1 and "Address already in use" in done.stderr


@pytest.mark.root
def test_ps_shows_the_options_as_they_were_given(make_net: object) -> None:
    net: Net = make_pair(make_net(PLAIN))  # type: ignore[operator]
    words = Path(f"/proc/{net.agents['a'].process.pid}/cmdline").read_text().split("\0")
    assert any(word.startswith("0=") for word in words), words
