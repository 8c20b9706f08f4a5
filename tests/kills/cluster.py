"""A lab whose services exist several times: three members of etcd, fabric managers that share it, a controller.

Whatever ends is started again, as a machine's service manager would."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from functools import cached_property
from typing import Any

from ports import free_ports

from datacast.lab.errors import LabError
from datacast.lab.lab import READY_S, Lab
from datacast.lab.processes import Process
from datacast.lab.programs import need_program
from datacast.services.authority import Authority, Identity

MEMBERS, MANAGERS, WORKERS = 3, 3, 3
ETCD_TIMES = ["--heartbeat-interval=50", "--election-timeout=500"]
"""Milliseconds: of members that are side by side."""


class Cluster(Lab):
    """The lab, with names of its processes: `etcd-0` …, `fabric-manager-0` …, `controller`."""

    @cached_property
    def _ports(self) -> list[int]:
        return free_ports(2 * MEMBERS + 2 * MANAGERS)

    @property
    def signalling(self) -> str:
        """Of all fabric managers."""
        return ",".join(f"{self.plan.root_address}:{port}" for port in self._ports[-2 * MANAGERS :: 2])

    @property
    def fabric_urls(self) -> list[str]:
        return [f"{self.credentials.scheme}://127.0.0.1:{port}" for port in self._ports[1 - 2 * MANAGERS :: 2]]

    @property
    def fabric_url(self) -> str:
        return ",".join(self.fabric_urls)

    def fabric_json(self, path: str, timeout_s: float = 10.0) -> Any:
        """Of the leader."""
        failure: Exception = OSError("no fabric manager")
        for url in self.fabric_urls:
            try:
                answer = self.credentials.json("GET", url + path, timeout_s=timeout_s)
                if "leader" not in answer:
                    return answer
            except (OSError, ValueError) as error:
                failure = error
        raise failure

    @property
    def store(self) -> str:
        return "etcd://" + ",".join(f"127.0.0.1:{port}" for port in self._ports[:MEMBERS])

    # ---- starting ----
    def _fabric_manager(self) -> None:
        """All that come before the agents."""
        authority = Authority.open(self.run_folder / "tls")
        self._etcd_files = authority.issue(Identity.parse("fabric-manager/etcd"), ip=["127.0.0.1"])
        self._etcd_ca = str(authority.ca)
        for member in range(MEMBERS):
            self.start(f"etcd-{member}")
        for manager in range(MANAGERS):
            self.start(f"fabric-manager-{manager}")
        self.supervisor.wait(self._led, READY_S, "a fabric manager that leads")

    def _led(self) -> bool:
        with contextlib.suppress(OSError, ValueError):
            return "workers" in self.fabric_json("/healthz", 1.0)
        return False

    def start(self, name: str) -> None:
        """Also again. Nothing is waited for: others may have ended that this one needs."""
        kind, _, number = name.rpartition("-")
        if kind == "etcd":
            self.supervisor.start(name, self._etcd_command(int(number)))
        elif kind == "fabric-manager":
            self.supervisor.service(name, self._manager_command(int(number)))
        else:
            self._start_controller()

    def _etcd_command(self, member: int) -> list[str]:
        program = shutil.which("etcd")
        if program is None:
            raise LabError("etcd is not installed", remedy="`make setup` installs Debian's etcd-server")
        cert, key = map(str, self._etcd_files)
        client = f"https://127.0.0.1:{self._ports[member]}"
        peers = [f"https://127.0.0.1:{port}" for port in self._ports[MEMBERS : 2 * MEMBERS]]
        # As on a machine of its own: whoever writes waits for it, and so does whoever takes over.
        first = ["chrt", "--rr", str(self.control_priority)] if self.control_priority else []
        return [
            *first, program, *ETCD_TIMES,
            "--name", f"m{member}", "--data-dir", str(self._folder("etcd") / f"m{member}"),
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peers[member], "--initial-advertise-peer-urls", peers[member],
            "--initial-cluster", ",".join(f"m{at}={peer}" for at, peer in enumerate(peers)),
            "--cert-file", cert, "--key-file", key, "--client-cert-auth", "--trusted-ca-file", self._etcd_ca,
            "--peer-cert-file", cert, "--peer-key-file", key, "--peer-client-cert-auth",
            "--peer-trusted-ca-file", self._etcd_ca, "--log-level", "error",
        ]  # fmt: skip

    def _manager_command(self, number: int) -> list[str]:
        options = self.options
        return [
            need_program("datacast-fabric-manager"),
            "--topology", self.plane.topology(self),
            "--signalling", self.signalling.split(",")[number],
            "--http", self.fabric_urls[number].partition("//")[2],
            "--addresses", self.fabric_url,
            "--store", self.store,
            "--link-rate", str(options.rate_bps),
            "--mtu", str(options.mtu),
            "--queue-packets", str(options.queue_packets),
            "--workers", str(WORKERS),
            *self.credentials.options("fabric-manager/main"),
            *self.credentials.master_options(),
            *self._control_priority(),
            "--verbose",
        ]  # fmt: skip

    # ---- ending ----
    def process(self, name: str) -> Process:
        return next(process for process in reversed(self.supervisor.processes) if process.name == name)

    def ended(self) -> list[str]:
        """Those that are gone, each name once."""
        names = {process.name for process in self.supervisor.processes if process.name.startswith(KINDS)}
        return [name for name in sorted(names) if not self.process(name).running]


KINDS = ("etcd-", "fabric-manager-", "controller")


Say = Callable[[str], None]
