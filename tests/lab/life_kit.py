"""A small lab for tests of receivers that come and go: groups over REST, agents stopped, killed and started again."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import urllib.error
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab_kit import eventually
from left_over import unique_name
from ports import free_ports

from datacast.lab.lab import Lab, LabOptions

FINAL = ("done", "partial", "failed", "cancelled")
SIZE = 6 << 20


class Refused(Exception):
    """The REST API's problem, as a dictionary in args[0]."""


class SmallLab:
    """BCube(2,1): hosts 00, 01, 10, 11 with two ports each, 12 Mbit/s. A group of SIZE takes some two seconds."""

    def __init__(self, tag: str, **options: Any) -> None:
        self.tag, self.options = tag, options
        self.files = 0
        self.up()

    def up(self) -> None:
        rest, fabric = free_ports(2)
        settings = {"topology": "bcube:2,1", "rate_bps": 12_000_000, "mtu": 1500, "room": 8 * SIZE, **self.options}
        self.lab = Lab(LabOptions(rest_port=rest, fabric_port=fabric, **settings), unique_name(self.tag)).__enter__()
        try:
            self.lab.up()
        except BaseException:
            self.lab.__exit__()
            raise

    def close(self) -> None:
        self.lab.__exit__()

    def mend(self) -> None:
        """Another lab, where a test that failed has left this one without services or switches: a second try is one."""
        running = {process.name for process in self.lab.supervisor.processes if process.running}
        needed = {"controller", "fabric-manager", *(machine.name for machine in self.lab.plan.switches)}
        if not needed <= running:
            self.close()
            self.up()

    def source(self) -> Path:
        """A new file of random bytes."""
        self.files += 1
        path = self.lab.work / f"source{self.files}.bin"
        path.write_bytes(os.urandom(SIZE))
        return path

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        try:
            return self.lab.rest_json(method, path, body)
        except urllib.error.HTTPError as error:
            raise Refused(json.loads(error.read())) from error

    def start(self, path: Path, receivers: list[str], **options: Any) -> str:
        spec = {"source": "00", "receivers": receivers, "source_path": str(path), "options": options}
        return self.ask("POST", "/groups", spec)["id"]

    def until(
        self, group: str, ready: Callable[[dict[str, Any]], Any], what: str, seconds: float = 40
    ) -> dict[str, Any]:
        """The group's record when `ready` says so."""
        last: dict[str, Any] = {}

        def look() -> Any:
            try:
                last.update(self.ask("GET", f"/groups/{group}"))
            except (OSError, Refused):  # the services may be starting again
                return None
            return last if ready(last) else None

        try:
            return eventually(look, seconds, what)
        except AssertionError:
            told = {n: (r["state"], r.get("error")) for n, r in last.get("receivers", {}).items()}
            raise AssertionError(f"{what}: {last.get('state')}, {last.get('error')}, {told}") from None

    def end(self, group: str, seconds: float = 60) -> dict[str, Any]:
        return self.until(group, lambda g: g["state"] in FINAL, "the group ends", seconds)

    def half(self, group: str, share: float = 0.3) -> dict[str, Any]:
        """Until the receivers have so much of it."""
        return self.until(group, lambda g: g["fraction"] >= share or g["state"] in FINAL, f"{share:.0%} are there")

    def has(self, host: str, path: Path, name: str | None = None) -> bool:
        """Whether a host has the whole file."""
        got = self.lab.host_folder(host) / (name or path.name)
        return got.is_file() and _digest(got) == _digest(path)

    def nothing_of(self, host: str, path: Path) -> bool:
        return not (self.lab.host_folder(host) / path.name).exists()

    def clear(self) -> None:
        """Empty the hosts' disks."""
        for host in ("00", "01", "10", "11"):
            for entry in self.lab.host_folder(host).iterdir():
                if entry.is_dir():
                    shutil.rmtree(entry)
                else:
                    entry.unlink(missing_ok=True)

    # ---- agents ----
    def agent(self, host: str) -> Any:
        return [p for p in self.lab.supervisor.processes if p.name == f"agent-{host}" and p.running][-1]

    def stop(self, host: str) -> None:
        self.agent(host).popen.send_signal(signal.SIGSTOP)

    def go_on(self, host: str) -> None:
        self.agent(host).popen.send_signal(signal.SIGCONT)

    def kill(self, host: str) -> None:
        process = self.agent(host)
        process.expected = True
        process.popen.kill()
        process.popen.wait()
        self.registered(host, False)

    def restart(self, host: str) -> None:
        self.lab.start_agent(host)
        self.registered(host, True)

    def registered(self, host: str, there: bool) -> None:
        def look() -> bool:
            nodes = {n["name"]: n["registered"] for n in self.ask("GET", "/topology")["nodes"]}
            return nodes[host] == there

        eventually(look, 60, f"the agent of {host} is {'there' if there else 'gone'}")

    def whole(self) -> None:
        def look() -> bool:
            view = self.ask("GET", "/topology")
            return all(n["registered"] for n in view["nodes"]) and all(link["up"] for link in view["links"])

        eventually(look, 60, "everybody is registered and every link up")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
