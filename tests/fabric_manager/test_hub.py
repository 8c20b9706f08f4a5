"""Streams that are not read."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest
from msgspec.structs import replace
from small import star
from starlette.types import Message

from datacast.controller import api as controller
from datacast.fabric_manager import streams
from datacast.fabric_manager.api.topology import LinkChange
from datacast.fabric_manager.fabric import Fabric
from datacast.fabric_manager.hub import QUEUE_MAX, Hub
from datacast.fabric_manager.leadership import LEASE_S
from datacast.services import problems


def change(number: int) -> LinkChange:
    return LinkChange(version=number, u="a", v="b", up=True)


def test_a_stream_that_is_not_read_is_cut_off_and_the_others_go_on() -> None:
    hub = Hub()
    slow, quick = hub.subscribe(lambda event: True), hub.subscribe(lambda event: True)
    for number in range(QUEUE_MAX + 10):
        hub.publish(change(number))
        assert quick.queue.get_nowait() == replace(change(number), event=hub.last)
    assert slow.closed and not quick.closed
    heard = [slow.queue.get_nowait() for _ in range(slow.queue.qsize())]
    assert len(heard) == QUEUE_MAX and heard[-1] is None, "what was queued, then the end"


def test_events_that_were_missed_are_there_for_a_while() -> None:
    hub = Hub()
    begin = hub.last
    for number in range(QUEUE_MAX):
        hub.publish(change(number))
        if number == QUEUE_MAX - 3:
            late = hub.last
    assert [event.version for event in hub.since(late) or []] == [QUEUE_MAX - 2, QUEUE_MAX - 1]
    assert hub.since(hub.last) == []
    assert hub.since(begin) is None, "too long ago"
    assert Hub().since(late) is None and hub.since("x") is None and hub.since(f"{begin[:-1]}99999") is None
    for wrong in ("", "-1", "+1", "²", "x", "1 "):
        assert hub.since(begin[:-1] + wrong) is None, "no number"


def test_half_of_what_a_stream_may_lag_behind_is_kept_to_the_event() -> None:
    hub = Hub()
    marks = [hub.last]
    for number in range(QUEUE_MAX // 2 + 1):
        hub.publish(change(number))
        marks.append(hub.last)
    assert hub.since(marks[0]) is None and len(hub.since(marks[1]) or []) == QUEUE_MAX // 2


def test_of_whole_topologies_the_last_is_kept() -> None:
    """Two thousand were, each with all nodes of a fabric to which as many were added."""
    hub, whole = Hub(), Fabric(star(2)).snapshot()
    marks = [hub.last]
    for event in (whole, change(1), whole, change(2)):
        hub.publish(event)
        marks.append(hub.last)
    assert hub.since(marks[0]) is None is hub.since(marks[1]), "all as it stands"
    assert [type(event).__name__ for event in hub.since(marks[2]) or []] == ["Topology", "LinkChange"]
    assert [type(event).__name__ for event in hub.since(marks[3]) or []] == ["LinkChange"]


def test_a_leader_knows_whether_anybody_follows_it() -> None:
    hub = Hub()
    assert not hub.followed.is_set()
    one, two, other = hub.follow(), hub.follow(), hub.subscribe(lambda event: True)
    for gone, followed in ((other, True), (one, True), (two, False)):
        assert hub.followed.is_set()
        hub.unsubscribe(gone)
        assert hub.followed.is_set() is followed
    assert hub.streams == 0
    hub.publish(change(1))
    assert one.queue.empty() and other.queue.empty(), "who is gone hears no more"


def test_when_a_hub_closes_every_stream_ends() -> None:
    hub = Hub()
    streams = [hub.subscribe(lambda event: True), hub.follow()]
    hub.close()
    assert all(one.closed and one.queue.get_nowait() is None for one in streams)


async def test_a_stream_without_news_says_that_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PING_S", 0.05)
    hub = Hub()
    subscription = hub.subscribe(lambda event: True)
    read = streams.lines(subscription)
    heard = [await anext(read), await anext(read)]
    hub.publish(change(7))
    heard.append(await anext(read))
    subscription.close()
    heard += [line async for line in read]
    kinds = [json.loads(line)["type"] for line in heard]
    assert kinds == ["hello", "ping", "link"]


@pytest.mark.parametrize("gone", ["at once", "at the first line", "never"])
async def test_whoever_reads_a_stream_is_a_subscriber_until_it_goes_also_before_the_first_line(gone: str) -> None:
    """Each that went before it began to read was told of everything for ever, and one that had asked whether this one
    leads was taken for a successor."""
    hub = Hub()
    subscription = hub.follow()
    stream = streams.Stream(subscription, lambda: hub.unsubscribe(subscription))

    async def receive() -> Message:
        if gone == "at once":
            return {"type": "http.disconnect"}
        return await asyncio.Future()

    async def send(message: Message) -> None:
        if gone == "at the first line" and message["type"] == "http.response.body":
            raise ConnectionResetError
        hub.close()

    with contextlib.suppress(ConnectionResetError):
        await stream({"type": "http", "asgi": {"spec_version": "2.3"}}, receive, send)
    assert hub.streams == 0 and not hub.followed.is_set()


def test_whoever_reads_a_stream_waits_for_some_pings_before_nobody_is_there() -> None:
    """And whoever reads a controller's, which passes them on, for the controller to say so."""
    assert 3 * streams.PING_S < problems.SILENCE_S < controller.SILENCE_S / 2
    assert problems.SILENCE_S > LEASE_S, "another leads by then"
