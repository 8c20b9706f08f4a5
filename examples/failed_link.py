#!/usr/bin/env python3
"""A link fails in the middle of a delivery. The trees go another way, and so does ping."""

import sys

from mininet.log import setLogLevel

from datacast.mininet import DatacastNet, topos


def main(path):
    # Two spines, three leaves with a host each: every leaf has two ways.
    net = DatacastNet(topo=topos["leafspine"](2, 3, 1))
    net.start()
    try:
        source, *others = [host.name for host in net.hosts]
        spine = next(name for name in net.datacast.lab.graph["s0.0"] if name.startswith("s1"))
        port = net.datacast.lab.graph.edges["s0.0", spine]["ports"]["s0.0"]
        delivery = net.datacast.send(source, path, others, faults=[f"link s0.0:{port} down at 0.2s"])
        print(delivery)
        for fault in delivery.report.faults:
            print(f"the switch saw it after {fault.detected_ms} ms, new routes ran after {fault.resumed_ms} ms")
        net.configLinkStatus("s0.0", spine, "down")
        print(f"{net.pingAll():.0f} % of pings lost with the link down")
    finally:
        net.stop()


if __name__ == "__main__":
    setLogLevel("warning")
    main(sys.argv[1] if len(sys.argv) > 1 else "/usr/bin/python3.11")
