#!/usr/bin/env python3
"""What a cache at a switch saves, and when it cannot. Leaves a capture for Wireshark.

h4's cable has a tenth of the others' rate. Together, all go at its pace: h1 sends every byte once, and the switch
answers from its cache whoever asks later. Each at its own rate, h2 and h3 are done ten times sooner; what h4 lacks by
then has left the cache long ago, so h1 sends it again, over a tree for h4 alone. A cache holds what is a moment old,
not a file.
"""

import sys
from pathlib import Path

from mininet.link import TCLink
from mininet.log import setLogLevel
from mininet.topo import Topo

from datacast.mininet import DatacastNet

WAYS = (("together", {"delivery": "together"}), ("each at its own rate", {"delivery": "stable"}))


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
    size = Path(path).stat().st_size / 1e6
    ports = {"h1": ("h1", "h1-eth0"), **{f"h{i}": ("s1", f"s1-eth{i}") for i in (2, 3, 4)}}
    try:
        for name, options in WAYS:
            before = {host: sent(net, *port) for host, port in ports.items()}
            delivery = net.datacast.send("h1", path, ["h2", "h3", "h4"], dest=f"{name[:4]}.bin", **options)
            mb = {host: sent(net, *port) - before[host] for host, port in ports.items()}
            finish = {host: figures.finish_s or 0.0 for host, figures in delivery.report.receivers.items()}
            print(f"{name}: {delivery}")
            print(f"  the file has {size:.1f} MB; h1 sent {mb['h1']:.1f} MB")
            for host in ("h2", "h3", "h4"):
                print(f"  the switch sent {mb[host]:.1f} MB to {host}, which had the file after {finish[host]:.2f} s")
    finally:
        tcpdump.terminate()
        tcpdump.wait()
        net.stop()
    print(f"capture of h1's port: {capture}")


if __name__ == "__main__":
    setLogLevel("warning")
    main(*sys.argv[1:] or ["/usr/bin/python3.11"])
