#!/usr/bin/env python3
"""One tree against two: BCube's hosts have two ports each, and two trees keep both busy."""

import sys

from mininet.log import setLogLevel

from datacast.mininet import DatacastNet, topos


def main(path):
    net = DatacastNet(topo=topos["bcube"](3, 1))
    net.start()
    try:
        hosts = [host.name for host in net.hosts]
        for trees in (1, 2):
            print(f"{trees} tree(s):", net.datacast.send(hosts[0], path, hosts[1:], dest=f"{trees}.bin", trees=trees))
    finally:
        net.stop()


if __name__ == "__main__":
    setLogLevel("warning")
    main(sys.argv[1] if len(sys.argv) > 1 else "/usr/bin/python3.11")
