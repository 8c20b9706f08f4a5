"""Which trees the links carry, as groups come and go, and as `GET /topology` tells it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import hypothesis.strategies as st
import msgspec
import networkx as nx
from drawing import examples
from hypothesis import given, settings
from small import star

from datacast.fabric_manager.api import GroupSpec
from datacast.fabric_manager.api.reports import Progress, TreeFigures
from datacast.fabric_manager.api.topology import LoadedTopology
from datacast.fabric_manager.carried import Carried
from datacast.fabric_manager.fabric import Fabric
from datacast.fabric_manager.record import Record


def test_links_tell_each_tree_and_its_direction_until_its_group_ends() -> None:
    fabric = Fabric(star(3))
    carried = Carried(fabric.graph)
    (switch,) = (name for name, node in fabric.nodes.items() if node.kind == "switch")
    spec = GroupSpec(source="h0", source_path="/f", receivers=["h1"], dest_path="f")
    trees = {"7": TreeFigures(arcs=[("h0", switch), (switch, "h1")])}
    record = replace(Record(id="g-1", spec=spec), progress=Progress(trees=trees))
    assert set(carried.follow(record, False)) == {("h0", switch, 1), (switch, "h1", 1)}

    def told() -> dict[str, list[dict[str, object]]]:
        """As the controller reads it, by host."""
        answer = json.loads(msgspec.json.encode(carried.topology(fabric.snapshot())))
        assert "type" not in answer and "event" not in answer and answer["version"] == fabric.version
        links = msgspec.convert(answer, LoadedTopology).links
        return {
            next(name for name in (link.u, link.v) if name != switch): [
                msgspec.to_builtins(carries) for carries in link.carries
            ]
            for link in links
        }

    assert told() == {
        "h0": [{"from": "h0", "to": switch, "group": "g-1", "tree": 7}],
        "h1": [{"from": switch, "to": "h1", "group": "g-1", "tree": 7}],
        "h2": [],
    }
    carried.follow(record, True)
    assert not any(told().values())


ARCS = st.lists(st.sampled_from([("h0", "s"), ("s", "h1"), ("s", "h2"), ("h1", "s")]), unique=True)
TREES = st.dictionaries(st.sampled_from(["1", "2"]), ARCS | st.none(), max_size=2)


@settings(max_examples=examples(50))
@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), TREES, st.booleans()), max_size=8))
def test_what_changes_adds_up_to_what_all_groups_have_now(
    steps: list[tuple[str, dict[str, list[tuple[str, str]] | None], bool]],
) -> None:
    carried, told, now = Carried(nx.Graph()), Counter[tuple[str, str]](), {"a": {}, "b": {}}
    spec = GroupSpec(source="h0", source_path="/f", receivers=["h1"], dest_path="f")
    for group, trees, ended in steps:
        progress = Progress(trees={tree: TreeFigures(arcs=arcs) for tree, arcs in trees.items()})
        changed = carried.follow(Record(id=group, spec=spec, progress=progress), ended)
        assert all(n for _, _, n in changed), "what stays is not told"
        told.update({(u, v): n for u, v, n in changed})
        now[group] = {} if ended else trees
        each = {name: Counter(arc for arcs in its.values() for arc in arcs or ()) for name, its in now.items()}
        assert {name: {(u, v): n for u, v, n in carried.own(name)} for name in now} == each
        assert {(u, v): n for u, v, n in carried.all()} == each["a"] + each["b"] == +told
        assert not any(n < 0 for n in told.values())


def test_an_arc_of_the_fabric_is_one_object_however_often_it_is_named_and_no_other_is_kept() -> None:
    carried = Carried(Fabric(star(3)).graph)
    (one, strange), (two, _) = (carried.shared([tuple(a.split()) for a in ("h0 s", "h0 h1")]) for _ in range(2))
    assert one is two == ("h0", "s") and strange == ("h0", "h1")
    assert carried.shared([strange])[0] is not carried.shared([("".join(["h", "0"]), "h1")])[0]
