"""Groups from the order to the end, against agents that play the signalling (services_kit). Real masters as processes
are in test_process.py."""

from __future__ import annotations

import asyncio
import time

import pytest
from small import bcube41, star, until

from datacast.master.answers import StatusAnswer
from datacast.master.opening import stamp_of
from datacast.master.requests import Digest
from lab import lab

pytestmark = pytest.mark.simulated

SIX = ["02", "10", "21", "23", "31", "33"]
FAST = 20_000.0


async def test_a_file_reaches_all_receivers_over_two_trees_and_the_report_says_how() -> None:
    async with lab(bcube41(), rates=[1388.0]) as it:
        last = it.world.agents[SIX[-1]]
        last.stall_done = True
        group = await it.start("00", SIX, 20_000_000)
        await it.running(group)
        parts = [it.world.agents[name].roles[group["id"]] for name in SIX[:-1]]
        await until(lambda: all(part.state == "done" for part in parts), "five have it")
        last.stall_done = False
        record = await it.end(group)
        await until(lambda: len(it.world.ops("close")) == 7, "all are told")
        world, sent, agents = it.world, it.world.sent_pieces[group["id"]], it.world.agents
    closed = world.ops("close")
    (tree,) = [message["tree"] for name, message in world.ops("open") if name == "00"]
    assert sorted(child["n"] for child in tree["c"]) == SIX, "the source tells all six itself, no chain of them"
    report = record["report"]
    assert record["state"] == "done" and record["error"] is None and record["fraction"] == 1.0
    assert {r["state"] for r in record["receivers"].values()} == {"done"}
    assert all(r["sha256_ok"] and r["finish_s"] > 0 and r["goodput_mbps"] > 0 for r in record["receivers"].values())
    assert len(record["trees"]) == 2 and report["trees"]["count"] == 2
    assert report["start_s"] > 0
    assert sum(report["start_ms"].values()) / 1000 == pytest.approx(report["start_s"], abs=0.01)
    assert report["finish_over_ideal"] == pytest.approx(report["finish_s"] / report["ideal_s"])
    times = [r["finish_s"] for r in record["receivers"].values()]
    assert report["finish_s"] == max(times) > min(times)
    assert sorted(sent) == list(range(len(sent))), "every piece goes over one tree once"
    assert report["new_packets"] == len(sent)
    assert sorted(name for name, _ in closed) == sorted(["00", *SIX])
    assert all(not agent.roles for agent in agents.values())


async def test_members_are_told_which_file_of_the_source_it_is() -> None:
    """A receiver that is whole, and that is asked again, has what it has when that is still the same."""
    async with lab(bcube41()) as it:
        group = await it.start("00", ["02", "10"], 100_000)
        await it.end(group)
        assert ({message["all"]["stamp"] for _, message in it.world.ops("open")}) == {"100000-2-1"}
    assert stamp_of(7, {"mtime_ns": 1, "inode": 2}) != stamp_of(7, {"mtime_ns": 2, "inode": 2})
    assert stamp_of(7, {"mtime_ns": 1}) == "", "it says nothing where that is not known"


async def test_payload_and_interests_fit_the_mtu() -> None:
    async with lab(bcube41(), rates=[FAST]) as it:
        report = (await it.end(await it.start("00", SIX, 100_000)))["report"]
    assert report["payload"] + 4 * report["labels"] + 16 == report["mtu"] == 9000


@pytest.mark.parametrize("size", [0, 1, 8999, 1_000_001])
async def test_files_of_odd_sizes(size: int) -> None:
    async with lab(bcube41(), rates=[FAST]) as it:
        record = await it.end(await it.start("00", SIX, size))
    assert record["state"] == "done" and record["size"] == size


async def test_two_groups_at_once_use_different_tree_ids() -> None:
    async with lab(bcube41(), rates=[FAST]) as it:
        groups = [await it.start("00", SIX, 3_000_000), await it.start("12", ["00", "03", "30"], 3_000_000)]
        first, second = [await it.end(group) for group in groups]
    assert first["state"] == second["state"] == "done"
    assert not first["trees"].keys() & second["trees"].keys()


@pytest.mark.parametrize("op", ["stat", "open"])
async def test_a_receiver_that_refuses_does_not_stop_the_others(op: str) -> None:
    async with lab(bcube41(), rates=[FAST]) as it:
        it.world.agents["21"].fail[op] = ("disk_full", "/srv: 3 bytes free")
        record = await it.end(await it.start("00", SIX, 3_000_000))
    assert record["state"] == "partial"
    assert record["receivers"]["21"]["error"] == {"code": "disk_full", "message": "/srv: 3 bytes free"}
    assert all(r["state"] == "done" for name, r in record["receivers"].items() if name != "21")
    assert "21" in record["error"]["message"] and "3 bytes free" in record["error"]["message"]


@pytest.mark.parametrize(("for_s", "state"), [(0.5, "done"), (60.0, "failed")])
async def test_a_receiver_that_has_not_heard_of_a_tree_is_opened_again_but_not_for_ever(
    for_s: float, state: str
) -> None:
    """Its `open` was under way as the tree was planned."""
    async with lab(bcube41(), rates=[FAST]) as it:
        fail = it.world.agents["21"].fail
        fail["assign"] = ("no_tree", "tree 23 is not of this group")
        asyncio.get_running_loop().call_later(for_s, fail.pop, "assign", None)
        receivers = (await it.end(await it.start("00", SIX, 3_000_000)))["receivers"]
    assert receivers.pop("21")["state"] == state
    assert all(r["state"] == "done" for r in receivers.values())


@pytest.mark.parametrize("op", ["stat", "open"])
async def test_a_source_that_looks_through_a_directory_is_asked_until_it_has(op: str) -> None:
    async with lab(bcube41(), rates=[FAST]) as it:
        fail = it.world.agents["00"].fail
        fail[op] = ("walking", "/srv/many: the directory is being looked through, 70000 entries until now")
        asyncio.get_running_loop().call_later(0.5, fail.pop, op, None)
        record = await it.end(await it.start("00", SIX, 3_000_000))
        asked = [name for name, _ in it.world.ops(op)]
        source, receiver = asked.count("00"), asked.count("21")
    assert record["state"] == "done", record
    assert source > 2 and receiver == 1, "who has answered is not asked again"


async def test_a_receiver_that_has_no_room_for_more_extents_gets_them_later() -> None:
    async with lab(bcube41(), rates=[FAST]) as it:
        fail = it.world.agents["21"].fail
        fail["assign"] = ("limit", "tree 23 has too many extents that are not received yet")
        asyncio.get_running_loop().call_later(0.5, fail.pop, "assign", None)
        assert (await it.end(await it.start("00", SIX, 3_000_000)))["state"] == "done"


async def test_one_that_has_no_room_for_more_and_that_no_link_reaches_fails_when_its_links_stay_away() -> None:
    """It answered, and was asked for ever whether it had room yet."""
    async with lab(bcube41(), rates=[FAST]) as it:
        it.world.agents["21"].fail["assign"] = ("limit", "tree 23 has too many extents that are not received yet")
        links_of(it, "21", False, 1)
        await until(lambda: not it.manager.fabric.link_up("21", "s1.1"), "its links are down")
        record = await it.end(await it.start("00", SIX, 3_000_000, member_timeout_ms=1500))
    assert record["state"] == "partial" and record["receivers"]["21"]["error"]["code"] == "cut_off"


async def test_when_every_receiver_refuses_the_group_fails_with_the_reason() -> None:
    async with lab(star(3), rates=[FAST]) as it:
        for name in ("h1", "h2"):
            it.world.agents[name].fail["stat"] = ("outside", "../x is outside /srv")
        record = await it.end(await it.start("h0", ["h1", "h2"], 1000))
    assert record["state"] == "failed" and record["error"]["code"] == "outside"
    assert "h2: ../x is outside /srv" in record["error"]["message"]


def links_of(it, name: str, up: bool, number: int) -> None:
    for port in (0, 1):
        it.world.agents[name].tell_manager({"type": "link", "port": port, "up": up, "n": number + port, "t_ns": 1})


@pytest.mark.parametrize("name", ["00", "21"])
async def test_links_that_are_down_for_two_seconds_as_a_group_begins_fail_nobody(name: str) -> None:
    """The source's, without which nobody gets anything, and a receiver's. The group says what it waits for."""
    async with lab(bcube41(), rates=[FAST]) as it:
        links_of(it, name, False, 1)
        await until(lambda: not it.manager.fabric.link_up(name, f"s1.{name[1]}"), "the links are down")
        group = await it.start("00", SIX, 3_000_000)
        await asyncio.sleep(2.0)
        waiting = await it.client.group(group["id"])
        links_of(it, name, True, 3)
        record = await it.end(group)
    assert record["state"] == "done" and record["error"] is None
    if name == "00":
        assert waiting["state"] == "starting" and waiting["error"]["code"] == "no_path"
        assert "no path over links that are up leads from 00" in waiting["error"]["message"]


async def test_a_source_without_links_fails_when_they_stay_away() -> None:
    async with lab(bcube41(), rates=[FAST]) as it:
        links_of(it, "00", False, 1)
        await until(lambda: not it.manager.fabric.link_up("00", "s1.0"), "the links are down")
        record = await it.end(await it.start("00", SIX, 3_000_000, member_timeout_ms=1500))
    assert record["state"] == "failed" and record["error"]["code"] == "no_tree"


async def test_a_receiver_that_is_cut_off_does_not_stop_the_others() -> None:
    async with lab(bcube41(), rates=[FAST]) as it:
        for n, port in enumerate((0, 1), 1):
            it.world.agents["21"].tell_manager({"type": "link", "port": port, "up": False, "n": n, "t_ns": 1})
        await until(lambda: not it.manager.fabric.link_up("21", "s1.1"), "the links are down")
        record = await it.end(await it.start("00", SIX, 3_000_000, member_timeout_ms=1500))
    assert record["state"] == "partial" and record["receivers"]["21"]["error"]["code"] == "cut_off"
    assert [n for n, r in record["receivers"].items() if r["state"] != "done"] == ["21"]


async def test_a_source_whose_links_are_down_for_a_moment_begins_all_the_same() -> None:
    """An agent that stands still for some tens of milliseconds has all its links down for as long."""
    async with lab(bcube41(), rates=[FAST]) as it:
        agent = it.world.agents["00"]
        for n, port in enumerate((0, 1), 1):
            agent.tell_manager({"type": "link", "port": port, "up": False, "n": n, "t_ns": 1})
        await until(lambda: not it.manager.fabric.link_up("00", "s1.0"), "the links are down")
        group = await it.start("00", SIX, 3_000_000)
        await asyncio.sleep(0.3)
        agent.tell_manager({"type": "link", "port": 1, "up": True, "n": 3, "t_ns": 2})
        record = await it.end(group)
    assert record["state"] == "done", record["error"]


async def test_a_tree_that_a_link_makes_possible_later_carries_data() -> None:
    """The source began with one link; when the other one is back there is one tree more than ever before."""
    async with lab(bcube41(), rates=[300.0]) as it:
        agent = it.world.agents["00"]
        agent.tell_manager({"type": "link", "port": 0, "up": False, "n": 1, "t_ns": 1})
        await until(lambda: not it.manager.fabric.link_up("00", "s0.0"), "the link is down")
        group = await it.start("00", SIX, 3_000_000)
        await it.running(group, 50)
        agent.tell_manager({"type": "link", "port": 0, "up": True, "n": 2, "t_ns": 2})
        record = await it.end(group)
    assert record["state"] == "done", record["error"]
    assert len(record["trees"]) == 2 and all(tree["new_packets"] > 0 for tree in record["trees"].values())


async def test_groups_of_a_worker_share_its_connections_to_agents(monkeypatch) -> None:
    monkeypatch.setattr("datacast.master.agents.MESH_MAX", 0)  # other agents have none
    async with lab(bcube41(), rates=[FAST]) as it:
        agent = it.world.agents["00"]
        await until(lambda: len(agent._writers) == 1, "the worker has a connection ahead")
        groups = [await it.start("00", SIX, 3_000_000) for _ in range(3)]
        most = 0
        for group in groups:
            await it.end(group)
            most = max(most, len(agent._writers))
    assert most == 1


async def test_a_shared_connection_that_is_lost_costs_no_group_anything() -> None:
    async with lab(bcube41(), rates=[400.0]) as it:
        groups = [await it.start("00", SIX, 1_000_000) for _ in range(3)]
        for group in groups:
            await it.running(group)
        for writer in tuple(it.world.agents["00"]._writers):
            writer.close()
        assert [record["state"] for record in [await it.end(group) for group in groups]] == ["done"] * 3


async def test_a_file_that_is_not_there_fails_the_group_with_its_path() -> None:
    async with lab(star(3)) as it:
        group = await it.client.create_group({"source": "h0", "receivers": ["h1"], "source_path": "/srv/none"})
        record = await it.end(group)
    assert record["state"] == "failed" and record["error"]["code"] == "not_found"
    assert "/srv/none" in record["error"]["message"] and record["trees"] == {}


async def test_a_source_file_that_changes_fails_the_group() -> None:
    async with lab(star(3), rates=[500.0]) as it:
        group = await it.start("h0", ["h1", "h2"], 20_000_000)
        await it.running(group)
        it.world.agents["h0"].emit(group["id"], {"event": "failed", "code": "changed", "error": "file changed"})
        record = await it.end(group)
    assert record["state"] == "failed" and record["error"]["code"] == "changed"
    assert {r["state"] for r in record["receivers"].values()} == {"failed"}
    assert {tree["state"] for tree in record["trees"].values()} == {"idle"}, "nothing runs of a group that is over"


@pytest.mark.parametrize("victim", SIX)
async def test_a_receiver_that_dies_is_reported_and_the_others_finish(victim: str) -> None:
    async with lab(bcube41(), rates=[1000.0]) as it:
        group = await it.start("00", SIX, 18_000_000, member_timeout_ms=1500)
        await it.running(group, 200)
        await it.world.agents[victim].die()
        record = await it.end(group)
    assert record["state"] == "partial"
    assert record["receivers"][victim]["state"] == "failed"
    assert record["receivers"][victim]["error"]["code"] == "unreachable"
    assert all(r["state"] == "done" for name, r in record["receivers"].items() if name != victim)


async def test_a_relay_that_dies_does_not_cut_its_children_off(monkeypatch) -> None:
    # A star gives every receiver to the source; a fan-out of two, the least, makes h1 the parent of h3 and h4.
    monkeypatch.setattr("datacast.master.branches.FAN_OUT", 1)
    async with lab(star(5), rates=[1000.0]) as it:
        group = await it.start("h0", ["h1", "h2", "h3", "h4"], 12_000_000, member_timeout_ms=1500)
        await it.running(group, 100)
        await it.world.agents["h1"].die()
        record = await it.end(group)
    assert {n: r["state"] for n, r in record["receivers"].items()} == {
        "h1": "failed",
        "h2": "done",
        "h3": "done",
        "h4": "done",
    }


@pytest.mark.parametrize("victim", ["02", "33"])
async def test_a_receiver_that_stands_still_gets_what_it_missed(victim: str) -> None:
    async with lab(bcube41(), rates=[1000.0]) as it:
        group = await it.start("00", SIX, 40_000_000, member_timeout_ms=20_000)
        await it.running(group, 300)
        it.world.agents[victim].pause()
        told = len(it.world.ops("assign"))
        await until(lambda: len(it.world.ops("assign")) > told + 5, "the others are told more", 20)
        it.world.agents[victim].resume()
        record = await it.end(group, 30)
    assert record["state"] == "done", record["error"]


async def test_an_agent_that_starts_anew_is_told_everything_again() -> None:
    async with lab(bcube41(), rates=[1000.0]) as it:
        group = await it.start("00", SIX, 20_000_000, member_timeout_ms=20_000)
        await it.running(group, 300)
        it.world.agents["21"].roles.clear()
        assert (await it.end(group, 30))["state"] == "done"


async def test_leases_are_renewed_for_as_long_as_it_takes() -> None:
    async with lab(star(3), rates=[300.0]) as it:
        group = await it.start("h0", ["h1", "h2"], 8_000_000, lease_ms=1000)
        record = await it.end(group)
        expired = [agent.expired for agent in it.world.agents.values()]
    assert record["state"] == "done" and record["report"]["finish_s"] > 2.0
    assert expired == [[], [], []]


async def test_cancel_ends_the_group_at_every_member_and_keeps_nothing() -> None:
    async with lab(bcube41(), rates=[200.0]) as it:
        group = await it.start("00", SIX, 50_000_000)
        await it.running(group)
        answer = await it.client.cancel_group(group["id"])
        record = await it.end(group, 3)
        again = await it.client.cancel_group(group["id"])
        await until(lambda: len(it.world.ops("close")) == 7, "all are told")
        closed = it.world.ops("close")
    assert answer["state"] == "cancelling" and record["state"] == again["state"] == "cancelled"
    assert {r["state"] for r in record["receivers"].values()} == {"cancelled"}
    assert sorted(name for name, _ in closed) == sorted(["00", *SIX])
    assert all(message["all"]["keep"] is False for _, message in closed)


async def test_cancel_before_the_members_answer() -> None:
    async with lab(star(3)) as it:
        it.world.agents["h0"].pause()
        group = await it.start("h0", ["h1", "h2"], 1000)
        await it.client.cancel_group(group["id"])
        assert (await it.end(group, 3))["state"] == "cancelled"


async def test_a_slow_tree_is_relieved_at_the_end() -> None:
    async with lab(bcube41(), rates=[1388.0, 1388.0]) as it:
        group = await it.start("00", SIX, 40_000_000)
        await it.running(group, 1000)
        it.world.rates = [1388.0, 60.0]
        record = await it.end(group)
    assert record["state"] == "done" and record["report"]["takeovers"] >= 1
    pieces = 40_000_000 / record["report"]["payload"]
    alone = 500 / 1388 + (pieces - 1000) / 2 / 60
    assert record["report"]["finish_s"] < alone / 2, "it would have sent its half itself"


async def test_a_tree_goes_on_above_the_gap_that_a_cut_left() -> None:
    async with lab(bcube41(), rates=[700.0]) as it:
        group = await it.start("00", SIX, 12_000_000)
        await it.running(group, 100)
        master = it.masters.groups[group["id"]]
        t = master.transfer
        cut = await until(lambda: t.scheduler.release(t.tree_ids[0], time.monotonic()), "it can be cut")
        await master.feeding.cut(cut.tree, cut.seq)
        record = await it.end(group)
        runs = it.world.trees[group["id"]][cut.tree].runs
    assert record["state"] == "done"
    assert runs[-1][0] > cut.seq, "it was used again"


async def test_completion_is_seen_by_polling_when_events_are_lost() -> None:
    async with lab(star(4), rates=[FAST]) as it:
        it.world.agents["h2"].mute_events = True
        assert (await it.end(await it.start("h0", ["h1", "h2", "h3"], 3_000_000)))["state"] == "done"


async def test_events_that_make_no_sense_are_ignored() -> None:
    async with lab(star(3), rates=[1000.0]) as it:
        group = await it.start("h0", ["h1", "h2"], 9_000_000)
        await it.running(group)
        for odd in (
            {"event": "progress"},
            {"event": "progress", "tree": "x", "seq": []},
            {"event": 7},
            {"n": ["h0"]},
        ):
            it.world.agents["h0"].emit(group["id"], odd)
        assert (await it.end(group))["state"] == "done"


async def test_digests_are_the_sources_and_well_formed_or_dropped(caplog) -> None:
    good, wrong = f"{1:064x}", "f" * 64
    odd = [[10**6, wrong], [0, wrong[1:]], [0, "x" * 64], [0, ""]]
    strange = [[True, wrong], [-1, wrong], ["0", wrong], 3, [], [0], [0, good, 1], [0, 7], None]
    async with lab(star(3), rates=[1000.0]) as it:
        group = await it.start("h0", ["h1", "h2"], 9_000_000)
        await it.running(group)
        it.world.agents["h1"].emit(group["id"], {"event": "digests", "blocks": [[0, wrong]]})
        for rows in (3, *([[0, wrong], row] for row in strange)):
            it.world.agents["h0"].emit(group["id"], {"event": "digests", "blocks": rows})
        it.world.agents["h0"].emit(group["id"], {"event": "digests", "blocks": [*odd, [1, good]]})
        record, told = await it.end(group), it.world.ops("digest")
    rows = [row for _, message in told for row in message["all"]["blocks"]]
    assert record["state"] == "done" and rows.count([1, good]) >= 4, "twice to two receivers: the first time and again"
    assert all(row == [row[0], f"{row[0]:064x}"] for row in rows)
    for why in ("h1 dropped: it is not the source", f"{len(odd)} malformed digests of h0"):
        assert why in caplog.text
    assert caplog.text.count("an event that makes no sense") == 1 + len(strange)


async def test_a_lost_connection_to_the_source_is_made_again() -> None:
    async with lab(bcube41(), rates=[1000.0]) as it:
        group = await it.start("00", SIX, 20_000_000)
        await it.running(group, 300)
        for writer in list(it.world.agents["00"]._writers):
            writer.close()
        assert (await it.end(group))["state"] == "done"


async def test_a_source_that_dies_fails_the_group_in_time() -> None:
    async with lab(bcube41(), rates=[1000.0]) as it:
        group = await it.start("00", SIX, 50_000_000, member_timeout_ms=1000)
        await it.running(group, 100)
        await it.world.agents["00"].die()
        record = await it.end(group, 8)
    assert record["state"] == "failed" and record["error"]["code"] == "unreachable"
    assert "source 00" in record["error"]["message"]


async def test_a_fabric_manager_that_is_stopped_leaves_its_groups_alone() -> None:
    async with lab(bcube41(), rates=[700.0]) as it:
        group = await it.start("00", SIX, 4_000_000)
        await it.running(group)
        await it.manager.stop()
        roles = [it.world.agents[name].roles[group["id"]] for name in SIX]
        await until(lambda: all(role.state == "done" for role in roles), "every receiver has it", 20)
        await until(lambda: it.masters.groups[group["id"]].transfer.state == "done", "its master knows")
        assert it.world.ops("close") == [], "another master may still come, and must find that they are done"


async def test_the_last_receiver_that_is_removed_cancels_the_group() -> None:
    async with lab(bcube41(), rates=[300.0]) as it:
        group = await it.start("00", ["02", "10"], 20_000_000)
        await it.running(group, 20)
        for host in ("02", "10"):
            await it.client.remove_receiver(group["id"], host)
        record = await it.end(group)
    assert record["state"] == "cancelled" and record["fraction"] < 1


async def test_progress_is_seen_while_it_runs() -> None:
    async with lab(star(3), rates=[500.0]) as it:
        group = await it.start("h0", ["h1", "h2"], 8_000_000)
        seen = []

        async def look():
            record = await it.client.group(group["id"])
            seen.append(record)
            return record["state"] == "done"

        await until(look, "the group is done")
        await asyncio.sleep(0)
    fractions = [r["fraction"] for r in seen]
    assert fractions == sorted(fractions) and len({round(f, 3) for f in fractions}) >= 4
    middle = next(r for r in seen if 0.3 < r["fraction"] < 0.9)
    assert middle["receivers"]["h1"]["rate_bps"] > 1_000_000
    assert all(tree["rate_bps"] > 0 for tree in middle["trees"].values())


async def test_a_status_that_was_asked_for_before_an_order_makes_nobody_suspect() -> None:
    """Its answer may come when the order is on the log, and not sent yet: that nobody has had it is no news. Taken for
    a loss it cost each member a connection of its own, and all of them an `open`."""
    async with lab(bcube41(), rates=[1388.0]) as it:
        group = await it.start("00", SIX, 12_000_000)
        await it.running(group, 1)
        crew = it.masters.groups[group["id"]].crew
        await until(lambda: all(m.position == crew.entries for m in crew.members.values()), "all have all orders")
        had, opened = crew.entries, len(it.world.ops("open"))
        crew.tell(Digest(()))
        for member in crew.members.values():
            assert crew.noticed(member, StatusAnswer(ok=True, n=had)) and not member.suspect
        await until(lambda: all(m.position == crew.entries for m in crew.members.values()), "and this one")
        record, before, after = await it.end(group), opened, len(it.world.ops("open"))
    assert record["state"] == "done" and before == after
