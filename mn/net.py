"""DatacastNet: Mininet's own class, with Datacast's daemons in it from `start` to `stop`."""

from __future__ import annotations

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
from datacast.lab.state import Registry

from .adopted import AdoptedNetwork
from .nodes import DatacastController, DatacastHost, DatacastSwitch, Settings
from .service import Datacast
from .topos import graph_of


class DatacastNet(Mininet):
    """Mininet with a Datacast fabric: same calls, same life.

    Hosts get an agent each, DatacastSwitch, DatacastOVS and DatacastBmv2 forward, and `net.datacast` delivers files
    after `start`. A network without any of Datacast's switches (`switch=OVSSwitch`) is plain Mininet.
    """

    def __init__(
        self, topo: Any = None, switch: Any = DatacastSwitch, host: Any = Host, controller: Any = None, **options: Any
    ) -> None:
        self.room: Node | None = None
        self.datacast: Datacast | None = None
        self._network: AdoptedNetwork | None = None
        self._links_down: set[frozenset[str]] = set()
        if _is_datacast(switch):
            host = DatacastHost if host is Host else host
            controller = DatacastController if controller in (None, DefaultController) else controller
        super().__init__(topo=topo, switch=switch, host=host, controller=controller or DefaultController, **options)

    def addSwitch(self, name: str, cls: Any = None, **params: Any) -> Any:
        """As Mininet's. Datacast's switches share a namespace, which the first one brings."""
        if _is_datacast(cls or self.switch):
            if self.room is None:
                self.room = Node("dcroom")
            params = {"room": self.room, "dpid": f"{len(self.switches) + 1:x}", **params}
        return super().addSwitch(name, cls=cls, **params)

    def start(self) -> None:
        """As Mininet's. Raises LabError when the fabric does not come up; everything is taken down then."""
        if not self.built:
            self.build()
        if any(isinstance(node, (DatacastSwitch, DatacastHost)) for node in (*self.switches, *self.hosts)):
            try:
                self._start_fabric()
            except BaseException:
                self.stop()
                raise
        super().start()

    def stop(self) -> None:
        """As Mininet's. The daemons end first."""
        fabric, self.datacast, self._network = self.datacast, None, None
        if fabric is not None:
            info("*** Stopping Datacast\n")
            fabric.close()
        super().stop()
        if self.room is not None:
            self.room.terminate()
            self.room = None

    def configLinkStatus(self, src: str, dst: str, status: str) -> None:
        """As Mininet's. Ordinary IP takes another way where there is one; Datacast finds its own."""
        super().configLinkStatus(src, dst, status)
        change = self._links_down.discard if status == "up" else self._links_down.add
        change(frozenset((src, dst)))
        if self._network is not None:
            self._network.follow(self._links_down)

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
        of = {switch.name: switch.dataplane for switch in self.switches}
        name = "+".join(dict.fromkeys(of.values())) or DatacastSwitch.dataplane
        plane = data_plane(name)
        if isinstance(plane, MixedPlane):
            plane = MixedPlane(plane.planes, of)
        for one in plane.planes if isinstance(plane, MixedPlane) else [plane]:
            one.bridges = False  # the kernel does (adopted.py): of two copies one teaches others the wrong port
        _clean_left_over(settings.lab)
        folder = tempfile.TemporaryDirectory(prefix="datacast-mininet-")
        topology = Path(folder.name) / "topology.json"
        topology.write_text(json.dumps(topologies.to_json(_plain(graph))))

        def adopt(plan: Plan, root_if: str, signals: Signals) -> AdoptedNetwork:
            self._network = AdoptedNetwork(self, self.room, graph, plan, root_if, signals)
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
            settings.lab,
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
        info(f"REST and console: {lab.rest}, other terminals: export DATACAST_LAB={settings.lab}\n")


def _is_datacast(kind: Any) -> bool:
    kind = kind.func if isinstance(kind, partial) else kind
    return isinstance(kind, type) and issubclass(kind, DatacastSwitch)


def _plain(graph: nx.Graph) -> nx.Graph:
    """What a topology's file says: neither interfaces nor shapers."""
    g = graph.copy()
    for _u, _v, data in g.edges(data=True):
        del data["interfaces"], data["shaped"]
    return g


def _clean_left_over(name: str) -> None:
    """Of a script that was killed. A living one is told of by Lab itself."""
    registry = Registry()
    state = registry.load(name)
    if state is not None and not state.alive:
        clean(registry, state)
