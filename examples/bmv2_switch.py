#!/usr/bin/env python3
"""The same network with P4 switches: bmv2 forwards, a cache appliance hangs on each. Needs p4lang's bmv2 and p4c.

Mixed with others: one switch is bmv2, one is Datacast's own, one Open vSwitch.
"""

import sys
from itertools import pairwise

from mininet.log import setLogLevel
from mininet.topo import Topo

from datacast.mininet import DatacastBmv2, DatacastNet, DatacastOVS, DatacastSwitch


class Line(Topo):
    """Three switches in a line, a host on each."""

    def build(self, kinds):
        switches = [self.addSwitch(f"s{i}", cls=kind) for i, kind in enumerate(kinds, 1)]
        for i, switch in enumerate(switches, 1):
            self.addLink(self.addHost(f"h{i}"), switch)
        for one, two in pairwise(switches):
            self.addLink(one, two)


def main(path, kinds):
    net = DatacastNet(topo=Line(kinds=kinds))
    net.start()
    try:
        print(f"{net.pingAll():.0f} % of pings lost")
        print(net.datacast.send("h1", path, ["h2", "h3"]))
    finally:
        net.stop()


if __name__ == "__main__":
    setLogLevel("warning")
    names = {"bmv2": DatacastBmv2, "ovs": DatacastOVS, "dpdk": DatacastSwitch}
    chosen = sys.argv[2].split(",") if len(sys.argv) > 2 else ["bmv2", "dpdk", "ovs"]
    if odd := set(chosen) - set(names):
        sys.exit(f"no kind of switch: {', '.join(odd)}; there are {', '.join(names)}")
    main(sys.argv[1] if len(sys.argv) > 1 else "/usr/bin/python3.11", [names[name] for name in chosen])
