"""A collective fetch in a lab: hosts on one switch fetch an object from nginx, two at a fifth of the others' rate.

    python bench/lab/fetch.py [--size 64M] [--hosts 8] [--origin 12mbit] [--slow 2] [--policy steal] [--fault F]

The origin's rate is each host's own: what nginx sends over its port at the management bridge is shaped. Printed: the
finish of the last receiver beside the bound size / min(sum of the origin's rates, a link), the bytes that nginx sent
beside the object's, and the spread between the first receiver and the last.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import networkx as nx

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "services_kit"))
from web import Nginx, put

from datacast import topologies
from datacast.lab.content import parse_rate, parse_size
from datacast.lab.faults import parse_faults
from datacast.lab.lab import Lab, LabOptions
from datacast.lab.run import Quiet, Transfer, send

PORT = 8099


def shape(lab: Lab, host: str, bps: int) -> None:
    """What nginx sends to a host; signalling goes past it."""
    pid, port = lab.network.management_port(host)
    words = (
        f"qdisc replace dev {port} root handle 1: htb default 1",
        f"class add dev {port} parent 1: classid 1:1 htb rate 10gbit",
        f"class add dev {port} parent 1: classid 1:2 htb rate {bps}bit burst 16kb",
        f"filter add dev {port} parent 1: protocol ip u32 match ip sport {PORT} 0xffff flowid 1:2",
    )
    for line in words:
        subprocess.run(["mnexec", "-a", str(pid), "tc", *line.split()], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=parse_size, default=64 << 20)
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--link", type=parse_rate, default=100_000_000)
    parser.add_argument("--origin", type=parse_rate, default=12_000_000)
    parser.add_argument("--slow", type=int, default=2, help="hosts that get a fifth of it")
    parser.add_argument("--policy", default="steal")
    parser.add_argument("--fault", action="append", default=[])
    parser.add_argument("--realtime", action="store_true")
    parser.add_argument("--ports", type=int, nargs=2, default=(8745, 7545))
    given = parser.parse_args()
    hosts = [f"h{i}" for i in range(given.hosts)]
    g = nx.Graph()
    g.add_node("s", kind="switch", forwards=True)
    for name in hosts:
        g.add_node(name, kind="host", forwards=False)
        g.add_edge(name, "s")
    folder = Path(tempfile.mkdtemp(prefix="fetch-"))
    net, allowed = folder / "net.json", folder / "origins.json"
    net.write_text(json.dumps(topologies.to_json(g)))
    allowed.write_text("{}")
    allowed.chmod(0o600)
    options = LabOptions(
        str(net), given.link, rest_port=given.ports[0], fabric_port=given.ports[1], room=given.size * (given.hosts + 1),
        realtime=given.realtime, origins=str(allowed),
    )  # fmt: skip
    with Lab(options, f"fetch{os.getpid() % 1000}") as lab:
        lab.up()
        rates = {name: given.origin // 5 if i < given.slow else given.origin for i, name in enumerate(hosts)}
        for name, bps in rates.items():
            shape(lab, name, bps)
        with Nginx(folder / "nginx", lab.plan.root_address, PORT) as nginx:
            allowed.write_text(json.dumps({"origins": [{"prefix": nginx.url + "/"}]}))
            put(nginx.www / "object", given.size)
            faults = parse_faults(given.fault, lab.graph, "dpdk")
            transfer = Transfer(
                source=hosts[0], receivers=tuple(hosts), file=nginx.www / "object", url=f"{nginx.url}/object",
                fetchers="all", policy=given.policy, faults=faults,
            )  # fmt: skip
            report = send(lab, transfer, Quiet())
            sent = nginx.sent()
    ends = [row["finish_s"] for row in report["receivers"].values() if row["finish_s"]]
    start = report["start_s"] or 0.0
    bound = given.size * 8 / min(sum(rates.values()), given.link)
    whole = start + max(ends)
    rate = f"{given.origin / 1e6:g} Mbit/s, {given.slow} a fifth of it"
    print(f"policy               {given.policy}, {given.hosts} hosts at {rate}")
    print(f"finish               {max(ends):.3f} s after the first packet, {whole:.3f} s after the order")
    print(f"over {bound:.3f} s          {max(ends) / bound:.3f} and {whole / bound:.3f}")
    print(f"origin bytes         {sent / given.size:.3f} of the object")
    print(f"spread of receivers  {(max(ends) - min(ends)) / max(ends) * 100:.2f} %")
    print(f"receivers            {len(ends)} of {given.hosts}")


if __name__ == "__main__":
    main()
