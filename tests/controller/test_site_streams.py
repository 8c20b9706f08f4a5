"""A range of an object on its way to another site is counted until it ends, however it ends."""

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

from datacast.controller.sites.rest import Streamed

SCOPE = {"type": "http", "asgi": {"spec_version": "2.3"}}


async def _one_chunk() -> AsyncIterator[bytes]:
    yield b"data"


async def _run(receive: Any, send: Any) -> int:
    ended = 0

    async def end() -> None:
        nonlocal ended
        ended += 1

    response = Streamed(_one_chunk(), end, {})
    await response(SCOPE, receive, send)
    return ended


async def test_whoever_goes_before_the_first_byte_leaves_no_stream_behind() -> None:
    async def gone() -> MutableMapping[str, Any]:
        return {"type": "http.disconnect"}

    async def stuck(message: MutableMapping[str, Any]) -> None:
        await asyncio.Event().wait()

    assert await _run(gone, stuck) == 1


async def test_a_range_that_was_sent_ends_once() -> None:
    async def stays() -> MutableMapping[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    assert await _run(stays, send) == 1
    assert b"".join(m.get("body", b"") for m in sent) == b"data"
