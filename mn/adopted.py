"""A Mininet network as the lab's: its nodes get the management network, shaped ports, and bridges for ordinary IP.

Data frames and IP share the cables. Datacast's daemons see every frame through packet sockets. The kernel forwards the
rest beside them: a bridge per switch, and one in every host that forwards, over the links of one spanning tree, so that
nothing runs in circles. A filter at the ports keeps Datacast's frames out of them; packet sockets come before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import networkx as nx

from datacast.lab.network import PROLOGUE, Network, data_port_script
from datacast.lab.plan import Cable, Machine, Plan, Port
from datacast.lab.signals import Signals

if TYPE_CHECKING:
    from mininet.node import Node

    from .net import DatacastNet

# Classic BPF, for cls_bpf: IPv4, ARP and IPv6 pass (0, TC_ACT_OK), the rest is dropped (2, TC_ACT_SHOT).
ONLY_IP = "6,40 0 0 12,21 2 0 2048,21 1 0 2054,21 0 1 34525,6 0 0 0,6 0 0 2"


class AdoptedNetwork(Network):
    """Of a lab whose nodes Mininet has made. `links_down` are so from the start."""

    def __init__(
        self,
        net: DatacastNet,
        graph: nx.Graph,
        links_down: set[frozenset[str]],
        plan: Plan,
        root_if: str,
        signals: Signals,
    ) -> None:
        super().__init__(plan, root_if, signals)
        self._net = net
        self._graph = graph
        self._links_down = links_down
        self._room_port = ""
        self._bridged: dict[tuple[str, int], str] = {}

    def room_for(self, number: int, machine: Machine) -> Node:
        if machine.name in self.plan.hosts:
            node = self._net[machine.name]
            self._join_management(number, machine, node)
            return node
        room = self._net.room
        if not self._room_port:
            self._room_port = f"m{number}"
            self._join_management(number, machine, room)
        self._management_ports[machine.name] = self._room_port
        return room

    def lay_cables(self, progress: Callable[[str], None]) -> None:
        """They are there; their ports are set up."""
        scripts: dict[str, str] = dict.fromkeys(self.nodes, "")
        for cable in self.plan.cables:
            told = self._graph.edges[cable.a.node, cable.b.node]
            up = frozenset((cable.a.node, cable.b.node)) not in self._links_down
            for port in (cable.a, cable.b):
                rate_bps = 0 if port.node in told["shaped"] else cable.rate_of(port)
                script = data_port_script(port.ifname, rate_bps, cable.mtu, cable.queue_packets, up, arp=True)
                script += "" if up else f"ip link set {port.ifname} down\n"  # which Mininet has put up
                scripts[self.plan.machine_of(port.node).name] += script
            if told["inner"]:
                self._between = self._net.between
                lines = "".join(f"ip link set {name} mtu {cable.mtu} arp off up\n" for name in told["inner"])
                self._script(self._between, PROLOGUE + lines)
                self.delay_lines.append(",".join((*told["inner"], f"{cable.delay_us}")))
        self._set_up(scripts, progress)

    def _rate_script(self, cable: Cable, end: Port, rate_bps: int) -> str:
        if end.node not in self._graph.edges[cable.a.node, cable.b.node]["shaped"]:
            return super()._rate_script(cable, end, rate_bps)
        return f"tc class change dev {end.ifname} parent 5: classid 5:1 htb rate {rate_bps}bit burst 15k\n"  # TCLink's

    # ---- ordinary IP ----
    def start_ip(self) -> None:
        """Bridges and filters. Raises LabError."""
        scripts: dict[str, str] = dict.fromkeys(self.nodes, "")
        for i, name in enumerate(self._bridging()):
            machine = self.plan.machine_of(name)
            lines = [f"ip link add name {self._bridge(i)} type bridge forward_delay 0 mcast_snooping 0"]
            for port in machine.ports[name]:
                lines += [
                    f"tc qdisc replace dev {port.ifname} clsact",
                    f'tc filter replace dev {port.ifname} ingress prio 1 bpf da bytecode "{ONLY_IP}"',
                ]
            if name in self.plan.hosts:
                lines += self._move_address(name, self._bridge(i))
            lines.append(f"ip link set {self._bridge(i)} up")
            scripts[machine.name] += "\n".join(lines) + "\n"
        self._set_up(scripts, lambda text: None)
        self.follow(self._links_down)

    def _bridging(self) -> list[str]:
        return [name for name, data in self._graph.nodes(data=True) if data["forwards"]]

    @staticmethod
    def _bridge(number: int) -> str:
        return f"ip{number}"

    def _move_address(self, name: str, bridge: str) -> list[str]:
        """A host's address lies on its bridge, with the MAC that others know."""
        intf = self._net[name].defaultIntf()
        if not intf or not intf.IP():
            return []
        return [
            f"ip link set {bridge} address {intf.MAC()}",
            f"ip addr flush dev {intf.name}",
            f"ip addr add {intf.IP()}/{intf.prefixLen} dev {bridge}",
        ]

    def follow(self, down: set[frozenset[str]]) -> None:
        """Bridge over a spanning tree of the links that are not `down`."""
        wanted = self._tree(down)
        scripts: dict[str, str] = {}
        for i, name in enumerate(self._bridging()):
            machine = self.plan.machine_of(name)
            for port in machine.ports[name]:
                bridge = self._bridge(i) if frozenset((name, port.neighbour)) in wanted else ""
                if bridge != self._bridged.get((name, port.port), ""):
                    self._bridged[name, port.port] = bridge
                    master = f"master {bridge}" if bridge else "nomaster"
                    scripts[machine.name] = scripts.get(machine.name, "") + f"ip link set {port.ifname} {master}\n"
        self._set_up(scripts, lambda text: None)

    def _tree(self, down: set[frozenset[str]]) -> set[frozenset[str]]:
        """Links of a spanning forest. Hosts that forward nothing hang on it by their first port."""
        g = self._graph.edge_subgraph([e for e in self._graph.edges if frozenset(e) not in down])
        inner = g.subgraph(self._bridging())
        links = {frozenset(e) for e in nx.minimum_spanning_edges(inner, data=False)}
        for name, data in g.nodes(data=True):
            if not data["forwards"]:
                _, first = min((g.edges[name, other]["ports"][name], other) for other in g[name])
                links.add(frozenset((name, first)))
        return links

    def down(self) -> None:
        """The management network goes. The nodes are Mininet's."""
        self.nodes.clear()
        self._between = None
        super().down()
