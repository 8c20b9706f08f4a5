"""A lab of five hosts on one switch that may fetch from servers on the management network."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import networkx as nx
from lab_kit import Quiet, eventually
from left_over import unique_name
from ports import free_ports

from datacast import topologies
from datacast.fabric_manager.api import GroupOptions
from datacast.lab.lab import Lab, LabOptions
from datacast.lab.report import plain
from datacast.lab.run import Transfer, send

HOSTS = [f"h{i}" for i in range(5)]


class OriginLab:
    def __init__(self, lab: Lab, allowed: Path) -> None:
        self.lab, self.allowed = lab, allowed

    def allow(self, *entries: dict[str, str]) -> None:
        self.allowed.write_text(json.dumps({"origins": entries}))

    def fetch(
        self,
        url: str,
        original: Path,
        fetchers: int | str | list[str],
        hook: Callable[[dict[str, Any]], None] | None = None,
        **options: Any,
    ) -> dict:
        what = Transfer(
            source=HOSTS[0],
            receivers=tuple(HOSTS),
            file=original,
            url=url,
            fetchers=fetchers,
            options=GroupOptions(**options),
        )
        return plain(send(self.lab, what, Quiet(hook)))

    def kill_agent(self, host: str) -> None:
        [agent] = [one for one in self.lab.supervisor.processes if one.name == f"agent-{host}" and one.running]
        agent.expected = True
        agent.popen.kill()

    def afresh(self) -> None:
        """For the next test: nothing is with the hosts, and all agents are there."""
        for host in HOSTS:
            for entry in self.lab.host_folder(host).iterdir():
                if entry.is_dir():
                    shutil.rmtree(entry)
                else:
                    entry.unlink(missing_ok=True)
            if not any(one.name == f"agent-{host}" and one.running for one in self.lab.supervisor.processes):
                self.lab.start_agent(host)

        def there() -> bool:
            return all(node["registered"] for node in self.lab.rest_json("GET", "/topology")["nodes"])

        eventually(there, 60, "all agents are there")

    def group(self, spec: dict, patience_s: float = 60.0) -> dict:
        """A group of this request, when it has ended."""
        group, end = self.lab.rest_json("POST", "/groups", spec), time.monotonic() + patience_s
        while group["state"] not in ("done", "failed", "cancelled", "partial") and time.monotonic() < end:
            time.sleep(0.1)
            group = self.lab.rest_json("GET", f"/groups/{group['id']}")
        return group


@contextlib.contextmanager
def origin_lab(folder: Path) -> Iterator[OriginLab]:
    g = nx.Graph()
    g.add_node("s", kind="switch", forwards=True)
    for name in HOSTS:
        g.add_node(name, kind="host", forwards=False)
        g.add_edge(name, "s")
    net, allowed = folder / "net.json", folder / "origins.json"
    net.write_text(json.dumps(topologies.to_json(g)))
    allowed.write_text("{}")
    allowed.chmod(0o600)
    rest, fabric = free_ports(2)
    options = LabOptions(str(net), 50_000_000, rest_port=rest, fabric_port=fabric, room=1 << 28, origins=str(allowed))
    with Lab(options, unique_name("fetch")) as lab:
        lab.up()
        yield OriginLab(lab, allowed)
