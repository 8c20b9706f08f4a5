"""A collective fetch in a whole lab: hosts fetch an object from nginx, and send it to each other while they do."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import networkx as nx
import pytest
from lab_kit import Quiet, free_ports, unique_name

from datacast import topologies
from datacast.lab.faults import parse_faults
from datacast.lab.lab import Lab, LabOptions
from datacast.lab.run import Transfer, send

sys.path.append(str(Path(__file__).parents[1] / "services_kit"))
from web import Nginx, put

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]

HOSTS = [f"h{i}" for i in range(5)]
SIZE = 12 << 20


@pytest.fixture
def place(tmp_path):
    g = nx.Graph()
    g.add_node("s", kind="switch", forwards=True)
    for name in HOSTS:
        g.add_node(name, kind="host", forwards=False)
        g.add_edge(name, "s")
    net, allowed = tmp_path / "net.json", tmp_path / "origins.json"
    net.write_text(json.dumps(topologies.to_json(g)))
    allowed.write_text("{}")
    allowed.chmod(0o600)
    rest, fabric = free_ports(2)
    options = LabOptions(str(net), 50_000_000, rest_port=rest, fabric_port=fabric, room=1 << 28, origins=str(allowed))
    with Lab(options, unique_name("fetch")) as lab:
        lab.up()
        with Nginx(tmp_path / "nginx", lab.plan.root_address, 8099) as nginx:
            allowed.write_text(json.dumps({"origins": [{"prefix": nginx.url + "/"}]}))
            put(nginx.www / "object", SIZE)
            yield lab, nginx


def fetch(place, fetchers, faults: tuple[str, ...] = ()):
    lab, nginx = place
    what = Transfer(
        source=HOSTS[0],
        receivers=tuple(HOSTS),
        file=nginx.www / "object",
        url=f"{nginx.url}/object",
        fetchers=fetchers,
        faults=parse_faults(list(faults), lab.graph, "dpdk"),
    )
    return send(lab, what, Quiet())


@pytest.mark.parametrize("fetchers", [1, 3, "all"])
def test_every_byte_leaves_the_origin_once_and_all_have_it(place, fetchers) -> None:
    report = fetch(place, fetchers)
    assert report["ok"], report
    assert place[1].sent() == SIZE
    clients = {client for client, status, n in place[1].rows() if status == 206 and n > 1}
    assert len(clients) == (5 if fetchers == "all" else fetchers)


def test_a_fetcher_that_is_killed_costs_what_it_had_begun(place) -> None:
    report = fetch(place, "all", ("kill agent h2 at 800ms",))
    assert [name for name, row in report["receivers"].items() if row["finish_s"] is None] == ["h2"]
    assert place[1].sent() <= 1.25 * SIZE
