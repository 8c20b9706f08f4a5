"""DatacastNet: Mininet's own class, with Datacast's daemons in it from `start` to `stop`."""

from __future__ import annotations

import contextlib
import json
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
from mininet.log import debug, info
from mininet.net import Mininet
from mininet.node import DefaultController, Host, Node

from datacast import topologies
from datacast.core.quantities import parse_rate
from datacast.lab.dataplane import data_plane
from datacast.lab.errors import LabError
from datacast.lab.lab import Lab, LabOptions, Made, clean
from datacast.lab.mixed import MixedPlane
from datacast.lab.plan import LINK_BPS_MIN, Plan
from datacast.lab.signals import Signals
from datacast.lab.state import Registry, lab_name

from .adopted import AdoptedNetwork
from .links import rate_of, shapes, with_length
from .nodes import DatacastController, DatacastHost, DatacastSwitch, Settings
from .service import Datacast
from .topos import GraphTopo, graph_of


class DatacastNet(Mininet):  # type: ignore[misc]
    """Mininet with a Datacast fabric: same calls, same life.

    Hosts get an agent each, DatacastSwitch, DatacastOVS and DatacastBmv2 forward, and `net.datacast` delivers files
    after `start`. A network without any of Datacast's switches (`switch=OVSSwitch`) is plain Mininet.
    """

    def __init__(
        self,
        topo: Any = None,
        switch: Any = DatacastSwitch,
        host: Any = Host,
        controller: Any = DefaultController,
        **options: Any,
    ) -> None:
        self.room: Node | None = None
        self.between: Node | None = None
        """Where the halves of links with a delay meet."""
        self.long_links: dict[Any, tuple[float, tuple[str, str]]] = {}
        """Their delays in milliseconds, and the interfaces that meet."""
        self.datacast: Datacast | None = None
        self._network: AdoptedNetwork | None = None
        self._stopped = False
        self._links_down: set[frozenset[str]] = set()
        if _is_datacast(switch):
            host = DatacastHost if host is Host else host
            controller = DatacastController if controller in (None, DefaultController) else controller
        super().__init__(topo=topo, switch=switch, host=host, controller=controller, **options)

    def addSwitch(self, name: str, cls: Any = None, **params: Any) -> Any:
        """As Mininet's. Datacast's switches share a namespace, which the first one brings."""
        if _is_datacast(cls or self.switch):
            if self.room is None:
                self.room = Node("dcroom")
            params = {"room": self.room, "dpid": f"{len(self.switches) + 1:x}", **params}
        return super().addSwitch(name, cls=cls, **params)

    def addLink(
        self, node1: Any, node2: Any, port1: int | None = None, port2: int | None = None, cls: Any = None, **params: Any
    ) -> Any:
        """As Mininet's. `delay_ms`: so long the link is, one way, whatever the kernel has."""
        delay_ms = params.pop("delay_ms", 0)
        if not delay_ms:
            return super().addLink(node1, node2, port1, port2, cls, **params)
        if self.between is None:
            self.between = Node("dcdelay")
        inner = (f"line{len(self.long_links)}a", f"line{len(self.long_links)}b")
        cls = with_length(cls or self.link, self.between, inner)
        link = super().addLink(node1, node2, port1, port2, cls, **params)
        self.long_links[link] = (delay_ms, inner)
        return link

    def start(self) -> None:
        """As Mininet's. Raises LabError when the fabric does not come up; everything is taken down then."""
        if not self.built:
            self.build()
        try:
            if any(isinstance(node, (DatacastSwitch, DatacastHost)) for node in (*self.switches, *self.hosts)):
                self._start_fabric()
            else:
                self._refuse_what_nothing_plays()
            super().start()
        except BaseException:
            with contextlib.suppress(Exception):  # it is Mininet's that fails, over what is half there
                self.stop()
            raise

    def stop(self) -> None:
        """As Mininet's. The daemons end first. Once more does nothing: a start that failed has stopped already."""
        if self._stopped:
            return
        self._stopped = True
        if self.datacast is not None:
            info("*** Stopping Datacast\n")
            self.datacast.close()
            self.datacast = self._network = None
        try:
            super().stop()
        finally:
            for node in (self.room, self.between):
                if node is not None:
                    node.terminate()
            self.room = self.between = None

    def configLinkStatus(self, src: str, dst: str, status: str) -> None:
        """As Mininet's. Ordinary IP takes another way where there is one; Datacast finds its own."""
        super().configLinkStatus(src, dst, status)
        change = self._links_down.discard if status == "up" else self._links_down.add
        change(frozenset((src, dst)))
        if self._network is not None:
            self._network.follow(self._links_down)

    def _refuse_what_nothing_plays(self) -> None:
        """A plain network has delays and rates of topologies only as far as Mininet has them. Raises LabError."""
        for link in self.links:
            rated = isinstance(self.topo, GraphTopo) and any(
                rate_of(intf) and not shapes(intf) for intf in (link.intf1, link.intf2)
            )
            if rated or link in self.long_links:
                raise LabError(
                    f"link {link} has {'a rate' if rated else 'a delay'} that nothing in this network plays",
                    what=str(link),
                    remedy="use one of Datacast's switches (mn --switch datacast)" + ", or TCLink" * rated,
                )

    def _start_fabric(self) -> None:
        settings = next((c.settings for c in self.controllers if isinstance(c, DatacastController)), Settings())
        for switch in self.switches:
            if not isinstance(switch, DatacastSwitch):
                raise LabError(
                    f"switch {switch.name} is no Datacast switch, the others are",
                    what=switch.name,
                    remedy="give it cls=DatacastSwitch, DatacastOVS or DatacastBmv2",
                )
        rate_bps = parse_rate(settings.rate, LINK_BPS_MIN)
        graph = graph_of(self, rate_bps)
        self._links_down |= {frozenset((u, v)) for u, v, up in graph.edges(data="up", default=True) if not up}
        of = {switch.name: switch.dataplane for switch in self.switches}
        name = "+".join(dict.fromkeys(of.values())) or DatacastSwitch.dataplane
        plane = data_plane(name)
        if isinstance(plane, MixedPlane):
            plane = MixedPlane(plane.planes, of)
        for one in plane.planes if isinstance(plane, MixedPlane) else [plane]:
            one.bridges = False  # the kernel does (adopted.py): of two copies one teaches others the wrong port
        called = lab_name(settings.lab)
        _clean_left_over(called)
        folder = tempfile.TemporaryDirectory(prefix="datacast-mininet-")
        topology = Path(folder.name) / "topology.json"
        topology.write_text(json.dumps(topologies.to_json(_plain(graph))))

        def adopt(plan: Plan, root_if: str, signals: Signals) -> AdoptedNetwork:
            self._network = AdoptedNetwork(self, graph, self._links_down, plan, root_if, signals)
            return self._network

        lab = Lab(
            LabOptions(
                topology=str(topology),
                rate_bps=rate_bps,
                mtu=settings.mtu,
                queue_packets=settings.queue,
                dataplane=name,
                rest_port=settings.rest_port,
                fabric_port=settings.fabric_port,
                work=settings.work,
                realtime=settings.realtime,
            ),
            called,
            lambda text: debug(f"{text}\n"),
            Signals(),
            Made(graph, plane, adopt),
        )
        info("*** Starting Datacast\n")
        self.datacast = Datacast(lab, name, folder)
        self.datacast.open()
        for host in self.hosts:
            if isinstance(host, DatacastHost):
                host.folder = lab.host_folder(host.name)
        assert self._network is not None
        self._network.start_ip()
        info(f"REST and console: {lab.rest}, other terminals: export DATACAST_LAB={called}\n")


def _is_datacast(kind: Any) -> bool:
    kind = kind.func if isinstance(kind, partial) else kind
    return isinstance(kind, type) and issubclass(kind, DatacastSwitch)


def _plain(graph: nx.Graph) -> nx.Graph:
    """What a topology's file says: neither interfaces nor shapers. Which links are up the nodes tell."""
    g = graph.copy()
    for _u, _v, data in g.edges(data=True):
        for key in ("interfaces", "shaped", "inner", "up"):
            data.pop(key, None)
    return g


def _clean_left_over(name: str) -> None:
    """Of a script that was killed. Raises LabError where one lives."""
    registry = Registry()
    state = registry.load(name)
    if state is not None and state.alive:
        raise LabError(
            f"a network is running already: {name!r}, process {state.pid}",
            what=name,
            remedy="stop it, or give DatacastController another lab, rest_port and fabric_port",
        )
    if state is not None:
        clean(registry, state)
