#!/usr/bin/env python3
"""Your own topology: two switches, a slow cable between them. An ordinary Mininet script, with one line more."""

import sys

from mininet.link import TCLink
from mininet.log import setLogLevel
from mininet.topo import Topo

from datacast.mininet import DatacastNet


class TwoRooms(Topo):
    """h1 and h2 in one room, h3 and h4 in the other. Each room has a switch; the cable between them carries 40 Mb/s."""

    def build(self):
        left, right = self.addSwitch("s1"), self.addSwitch("s2")
        for name, switch in (("h1", left), ("h2", left), ("h3", right), ("h4", right)):
            self.addLink(self.addHost(name), switch, bw=100)
        self.addLink(left, right, bw=40)


def main(path):
    net = DatacastNet(topo=TwoRooms(), link=TCLink)
    net.start()
    try:
        print(net["h1"].cmd("ping -c 1 -W 2", net["h4"].IP()))
        print(net.datacast.send("h1", path, ["h2", "h3", "h4"]))
    finally:
        net.stop()


if __name__ == "__main__":
    setLogLevel("info")
    main(sys.argv[1] if len(sys.argv) > 1 else "/usr/bin/python3.11")
