"""Groups whose trees begin at several hosts."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from unittest.mock import Mock

import msgspec
import networkx as nx
import pytest
from small import bcube41, star, until

from datacast.core.trees import Network
from datacast.fabric_manager.api import GroupOptions
from datacast.master.forest import Forest
from datacast.master.grove import TREES_MAX, Agreement, Differ, Grove, ideal_s, joined, plan_roots
from datacast.master.members import Member
from datacast.master.plan import PlanError
from datacast.master.planning import Planning
from datacast.master.roots import Roots
from lab import lab

pytestmark = pytest.mark.simulated


def graph_with(rates: dict[str, int]):
    """A star whose hosts' cables have these rates."""
    g = star(5)
    for u, v, data in g.edges(data=True):
        data.update(up=True, mtu=9000, rate_bps=next((rates[n] for n in (u, v) if n in rates), 100_000_000))
        data.setdefault("ports", {u: 0, v: 0})
    return g


# ---- plans ----
def test_every_root_has_trees_to_all_receivers_but_itself_and_all_cut_the_file_alike() -> None:
    g = bcube41()
    for *_, data in g.edges(data=True):
        data.update(up=True, mtu=9000, rate_bps=50_000_000)
    receivers = ["02", "10", "21", "23"]
    plans = plan_roots(g, ["00", "21", "31"], receivers, GroupOptions(), {}, Network(g))
    assert list(plans) == ["00", "21", "31"]
    assert len({plan.payload for plan in plans.values()}) == 1
    for root, plan in plans.items():
        assert {arc[0] for tree in plan.trees for arc in tree.arcs} - {
            arc[1] for t in plan.trees for arc in t.arcs
        } == {root}
        for tree in plan.trees:
            assert set(tree.routes) == set(receivers) - {root}
    whole = joined(plans)
    assert len(whole.trees) == sum(len(plan.trees) for plan in plans.values())


def test_many_roots_share_the_trees_that_an_agent_takes() -> None:
    g = bcube41()
    for *_, data in g.edges(data=True):
        data.update(up=True, mtu=9000, rate_bps=50_000_000)
    hosts = [n for n, d in g.nodes(data=True) if d["kind"] == "host"]
    plans = plan_roots(g, hosts, hosts, GroupOptions(), {}, Network(g))
    assert len(plans) == 16 and sum(len(plan.trees) for plan in plans.values()) <= TREES_MAX


def test_the_ideal_is_bound_by_the_sources_links_and_by_the_receiver_s_own() -> None:
    size = 100_000_000
    times = {}
    for slow in (20, 50, 100):
        g = graph_with({"h0": slow * 10**6, "h1": slow * 10**6})
        plan = joined(plan_roots(g, ["h0", "h1"], ["h2", "h3"], GroupOptions(), {}, Network(g)))
        ideal = ideal_s(plan, g, ["h2", "h3"], size)
        assert ideal is not None
        times[slow] = ideal * plan.payload / plan.frame_bytes
        assert ideal_s(plan, g, [], size) is None, "the last one has ended while it was planned"
    assert times == pytest.approx({20: 20.0, 50: 8.0, 100: 8.0})


def test_a_root_that_reaches_nobody_is_left_out_and_when_none_does_the_plan_says_so() -> None:
    g = graph_with({})
    g.edges["h1", "s"]["up"] = False
    assert list(plan_roots(g, ["h0", "h1"], ["h2", "h3"], GroupOptions(), {}, Network(g))) == ["h0"]
    g.edges["h0", "s"]["up"] = False
    with pytest.raises(PlanError):
        plan_roots(g, ["h0", "h1"], ["h2", "h3"], GroupOptions(), {}, Network(g))


async def test_who_is_to_fetch_and_has_no_links_as_its_group_begins_is_served_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fabric manager that has just begun to lead may not know of them yet: such a host failed."""
    monkeypatch.setattr("datacast.master.planning.LINKS_S", 0.0)
    roles = ["receiver", "receiver", "source"]
    a, b, c = members = [Member(name, role, "", sends=True) for name, role in zip("abc", roles, strict=True)]
    crew = SimpleNamespace(members={m.name: m for m in members}, roots=members)
    view, plan = SimpleNamespace(expect=lambda *_: None), SimpleNamespace(trees=(), cut_off={})
    planning = Planning(SimpleNamespace(id="g", error=None, view=view), crew, asyncio.Lock())  # type: ignore[arg-type]
    monkeypatch.setattr(planning, "_now", lambda *_: planning._plans.update(a=plan) or plan)
    await planning._patient(["a", "b"], {})
    assert (a.sends, a.aside) == (True, False) and c.state == "failed"
    assert (b.sends, b.aside, b.state) == (False, True, "waiting")


async def test_a_link_that_is_taken_out_of_the_fabric_while_tree_ids_are_asked_for_ends_no_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The plan was held against the fabric as it was then."""
    lay_out = Planning.lay_out

    async def meanwhile(self: Planning) -> None:
        view, whole = self._t.view, self._t.view.graph
        less = whole.copy()
        less.remove_edges_from([*whole.edges])
        self._t.order = msgspec.structs.replace(self._t.order, tree_ids=[])
        ids = self._t.client.tree_ids

        async def gone(count: int) -> list[int]:
            found = await ids(count)
            view.graph = less
            return found

        monkeypatch.setattr(self._t.client, "tree_ids", gone)
        try:
            await lay_out(self)
        finally:
            view.graph = whole
            monkeypatch.setattr(self._t.client, "tree_ids", ids)
        assert view.graph is whole

    monkeypatch.setattr(Planning, "lay_out", meanwhile)
    async with lab(star(4), rates=[20_000.0]) as it:
        it.world.sizes["/srv/file"] = 1_000_000
        asked = {"source": "h0", "other_sources": ["h1"], "receivers": ["h2", "h3"], "source_path": "/srv/file"}
        record = await it.end(await it.client.create_group(asked))
    assert record["state"] == "done", record["error"]


# ---- links ----
def grove_of(g, roots, receivers, in_parts: bool = False) -> Grove:
    number, forests = 0, {}
    for root, plan in plan_roots(g, roots, receivers, GroupOptions(), {}, network := Network(g)).items():
        ids = list(range(number, number := number + len(plan.trees)))
        forests[root] = Forest(
            g, network, root, plan.found, list(plan.found_routes), ids=ids, payload=plan.payload, labels=plan.room
        )
    return Grove(forests, in_parts)


def test_a_root_without_links_loses_its_trees_and_nobody_is_cut_off_for_it() -> None:
    grove = grove_of(graph_with({}), ["h0", "h1"], ["h2", "h3"])
    change = grove.update([("h0", "s", False)], ["h2", "h3"])
    assert change.lost == [0] and not change.cut_off and grove.mute == {"h0"}
    assert grove.update([("h1", "s", False)], ["h2", "h3"]).cut_off == ["h2", "h3"] and not grove.mute
    change = grove.update([("h0", "s", True)], ["h2", "h3"])
    assert change.revived == [0] and not change.lost


def ring() -> nx.Graph:
    """Four hosts that pass on, as tunnels join the hosts of a site."""
    made = nx.Graph(defaults={"queue_packets": 100, "rate_bps": 10**8, "mtu": 9000})
    for n in range(4):
        made.add_node(f"h{n}", kind="host", forwards=True)
    for n in range(4):
        u, v = f"h{n}", f"h{(n + 1) % 4}"
        made.add_edge(u, v, ports={u: 0, v: 1}, up=True, rate_bps=10**8, mtu=9000)
    return made


@pytest.mark.parametrize("first", [0, 1])
def test_links_that_come_back_one_after_another_bring_all_trees_back(first: int) -> None:
    """The one tree that a ring without a link has takes both links of its root: no second one fits beside it."""
    links = [("h0", "h3"), ("h2", "h3")]
    grove = grove_of(ring(), ["h0", "h1"], [f"h{n}" for n in range(4)])
    assert len(grove.ways) == 4
    change = grove.update([(*link, False) for link in links], [f"h{n}" for n in range(4)])
    assert len(change.lost) == 2 and change.cut_off == ["h3"]
    back = grove.update([(*links[first], True)], [f"h{n}" for n in range(4)])
    again = grove.update([(*links[1 - first], True)], [f"h{n}" for n in range(4)])
    assert back.back == ["h3"] and sorted(back.revived + again.revived) == change.lost


def test_a_receiver_that_no_root_reaches_is_cut_off_and_comes_back() -> None:
    grove = grove_of(graph_with({}), ["h0", "h1"], ["h2", "h3"])
    assert grove.update([("h3", "s", False)], ["h2", "h3"]).cut_off == ["h3"]
    assert grove.update([("h3", "s", True)], ["h2", "h3"]).back == ["h3"]


def test_a_root_that_is_a_receiver_counts_as_reached_when_another_reaches_it() -> None:
    grove = grove_of(graph_with({}), ["h0", "h1"], ["h0", "h1", "h2"])
    assert grove.update([("h0", "s", False)], ["h0", "h1", "h2"]).cut_off == ["h0"]


def test_where_each_root_has_parts_those_are_cut_off_that_are_not_with_most_of_the_others() -> None:
    hosts = [f"h{n}" for n in range(4)]
    grove = grove_of(ring(), ["h0", "h2"], hosts, in_parts=True)
    assert not grove.update([("h0", "h1", False)], hosts).cut_off
    assert grove.update([("h2", "h3", False)], hosts).cut_off == ["h1", "h2"], "as many as elsewhere: the first root's"
    assert grove.update([("h0", "h3", False)], hosts).cut_off == ["h0", "h3"]
    assert grove.cut_off == {"h0", "h3"} and grove.mute == {"h0"}
    assert grove.update([("h0", "h1", True)], hosts).back == ["h0"] and not grove.mute


def test_a_resting_root_s_trees_are_no_loss_and_reach_nobody_until_it_wakes() -> None:
    grove = grove_of(graph_with({}), ["h0", "h1"], ["h2", "h3"])
    grove.rest("h0")
    assert set(grove.ways) == {0, 1}
    assert grove.update([("h0", "s", False)], ["h2", "h3"]).nothing
    assert grove.update([("h1", "s", False)], ["h2", "h3"]).cut_off == ["h2", "h3"]
    assert grove.update([("h0", "s", True)], ["h2", "h3"]).nothing, "nobody is back: it does not send"
    assert grove.wake("h0") == [0] and grove.wake("h1") == []
    assert grove.update([], ["h2", "h3"]).back == ["h2", "h3"]


# ---- digests ----
A, B = "a" * 64, "b" * 64


def test_a_digest_counts_when_all_sources_have_told_it_once() -> None:
    agreement, both = Agreement(), {"x", "y"}
    assert agreement.told("x", [(0, A), (1, B)], both) == []
    assert agreement.told("y", [(0, A)], both) == [(0, A)]
    assert agreement.told("y", [(0, A), (1, B)], both) == [(1, B)], "said again, it is told on once"
    assert agreement.told("x", [(0, A.upper())], both) == []


def test_sources_that_differ_are_named_with_the_block() -> None:
    agreement = Agreement()
    agreement.told("x", [(7, A)], {"x", "y"})
    with pytest.raises(Differ, match="block 7 of y differs from that of x"):
        agreement.told("y", [(7, B)], {"x", "y"})


def test_what_only_a_source_that_is_gone_had_not_told_counts_now() -> None:
    agreement = Agreement()
    agreement.told("x", [(0, A), (1, B)], {"x", "y"})
    assert sorted(agreement.left({"x"})) == [(0, A), (1, B)]
    assert agreement.left({"x"}) == []


# ---- whole groups ----
@pytest.mark.parametrize(
    ("suspect", "alive", "away_s", "others", "gone"),
    [
        (True, False, 0.0, "b", True),
        (True, True, 6.0, "b", True),
        (True, True, 4.0, "b", False),
        (False, False, 6.0, "b", False),
        (True, False, 6.0, "", False),
    ],
    ids=["its agent is lost", "away for too long", "away for a moment", "it answers", "nobody else has it"],
)
def test_a_source_that_is_gone_sends_no_more_where_there_is_another(
    suspect: bool, alive: bool, away_s: float, others: str, gone: bool
) -> None:
    members = {name: Member(name, "source", "127.0.0.1:1", sends=True) for name in "a" + others}
    members["a"].suspect, members["a"].away_since = suspect, 100.0 - away_s

    class Crew:
        timeout_s = 5.0
        roots = property(lambda self: [m for m in members.values() if m.sends])

    view = Mock(alive=lambda name: alive)
    transfer = SimpleNamespace(finale=False, scheduler=None, root_of=dict(enumerate(members)), view=view)
    roots, ended = Roots(transfer, Crew(), *[Mock()] * 5), []  # type: ignore[arg-type]
    roots._gone = ended.append  # type: ignore[method-assign]
    roots.look(100.0)
    assert ended == (["a"] if gone else []) and (members["a"].state == "failed") is gone


def test_what_went_over_trees_that_have_ended_who_was_started_again_is_sent_once_more() -> None:
    """It has told that it had it, and lost what it had not verified: such a group did not end."""
    transfer, again = SimpleNamespace(state="running"), Mock()
    pieces = SimpleNamespace(again=again, holds=None, needs=lambda name: False)
    roots = Roots(transfer, Mock(), Mock(), Mock(), Mock(), Mock(), pieces)  # type: ignore[arg-type]
    roots._passed = {3, 5}
    member = Member("h2", "receiver", "", state="open", opened=True)
    roots.returns(member)
    assert not again.called, "it was out of touch, no more"
    member.opened = False
    for _ in range(2):
        roots.returns(member)
    again.assert_called_once_with({3, 5})


async def test_two_sources_send_each_piece_once_between_them() -> None:
    async with lab(star(5), rates=[2000.0, 1000.0]) as it:
        it.world.sizes["/srv/file"] = 20_000_000
        group = await it.client.create_group(
            {"source": "h0", "other_sources": ["h1"], "receivers": "all", "source_path": "/srv/file"}
        )
        record = await it.end(group)
        trees = it.world.trees[group["id"]].values()
        sent, packets = it.world.sent_pieces[group["id"]], [tree.new_packets for tree in trees]
    assert record["state"] == "done" and sorted(record["receivers"]) == ["h2", "h3", "h4"]
    assert record["other_sources"] == ["h1"]
    assert sorted(sent) == list(range(len(sent)))
    assert len(packets) == 2 and 1.5 < packets[0] / packets[1] < 2.5, "by their rates"
    assert record["report"]["ideal_s"] == pytest.approx(1.606, abs=0.01), "by what each receiver's own link carries"


@pytest.mark.parametrize("gone", ["h0", "h1"])
async def test_when_a_source_dies_the_other_sends_the_rest(gone: str) -> None:
    async with lab(star(5), rates=[1500.0]) as it:
        it.world.sizes["/srv/file"] = 60_000_000
        group = await it.client.create_group(
            {"source": "h0", "other_sources": ["h1"], "receivers": ["h2", "h3"], "source_path": "/srv/file"}
        )
        await it.running(group, 1000)
        await it.world.agents[gone].die()
        record = await it.end(group, 30.0)
    assert record["state"] == "done", record["error"]


@pytest.mark.parametrize("other", ["0-", "10000000-"])
async def test_a_source_of_parts_that_no_link_leads_from_any_more_is_given_up_after_a_while(other: str) -> None:
    """What it was to send nobody sent, and the receivers, which another source reached, waited for it for ever."""
    async with lab(star(5), rates=[1500.0]) as it:
        it.world.sizes["/srv/file"] = 60_000_000
        asked = {"source": "h0", "other_sources": ["h1"], "receivers": ["h2", "h3"], "source_path": "/srv/file"}
        asked |= {"holds": {"h0": ["0-"], "h1": [other]}, "options": {"member_timeout_ms": 1500}}
        group = await it.client.create_group(asked)
        await it.running(group, 200)
        it.world.agents["h0"].tell_manager({"type": "link", "port": 0, "up": False, "n": 1, "t_ns": 1})
        record = await it.end(group, 30.0)
    assert (record["state"], (record["error"] or {}).get("code")) == (
        ("done", None) if other == "0-" else ("failed", "nobody_holds")
    )


@pytest.mark.parametrize("before", [False, True])
async def test_of_a_fabric_in_two_parts_with_a_source_of_parts_in_each_one_goes_on(before: bool) -> None:
    """Everybody was reached by one of the sources, lacked what the other had, and waited for it for ever."""
    g = nx.Graph()
    for n in range(4):
        g.add_node(f"h{n}", kind="host", forwards=True)
    for u, v, ports in (("h2", "h0", (0, 0)), ("h0", "h1", (1, 1)), ("h1", "h3", (0, 0))):
        g.add_edge(u, v, ports=dict(zip((u, v), ports, strict=True)), up=True)
    async with lab(g, rates=[1500.0]) as it:
        it.world.sizes["/srv/file"] = 60_000_000
        asked = {"source": "h0", "other_sources": ["h1"], "receivers": ["h2", "h3"], "source_path": "/srv/file"}
        asked |= {"holds": {"h0": ["0-"], "h1": ["0-"]}, "options": {"member_timeout_ms": 1500}}
        group = None if before else await it.client.create_group(asked)
        if group is not None:
            await it.running(group, 200)
        it.world.agents["h0"].tell_manager({"type": "link", "port": 1, "up": False, "n": 1, "t_ns": 1})
        await until(lambda: not it.manager.fabric.link_up("h0", "h1"), "the link is down")
        record = await it.end(group or await it.client.create_group(asked), 30.0)
    assert record["state"] == "partial" and record["receivers"]["h2"]["state"] == "done"
    assert record["receivers"]["h3"]["error"]["code"] == "cut_off"


async def test_sources_with_different_files_fail_the_group_before_anybody_has_a_mixture() -> None:
    async with lab(star(4), rates=[1000.0]) as it:
        it.world.sizes["/srv/file"] = 20_000_000
        it.world.agents["h1"].other_bytes = 1 << 20
        group = await it.client.create_group(
            {"source": "h0", "other_sources": ["h1"], "receivers": ["h2", "h3"], "source_path": "/srv/file"}
        )
        record, digests = await it.end(group), it.world.ops("digest")
    assert record["state"] == "failed" and record["error"]["code"] == "sources_differ"
    assert "do not hold the same file" in record["error"]["message"]
    assert not digests, "nobody could verify a block"


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"other_sources": ["h0"]}, "duplicate_sources"),
        ({"other_sources": ["h9"]}, "unknown_host"),
        ({"other_sources": ["h2"]}, "source_among_receivers"),
        ({"other_sources": ["h1"], "options": {"delivery": "stable"}}, "several_sources"),
    ],
)
async def test_requests_that_make_no_sense_are_refused(spec, code: str) -> None:
    from datacast.services.problems import Problem

    with pytest.raises(Problem) as told:
        async with lab(star(4)) as it:
            await it.client.create_group(
                {"source": "h0", "receivers": ["h2", "h3"], "source_path": "/srv/file", **spec}
            )
    assert told.value.code == code


async def test_a_group_that_has_ended_holds_no_agent_s_connection() -> None:
    """Where requests began at another root meanwhile, the one before kept the group, and its connection, for ever."""
    async with lab(star(5), rates=[300.0]) as it:
        it.world.sizes["/srv/file"] = 12_000_000
        asked = {"source": "h0", "other_sources": ["h1"], "receivers": ["h2", "h3"], "source_path": "/srv/file"}
        group = await it.client.create_group(asked)
        await it.running(group, 20)
        crew = it.masters.groups[group["id"]].crew
        for name in ("h0", "h1", "h0"):
            it.world.agents[name].pause()
            await until(lambda name=name: crew._lead is not None and crew._lead.name != name, "another one leads")
            it.world.agents[name].resume()
            await until(lambda name=name: not crew.members[name].suspect, "it is back")
        record = await it.end(group)
        ((worker, _, _),) = it.masters._workers
        await until(lambda: not worker.groups and not worker._parting, "the worker has let it go")
        used = [shared.name for shared in worker.agents._shared.values() if shared.users]
    assert record["state"] == "done" and not used
