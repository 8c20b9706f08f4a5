"""Hosts and switches that join the fabric, and leave it, while all runs."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from small import star, until

from datacast.fabric_manager.api import LinkSpec, NodeSpec, orders
from datacast.fabric_manager.api.topology import LinkChange
from datacast.fabric_manager.fabric import Fabric
from datacast.fabric_manager.keys import Kept
from datacast.fabric_manager.record import load
from datacast.fabric_manager.requests import check_host
from datacast.fabric_manager.told import FabricError, Registration
from datacast.fabric_manager.wiring import Wiring
from datacast.master.forest import Forest
from datacast.master.group import Group
from datacast.master.stable import RatedForest
from datacast.master.view import View
from datacast.services.problems import Problem
from datacast.services.store import Store, StoreError, open_store
from lab import Lab, lab


def host(*to: str, **more: int) -> NodeSpec:
    return NodeSpec(kind="host", links=[LinkSpec(to=name, **more) for name in to])


def test_a_new_host_gets_the_next_ports_and_lives_when_it_registers() -> None:
    fabric = Fabric(star(3), rate_bps=10**8)
    version, ports = fabric.version, fabric.graph.degree("s")
    fabric.add("h9", host("s", rate_bps=10**9))
    link = next(link for link in fabric.snapshot().links if "h9" in (link.u, link.v))
    at = {link.u: link.u_port, link.v: link.v_port}
    assert (at, link.rate_bps, link.up) == ({"h9": 0, "s": ports}, 10**9, False)
    assert fabric.version > version
    message = {"type": "register", "node": "h9", "kind": "host", "addr": "10.0.0.9:7600", "ports": []}
    changes = fabric.register(Registration.read(message), 7, 1)
    assert [c.up for c in changes if isinstance(c, LinkChange)] == [True]


@pytest.mark.parametrize(
    ("name", "spec", "code"),
    [
        ("h9", host("nobody"), "unknown_node"),
        ("h9", host("s", "s"), "bad_topology"),
        ("h9", host("s", to_port=77), "bad_port"),
        ("a b", host("s"), "bad_name"),
        ("h9", host("h9"), "unknown_node"),
    ],
)
def test_what_has_no_place_is_refused(name: str, spec: NodeSpec, code: str) -> None:
    fabric = Fabric(star(3))
    with pytest.raises(FabricError) as caught:
        fabric.add(name, spec)
    assert caught.value.code == code and name not in fabric.graph


def test_one_that_was_taken_away_comes_back_where_it_was() -> None:
    fabric = Fabric(star(3))
    message = {"type": "register", "node": "h1", "kind": "host", "addr": "10.0.0.1:7600", "ports": []}
    fabric.register(Registration.read(message), 7, 1)
    assert [c.up for c in fabric.remove("h1", 2) if isinstance(c, LinkChange)] == [False]
    with pytest.raises(FabricError, match="has no node 'h1'"):
        fabric.register(Registration.read(message), 8, 3)
    assert fabric.disconnect(7, 3) == []
    fabric.restore("h1", 4)
    assert [c.up for c in fabric.register(Registration.read(message), 9, 5) if isinstance(c, LinkChange)] == [True]


H9 = {"kind": "host", "links": [{"to": "s"}]}


async def h9_joins(it: Lab) -> None:
    """The fabric, with an agent."""
    await it.client.add_node("h9", H9)
    await it.world.add(["h9"], it.manager.signalling_address)
    await until(lambda: it.manager.fabric.nodes["h9"].alive, "it is there")


async def test_a_host_joins_while_a_group_runs_gets_a_file_and_leaves() -> None:
    async with lab(star(3), rates=[300.0]) as it:
        runs = await it.start("h0", ["h1"], 200_000_000)
        await h9_joins(it)
        with pytest.raises(Problem) as busy:
            await it.client.remove_node("h1")
        it.world.rates = [20_000.0]
        group = await it.start("h0", ["h9", "h2"], 1_000_000)
        done = await it.end(group)
        with pytest.raises(Problem) as there:
            await it.client.add_node("h9", H9)
        await it.client.remove_node("h9")
        with pytest.raises(Problem) as gone:
            await it.client.create_group({"source": "h0", "receivers": ["h9"], "source_path": "/f"})
        entry = await it.manager.store.get("nodes/h9")
        ended = await it.end(runs)
        await asyncio.sleep(0)
        busy, there, gone = busy.value, there.value, gone.value
    assert done["state"] == "done" == ended["state"], (done["error"], ended["error"])
    assert (busy.status, busy.code) == (409, "busy") and (there.status, there.code) == (409, "exists")
    assert (gone.status, gone.code) == (422, "unknown_host")
    assert entry is not None and '"removed": true' in entry.value


@pytest.mark.parametrize("adopted", [True, False], ids=["of another master", "not"])
@pytest.mark.parametrize("delivery", ["together", "stable"])
async def test_a_host_that_has_joined_since_ends_no_group_that_it_is_added_to(
    adopted: bool, delivery: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trees are over the fabric as it was when the group began: for one that was not there the whole group failed, with
    those that were done. Where no other master goes on it fails alone."""
    if not adopted:
        monkeypatch.setattr(Forest, "knows", lambda self, name: True)
        monkeypatch.setattr(RatedForest, "knows", lambda self, name: True)
    async with lab(star(3), rates=[300.0]) as it:
        group = await it.start("h0", ["h1", "h2"], 20_000_000, delivery=delivery, member_timeout_ms=1000)
        await it.running(group, 1)
        await h9_joins(it)
        await it.client.add_receiver(group["id"], "h9")
        it.world.rates = [20_000.0]
        ended = await it.end(group)
        resumed = ended
        if not adopted:
            assert (await it.client.resume_group(group["id"]))["state"] != "partial"
            resumed = await it.end(group)
    states = {name: told["state"] for name, told in ended["receivers"].items()}
    assert states == {"h1": "done", "h2": "done", "h9": "done" if adopted else "failed"}, ended["error"]
    assert adopted or ended["receivers"]["h9"]["error"]["code"] in ("cut_off", "no_tree"), ended
    assert resumed["state"] == "done", resumed["error"]


async def test_a_host_that_is_wanted_before_a_master_has_heard_of_it_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted, told, apply = asyncio.Event(), Group.on_control, View._apply

    def joins(self: Group, message: orders.ToMaster) -> None:
        told(self, message)
        if isinstance(message, orders.Join):
            asyncio.get_running_loop().call_soon(wanted.set)  # when it is being carried out

    async def hears(self: View, event: Any) -> None:
        if "h9" in str(event):
            await wanted.wait()
        await apply(self, event)

    monkeypatch.setattr(Group, "on_control", joins)
    monkeypatch.setattr(View, "_apply", hears)
    async with lab(star(3), rates=[300.0]) as it:
        group = await it.start("h0", ["h1", "h2"], 20_000_000)
        await it.running(group, 1)
        await h9_joins(it)
        await it.client.add_receiver(group["id"], "h9")
        it.world.rates = [20_000.0]
        ended = await it.end(group)
    states = {name: row["state"] for name, row in ended["receivers"].items()}
    assert states == dict.fromkeys(("h1", "h2", "h9"), "done")


async def test_a_host_is_not_taken_away_while_it_is_written_that_a_group_has_it() -> None:
    """The group had a receiver that was no host."""
    async with lab(star(4), rates=[300.0]) as it:
        group = await it.start("h0", ["h1"], 20_000_000)
        await it.running(group, 1)
        store, told = it.manager.groups.kept.store, list[str]()
        put = store.put

        async def written(key: str, value: str, *words: Any, **more: Any) -> int:
            if key == f"groups/{group['id']}" and "h3" in load(value).receivers and not told:
                try:
                    await it.manager.groups.wiring.delete("h3")
                    told.append("gone")
                except Problem as problem:
                    told.append(problem.code)
            return await put(key, value, *words, **more)

        store.put = written
        await it.client.add_receiver(group["id"], "h3")
        it.world.rates = [20_000.0]
        ended = await it.end(group)
        await it.client.remove_node("h3")
    assert told == ["busy"] and ended["state"] == "done", (told, ended["error"])


async def test_what_was_taken_away_is_shown_and_counted_no_more() -> None:
    """An alert for hosts without an agent, or for links that are down, would never end."""
    async with lab(star(3), rates=[20_000.0]) as it:
        told = []
        spec = {"kind": "host", "links": [{"to": "s"}]}
        for step in (it.client.remove_node, lambda name: it.client.add_node(name, spec)):
            await step("h1")
            await until(lambda: it.manager.fabric.nodes["h1"].registered == bool(told), "as it is now")
            topology, hosts, health = await it.client.topology(), await it.client.hosts(), await it.client.health()
            nodes = {node["name"] for node in topology["nodes"]}
            links = {name for link in topology["links"] for name in (link["u"], link["v"])}
            counts = health["hosts"], health["agents"], health["links_down"]
            told.append((nodes, links, {h["name"] for h in hosts}, counts))
        gone, back = told
    whole = {"h0", "h1", "h2", "s"}
    assert gone == (whole - {"h1"}, whole - {"h1"}, {"h0", "h2"}, (2, 2, 0))
    assert back == (whole, whole, {"h0", "h1", "h2"}, (3, 3, 0))


def wiring_of(fabric: Fabric, store: Store) -> Wiring:
    return Wiring(fabric, Kept(store), lambda change: None, lambda name: [])


async def test_nodes_that_come_at_once_get_a_port_each(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    fabric = Fabric(star(3))
    wiring = wiring_of(fabric, store)
    await asyncio.gather(*(wiring.put(name, host("s")) for name in ("h7", "h8", "h9")))
    again = Fabric(star(3))
    wiring_of(again, store).begin(await store.list(""))
    await store.close()
    now, again = fabric.snapshot(), again.snapshot()
    ports = [link.v_port if link.v == "s" else link.u_port for link in now.links]
    assert sorted(ports) == list(range(6))
    assert again.links == now.links, "all of them are there after a restart"


async def test_one_that_comes_back_with_other_cables_is_told_that_its_place_is_kept(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    fabric = Fabric(star(3))
    wiring = wiring_of(fabric, store)
    await wiring.put("s2", NodeSpec(kind="switch", links=[LinkSpec(to="s")]))
    await wiring.delete("h1")
    told = []
    for spec in (host("s2"), host("s", "s2"), NodeSpec(kind="switch", links=[LinkSpec(to="s")])):
        with pytest.raises(Problem) as refused:
            await wiring.put("h1", spec)
        told.append((refused.value.status, refused.value.code, fabric.nodes["h1"].removed))
    came = await wiring.put("h1", host("s"))
    await store.close()
    assert told == [(409, "has_a_place", True)] * 3 and not came.removed


@pytest.mark.parametrize("other", [{"rate_bps": 10**10}, {"mtu": 9000}, {"port": 1}, {"to_port": 0}])
async def test_one_that_comes_back_with_other_cables_than_it_had_is_not_taken_for_what_it_was(
    other: dict[str, int]
) -> None:
    """It got the old rate, and nobody said so."""
    [(what, asked)] = other.items()
    store = open_store(":memory:")
    wiring = wiring_of(Fabric(star(3), rate_bps=10**9, mtu=1500), store)
    await wiring.delete("h1")
    with pytest.raises(Problem) as refused:
        await wiring.put("h1", host("s", **other))
    came = await wiring.put("h1", host("s", rate_bps=10**9, mtu=1500, port=0, to_port=1))
    await store.close()
    message, removed = refused.value.message, came.removed
    assert f"at s with {what} " in message and f"not {asked}," in message and not removed


@pytest.mark.parametrize("works", [True, False])
async def test_one_that_is_taken_away_is_no_host_of_a_group_while_that_is_written(works: bool) -> None:
    """A group that took it meanwhile had it taken away from it after all, where the store did not take that back."""
    store, fabric = open_store(":memory:"), Fabric(star(3))
    links: list[bool] = []
    wiring = Wiring(
        fabric,
        Kept(store),
        lambda change: links.append(change.up) if isinstance(change, LinkChange) else None,
        lambda name: [],
    )
    message = {"type": "register", "node": "h1", "kind": "host", "addr": "10.0.0.1:7600", "ports": []}
    fabric.register(Registration.read(message), 7, 1)
    put = store.put

    async def written(*words: Any, **more: Any) -> int:
        with pytest.raises(Problem, match="the topology has no host 'h1'"):
            check_host(fabric, "receivers", "h1")
        if not works:
            raise StoreError("no room")
        return await put(*words, **more)

    store.put = written  # type: ignore[method-assign]
    with nullcontext() if works else pytest.raises(Problem, match="no room"):
        await wiring.delete("h1")
    node = fabric.nodes["h1"]
    assert (node.removed, node.registered, fabric.link_up("h1", "s")) == (works, not works, not works)
    assert links == ([False] if works else [False, True])
    await store.close()


async def test_what_was_added_is_there_after_a_restart(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    first, second = Fabric(star(3)), Fabric(star(3))
    wiring = wiring_of(first, store)
    await wiring.put("h8", host("s"))
    await wiring.put("h9", host("s"))
    await wiring.delete("h8")
    wiring_of(second, store).begin(await store.list(""))
    await store.close()
    first, second = first.snapshot(), second.snapshot()
    assert replace(first, version=0) == replace(second, version=0)
    assert [n.removed for n in second.nodes if n.name in ("h8", "h9")] == [True, False]
