"""Datacast for Mininet: hosts, switches of three data planes, topologies, and a network that delivers files.

from datacast.mininet import DatacastNet, topos
net = DatacastNet(topo=topos["bcube"](4, 1))
net.start()
net.pingAll()
net.datacast.send("00", "/path/to/file", ["02", "10"])
net.stop()
"""

from .net import DatacastNet
from .nodes import (
    DatacastBmv2,
    DatacastController,
    DatacastHost,
    DatacastOVS,
    DatacastSwitch,
    controllers,
    hosts,
    switches,
)
from .service import Delivery
from .topos import GraphTopo, graph_of, topos

__all__ = [
    "DatacastBmv2",
    "DatacastController",
    "DatacastHost",
    "DatacastNet",
    "DatacastOVS",
    "DatacastSwitch",
    "Delivery",
    "GraphTopo",
    "controllers",
    "graph_of",
    "hosts",
    "switches",
    "topos",
]
