"""Hosts of a lab with a containerd and a mirror each, and a registry beside the lab."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from containerd import Containerd
from registry import Registry, sha256

from datacast.lab.lab import Lab

MIRROR = "http://127.0.0.1:7588"
BIN = Path(sys.executable).parent


@dataclass
class MirrorLab:
    lab: Lab
    registry: Registry
    hosts: dict[str, Containerd]
    rest: str
    token: Path

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        where = ("--controller", self.rest, "--token-file", str(self.token))
        return subprocess.run([BIN / "datacast", *words, *where], capture_output=True, text=True, timeout=500)

    def said(self, registry: Registry, data: bytes) -> str:
        """What the mirrors, the lab's services and its groups for this blob have said, and who asked the registry."""
        logs = [*self.token.parent.glob("mirror-*.log"), self.token.parent / "controller.log"]
        logs += sorted((self.lab.work / "logs").iterdir())
        groups = [row for row in self.lab.rest_json("GET", "/groups") if sha256(data) in str(row["labels"])]
        asked = [line for line in (registry.folder / "log").read_text().splitlines() if sha256(data) in line]
        said = [f"{log.name}: {log.read_text()[-2000:]}" for log in logs]
        return "\n".join([*said, *map(str, groups), *asked])

    def pull_everywhere(self, image: str, unpack: bool = True) -> float:
        """All hosts at once; seconds until the last has it."""
        began = time.monotonic()
        with ThreadPoolExecutor(len(self.hosts)) as pool:
            list(pool.map(lambda host: host.pull(image, unpack), self.hosts.values()))
        return time.monotonic() - began


@contextlib.contextmanager
def mirror_lab(lab: Lab, folder: Path, registry: Registry, on_demand: bool = True) -> Iterator[MirrorLab]:
    """The controller is reached by a socket of the file system: a host's network is its own."""
    name, rest, token = f"{registry.address}:{registry.port}", f"unix:{folder}/rest", folder / "token"
    token.write_text(lab.credentials.token)
    token.chmod(0o600)
    fabric = ["--fabric-manager", lab.fabric_url, "--tokens", str(lab.credentials.tokens)]
    own = [*fabric, *lab.credentials.options("controller/main")]
    with contextlib.ExitStack() as stack:
        _start(stack, [BIN / "datacast-controller", "--listen", rest, *own], folder / "controller.log")
        hosts = {}
        assert lab.state
        for host in lab.plan.hosts:
            enter = ("mnexec", "-a", str(lab.state.namespaces[host]))
            store = str(lab.host_folder(host) / "mirror")
            more = ["--controller", rest, "--token-file", str(token), "--registry", name] if on_demand else []
            mirror = [*enter, BIN / "datacast-mirror", "-v", "--store", store, *more]
            _start(stack, mirror, folder / f"mirror-{host}.log")
            hosts[host] = stack.enter_context(Containerd(folder / "containerd" / host, enter))
            hosts[host].mirrored(name, MIRROR, registry.tls[0])
        for log in [folder / "controller.log", *(folder / f"mirror-{host}.log" for host in hosts)]:
            end = time.monotonic() + 60
            while not log.read_text():
                assert time.monotonic() < end, f"{log} stays empty"
                time.sleep(0.05)
        yield MirrorLab(lab, registry, hosts, rest, token)


def _start(stack: contextlib.ExitStack, command: list[object], log: Path) -> None:
    with log.open("wb") as out:
        process = subprocess.Popen([str(word) for word in command], stdout=out, stderr=out)
    stack.callback(process.wait, 60)
    stack.callback(process.terminate)
