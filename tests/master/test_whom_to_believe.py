"""Whom a master counts as ready, whom it believes, and that it says how its group has ended; the agents play the
signalling only."""

from __future__ import annotations

import time
from unittest.mock import AsyncMock

import pytest
from fake_agents import FakeAgent
from small import bcube41, star, until

from datacast.fabric_manager.api import FabricManagerClient
from datacast.services.problems import Problem
from lab import lab

pytestmark = pytest.mark.simulated

SIZE = 12_000_000
RATE = 700.0


async def test_a_group_that_had_its_quorum_goes_on_with_another_master_whoever_is_done_or_has_failed() -> None:
    """It was ended: only those who had still to be served counted as ready."""
    async with lab(star(4), rates=[RATE]) as it:
        agents = it.world.agents
        for name in ("h2", "h3"):
            agents[name].stall_done = True
        group = await it.start("h0", ["h1", "h2", "h3"], SIZE // 8, quorum=3)
        receivers = (await until(lambda: it.masters.groups.get(group["id"]), "its master")).crew.members
        await until(lambda: receivers["h1"].state == "done", "the first is done")
        agents["h3"].emit(group["id"], {"event": "failed", "code": "disk_full", "error": "no space"})
        await until(lambda: receivers["h3"].state == "failed", "another one fails")

        def told() -> list[str]:
            figures = it.manager.groups.get(group["id"]).progress.receivers
            return [figures[name].state for name in ("h1", "h3") if name in figures]

        await until(lambda: told() == ["done", "failed"], "the fabric manager knows")
        await it.masters.kill(group["id"])
        agents["h2"].stall_done = False
        agents["h3"].stall_done = False
        record = await it.end(group)
    assert record["epoch"] == 2 and record["state"] == "done", record["error"]


async def test_a_receiver_that_has_the_file_from_before_counts_for_the_quorum_and_is_let_go(monkeypatch) -> None:
    """It says so ahead of its answer to `open`, and was taken for one that had never been opened."""
    opens = FakeAgent._open

    def _open(agent, group, part, body):
        answer = opens(agent, group, part, body)
        if agent.name == "h1":
            role = agent.roles[group]
            role.state, role.t_done_ns = "done", time.time_ns()
            agent.emit(group, {"event": "done", "t_ns": role.t_done_ns})
        return answer

    monkeypatch.setattr(FakeAgent, "_open", _open)
    async with lab(star(4), rates=[RATE]) as it:
        record = await it.end(await it.start("h0", ["h1", "h2", "h3"], SIZE // 8, quorum=3))
        await until(lambda: not any(agent.roles for agent in it.world.agents.values()), "all have let it go", 10)
    assert record["state"] == "done", record["error"]


async def test_a_group_that_ends_while_it_asks_for_more_tree_ids_says_so(monkeypatch) -> None:
    """Its report was not to be had, and the fabric manager took it for running for ever."""
    refused = Problem(503, "no_store", "no ids just now", remedy="wait")
    monkeypatch.setattr(FabricManagerClient, "tree_ids", AsyncMock(side_effect=refused))
    async with lab(bcube41(), rates=[RATE]) as it:
        it.world.sizes["/srv/file"] = SIZE
        asked = {"source": "00", "other_sources": ["01", "02", "03", "10", "11", "12", "13", "20"]}
        asked |= {"receivers": ["21", "22"], "source_path": "/srv/file"}
        record = await it.end(await it.client.create_group(asked))
    assert (record["state"], record["error"]["message"]) == ("failed", "no ids just now")


async def test_a_host_that_the_master_speaks_with_tells_of_those_it_was_asked_about_alone() -> None:
    """One that was out of touch, and the source, had whoever they named done."""
    async with lab(star(4), agents=["h0", "h1", "h2"], rates=[RATE]) as it:
        agents = it.world.agents
        agents["h2"].stall_done = True
        group = await it.start("h0", ["h1", "h2", "h3"], SIZE // 4, quorum=1)
        crew = (await until(lambda: it.masters.groups.get(group["id"]), "its master")).crew
        await it.running(group, 10)

        def lie(name: str) -> dict:
            return {"type": "event", "group": group["id"], "n": name, "event": "done", "t_ns": 1}

        agents["h0"]._pass_up(lie("h3"))  # it has no agent, and nobody was asked about it
        opens = agents["h1"]._open

        def opened(*given):
            answer = opens(*given)
            if crew.members["h1"].suspect:
                agents["h1"]._pass_up(lie("h2"))
            return answer

        agents["h1"]._open = opened
        agents["h1"].pause()
        await until(lambda: crew.members["h1"].suspect, "it is out of touch")
        agents["h1"].resume()
        await until(lambda: not crew.members["h1"].suspect, "it is back")
        states = crew.members["h2"].state, crew.members["h3"].state
        agents["h2"].stall_done = False
        await it.world.add(["h3"], it.manager.signalling_address)
        record = await it.end(group)
    assert states == ("running", "waiting") and record["state"] == "done"
