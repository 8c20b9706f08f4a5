"""`datacast init`: what it writes fits the daemons, the certificates the names; what is wrong is told by name."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml
from commands import command

from datacast.cli import site as cli_site
from datacast.cli.site_file import load
from datacast.core.errors import DatacastError
from datacast.services.authority import describe

DATACAST = Path(sys.executable).parent / "datacast"
AGENT = Path(__file__).resolve().parents[2] / "build" / "datacast-agent"
SITE = """topology: bcube:2,1
controller: 192.0.2.1
hosts:
  "00": {address: 192.0.2.10, ports: [lo, eth1]}
  "01": {address: 192.0.2.11, ports: [eth1, eth2]}
  "10": {address: 192.0.2.12, ports: [eth1, eth2]}
  "11": {address: 192.0.2.13, ports: [eth1, eth2]}
switches:
  s0.0: {address: 192.0.2.50, ports: [eth1, eth2]}
"""


def init(tmp_path: Path, text: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "site.yaml").write_text(text)
    words = ("init", tmp_path / "site.yaml", tmp_path / "site")
    return subprocess.CompletedProcess(words, *command(*words))


def test_a_site_is_made_in_one_go(tmp_path: Path) -> None:
    done = init(tmp_path, SITE)
    assert done.returncode == 0, done.stderr
    site, root = tmp_path / "site", tmp_path / "root"
    for name, mode in (("hosts", 0o700), ("hosts/00.tar.gz", 0o600), ("controller.tar.gz", 0o600), ("token", 0o600)):
        assert (site / name).stat().st_mode & 0o777 == mode, name  # there are keys in it, or it is one
    with tarfile.open(site / "hosts" / "00.tar.gz") as tar:
        modes = {member.name: member.mode for member in tar}
        tar.extractall(root)
    assert modes["etc/datacast/tls/agent.key"] == 0o600
    config = root / "etc" / "datacast" / "agent.yaml"
    assert yaml.safe_load(config.read_text())["port"] == ["0=lo", "1=eth1"]
    assert "agent/00" in str(describe(root / "etc" / "datacast" / "tls" / "agent.pem"))
    # The agent reads its file to the end: what it lacks is a port that is Ethernet.
    agent = subprocess.run([str(AGENT), "--config", str(config)], capture_output=True, text=True, timeout=90)
    assert agent.returncode == 1 and "agent.yaml" not in agent.stderr, agent.stderr
    with tarfile.open(site / "controller.tar.gz") as tar:
        names = set(tar.getnames())
        controller = yaml.safe_load(tar.extractfile("etc/datacast/controller.yaml"))
    assert controller["audit"] == "/var/log/datacast/audit.jsonl"
    assert {f"etc/datacast/{name}" for name in ("fabric-manager.yaml", "controller.yaml", "tokens.json")} <= names
    assert not any("ca.key" in name for name in names)
    assert "01 ansible_host=192.0.2.11" in (site / "inventory.ini").read_text()
    assert "a site is made once" in init(tmp_path, SITE).stderr


def test_a_site_of_ipv6_has_ports_behind_brackets(tmp_path: Path) -> None:
    done = init(tmp_path, SITE.replace("192.0.2.10,", '"2001:db8::10",').replace("192.0.2.1\n", "2001:db8::1\n"))
    assert done.returncode == 0, done.stderr
    for tarball, name, key, value in (
        ("hosts/00", "agent", "listen", "[2001:db8::10]:7600"),
        ("hosts/00", "agent", "fabric-manager", "[2001:db8::1]:7500"),
        ("switches/s0.0", "switch", "fabric_manager", "[2001:db8::1]:7500"),
        ("controller", "fabric-manager", "signalling", "[2001:db8::1]:7500"),
    ):
        with tarfile.open(tmp_path / "site" / f"{tarball}.tar.gz") as tar:
            assert yaml.safe_load(tar.extractfile(f"etc/datacast/{name}.yaml"))[key] == value


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"11":', '"12":', "hosts has no 11"),
        ("s0.0:", "s9.0:", "no s9.0 among its switches"),
        ("192.0.2.12", "nowhere", "hosts.10.address"),
        ("192.0.2.12", "0.0.0.0", "hosts.10.address: 0.0.0.0 is no machine's address"),
        ("192.0.2.12", "224.0.0.1", "224.0.0.1 is no machine's address"),
        ("192.0.2.12", "192.0.2.11", "01 and 10 have the address 192.0.2.11"),
        ("[lo, eth1]", "[lo]", "00 has 1 ports here and 2"),
        ("[lo, eth1]", "[lo, 'a b']", "hosts.00.ports"),
        ("[lo, eth1]", "[lo, lo]", "lo stands twice"),
        ("controller:", "mtu: 9\ncontroller:", "mtu"),
        ("bcube:2,1", "cube:2", "cube:2"),
        ("{address", "{{", "YAML"),
        ("controller:", "link-rate: fast\ncontroller:", "link-rate: 'fast' is no rate"),
        ("s0.0:", "s0 0:", "switches: 's0 0' is no name"),
    ],
)
def test_a_wrong_site_is_refused_by_name(tmp_path: Path, old: str, new: str, told: str) -> None:
    done = init(tmp_path, SITE.replace(old, new, 1))
    assert done.returncode == 2 and told in done.stderr, done.stderr
    assert not (tmp_path / "site").exists()


def test_a_site_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, files: dict[str, bytes]) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "site.yaml").write_text(SITE)
    monkeypatch.setattr(cli_site, "_pack", full)
    with pytest.raises(DatacastError, match="cannot be made: No space left"):
        cli_site.make(*load(tmp_path / "site.yaml"), tmp_path / "site", 1)
    assert not (tmp_path / "site").exists(), "it can be asked for again"
