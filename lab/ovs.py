"""Open vSwitch as a lab's data plane: an instance of its own with a private database, in user space, no kernel module.

The controller programs it (OpenFlow 1.3); here it is only started and given its ports. `ovs-vsctl` writes the private
database: which bridges and ports there are, and where the controller is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datacast.lab.controlled import ControlledPlane, give_room
from datacast.lab.dataplane import Settings
from datacast.lab.errors import LabError
from datacast.lab.plan import Machine

if TYPE_CHECKING:
    from datacast.lab.checks import Check
    from datacast.lab.lab import Lab
    from datacast.lab.processes import Process

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
REMEDY = "apt-get install openvswitch-switch"
CONTROLLER_PORT = 6653
ANSWER_S = 30.0
HEAP = 64 << 20
"""Bytes that its allocator keeps. For every look at a port it takes 32 buffers of the MTU and gives them back; glibc
would give these 288 KB back to the kernel each time, and fault every page in again the next time."""


@dataclass(frozen=True)
class Bridge:
    """A switch: its datapath id, and its ports as OpenFlow number and interface."""

    name: str
    dpid: int
    ports: tuple[tuple[int, str], ...]


def missing() -> str:
    """What this machine lacks to run Open vSwitch; empty when nothing."""
    for program in ("ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl"):
        if shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") is None:
            return f"{program} is not installed"
    if not os.path.exists(SCHEMA):
        return f"{SCHEMA} is not there"
    return "" if os.path.exists("/dev/net/tun") else "/dev/net/tun is not there (Open vSwitch in user space needs it)"


class OpenVSwitch:
    """One instance, everything under `folder`. Whoever uses it runs the two commands, database first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "db.sock"
        self._database = folder / "conf.db"

    @property
    def environment(self) -> dict[str, str]:
        """Keeps its files out of the machine's own Open vSwitch, and its memory in its heap."""
        folder = str(self.folder)
        paths = {"OVS_RUNDIR": folder, "OVS_LOGDIR": folder, "OVS_DBDIR": folder, "OVS_SYSCONFDIR": folder}
        return {**paths, "GLIBC_TUNABLES": f"glibc.malloc.trim_threshold={HEAP}:glibc.malloc.top_pad={HEAP}"}

    def create(self) -> None:
        """An empty database. Raises LabError."""
        if lack := missing():
            raise LabError(lack, what="openvswitch", remedy=REMEDY)
        self.folder.mkdir(parents=True, exist_ok=True)
        if len(str(self.folder / "bridge-name-15c.snoop")) > 107:
            raise LabError(
                f"the path {self.folder} is too long for a socket's name",
                what=str(self.folder),
                remedy="choose a shorter folder",
            )
        self._database.unlink(missing_ok=True)
        self._run(["ovsdb-tool", "create", str(self._database), SCHEMA])

    def database_command(self) -> list[str]:
        return [
            _path("ovsdb-server"),
            str(self._database),
            f"--remote=punix:{self.socket}",
            f"--unixctl={self.folder / 'db.ctl'}",
            "--no-chdir",
            "-vsyslog:off",
            "-vconsole:warn",
        ]

    def switch_command(self) -> list[str]:
        return [
            _path("ovs-vswitchd"),
            f"unix:{self.socket}",
            f"--unixctl={self.folder / 'switch.ctl'}",
            "--no-chdir",
            "-vsyslog:off",
            "-vconsole:warn",
        ]

    def ready(self) -> bool:
        """The database answers."""
        return self.socket.exists()

    def configure(self, bridges: list[Bridge], controller: str) -> None:
        """All bridges in one transaction. `controller`: such as tcp:127.0.0.1:6653. Raises LabError."""
        command = ["ovs-vsctl", f"--db=unix:{self.socket}", "--no-wait", "--", "init"]
        for b in bridges:
            command += [
                "--",
                "add-br",
                b.name,
                "--",
                "set",
                "bridge",
                b.name,
                "datapath_type=netdev",
                "fail_mode=secure",
                "protocols=OpenFlow13",
                f"other_config:datapath-id={b.dpid:016x}",
                "other_config:disable-in-band=true",
                "mcast_snooping_enable=false",
                "--",
                "set-controller",
                b.name,
                controller,
                "--",
                "set",
                "controller",
                b.name,
                "connection_mode=out-of-band",
                "max_backoff=1000",
                "inactivity_probe=5000",
            ]
            for number, ifname in b.ports:
                command += [
                    "--",
                    "add-port",
                    b.name,
                    ifname,
                    "--",
                    "set",
                    "interface",
                    ifname,
                    f"ofport_request={number}",
                ]
        self._run(command)

    def attached(self, bridges: list[Bridge]) -> bool:
        """Do all ports have the numbers asked for? Raises LabError for an interface that cannot be opened."""
        wanted = {ifname: number for b in bridges for number, ifname in b.ports}
        out = self._run(
            [
                "ovs-vsctl",
                f"--db=unix:{self.socket}",
                "--no-wait",
                "--format=csv",
                "--no-headings",
                "--columns=name,ofport,error",
                "list",
                "interface",
            ]
        )
        have: dict[str, str] = {}
        for line in out.splitlines():
            name, number, error = [part.strip('"') for part in line.split(",", 2)]
            have[name] = number
            if name in wanted and error not in ("", "[]"):
                raise LabError(f"Open vSwitch cannot open {name}: {error}", what=name)
        return all(have.get(name) == str(number) for name, number in wanted.items())

    def send_once(self, bridge: Bridge) -> None:
        """One frame of Ethernet's configuration test, which nobody here speaks, out of the first port."""
        frame = "ff" * 6 + "020000000001" + "9000" + "00" * 46
        command = f"in_port=controller packet={frame} actions=output:{bridge.ports[0][0]}"
        self._run(["ovs-ofctl", "-O", "OpenFlow13", "packet-out", str(self.folder / f"{bridge.name}.mgmt"), command])

    def _run(self, command: list[str]) -> str:
        try:
            done = subprocess.run(
                [_path(command[0]), *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env={**os.environ, **self.environment},
                timeout=ANSWER_S,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            text = f"{command[0]}: no answer within {ANSWER_S:g} s"
            remedy = "the machine is too busy, or somebody stopped Open vSwitch's database"
            raise LabError(text, what=command[0], remedy=remedy) from None
        if done.returncode:
            raise LabError(f"{command[0]}: {done.stdout.strip()}", what=command[0], remedy=REMEDY)
        return done.stdout


def _path(program: str) -> str:
    """Debian puts the daemons where a user's PATH may not look."""
    found = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if found is None:
        raise LabError(f"{program} is not installed", what=program, remedy=REMEDY)
    return found


class OvsPlane(ControlledPlane):
    """One Open vSwitch in user space per machine; each switch is a bridge of it."""

    name = "ovs"
    first_number = 1

    def __init__(self) -> None:
        super().__init__()
        self._switches: list[tuple[Process, OpenVSwitch, list[Bridge]]] = []

    def checks(self) -> list[Check]:
        from datacast.lab.checks import Check

        lack = missing()
        return [Check("Open vSwitch", not lack, True, lack or "found", REMEDY if lack else "")]

    def dpid(self, lab: Lab, node: str) -> int:
        """The datapath id: the node's place in the topology, from 1."""
        return 1 + list(lab.graph.nodes).index(node)

    def start_switches(self, lab: Lab, machine: Machine) -> None:
        ovs = OpenVSwitch(lab.run_folder / f"{machine.name}-ovs")
        ovs.create()
        spawn = lab.network.spawn(machine)

        def inside(command: list[str], **options: Any) -> Any:
            return spawn(command, **{**options, "env": {**options.get("env", {}), **ovs.environment}})

        lab.supervisor.start(f"{machine.name}-ovsdb", ovs.database_command(), inside)
        lab.supervisor.wait(ovs.ready, 10, "Open vSwitch's database")
        process = lab.supervisor.start(f"{machine.name}-ovs", ovs.switch_command(), inside, lab.options.realtime)
        bridges = [
            Bridge(f"br{i}", self.dpid(lab, node), self.numbered(machine, node)) for i, node in enumerate(machine.nodes)
        ]
        ovs.configure(bridges, f"tcp:{lab.plan.root_address}:{CONTROLLER_PORT}")
        lab.supervisor.wait(lambda: ovs.attached(bridges), 20, "Open vSwitch's ports")
        self._switches.append((process, ovs, bridges))

    def address(self, lab: Lab, machine: Machine, node: str) -> Settings:
        return {"openflow": {"dpid": self.dpid(lab, node)}}

    def settings(self, lab: Lab) -> Settings:
        return {"openflow_listen": f"{lab.plan.root_address}:{CONTROLLER_PORT}"}

    def ready(self, lab: Lab) -> None:
        """It sends to all ports by one socket, which it makes when it first sends."""
        for process, ovs, bridges in self._switches:
            ovs.send_once(bridges[0])
            give_room(lab, process, sum(len(b.ports) for b in bridges) + 1)
