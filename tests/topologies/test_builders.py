"""The builders: sizes, ports, addresses, the forms on disk, and input that makes no sense."""

import json

import networkx as nx
import pytest

from datacast import topologies
from datacast.core.errors import DatacastError
from datacast.fabric_manager.api.topology import graph_of
from datacast.fabric_manager.fabric import Fabric
from datacast.topologies import fabrics, files

SPECS = {
    # spec: hosts, switches, links, degree of hosts
    "bcube:4,1": (16, 8, 32, 2),
    "bcube:8,3": (4096, 2048, 16384, 4),
    "bcube:3,0": (3, 1, 3, 1),
    "bcube:12,1": (144, 24, 288, 2),
    "fattree:4,3": (16, 20, 48, 1),
    "fattree:24,3": (3456, 720, 10368, 1),
    "fattree:4,1": (4, 1, 4, 1),
    "fattree:6,2": (18, 9, 36, 1),
    "fattree:4,4": (32, 56, 128, 1),
    "torus:4,2": (16, 0, 32, 4),
    "torus:16,3": (4096, 0, 12288, 6),
    "torus:5,1": (5, 0, 5, 2),
    "hypercube:4": (16, 0, 32, 4),
    "leafspine:4,8,6,4": (12, 12, 80, 4),
    "leafspine:2,3,5": (15, 5, 21, 1),
    "jellyfish:20,4,2,7": (40, 20, 80, 1),
    "jellyfish:60,58": (60, 60, 1800, 1),
    "jellyfish:40,39": (40, 40, 820, 1),
}


@pytest.mark.parametrize("spec", SPECS)
def test_sizes_and_conventions(spec):
    g = topologies.parse(spec)
    hosts, switches, links, degree = SPECS[spec]
    assert (len(topologies.hosts(g)), len(topologies.switches(g)), g.number_of_edges()) == (hosts, switches, links)
    assert {g.degree(h) for h in topologies.hosts(g)} == {degree}
    assert nx.is_connected(g)
    topologies.validate(g)
    assert topologies.to_json(topologies.parse(g.graph["topology"])) == topologies.to_json(g)
    assert all(name.startswith("s") for name in topologies.switches(g))
    for u, v in list(g.edges)[:200]:
        assert topologies.neighbour(g, u, topologies.port(g, u, v)) == v


def test_bcube_address_and_ports():
    g = topologies.bcube(4, 1)
    assert topologies.neighbour(g, "21", 0) == "s0.2"
    assert topologies.neighbour(g, "21", 1) == "s1.1"
    assert topologies.neighbour(g, "s0.2", 1) == "21"
    assert topologies.neighbour(g, "s1.1", 2) == "21"
    assert g.nodes["21"] == {"kind": "host", "forwards": True}


def test_bcube_with_large_digits_has_dots():
    g = topologies.bcube(12, 1)
    assert sorted(g.adj["11.3"]) == ["s0.11", "s1.3"]


def test_fattree_is_the_papers_figure_4():
    g = topologies.fattree(4, 3)
    assert set(g.adj["0001"]) == {"s0.000"}
    assert g.nodes["0001"]["forwards"] is False
    # Every edge switch of a pod reaches both of the pod's aggregation switches, each of those half of the cores.
    assert set(g.adj["s0.000"]) == {"0000", "0001", "s1.000", "s1.001"}
    assert set(g.adj["s1.000"]) == {"s0.000", "s0.001", "s2.00", "s2.10"}
    assert {g.degree(s) for s in topologies.switches(g)} == {4}
    assert nx.diameter(g) == 6


def test_torus_wraps():
    g = topologies.torus(4, 2)
    assert [topologies.neighbour(g, "03", p) for p in range(4)] == ["00", "02", "13", "33"]


def test_leafspine_rails():
    g = topologies.leafspine(4, 8, 6, 4)
    assert [topologies.neighbour(g, "1.5", p) for p in range(4)] == ["s0.4", "s0.5", "s0.6", "s0.7"]


def test_jellyfish_is_seeded():
    a, b, c = (topologies.to_json(topologies.jellyfish(30, 5, 1, seed)) for seed in (1, 1, 2))
    assert a == b
    assert a["edges"] != c["edges"]


@pytest.mark.parametrize(
    "spec",
    [
        "torus:2,3",
        "torus:4,0",
        "bcube:1,1",
        "bcube:4,-1",
        "fattree:5,3",
        "fattree:4,0",
        "bcube:99,99",
        "torus:3,999999",
        "hypercube:0",
        "leafspine:2,3,1,2",
        "jellyfish:5,3",
        "jellyfish:4,4",
        "bcube",
        "bcube:4",
        "bcube:4,1,1",
        "bcube:a,b",
        "ring:4",
        "",
        "bcube:4;1",
        "bcube:" + "9" * 100 + ",63",
        "leafspine:300000,300000,1",
    ],
)
def test_specs_that_make_no_sense(spec):
    with pytest.raises(topologies.SpecError) as caught:
        topologies.parse(spec)
    assert isinstance(caught.value, DatacastError)
    assert caught.value.code == "bad_spec"
    assert spec in caught.value.message


def test_a_network_that_is_connected_is_not_looked_for_for_ever(monkeypatch):
    monkeypatch.setattr(fabrics, "ATTEMPTS_MAX", 3)
    with pytest.raises(topologies.SpecError, match="none of 3 is connected: give a degree of 3 or more"):
        topologies.parse("jellyfish:2000,2")


def test_json_there_and_back():
    g = topologies.bcube(3, 1)
    g.edges["00", "s0.0"]["up"] = False
    g.nodes["s0.0"]["msd"] = 3
    back = topologies.from_json(json.loads(json.dumps(topologies.to_json(g))))
    assert topologies.to_json(back) == topologies.to_json(g)
    assert list(back.nodes) == list(g.nodes)


def test_node_link_file_without_ports(tmp_path):
    path = tmp_path / "net.json"
    path.write_text(
        json.dumps(
            {
                "nodes": [
                    {"id": "a", "kind": "host"},
                    {"id": "b", "kind": "host", "forwards": True},
                    {"id": "x", "kind": "switch"},
                ],
                "links": [
                    {"source": "a", "target": "x"},
                    {"source": "b", "target": "x"},
                    {"source": "a", "target": "b"},
                ],
            }
        )
    )
    g = topologies.from_file(path)
    assert g.nodes["a"]["forwards"] is False and g.nodes["b"]["forwards"] is True and g.nodes["x"]["forwards"] is True
    assert [topologies.neighbour(g, "a", p) for p in (0, 1)] == ["x", "b"]
    assert g.graph["topology"] == "net.json"


def test_graphml_file(tmp_path):
    g = nx.Graph()
    g.add_node("a", kind="host")
    g.add_node("b", kind="host", forwards=True)
    g.add_node("x", kind="switch", msd=3)
    g.add_edge("a", "x", rate_bps=10**9, up=False)
    g.add_edge("b", "x")
    path = tmp_path / "net.graphml"
    nx.write_graphml(g, path)
    back = topologies.from_file(path)
    assert back.nodes["x"] == {"kind": "switch", "forwards": True, "msd": 3}
    assert back.edges["a", "x"] == {"rate_bps": 10**9, "up": False, "ports": {"a": 0, "x": 0}}
    assert back.nodes["a"]["forwards"] is False


def node(name, **data):
    return {"id": name, "kind": "host", **data}


BAD = {
    "self loop": ({"nodes": [node("a")], "edges": [{"source": "a", "target": "a"}]}, "bad_link", "a"),
    "parallel": (
        {"nodes": [node("a"), node("b")], "edges": [{"source": "a", "target": "b"}, {"source": "b", "target": "a"}]},
        "bad_link",
        "b-a",
    ),
    "unknown end": ({"nodes": [node("a")], "edges": [{"source": "a", "target": "z"}]}, "bad_link", "z"),
    "kind": ({"nodes": [{"id": "q", "kind": "router"}], "edges": []}, "bad_node", "q"),
    "no kind": ({"nodes": [{"id": "q"}], "edges": []}, "bad_node", "q"),
    "forwards": ({"nodes": [node("a", forwards="maybe")], "edges": []}, "bad_node", "a"),
    "msd": ({"nodes": [node("a", msd=0)], "edges": []}, "bad_node", "a"),
    "twice": ({"nodes": [node("a"), node("a")], "edges": []}, "bad_node", "a"),
    "no hosts": ({"nodes": [{"id": "s", "kind": "switch"}], "edges": []}, "bad_node", ""),
    "port gap": (
        {"nodes": [node("a"), node("b")], "edges": [{"source": "a", "target": "b", "ports": {"a": 0, "b": 1}}]},
        "bad_link",
        "b",
    ),
    "port twice": (
        {
            "nodes": [node("a"), node("b"), node("c")],
            "edges": [
                {"source": "a", "target": "b", "ports": {"a": 0, "b": 0}},
                {"source": "a", "target": "c", "ports": {"a": 0, "c": 0}},
            ],
        },
        "bad_link",
        "a",
    ),
    "up": (
        {"nodes": [node("a"), node("b")], "edges": [{"source": "a", "target": "b", "up": "perhaps"}]},
        "bad_link",
        "a-b",
    ),
    "rate": (
        {"nodes": [node("a"), node("b")], "edges": [{"source": "a", "target": "b", "rate_bps": 10**30}]},
        "bad_link",
        "a-b",
    ),
    "mtu": (
        {"nodes": [node("a"), node("b")], "edges": [{"source": "a", "target": "b", "mtu": "9000 bytes"}]},
        "bad_link",
        "a-b",
    ),
    "queue": (
        {"nodes": [node("a"), node("b")], "edges": [{"source": "a", "target": "b", "queue_packets": -1}]},
        "bad_link",
        "a-b",
    ),
    "one port": (
        {"nodes": [node("a"), node("b")], "edges": [{"source": "a", "target": "b", "source_port": 0}]},
        "bad_link",
        "a-b",
    ),
    "half of a pair": ({"nodes": [node("\ud800")], "edges": []}, "bad_node", "'\\ud800'"),
    "line break": ({"nodes": [node("a\nb")], "edges": []}, "bad_node", "'a\\nb'"),
    "long name": ({"nodes": [node("a" * 129)], "edges": []}, "bad_node", repr("a" * 129)),
    "name of the graph": ({"graph": {"topology": [1]}, "nodes": [node("a")], "edges": []}, "topology", "topology"),
    "directed": ({"directed": True, "nodes": [node("a")], "edges": []}, "topology", "directed"),
    "no nodes": ({"nodes": [], "edges": []}, "topology", ""),
    "no lists": ({"hosts": []}, "topology", "nodes"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_graphs_name_the_culprit(case, tmp_path):
    obj, code, what = BAD[case]
    with pytest.raises(topologies.TopologyError) as caught:
        topologies.from_json(obj)
    assert (caught.value.code, caught.value.what) == (code, what)
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(obj))
    with pytest.raises(topologies.TopologyError) as caught:
        topologies.from_file(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["self", "incoming_graph_data", "backend", "node_for_adding", "u_of_edge"])
def test_attributes_may_be_called_as_networkx_calls_its_own_arguments(name):
    """They are passed on to masters, too."""
    nodes = [node("a", **{name: 1}), node("b")]
    obj = {"graph": {name: [1]}, "nodes": nodes, "edges": [{"source": "a", "target": "b", name: 1}]}
    g = topologies.from_json(obj)
    assert (g.graph[name], g.nodes["a"][name], g.edges["a", "b"][name]) == ([1], 1, 1)
    seen = graph_of(Fabric(g).snapshot())
    assert (seen.graph[name], seen.nodes["a"][name]) == ([1], 1)


def test_a_topology_s_file_has_a_bound(tmp_path, monkeypatch):
    path = tmp_path / "net.json"
    path.write_text(json.dumps({"nodes": [node("a")], "edges": []}))
    monkeypatch.setattr(files, "BYTES_MAX", path.stat().st_size)
    assert list(topologies.from_file(path)) == ["a"]
    monkeypatch.setattr(files, "BYTES_MAX", path.stat().st_size - 1)
    with pytest.raises(topologies.FileError, match="is longer than"):
        topologies.from_file(path)


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"{", b"<html><body></body></html>", b"<graphml", b"[1,2]", b"\xff\xfe{"]
)
def test_files_that_are_no_graph(content, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(topologies.TopologyError) as caught:
        topologies.from_file(path)
    assert str(path) in str(caught.value)


def test_a_graphml_with_parallel_links(tmp_path):
    g = nx.MultiGraph()
    g.add_node("a", kind="host")
    g.add_node("b", kind="host")
    g.add_edges_from([("a", "b"), ("a", "b")])
    path = tmp_path / "net.graphml"
    nx.write_graphml(g, path)
    with pytest.raises(topologies.LinkError) as caught:
        topologies.from_file(path)
    assert caught.value.what == "a-b"


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(topologies.FileError) as caught:
        topologies.from_file(tmp_path / "nothing")
    assert "No such file" in caught.value.message


def test_unknown_node_and_port():
    g = topologies.bcube(4, 1)
    with pytest.raises(topologies.UnknownNode):
        topologies.neighbour(g, "99", 0)
    with pytest.raises(topologies.LinkError):
        topologies.neighbour(g, "00", 2)
    with pytest.raises(topologies.LinkError):
        topologies.port(g, "00", "01")


@pytest.mark.parametrize(("last", "why"), [(60_000, "no port 59999"), (59_998, "port 59998 of s has two cables")])
def test_what_is_wrong_with_many_ports_is_found_at_once(last, why):
    many = 60_000
    nodes = [{"id": "s", "kind": "switch"}, *({"id": f"h{i}", "kind": "host"} for i in range(many))]
    links = [{"source": "s", "target": f"h{i}", "ports": {"s": i, f"h{i}": 0}} for i in range(many)]
    links[-1]["ports"]["s"] = last
    with pytest.raises(topologies.TopologyError, match=why):
        topologies.from_json({"nodes": nodes, "edges": links})
