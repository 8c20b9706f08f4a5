"""Which trees the links carry, as groups come and go, and as `GET /topology` tells it."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
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
