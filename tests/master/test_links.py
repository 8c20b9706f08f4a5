"""Who hears of a link, and who does not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from small import star

from datacast import topologies
from datacast.core.trees import Network
from datacast.fabric_manager.api.topology import LinkChange, Topology
from datacast.fabric_manager.fabric import Fabric
from datacast.master.links import Appliance, Change, Links
from datacast.master.view import View


def link(u: str, v: str, up: bool) -> LinkChange:
    return LinkChange(version=1, u=u, v=v, up=up)


def group(links: Links, *arcs: tuple[str, str]):
    heard: list[Change] = []
    watch = links.watch(heard.append)
    if arcs:
        watch.uses(arcs)
    return watch, heard


def test_a_link_is_told_to_those_whose_trees_use_it_in_either_direction() -> None:
    links = Links()
    (_, there), (_, back), (_, elsewhere) = group(links, ("a", "b")), group(links, ("b", "a")), group(links, ("b", "c"))
    links.tell(link("a", "b", False))
    links.tell(link("a", "b", True))
    assert [e.up for e in there] == [e.up for e in back] == [False, True]
    assert elsewhere == []


def test_one_that_plans_hears_of_every_link_and_appliances_are_everybodys() -> None:
    links = Links()
    (_, planning), (_, running) = group(links), group(links, ("a", "b"))
    links.tell(link("c", "d", False))
    links.tell(gone := Appliance("c", False))
    assert planning == [link("c", "d", False), gone] and running == [gone]


def test_what_failed_elsewhere_is_unread_once_and_its_end_is_told_then() -> None:
    links = Links()
    watch, heard = group(links, ("a", "b"))
    links.tell(link("c", "d", False))
    links.tell(link("e", "f", False))
    links.tell(link("e", "f", True))
    assert heard == [], "it is none of its business"
    assert watch.unread() == [("c", "d")] and watch.unread() == []
    links.tell(link("c", "d", True))
    assert heard == [link("c", "d", True)], "its trees were made without that link"


def test_a_link_that_was_down_when_a_group_began_is_told_when_it_comes_back() -> None:
    links = Links()
    links.tell(link("a", "b", False))
    watch, heard = group(links, ("c", "d"))
    assert watch.unread() == [], "it was planned without it"
    links.tell(link("a", "b", True))
    links.tell(link("x", "y", True))  # down since before anybody counted
    assert len(heard) == 2


def test_other_trees_use_other_links() -> None:
    links = Links()
    watch, heard = group(links, ("a", "b"), ("b", "c"))
    watch.uses([("b", "c"), ("c", "d")])
    links.tell(link("a", "b", False))
    assert heard == []
    links.tell(link("c", "d", False))
    assert heard == [link("c", "d", False)]


def test_a_group_that_has_ended_hears_nothing_and_does_not_speak_for_the_next() -> None:
    links = Links()
    watch, heard = group(links, ("a", "b"))
    watch.end()
    other, others = group(links, ("c", "d"))
    watch.uses([("e", "f")])
    watch.end()
    links.tell(link("a", "b", False))
    assert heard == [] and watch.unread() == [] and other.unread() == [("a", "b")]
    links.tell(link("e", "f", False))
    assert others == []
    links.tell(link("c", "d", False))
    assert others == [link("c", "d", False)]


def test_what_groups_put_on_links_is_counted_where_links_come_and_go() -> None:
    client: Any = SimpleNamespace()
    view = View(client)
    view.network = Network(topologies.parse("fattree:4,2"))
    a, b, *_ = [(u, v) for u, v in topologies.parse("fattree:4,2").edges]
    view.carried([(*a, 1), (*b, 2)], whole=True)
    assert view.load_without([]) == {a: 1, b: 2}
    view.carried([(*a, 1)], whole=False)
    view.carried([(*b, -2), ("no", "link", 1)], whole=False)
    assert view.load_without([]) == {a: 2} and view.load_without([a]) == {a: 1}
    assert view.load_without([]) == {a: 2}  # counted once
    less = topologies.parse("fattree:4,2")
    less.remove_node(b[0])
    for name in less.nodes:
        for port, (u, v) in enumerate(less.edges(name)):
            less.edges[u, v]["ports"][name] = port
    view.network = Network(less)
    assert view.load_without([]) == {a: 2}
    view.carried([(*b, 3)], whole=False)
    assert view.load_without([]) == {a: 2} == view.network.load
    view.network = Network(topologies.parse("fattree:4,2"))
    assert view.load_without([]) == {a: 2, b: 3} and view.load_without([]).get(("no", "link"), 0) == 0
    view.carried([(*b, 1)], whole=True)
    assert view.load_without([]) == {b: 1}


def test_trees_that_were_just_planned_count_until_the_fabric_manager_counts_them() -> None:
    client: Any = SimpleNamespace()
    view = View(client)
    view.network = Network(topologies.parse("fattree:4,2"))
    a, b, *_ = [(u, v) for u, v in topologies.parse("fattree:4,2").edges]
    view.carried([], whole=True)
    view.expect("g-1", [a, a, b])
    assert view.load_without([]) == {a: 2, b: 1}
    view.expect("g-1", [b])  # planned again: a link was down
    view.expect("g-2", [b])
    assert view.load_without([]) == {b: 2} == view.network.load
    view.carried([(*b, 1)], whole=False)
    view.counted("g-1")
    view.counted("g-1")
    assert view.load_without([]) == {b: 2}
    view.carried([(*a, 1)], whole=True)  # the rest comes with whole reports
    view.counted("g-2")
    assert view.load_without([]) == {a: 1}


@pytest.mark.parametrize("hosts", [3, 4], ids=["as it was", "one has joined"])
async def test_what_failed_while_the_fabric_manager_was_away_is_told_whatever_has_joined_since(hosts: int) -> None:
    """Where a node had joined meanwhile, a link that had failed was told to no group that used it."""

    def snapshot(count: int, down: str = "") -> Topology:
        whole = Fabric(star(count), rate_bps=10**8).snapshot()
        return replace(whole, links=[replace(link, up=down not in (link.u, link.v)) for link in whole.links])

    view, heard = View(None), list[Change]()  # type: ignore[arg-type]
    await view._apply(snapshot(3))
    view.subscribe(heard.append).uses([("h0", "s"), ("s", "h1")])
    await view._apply(snapshot(hosts, down="h1"))
    await view._apply(snapshot(hosts))
    told = [({e.u, e.v}, e.up) for e in heard if isinstance(e, LinkChange)]
    assert told == [({"h1", "s"}, False), ({"h1", "s"}, True)]
    assert len(heard) == 2 and len(view.graph) == hosts + 1
