"""What `GET /events` and `GET /groups` of a fabric manager tell of all that there is: a table of what is asked for."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
import routes_once
from small import star

from datacast.fabric_manager.api import GroupSpec
from datacast.fabric_manager.api.records import GroupForgotten
from datacast.fabric_manager.api.topology import LinkChange
from datacast.fabric_manager.fabric import Fabric
from datacast.fabric_manager.groups import Groups, Held
from datacast.fabric_manager.http import make_app
from datacast.fabric_manager.hub import Hub
from datacast.fabric_manager.keys import Kept
from datacast.fabric_manager.record import Record, change
from datacast.fabric_manager.registry import Registry
from datacast.services.store import open_store

routes_once.install()


def record(name: str, at: int, source: str = "h0", state: str = "running", by: str = "", **labels: str) -> Record:
    spec = GroupSpec(source=source, source_path="/f", receivers=["h1"], labels=labels)
    return Record(id=name, spec=spec, state=state, created_ns=at, requested_by=by)  # type: ignore[arg-type]


class World:
    """A fabric manager's HTTP, of some groups, without agents and workers."""

    def __init__(self, *records: Record) -> None:
        self.hub, fabric = Hub(), Fabric(star(2))
        self.store = open_store(":memory:")
        groups = Groups(fabric, Kept(self.store), self.hub.publish)
        groups._groups.update({one.id: Held(one, 1) for one in records})
        self.app = make_app(fabric, groups, self.hub, Registry(fabric, self.hub.publish))

    async def __aenter__(self) -> World:
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(app=self.app), base_url="http://fabric-manager")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()
        await self.store.close()

    def news(self) -> None:
        self.hub.publish(LinkChange(version=2, u="h0", v="s", up=False))
        for name in ("g-1", "g-2"):
            self.hub.publish(change(record(name, 1)))
            self.hub.publish(GroupForgotten(id=name))

    async def heard(self, **asked: str) -> list[str]:
        """What a stream tells until this fabric manager ends, in which time there are news."""
        before = self.hub.streams
        stream = asyncio.create_task(self.http.get("/events", params=asked))
        while self.hub.streams == before:
            await asyncio.sleep(0)
        self.news()
        self.hub.close()
        answer = await stream
        assert answer.status_code == 200 and self.hub.streams == before
        events = [json.loads(line) for line in answer.text.splitlines()]
        assert events.pop(0) == {"type": "hello"}
        return [_short(event) for event in events]


def _short(event: dict[str, Any]) -> str:
    rows = [row["id"] for row in event["groups"]] if event["type"] == "groups" else [event.get("id", "")]
    return " ".join([event["type"], *rows]).strip()


ONE, OTHER = ["group g-1", "forgotten g-1"], ["group g-2", "forgotten g-2"]


@pytest.mark.parametrize(
    "asked, told",
    [
        ({}, ["topology", "groups g-1 g-2", "link", *ONE, *OTHER]),
        ({"topics": "topology"}, ["topology", "link"]),
        ({"topics": "groups"}, ["groups g-1 g-2", *ONE, *OTHER]),
        ({"topics": "groups,topology", "group": "g-1"}, ["topology", "link", *ONE]),
        ({"topics": "groups", "group": "g-2"}, OTHER),
        ({"topics": ""}, []),
        ({"since": "0-7"}, ["topology", "groups g-1 g-2", "link", *ONE, *OTHER]),
        ({"since": "0-7", "group": "g-2"}, ["topology", "groups g-2", "link", *OTHER]),
        ({"since": "0-7", "topics": "groups", "group": "g-9"}, ["groups"]),
    ],
)
async def test_a_stream_of_events_begins_with_what_there_is_and_tells_what_was_asked_for(
    asked: dict[str, str], told: list[str]
) -> None:
    async with World(record("g-2", 2), record("g-1", 1)) as world:
        assert await world.heard(**asked) == told


async def test_who_comes_again_hears_what_was_missed_and_nothing_twice() -> None:
    async with World(record("g-1", 1)) as world:
        world.hub.publish(LinkChange(version=1, u="h1", v="s", up=False))
        last = world.hub.last
        world.hub.publish(change(record("g-1", 1)))
        missed, nothing = [await world.heard(since=last, topics="groups"), await world.heard(since=world.hub.last)]
    assert missed == ["group g-1", *ONE, *OTHER] and nothing == ["link", *ONE, *OTHER]


async def test_an_unknown_topic_is_named() -> None:
    async with World() as world:
        found = (await world.http.get("/events", params={"topics": "groups,weather"})).json()
    assert [found[key] for key in ("status", "code", "what")] == [422, "unknown_topic", "weather"]


@pytest.mark.parametrize(
    "asked, found",
    [
        ([], "abcde"),
        ([("state", "done")], "bd"),
        ([("source", "h1")], "ce"),
        ([("requested_by", "ops")], "ab"),
        ([("requested_by", "ops"), ("state", "done")], "b"),
        ([("label", "job=7")], "acd"),
        ([("label", "job=7"), ("label", "kind=x=y")], "d"),
        ([("label", "job")], ""),
        ([("limit", "2")], "ab"),
        ([("after", "b")], "cde"),
        ([("after", "b"), ("limit", "1"), ("source", "h1")], "c"),
        ([("after", "e")], ""),
    ],
)
async def test_groups_are_listed_oldest_first_and_by_what_is_asked_for(
    asked: list[tuple[str, str]], found: str
) -> None:
    rows = [
        record("e", 3, source="h1"),
        record("d", 2, state="done", job="7", kind="x=y"),
        record("a", 1, by="ops", job="7"),
        record("c", 2, source="h1", by="other", job="7"),
        record("b", 1, state="done", by="ops", job="8"),
    ]
    async with World(*rows) as world:
        assert "".join(row["id"] for row in (await world.http.get("/groups", params=asked)).json()) == found
