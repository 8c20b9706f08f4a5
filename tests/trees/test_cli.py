"""`datacast trees`: the keys of its JSON, its picture, its answers to bad input."""

import json
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import networkx as nx
import pytest

from datacast.cli.main import main
from datacast.cli.trees_svg import draw


def run(capsys, *args):
    code = 0
    try:
        main(["trees", *args])
    except SystemExit as stop:
        code = stop.code or 0
    out = capsys.readouterr()
    return code, out.out, out.err


def test_json_of_a_seeded_group(capsys):
    args = ("--topology", "bcube:4,2", "--lfr", "0.05", "--group", "20", "--seed", "7", "--repeat", "5", "--json")
    code, out, _ = run(capsys, *args)
    result = json.loads(out)
    assert code == 0
    assert {"trees", "bound_degree", "bound_maxflow", "unreachable", "time_ms"} <= set(result)
    assert len(result["trees"]) == result["bound_maxflow"] <= result["bound_degree"]
    assert result["unreachable"] == []
    assert 0 < result["time_ms"]["median"] <= result["time_ms"]["p99"]
    used = [tuple(arc) for tree in result["trees"] for arc in tree["arcs"]]
    assert len(used) == len(set(used))
    again = json.loads(run(capsys, *args)[1])
    assert again["trees"] == result["trees"]


def test_a_file_and_names(capsys, tmp_path):
    g = nx.Graph()
    for name, kind in (("A", "host"), ("B", "host"), ("C", "host"), ("x", "switch"), ("y", "switch")):
        g.add_node(name, kind=kind)
    g.add_edges_from([("A", "x"), ("A", "y"), ("B", "x"), ("B", "y"), ("C", "x"), ("C", "y"), ("x", "y")])
    path = tmp_path / "net.graphml"
    nx.write_graphml(g, path)
    code, out, _ = run(capsys, "--graph", str(path), "--source", "A", "--receivers", "B,C", "--json")
    assert code == 0
    assert len(json.loads(out)["trees"]) == 2
    code, out, _ = run(capsys, "--graph", str(path), "--source", "A", "--receivers", "B,C")
    assert "2 trees" in out
    rows = [line.split() for line in out.splitlines() if ">" in line and "parent" not in line]
    cells = [[word for word in row if word not in "│┃"] for row in rows]
    assert [row[:3] for row in cells] == [["0", "2", "3"], ["1", "2", "3"]], "tree, depth, arcs"
    assert sorted(word for row in cells for word in row[3:]) == ["A>x", "A>y", "x>B", "x>C", "y>B", "y>C"]


def test_cut_off_receivers(capsys):
    code, out, err = run(
        capsys, "--topology", "fattree:4,2", "--source", "000", "--receivers", "001,110", "--down", "001-s0.00"
    )
    assert code == 1
    assert "001" in err and "1 trees" in out
    code, out, _ = run(
        capsys,
        "--topology",
        "fattree:4,2",
        "--source",
        "000",
        "--receivers",
        "001,110",
        "--down",
        "001-s0.00",
        "--json",
    )
    result = json.loads(out)
    assert (code, result["unreachable"], len(result["trees"])) == (1, ["001"], 1)


def test_svg(capsys, tmp_path):
    for spec, source, to, arcs in (("torus:4,2", "00", "33", None), ("fattree:4,3", "0000", "1111", 6)):
        path = tmp_path / "trees.svg"
        code, out, _ = run(
            capsys, "--topology", spec, "--source", source, "--receivers", to, "--svg", str(path), "--json"
        )
        assert code == 0
        lines = ET.parse(path).getroot().findall("{http://www.w3.org/2000/svg}line")
        drawn = sum("marker-end" in line.attrib for line in lines)
        assert drawn == sum(len(t["arcs"]) for t in json.loads(out)["trees"])
        assert arcs is None or drawn == arcs


def test_an_arc_is_drawn_from_rim_to_rim_each_tree_beside_the_cable():
    g = nx.Graph([("a", "d")])
    g.add_nodes_from("abcd", kind="host")  # two by two: a and d are across, to the right and down
    trees = [SimpleNamespace(id=i, arcs=[("a", "d")], depth=1) for i in range(3)]
    picture = ET.fromstring(draw(g, trees, "a", ["d"]))
    tag = "{http://www.w3.org/2000/svg}"
    names = [text.text for text in picture.iter(tag + "text")]
    circles = [complex(float(one.get("cx")), float(one.get("cy"))) for one in picture.iter(tag + "circle")]
    at = dict(zip(names[: len(circles)], circles, strict=True))
    along = (at["d"] - at["a"]) / abs(at["d"] - at["a"])
    beside = []
    for line in picture.iter(tag + "line"):
        begin, end = (complex(float(line.get(f"x{i}")), float(line.get(f"y{i}"))) for i in (1, 2))
        first, last = (begin - at["a"]) / along, (at["d"] - end) / along
        assert first.real == pytest.approx(16, abs=0.2) and last.real == pytest.approx(16, abs=0.2)
        assert first.imag == pytest.approx(-last.imag, abs=0.2)
        beside.append(first.imag)
    assert beside[0] == pytest.approx(0, abs=0.2) and len(beside) == 4
    assert all(other - one > 1.5 for one, other in pairwise(beside)), "or one hides another"


def test_where_nobody_can_be_reached_there_is_no_tree_and_no_bound(capsys):
    args = ("--topology", "fattree:4,2", "--source", "000", "--receivers", "001", "--down", "001-s0.00", "--json")
    code, out, _ = run(capsys, *args)
    result = json.loads(out)
    assert (code, result["unreachable"], result["trees"]) == (1, ["001"], [])
    assert (result["bound_degree"], result["bound_maxflow"]) == (0, 0) and "source" not in result


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["--topology", "torus:2,3", "--group", "4"], "torus:2,3"),
        (["--topology", "bcube:4,1", "--source", "00", "--receivers", "00"], "00"),
        (["--topology", "bcube:4,1", "--source", "00", "--receivers", "77"], "77"),
        (["--topology", "bcube:4,1", "--source", "77", "--group", "2"], "77"),
        (["--topology", "bcube:4,1", "--group", "16"], "15 hosts"),
        (["--topology", "bcube:4,1", "--group", "2", "--lfr", "2"], "lfr"),
        (["--topology", "bcube:4,1", "--group", "2", "--repeat", "0"], "repeat"),
        (["--topology", "bcube:4,1", "--group", "2", "--down", "00-01"], "00-01"),
        (["--topology", "bcube:4,1"], "--receivers"),
        (["--group", "2"], "--topology"),
        (["--graph", "no-such-file.json", "--group", "2"], "no-such-file.json"),
        (["--topology", "bcube:8,3", "--group", "2", "--svg", "x.svg"], "too many to draw"),
    ],
)
def test_bad_input_names_the_culprit(capsys, args, text):
    code, _, err = run(capsys, *args)
    assert code == 2
    assert text in err
    assert "Traceback" not in err


def _depth(hops):
    tree = nx.DiGraph(hops)
    return nx.dag_longest_path_length(tree)


def test_a_planner_s_trees_have_rates_bounds_and_cuts(capsys, tmp_path):
    picture = tmp_path / "trees.svg"
    args = ("--topology", "bcube:4,1", "--source", "00", "--receivers", "02,31", "--planner", "datacast")
    code, out, _ = run(capsys, *args, "--down", "31-s0.3", "--link", "50mbit", "--svg", str(picture), "--json")
    result = json.loads(out)
    assert code == 0
    assert {name: row["rate_bps"] for name, row in result["receivers"].items()} == {"02": 10**8, "31": 5 * 10**7}
    assert result["receivers"]["31"]["bound_bps"] == 5 * 10**7
    assert result["cuts"]["31"] == {"capacity_bps": 5 * 10**7, "arcs": [["s1.1", "31"]]}
    assert result["gap"] == {"part": 0.0, "receiver": None}
    widths = {line.get("stroke-width") for line in ET.fromstring(picture.read_text()).iter() if line.get("marker-end")}
    assert widths
    legend = [text.text for text in ET.fromstring(picture.read_text()).iter("{http://www.w3.org/2000/svg}text")]
    deepest = max(_depth(tree["hops"]) for tree in result["trees"])
    assert any(f"depth {deepest}" in (text or "") for text in legend), legend
    shown = ET.fromstring((tmp_path / "trees-rates.svg").read_text())
    assert any("50.0 of 50.0" in (text.text or "") for text in shown.iter())


def test_cuts_are_told_of_the_eight_receivers_that_could_have_least(capsys):
    others = ",".join(f"{a}{b}" for a in range(4) for b in range(4) if a or b)
    args = ("--topology", "bcube:4,1", "--source", "00", "--receivers", others, "--planner", "depth-first")
    _, out, _ = run(capsys, *args, "--down", "33-s0.3", "--link", "50mbit", "--json")
    result = json.loads(out)
    bound = {name: row["bound_bps"] for name, row in result["receivers"].items()}
    told = {name: cut["capacity_bps"] for name, cut in result["cuts"].items()}
    assert len(told) == 8 < len(bound) and told["33"] == 5 * 10**7
    assert told == {name: bound[name] for name in told}, "no receiver could have more than its cut lets through"


def bars(picture: Path, **what: str) -> list[float]:
    rows = ET.fromstring(picture.read_text()).iter("{http://www.w3.org/2000/svg}rect")
    return [float(row.attrib["width"]) for row in rows if what.items() <= row.attrib.items()]


def test_what_a_planner_s_answer_lacks_of_the_bound_is_told(capsys, tmp_path):
    args = ("--topology", "bcube:4,1", "--source", "00", "--receivers", "02,31", "--planner", "max-bottleneck")
    code, out, _ = run(capsys, *args, "--link", "50mbit", "--json")
    assert code == 0 and json.loads(out)["gap"] == {"part": 0.5, "receiver": "02"}
    code, out, _ = run(capsys, *args, "--link", "50mbit", "--svg", str(tmp_path / "trees.svg"))
    assert "gap 50.0 % at 02" in out
    assert all(head in out for head in ("tree ", "hops", "parent>child", "bound", "of it", "the cut"))
    picture = tmp_path / "trees-rates.svg"
    assert bars(picture, fill="none") == [400.0, 400.0] and bars(picture, fill="#4a7fb5") == [200.0, 200.0]


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        (("--planner", "fastest"), "no planner 'fastest'"),
        (("--planner", "flat-tree"), "datacast trees --overlay"),
        (("--overlay",), "--overlay goes with --planner"),
        (("--planner", "stable", "--link", "none"), "none"),
    ],
)
def test_a_planner_s_bad_input_names_the_culprit(capsys, extra, text):
    code, _, err = run(capsys, "--topology", "bcube:4,1", "--source", "00", "--receivers", "02,31", *extra)
    assert code == 2
    assert text in err


@pytest.mark.parametrize("planner", ["datacast", "stable", "fpfr", "balanced", "depth-first", "max-bottleneck"])
def test_receivers_beyond_reach_are_named_and_the_others_planned_for(capsys, planner):
    args = ("--topology", "bcube:4,1", "--source", "00", "--receivers", "02,31", "--planner", planner)
    cut = ("--down", "31-s0.3,31-s1.1")
    code, out, err = run(capsys, *args, *cut)
    assert code == 1 and "31" in err and "Traceback" not in err and "every receiver" in out
    code, out, _ = run(capsys, *args, *cut, "--json")
    result = json.loads(out)
    assert code == 1 and result["unreachable"] == ["31"]
    assert list(result["receivers"]) == ["02"] and result["common_bps"] > 0
    code, _, err = run(capsys, *args[:5], "31", *args[6:], *cut)
    assert code == 1 and "31" in err and "Traceback" not in err
