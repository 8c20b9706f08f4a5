"""A real etcd of one or three members on loopback, its data in a temporary folder."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

from ports import free_ports

QUICK = ["--heartbeat-interval=100", "--election-timeout=1000"]


class Etcd:
    """`with Etcd(folder, 3) as cluster:`; `kill(i)` and `start(i)` a member."""

    def __init__(self, folder: Path, members: int = 1) -> None:
        self.program = shutil.which("etcd")
        assert self.program, "etcd is not installed: `make setup` installs Debian's etcd-server"
        self.folder = folder
        self.clients, self.peers = free_ports(members), free_ports(members)
        self.processes: list[subprocess.Popen[bytes] | None] = [None] * members

    @property
    def url(self) -> str:
        return "etcd://" + ",".join(f"127.0.0.1:{port}" for port in self.clients)

    def start(self, member: int) -> None:
        client, peer = (f"http://127.0.0.1:{ports[member]}" for ports in (self.clients, self.peers))
        cluster = ",".join(f"m{i}=http://127.0.0.1:{port}" for i, port in enumerate(self.peers))
        with open(self.folder / f"m{member}.log", "ab") as log:
            self.processes[member] = subprocess.Popen(
                [self.program, "--name", f"m{member}", "--data-dir", str(self.folder / f"m{member}"), *QUICK,
                 "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
                 "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster],
                stdout=log, stderr=log,
            )  # fmt: skip

    def kill(self, member: int) -> None:
        process = self.processes[member]
        if process:
            process.kill()
            process.wait()

    def ask(self, path: str, body: dict[str, Any], member: int = 0) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self.clients[member]}/v3/{path}"
        with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode()), timeout=10) as answer:
            return json.load(answer)

    def empty(self) -> None:
        self.ask("kv/deleterange", {"key": "AA==", "range_end": "AA=="})

    def __enter__(self) -> Etcd:
        for member in range(len(self.processes)):
            self.start(member)
        end = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError):
                self.ask("kv/range", {"key": "AA=="})
                return self
            assert time.monotonic() < end, "etcd does not answer"
            time.sleep(0.05)

    def __exit__(self, *exc: object) -> None:
        for member in range(len(self.processes)):
            self.kill(member)
