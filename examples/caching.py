#!/usr/bin/env python3
"""What a cache at a switch saves: the source sends every byte once. Leaves a capture for Wireshark.

One receiver has a cable of a tenth of the rate. What it asks for later comes out of the switch.
"""

import sys
from pathlib import Path

from mininet.link import TCLink
from mininet.log import setLogLevel
from mininet.topo import Topo

from datacast.mininet import DatacastNet


class Star(Topo):
    """Four hosts around a switch."""

    def build(self):
        switch = self.addSwitch("s1")
        for name, bw in (("h1", 100), ("h2", 100), ("h3", 100), ("h4", 10)):
            self.addLink(self.addHost(name), switch, bw=bw)


def sent(net, node, interface):
    return int(net[node].cmd(f"cat /sys/class/net/{interface}/statistics/tx_bytes")) / 1e6


def main(path, capture="caching.pcap"):
    net = DatacastNet(topo=Star(), link=TCLink)
    net.start()
    tcpdump = net["h1"].popen("tcpdump", "-i", "h1-eth0", "-s", "128", "-w", capture, "-Z", "root")
    try:
        print(net.datacast.send("h1", path, ["h2", "h3", "h4"]))
        print(f"the file has {Path(path).stat().st_size / 1e6:.1f} MB; h1 sent {sent(net, 'h1', 'h1-eth0'):.1f} MB")
        for port, host in ((2, "h2"), (3, "h3"), (4, "h4")):
            print(f"the switch sent {sent(net, 's1', f's1-eth{port}'):.1f} MB to {host}")
    finally:
        tcpdump.terminate()
        tcpdump.wait()
        net.stop()
    print(f"capture of h1's port: {capture}")


if __name__ == "__main__":
    setLogLevel("warning")
    main(*sys.argv[1:] or ["/usr/bin/python3.11"])
