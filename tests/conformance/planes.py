"""The three data planes as one switch each, with PORTS ports at the ends of wires, and all that belongs to it.

dpdk: `datacast-switch` owns the ports. ovs, bmv2: the switch forwards, programmed by the real `datacast-controller`; a
`datacast-switch --appliance` hangs on one further port.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
import yaml
from conformance_kit import MTU, ROOT, Namespace, Process, Wire
from made import made
from switch_control import ask_switch
from waiting import wait_for

from datacast.controller.p4runtime.entries import entries
from datacast.controller.southbound.config import parse
from datacast.controller.southbound.desired import desired

PORTS = 8
NODE = "s0"
APPLIANCE = 100
CACHE = {"bytes_per_tree": "16K", "memory": "4M", "trees": 512, "retx_ms": 100}
"""What repeats is sent on after eight `retx_ms` by itself: with 20 a test that had no processor for 0.16 s saw it."""
SWITCH = ROOT / "build" / "datacast-switch"
P4 = ROOT / "build" / "p4"
PIPELINE = {"json": str(P4 / "datacast.json"), "p4info": str(P4 / "datacast.p4info.bin")}
WIRES = ROOT / "build" / "memif-wires"
SWX, SWX_SPEC = ROOT / "build" / "datacast-swx", P4 / "psa.spec"
NODE_PIPELINE = {"json": str(P4 / "node.json"), "p4info": str(P4 / "node.p4info.bin")}


class Plane(ABC):
    """A running switch. `depth`: the deepest stack it takes (None: any). `bridges`: forwards ordinary Ethernet."""

    name: str
    depth: int | None = None
    bridges = True
    looks_below = True
    """Sees that a label must follow and does not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ns = Namespace()
        try:
            for i in range(PORTS):
                self.ns.cable(f"p{i}", f"w{i}")
            self.wires = [Wire(self.ns, f"w{i}") for i in range(PORTS)]
            self.start()
        except BaseException:
            self.ns.close()
            raise

    @staticmethod
    def missing() -> str:
        """Why this plane cannot run here; empty: it can."""
        return "" if SWITCH.exists() else "build/datacast-switch is not built (make build)"

    @abstractmethod
    def start(self) -> None:
        """Start everything; returns when frames are forwarded."""

    def learn(self, addresses: tuple[str, ...]) -> None:  # noqa: B027 - most learn by themselves
        """Return when the switch knows where these live; they were seen."""

    def close(self) -> None:
        for wire in self.wires:
            wire.close()
        self.ns.close()

    # ---- datacast-switch, as the switch or as its appliance ----
    @property
    def control(self) -> Path:
        return self.folder / "cache.sock"

    def _datacast_switch(self, ports: list[dict[str, Any]], *options: str) -> Process:
        config = {"nodes": [{"name": NODE, "ports": ports, "cache": CACHE}], "control": str(self.control), "mtu": MTU,
                  "eal": {"huge": False}, "no_hello": True}
        path = self.folder / "cache.yaml"
        path.write_text(yaml.safe_dump(config))
        process = self.ns.start("datacast-switch", [str(SWITCH), "--config", str(path), *options], self.folder)
        wait_for("the cache", lambda: process.alive() and self.control.exists() and " ready: " in process.log, 60)
        return process

    def node(self) -> dict[str, Any]:
        """Counters of the node behind this switch."""
        return ask_switch(self.control, "counters")["nodes"][NODE]

    def trees(self) -> dict[int, dict[str, Any]]:
        """Counters per tree of the node behind this switch."""
        return {t["tree"]: t for t in ask_switch(self.control, "trees")["nodes"][NODE]}


P = TypeVar("P", bound=Plane)


class DpdkPlane(Plane):
    """Whitebox."""

    name = "dpdk"
    depth = 50
    """The label popped, and DC_SEG_MAX + 1 under it."""
    bridges = False

    def start(self) -> None:
        self._datacast_switch([{"port": i, "iface": f"p{i}"} for i in range(PORTS)])


class MemifPlane(DpdkPlane):
    """Whitebox, its ports in shared memory. A program carries frames between them and the interfaces."""

    name = "memif"

    def start(self) -> None:
        made(WIRES)
        places = [self.folder / f"port{i}" for i in range(PORTS)]
        self._datacast_switch([{"port": i, "memif": str(place)} for i, place in enumerate(places)])
        command = [str(WIRES), *(f"{place}=p{i}" for i, place in enumerate(places))]
        process = self.ns.start("memif-wires", command, self.folder)
        wait_for("the wires", lambda: process.alive() and "all up" in process.log, 60)


LOOP_ROOM = 64
"""More than the longest frame: what an answer that grows carries in front."""


class ControlledPlane(Plane):
    """A switch that our controller programs, and its appliance."""

    first_number: int
    alone = False
    """Needs no appliance."""

    def controller(self) -> None:
        """Start the controller; returns when the switch is programmed."""
        self.process, self.rest = self.start_controller("controller", self.settings())
        try:
            wait_for("programming", lambda: self.process.alive() and self.switch()["programmed"])
        except AssertionError as error:
            logs = "\n".join(f"{process.name}: {process.log}" for process in self.ns.processes)
            raise AssertionError(f"{error}\n{self.switch()}\n{logs}") from error

    def start_controller(self, name: str, settings: dict[str, Any]) -> tuple[Any, Path]:
        """A controller, and the socket of its REST."""
        ports = [{"port": i, "number": self.first_number + i, "mac": f"02:dc:00:00:00:{i:02x}"} for i in range(PORTS)]
        config = {"switches": [{"name": NODE, "ports": ports, **self.cache(), **self.address()}],
                  **settings}
        path, rest = self.folder / f"{name}.yaml", self.folder / f"{name}.sock"
        path.write_text(yaml.safe_dump(config))
        rest.unlink(missing_ok=True)
        process = self.ns.start(name, [
            str(Path(sys.executable).with_name("datacast-controller")), "--listen", f"unix:{rest}", "--switches",
            str(path), "--verbose"], self.folder)
        # Its socket is there a moment before it listens.
        wait_for("the controller", lambda: process.alive() and f"unix:{rest}" in process.log, 60)
        return process, rest

    def address(self) -> dict[str, Any]:
        raise NotImplementedError

    def settings(self) -> dict[str, Any]:
        return {}

    def get(self, path: str, rest: Path | None = None) -> dict[str, Any]:
        """`rest`: of another controller than the plane's own."""
        transport = httpx.HTTPTransport(uds=str(rest or self.rest), verify=False)  # authorities take 25 ms to load
        with httpx.Client(transport=transport, base_url="http://controller", timeout=60) as client:
            answer = client.get(path)
            answer.raise_for_status()
            return answer.json()

    def switch(self) -> dict[str, Any]:
        return self.get(f"/switches/{NODE}")

    def notes(self, code: str) -> list[str]:
        """What the operator is told under this code."""
        return [note["text"] for note in self.get("/switches")["notes"] if note["code"] == code]

    def cache(self) -> dict[str, Any]:
        """Keys of the switch that say who caches."""
        return {"appliance": {"number": APPLIANCE}}

    def appliance(self) -> None:
        self.ns.cable("ap", "aq")
        self.beside = self._datacast_switch([{"port": 0, "iface": "aq"}], "--appliance")


class OvsPlane(ControlledPlane):
    """Open vSwitch in user space."""

    name = "ovs"
    depth = 3
    looks_below = False
    first_number = 1

    @staticmethod
    def missing() -> str:
        from datacast.lab import ovs

        return Plane.missing() or ovs.missing()

    def address(self) -> dict[str, Any]:
        return {"openflow": {"dpid": 0xDC}}

    def settings(self) -> dict[str, Any]:
        return {"openflow_listen": "127.0.0.1:6653"}

    def start(self) -> None:
        from datacast.lab.ovs import Bridge, OpenVSwitch

        self.appliance()
        self.ovs = OpenVSwitch(self.folder / "ovs")
        self.ovs.create()
        database = self.ns.start("ovsdb-server", self.ovs.database_command(), self.folder, self.ovs.environment)
        wait_for("the database", lambda: database.alive() and self.ovs.ready())
        self.vswitchd = self.ns.start("ovs-vswitchd", self.ovs.switch_command(), self.folder, self.ovs.environment)
        self.bridges_made = [Bridge(NODE, 0xDC, (*((i + 1, f"p{i}") for i in range(PORTS)), (APPLIANCE, "ap")))]
        self.ovs.configure(self.bridges_made, "tcp:127.0.0.1:6653")
        wait_for("the ports", lambda: self.vswitchd.alive() and self.ovs.attached(self.bridges_made))
        self.controller()


class Bmv2Plane(ControlledPlane):
    """bmv2 with the program of p4src/."""

    name = "bmv2"
    first_number = 0
    program = "datacast"

    @staticmethod
    def missing() -> str:
        from datacast.lab import bmv2

        if lack := Plane.missing() or bmv2.missing():
            return lack
        if all(os.path.exists(path) for path in (*PIPELINE.values(), *NODE_PIPELINE.values())):
            return ""
        return "" if shutil.which("p4c-bm2-ss") else "p4c-bm2-ss is not on the PATH and build/p4 is not there (make p4)"

    def address(self) -> dict[str, Any]:
        return {"p4runtime": {"address": "127.0.0.1:9559", "device_id": 1}}

    def settings(self) -> dict[str, Any]:
        return {"pipeline": PIPELINE}

    def learn(self, addresses: tuple[str, ...]) -> None:
        """The switch tells the controller, and that one answers with an entry."""
        wait_for("learning", lambda: set(addresses) <= set(self.switch()["stations"]))
        self.switch()  # reading the counters comes after the writes

    def start(self) -> None:
        if shutil.which("p4c-bm2-ss"):
            made("p4")
        self.appliance()
        self.bmv2 = self.ns.start("bmv2", self.command(), self.folder)
        self.controller()

    def command(self) -> list[str]:
        """Of simple_switch_grpc."""
        from datacast.lab.bmv2 import Bmv2

        return Bmv2(1, "127.0.0.1:9559", (*((i, f"p{i}") for i in range(PORTS)), (APPLIANCE, "ap"))).command()


class P4Plane(Bmv2Plane):
    """bmv2 alone: the node of p4src/node.p4 in its pipeline, no appliance."""

    name = "p4"
    alone = True

    def settings(self) -> dict[str, Any]:
        return {"node_pipeline": NODE_PIPELINE}

    def cache(self) -> dict[str, Any]:
        return {"cache": "p4", "node": {"bytes_per_tree": 16 << 10, "retx_ms": CACHE["retx_ms"]}}

    def appliance(self) -> None:
        """It needs none, but a cable to itself."""
        self.ns.cable("l0", "l1", MTU + LOOP_ROOM)

    def command(self) -> list[str]:
        from datacast.lab.bmv2 import Bmv2

        return Bmv2(1, "127.0.0.1:9559", tuple((i, f"p{i}") for i in range(PORTS)), ("l0", "l1")).command()

    def node(self) -> dict[str, Any]:
        return {"drop": self.switch()["drops"]}


class SwxPlane(Plane):
    """p4src/swx/psa.p4 on DPDK's SWX pipeline. It has no P4Runtime server: its tables are filled as it starts."""

    name = "swx"
    bridges = False

    @staticmethod
    def missing() -> str:
        if lack := Plane.missing():
            return lack
        if SWX.exists() and SWX_SPEC.exists():
            return ""
        return "" if shutil.which("p4c-dpdk") else "p4c-dpdk is not on the PATH, build/p4/psa.spec not there (make p4)"

    def entries(self) -> str:
        ports = [{"port": i, "number": i, "mac": f"02:dc:00:00:00:{i:02x}"} for i in range(PORTS)]
        config = parse({"switches": [{"name": NODE, "ports": ports, "appliance": {"number": PORTS},
                                      "p4runtime": {"address": "none:1"}}], "pipeline": PIPELINE}).switches[0]
        wanted = entries(desired(config, {}, range(PORTS + 1), (), True))
        return "".join(f"{e.table} match {e.value} action {e.action} {' '.join(f'{k} {v}' for k, v in e.params)}\n"
                       for e in wanted.values() if e.table in ("segment", "link"))

    def start(self) -> None:
        if shutil.which("p4c-dpdk"):
            made(SWX_SPEC, SWX)
        self.ns.cable("ap", "aq")
        self._datacast_switch([{"port": 0, "iface": "aq"}], "--appliance")
        table = self.folder / "entries"
        table.write_text(self.entries())
        command = [str(SWX), str(SWX_SPEC), str(table), "refused_0", *(f"p{i}" for i in range(PORTS)), "ap"]
        process = self.ns.start("datacast-swx", command, self.folder)
        wait_for("the pipeline", lambda: process.alive() and "ready" in process.log, 60)


PLANES: dict[str, type[Plane]] = {
    plane.name: plane for plane in (DpdkPlane, MemifPlane, OvsPlane, Bmv2Plane, P4Plane, SwxPlane)
}


@contextlib.contextmanager
def running(cls: type[P], factory: pytest.TempPathFactory) -> Iterator[P]:
    """A data plane of its own; skips with the reason where this machine has not got it."""
    if lack := cls.missing():
        pytest.skip(f"{cls.name}: {lack}")
    plane = cls(Path(os.path.realpath(factory.mktemp(cls.name))))
    try:
        yield plane
    finally:
        plane.close()
