"""An image to the containerds of many hosts: what leaves its registry, and how long it takes.

    bench/lab/mirror.py --realtime
    bench/lab/mirror.py --realtime --size 1G --link 60mbit --ways prepull --packed

Hosts on one switch, each with an agent, a datacast-mirror and Debian's containerd; docker-registry beside the lab. The
image is one layer. `prepull`: `datacast prepull` puts it on all hosts, then each containerd pulls it. `demand`: all
pull at once what nobody has; mirrors order one group. Egress is what the registry's access log says it has sent of the
layer, over the layer. `--packed`: containerds take it into their content stores and do not unpack it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import networkx as nx
from alone import alone

sys.path.extend(str(Path(__file__).parents[2] / "tests" / folder) for folder in ("", "services_kit", "lab"))
from containerd import layer
from mirror_kit import MirrorLab, mirror_lab
from registry import Registry, certificate, sha256

from datacast import topologies
from datacast.core.quantities import parse_rate, parse_size
from datacast.lab.lab import Lab, LabOptions

HEAD = """| way | hosts | layer MiB | Mbit/s | brought s | over a link | pulled s | egress over the layer |
| --- | --- | --- | --- | --- | --- | --- | --- |"""


def prepull(it: MirrorLab, image: str, unpack: bool) -> tuple[float, float]:
    """Seconds until all hosts have it, and until all containerds have pulled it."""
    began = time.monotonic()
    told = it.command("prepull", image, "--to", "all")
    if told.returncode:
        raise SystemExit(told.stdout + told.stderr)
    took = time.monotonic() - began
    print(f"on all hosts after {took:.1f} s", file=sys.stderr, flush=True)
    return took, it.pull_everywhere(image, unpack)


def demand(it: MirrorLab, image: str, unpack: bool) -> tuple[float, float]:
    took = it.pull_everywhere(image, unpack)
    return took, took


WAYS: dict[str, Callable[[MirrorLab, str, bool], tuple[float, float]]] = {"prepull": prepull, "demand": demand}


def once(way: str, it: MirrorLab, registry: Registry, given: argparse.Namespace) -> str:
    data = layer(given.size)
    digest, name = sha256(data), f"bench/{way}"
    registry.push(name, "v1", [data])
    brought, pulled = WAYS[way](it, f"{registry.address}:{registry.port}/{name}:v1", not given.packed)
    lacking = [host for host, daemon in it.hosts.items() if digest not in daemon.holds()]
    if lacking:
        raise SystemExit(f"{', '.join(lacking)} lack the layer")
    egress = registry.sent()[digest] / len(data)
    for host, daemon in it.hosts.items():  # room for the next
        for kind in ("images", "blobs"):
            shutil.rmtree(it.lab.host_folder(host) / "mirror" / kind, ignore_errors=True)
        daemon.forget(f"{registry.address}:{registry.port}/{name}:v1")
    over = brought / (len(data) * 8 / given.link)
    figures = (way, len(it.hosts), given.size >> 20, f"{given.link / 1e6:g}", f"{brought:.1f}", f"{over:.2f}")
    return "| " + " | ".join(map(str, (*figures, f"{pulled:.1f}", f"{egress:.4f}"))) + " |"


def run(given: argparse.Namespace, folder: Path) -> None:
    g = nx.Graph()
    g.add_node("s", kind="switch", forwards=True)
    for i in range(given.hosts):
        g.add_node(f"h{i}", kind="host", forwards=False)
        g.add_edge(f"h{i}", "s")
    net, allowed = folder / "net.json", folder / "origins.json"
    net.write_text(json.dumps(topologies.to_json(g)))
    allowed.write_text("{}")
    allowed.chmod(0o600)
    options = LabOptions(
        str(net), given.link, rest_port=given.ports[0], fabric_port=given.ports[1], room=2 * given.size * given.hosts,
        realtime=given.realtime, origins=str(allowed),
    )  # fmt: skip
    with Lab(options, f"mirror{os.getpid() % 1000}") as lab:
        lab.up()
        address = lab.plan.root_address
        tls = certificate(folder, address)
        os.environ["SSL_CERT_FILE"] = str(tls[0])
        with Registry(folder / "registry", address, 5000, tls) as registry:
            allowed.write_text(json.dumps({"origins": [{"prefix": registry.url + "/", "ca": str(tls[0])}]}))
            with mirror_lab(lab, folder, registry, on_demand="demand" in given.ways) as it:
                print(HEAD, flush=True)
                for way in given.ways:
                    print(once(way, it, registry, given), flush=True)


def parse_ways(text: str) -> list[str]:
    ways = text.split(",")
    if unknown := [way for way in ways if way not in WAYS]:
        raise argparse.ArgumentTypeError(f"no way {unknown[0]!r}; there are {', '.join(WAYS)}")
    return ways


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=parse_size, default=256 << 20, help="of the layer, 1G at most")
    parser.add_argument("--hosts", type=int, default=15)
    parser.add_argument("--link", type=parse_rate, default=100_000_000)
    parser.add_argument("--ways", type=parse_ways, default=list(WAYS), help=f"of {', '.join(WAYS)}")
    parser.add_argument("--packed", action="store_true", help="do not unpack what is pulled")
    parser.add_argument("--realtime", action="store_true")
    parser.add_argument("--ports", type=int, nargs=2, default=(8755, 7555))
    given = parser.parse_args()
    if given.size > 1 << 30:
        parser.error("a layer of 1G at most: fifteen hosts hold it three times each")
    with alone(), tempfile.TemporaryDirectory(prefix="mirror-") as folder:
        run(given, Path(folder))


if __name__ == "__main__":
    main()
