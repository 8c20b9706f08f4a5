"""An agent that answers with anything: what was asked is answered or ends with an error, and no task dies of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import hypothesis.strategies as st
import pytest
from drawing import examples
from hypothesis import given, settings

from datacast.master.answers import Answer
from datacast.master.events import AnyEvent
from datacast.master.requests import PING
from datacast.master.signalling import Branch, Connection, SignallingError
from datacast.services import framing

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
MESSAGE = st.fixed_dictionaries(
    {"type": st.sampled_from(["ack", "ack", "event", "error", "dance"])},
    optional={
        "id": st.just(1) | ANYTHING,
        "results": ANYTHING,
        "error": ANYTHING,
        "event": ANYTHING,
        "group": ANYTHING,
    },
)


async def _ask(answers: list[bytes]) -> tuple[Any, list[Any]]:
    strays: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: strays.append(context))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await framing.read(reader)
        writer.write(b"".join(answers))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    events: list[AnyEvent] = []
    connection = Connection(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", events.append, name="h0")
    await connection.connect(5)
    try:
        result = (await connection.ask(PING, "g", Branch("h0", ""), timeout=5)).read()
    except SignallingError as error:
        result = error
    reading = connection._reading
    assert reading is not None
    await asyncio.wait([reading])
    strays += [reading.exception()] if reading.exception() else []
    server.close()
    return result, strays


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(st.lists(MESSAGE.map(framing.encode) | st.binary(max_size=12), max_size=4))
def test_whatever_an_agent_answers_the_request_ends(answers: list[bytes]) -> None:
    result, strays = asyncio.run(_ask(answers))
    assert isinstance(result, dict | SignallingError), result
    assert not strays


@pytest.mark.parametrize("number", [[1], {}, None, "1"])
async def test_an_acknowledgement_whose_id_is_no_number_is_passed_over(number: Any) -> None:
    strange = json.dumps({"type": "ack", "id": number, "results": {"h0": {"ok": False}}}).encode()
    good = framing.encode({"type": "ack", "id": 1, "results": {"h0": {"ok": True}}})
    frames = [len(strange).to_bytes(4, "big") + strange, good]
    result, strays = await _ask(frames)
    assert result == {"h0": Answer(ok=True)}
    assert not strays
