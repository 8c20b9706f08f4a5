"""A lab from up to down: network, fabric manager, switches, agents, controller, and no trace of them afterwards."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import urllib.error
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import yaml

from datacast.controller.api.records import Topology
from datacast.core.lists import few
from datacast.fabric_manager.api.records import FabricHealth
from datacast.lab import workspace
from datacast.lab.checks import before_start, port_taken
from datacast.lab.credentials import Credentials
from datacast.lab.dataplane import data_plane
from datacast.lab.errors import Interrupted, LabError
from datacast.lab.interfaces import interface_there
from datacast.lab.limits import make_disk
from datacast.lab.plan import AGENT_PORT, Machine, Plan, ip_queue, make_plan
from datacast.lab.processes import CONTROL, Supervisor, may_be_realtime
from datacast.lab.programs import need_program
from datacast.lab.services import forks, is_here
from datacast.lab.signals import Signals
from datacast.lab.state import MARK, Registry, State, kill_marked
from datacast.services.problems import formed

if TYPE_CHECKING:
    import networkx as nx

    from datacast.lab.dataplane import DataPlane
    from datacast.lab.network import Network

SIGNALLING_PORT = 7500
READY_S = 30.0
WORKERS = 2
DAEMONS = ("datacast-agent", "datacast-fabric-manager", "datacast-controller", "datacast-master")


@dataclass(frozen=True)
class LabOptions:
    """What a lab is made of. Rates in bit/s, sizes in bytes."""

    topology: str = "bcube:4,1"
    rate_bps: int = 100_000_000
    mtu: int = 9000
    queue_packets: int = 100
    dataplane: str = "dpdk"
    rest_port: int = 7580
    fabric_port: int = 7501
    work: str | None = None
    """Folder for the hosts' files; None: chosen from the room needed."""
    room: int = 0
    """Bytes the hosts' files will take together."""
    realtime: bool = True
    """Switches and agents, then fabric manager and masters run before everything else on the machine, as if they had
    machines of their own."""
    apart: tuple[str, ...] = ()
    """Switches with a process of their own, whatever else would fit in."""
    without_appliance: tuple[str, ...] = ()
    """Switches whose cache appliance is absent (ovs and bmv2)."""
    appliance_bps: int = 0
    """Rate of the links between switches and their cache appliances; 0: unshaped."""
    appliances_apart: tuple[str, ...] = ()
    """Switches whose cache appliance has a process of its own."""
    disks: tuple[tuple[str, int], ...] = ()
    """Hosts with a disk (in memory) of their own for their files, and its size."""
    slow_disks: tuple[tuple[str, int], ...] = ()
    """Hosts with a disk of their own that can be made slow (limits.py), and its size."""
    keep: bool = False
    """Leave the hosts' files and the logs when it goes down."""
    insecure: bool = False
    """No TLS between the daemons."""
    origins: str | None = None
    """What all agents may fetch: the file of their --origins."""


@dataclass(frozen=True)
class Made:
    """A network that somebody else has made (datacast.mininet), in place of the one that the options describe."""

    graph: nx.Graph
    """Its edges name their `interfaces`."""
    plane: DataPlane
    network: Callable[[Plan, str, Signals], Network]


def load_topology(text: str) -> nx.Graph:
    """A builder's form such as bcube:4,1, or a GraphML or JSON file. Raises LabError."""
    from datacast import topologies
    from datacast.core.errors import DatacastError

    try:
        graph = topologies.from_file(text) if os.path.exists(text) else topologies.parse(text)
    except DatacastError as error:
        raise LabError(
            str(error), what=text, remedy="--topology takes one of these forms, or a GraphML or JSON file"
        ) from error
    for *_, data in graph.edges(data=True):
        data.pop("interfaces", None)  # of a network that is there already; here there is none yet
    return graph


class Lab:
    """`with Lab(options, name) as lab: lab.up()`; leaving the block takes everything down.

    Signals are taken by the lab for the time of the block (or already by the given `signals`): they end it at the next
    safe moment with Interrupted.
    """

    def __init__(
        self,
        options: LabOptions,
        name: str,
        progress: Callable[[str], None] = lambda text: None,
        signals: Signals | None = None,
        made: Made | None = None,
    ) -> None:
        self.options = options
        self.name = name
        self.progress = progress
        self.registry = Registry()
        self.signals = signals or Signals()
        self._own_signals = signals is None
        self._made = made
        self.plane = made.plane if made else data_plane(options.dataplane)
        self.graph = made.graph if made else self.described()
        self.state: State | None = None
        self.network: Network
        self.plan: Plan
        self.supervisor: Supervisor
        self.work: Path
        self.credentials: Credentials
        self._network_made = False

    def described(self) -> nx.Graph:
        """The network that the options ask for. Raises LabError."""
        return load_topology(self.options.topology)

    # ---- where things are ----
    @property
    def run_folder(self) -> Path:
        return self.registry.folder(self.name)

    @property
    def identity(self) -> str:
        assert self.state is not None
        return self.state.identity

    @property
    def signalling(self) -> str:
        return f"{self.plan.root_address}:{SIGNALLING_PORT}"

    @property
    def rest(self) -> str:
        return f"http://127.0.0.1:{self.options.rest_port}"

    @property
    def fabric_url(self) -> str:
        return f"{self.credentials.scheme}://127.0.0.1:{self.options.fabric_port}"

    def rest_json(self, method: str, path: str, body: Any = None, timeout_s: float = 10.0) -> Any:
        """Ask the controller. Raises OSError (HTTPError among them) or ValueError."""
        return self.credentials.json(method, self.rest + path, body, self.credentials.token, timeout_s)

    def topology(self) -> Topology:
        """As the controller tells it. Raises as rest_json, or Problem."""
        return formed(self.rest_json("GET", "/topology"), Topology, f"controller at {self.rest}")

    def fabric_json(self, path: str, timeout_s: float = 10.0) -> Any:
        """Ask the fabric manager. Raises as rest_json."""
        return self.credentials.json("GET", self.fabric_url + path, timeout_s=timeout_s)

    def host_folder(self, host: str) -> Path:
        """A host's own file tree."""
        return self.work / "hosts" / self.plan.hosts[host].nodes[0].replace("/", "_")

    def agent_address(self, host: str) -> str:
        return f"{self.plan.hosts[host].address}:{AGENT_PORT}"

    # ---- up ----
    def __enter__(self) -> Self:
        before_start((*DAEMONS, *self.plane.programs), self.plane.checks)
        self.registry.refuse_taken(self.name)  # rather than for its ports
        if self.options.rest_port == self.options.fabric_port:
            raise LabError(
                f"port {self.options.rest_port} is asked for twice, for REST and for the fabric manager",
                what=str(self.options.rest_port),
                remedy=self._other_ports(),
            )
        labs = {state.rest: f"lab {state.name!r}" for state in self.registry.all() if state.alive}
        for address, what in ((self.options.rest_port, "REST"), (self.options.fabric_port, "the fabric manager")):
            if user := port_taken(f"127.0.0.1:{address}"):
                raise LabError(
                    f"port {address} of 127.0.0.1, for {what}, is in use by {labs.get(self.rest, user)}",
                    what=str(address),
                    remedy=self._other_ports(),
                )
        self.signals.check()
        if self._own_signals:
            self.signals.__enter__()
        try:
            self.state = self.registry.claim(self.name)
        except BaseException:
            self._release_signals()
            raise
        return self

    def _other_ports(self) -> str:
        if self._made:
            return "stop that, or give DatacastController another rest_port and fabric_port"
        return "stop that, or give another --rest-port and --fabric-port"

    def __exit__(self, kind: object = None, *exc: object) -> None:
        """What was in the way is told: raises LabError in place of Interrupted; a result, or another error, is worth
        more."""
        try:
            left = self.down()
        finally:
            self._release_signals()
        if not left:
            return
        text, remedy = f"could not end: {', '.join(left)}", f"`datacast lab down --name {self.name}` tries it again"
        if kind is Interrupted:
            raise LabError(text, what=self.name, remedy=remedy)
        print(f"{text}\n{remedy}", file=sys.stderr)

    def _release_signals(self) -> None:
        if self._own_signals:
            self.signals.__exit__(None, None, None)

    def up(self) -> None:
        """Bring everything up and wait until every agent and switch is registered. Raises LabError or Interrupted."""
        from datacast.lab.network import Network

        assert self.state is not None
        options, state = self.options, self.state
        if is_here(need_program("datacast-fabric-manager")):  # not from mn, which runs under Debian's Python
            forks.load()  # beside what follows
        self.plan = make_plan(
            self.graph,
            rate_bps=options.rate_bps,
            mtu=options.mtu,
            slot=state.slot,
            queue_packets=options.queue_packets,
            ports_per_process=self.plane.ports_per_machine,
            cores=len(os.sched_getaffinity(0)) if self.plane.process_per_machine else 1,
            apart=(*options.apart, *self.plane.apart(self)),
        )
        folder = None if options.insecure else self.run_folder / "tls"
        self.credentials = Credentials(folder, self._identities(), self.run_folder / "tokens.json")
        self.work = workspace.choose(options.room, options.work) / f"datacast-{self.name}-{state.identity[:8]}"
        root_if = f"dclab{state.slot}"
        if interface_there(root_if):
            raise LabError(
                f"there is an interface {root_if} already, and it is of no lab that is known here",
                what=root_if,
                remedy=f"if nobody needs it: ip link del {root_if}",
            )
        # Written down before it is made: whoever cleans up must know.
        state.work, state.topology, state.keep, state.rest = str(self.work), options.topology, options.keep, self.rest
        state.interfaces = [root_if]
        self.registry.save(state)
        self.work.mkdir(mode=0o755)
        self._mount_disks()  # before there are namespaces: they see the mounts that there are then
        environment = {MARK: state.identity}
        os.environ.update(environment)  # Mininet's shells take it from here
        self.supervisor = Supervisor(self._folder("logs"), environment, self.signals)
        self.network = (self._made.network if self._made else Network)(self.plan, root_if, self.signals)
        self._network_made = True
        self.network.ip = self.plane.ip
        self.network.up(self.progress)
        if self.network.delay_lines:
            command = [need_program("datacast-delay"), *self.network.delay_lines]
            self.supervisor.start("delay", command, spawn=self.network.spawn_delay(), realtime=options.realtime)
        for host in self.plan.hosts:
            self.plane.start_host(self, host)
        self.start_all()
        self.progress("registration")
        self.supervisor.wait(self._all_registered, READY_S, "registration of all agents and switches")
        self.plane.ready(self)
        self.progress("workers")
        self.supervisor.wait(self._workers_wait, READY_S, "workers that wait for groups")
        self.supervisor.wait_for_priorities(READY_S)
        state.status = "up"
        state.hosts = {
            host: {"address": machine.address, "folder": str(self.host_folder(host))}
            for host, machine in self.plan.hosts.items()
        }
        for machine in (*self.plan.hosts.values(), *self.plan.switches):
            for node, ports in machine.ports.items():
                state.namespaces[node] = self.network.nodes[machine.name].pid
                state.ports[node] = [port.ifname for port in ports]
                state.neighbours[node] = [port.neighbour for port in ports]
        self.registry.save(state)

    def _identities(self) -> list[str]:
        services = ["fabric-manager/main", "master/main", "controller/main"]
        return [*services, *(f"agent/{host}" for host in self.plan.hosts), *map(machine_identity, self.plan.switches)]

    def start_all(self) -> None:
        """Every daemon. Also after a loss of power. Raises LabError or Interrupted."""
        self._fabric_manager()
        for machine in self.plan.switches:
            self.progress(f"switches {few(machine.nodes, 4)}")
            self.plane.start(self, machine)
        for host in self.plan.hosts:
            self.progress(f"agent {host}")
            self.start_agent(host)
        self._controller()

    def _mount_disks(self) -> None:
        assert self.state is not None
        for host, size in self.options.disks:
            folder = self._folder("hosts", host)
            self.state.mounts.append(str(folder))
            self.registry.save(self.state)
            command = ["mount", "-t", "tmpfs", "-o", f"size={size}", f"datacast-{self.name}", str(folder)]
            done = subprocess.run(command, capture_output=True, text=True, start_new_session=True)
            if done.returncode:
                raise LabError(
                    f"no small disk for host {host}: {done.stderr.strip()}",
                    what=host,
                    remedy="this needs the right to mount (CAP_SYS_ADMIN)",
                )

        for host, size in self.options.slow_disks:
            folder = self._folder("hosts", host)
            self.state.mounts.append(str(folder))
            self.registry.save(self.state)
            make_disk(self._folder("disks") / folder.name, folder, size)

    def note_groups(self, folders: Iterable[str]) -> None:
        """Control groups that were made: whoever cleans up must know."""
        assert self.state is not None
        self.state.cgroups += [folder for folder in folders if folder not in self.state.cgroups]
        self.registry.save(self.state)

    def _folder(self, *parts: str) -> Path:
        folder = self.work.joinpath(*parts)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _fabric_manager(self) -> None:
        self.progress("fabric manager")
        command = self.manager_command(self.plane.topology(self))
        command += ["--signalling", self.signalling, "--http", f"127.0.0.1:{self.options.fabric_port}"]
        command += self.credentials.options("fabric-manager/main") + self.credentials.master_options()
        self.supervisor.service("fabric-manager", command)
        self.supervisor.wait(lambda: self._answers(self.fabric_url + "/healthz"), READY_S, "fabric manager")

    def manager_command(self, topology: str, store: str = "fabric", workers: int = WORKERS) -> list[str]:
        """All but where it is reached, and its certificates."""
        options = self.options
        queue = ip_queue(options.queue_packets, options.mtu) if self.plane.ip else options.queue_packets
        command = [need_program("datacast-fabric-manager"), "--topology", topology]
        command += ["--store", str(self.work / f"{store}.sqlite"), "--link-rate", f"{options.rate_bps}"]
        command += ["--mtu", str(options.mtu), "--queue-packets", str(queue), "--workers", str(workers)]
        return command + self._control_priority()

    @property
    def control_priority(self) -> int:
        """The services', and that of who asks them in a benchmark; 0 where the kernel lets nobody be real-time."""
        return CONTROL if self.options.realtime and may_be_realtime() else 0

    def _control_priority(self) -> list[str]:
        return ["--realtime", str(self.control_priority)]

    def start_agent(self, host: str) -> None:
        """Also after it was killed: it starts again with the files it had."""
        command = self.agent_command(host, self.signalling, self.credentials)
        self.supervisor.start(f"agent-{host}", command, self.network.spawn(host), self.options.realtime)

    def agent_command(self, host: str, signalling: str, credentials: Credentials) -> list[str]:
        command = [need_program("datacast-agent"), "--node", host, "--listen", self.agent_address(host)]
        command += ["--fabric-manager", signalling, *credentials.options(f"agent/{host}")]
        command += ["--dest-root", str(self._folder("hosts", host)), "--source-root", "/"]
        if self.options.origins:
            command += ["--origins", self.options.origins]
        return command + self.plane.agent_options(self, host)

    def _controller(self) -> None:
        self.progress("controller")
        self._start_controller()
        self.supervisor.wait(lambda: self._answers(self.rest + "/healthz"), READY_S, "controller")

    def _start_controller(self) -> None:
        command = [
            need_program("datacast-controller"),
            "--listen",
            f"127.0.0.1:{self.options.rest_port}",
            "--fabric-manager",
            self.fabric_url,
            "--tokens",
            str(self.credentials.tokens),
            *self.credentials.options("controller/main"),
            *self._control_priority(),
        ]
        if switches := self.plane.controller_config(self):
            path = self.run_folder / "switches.yaml"
            path.write_text(yaml.safe_dump(switches, sort_keys=False))
            command += ["--switches", str(path), "--verbose"]
        self.supervisor.service("controller", command)

    def _all_registered(self) -> bool:
        with contextlib.suppress(OSError, ValueError):
            return all(node.registered for node in self.topology().nodes)
        return False

    def _workers_wait(self) -> bool:
        """Whether a worker listens: the first group then need not wait for Python to start."""
        with contextlib.suppress(OSError, ValueError):
            health = formed(self.fabric_json("/healthz"), FabricHealth, f"fabric manager at {self.fabric_url}")
            return len(health.workers) >= WORKERS
        return False

    def _answers(self, url: str) -> bool:
        try:
            self.credentials.json("GET", url, timeout_s=1.0)
        except urllib.error.HTTPError:
            return True
        except (OSError, ValueError):
            return False
        return True

    # ---- down ----
    def down(self) -> list[str]:
        """Take down whatever was brought up; what could not be ended. Safe at any stage; never raises for what is gone
        already."""
        if self.state is None:
            return []
        self.signals.cleaning = True
        with contextlib.suppress(OSError):  # nobody listens any more
            self.progress("taking the lab down")
        if self._network_made:
            self.supervisor.stop()
            self.network.down()
        left = clean(self.registry, self.state)
        self.state = None
        return left


def clean(registry: Registry, state: State) -> list[str]:
    """End what a lab's state names: processes, interfaces, files. Returns what could not be ended."""
    left = [f"process {pid}" for pid in kill_marked(state.identity)]
    for ifname in state.interfaces:
        subprocess.run(
            ["ip", "link", "del", ifname], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        if interface_there(ifname):
            left.append(f"interface {ifname}")
    for path in state.cgroups:
        with contextlib.suppress(OSError):
            os.rmdir(path)
    for path in state.mounts:
        done = subprocess.run(["umount", path], capture_output=True, text=True, start_new_session=True)
        if os.path.ismount(path):  # somebody is in it
            left.append(f"mount {path} ({done.stderr.strip()})")
    for path in state.paths:
        shutil.rmtree(path, ignore_errors=True)
    if state.work and not state.keep:
        shutil.rmtree(state.work, ignore_errors=True)
    if not left:
        registry.forget(state.name)
    return left


def machine_identity(machine: Machine) -> str:
    """Of the switch process of a machine: it speaks for all its nodes."""
    return f"switch/{','.join(machine.nodes)}"
