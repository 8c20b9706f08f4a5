"""The frames of the signalling: cut anywhere they come out whole, and what is no frame is refused."""

from __future__ import annotations

import asyncio
import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datacast.services.framing import FRAME_MAX, Decoder, FramingError, encode, read

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
MESSAGES = st.lists(
    st.dictionaries(st.text(max_size=8), VALUES, max_size=4).map(lambda d: {**d, "type": "request"}), max_size=5
)


def raw(body: bytes, length: int | None = None) -> bytes:
    return struct.pack("!I", len(body) if length is None else length) + body


@given(MESSAGES, st.lists(st.integers(0, 4000), max_size=8))
def test_messages_survive_any_cutting_of_the_stream(messages: list[dict], cuts: list[int]) -> None:
    stream = b"".join(encode(message) for message in messages)
    decoder, got, at = Decoder(), [], 0
    for cut in [*sorted(cut for cut in cuts if cut < len(stream)), len(stream)]:
        got += decoder.feed(stream[at:cut])
        at = cut
    assert got == messages


def test_a_message_byte_by_byte() -> None:
    decoder = Decoder()
    stream = encode({"type": "ping", "name": "Grüße"})
    got = [message for i in range(len(stream)) for message in decoder.feed(stream[i : i + 1])]
    assert got == [{"type": "ping", "name": "Grüße"}]


REFUSED = {
    "longer than the limit": raw(b"", FRAME_MAX + 1),
    "not JSON": raw(b"{nope}"),
    "not UTF-8": raw(b'{"type":"\xff"}'),
    "UTF-16": raw('{"type":"ping"}'.encode("utf-16")),
    "empty": raw(b""),
    "an array": raw(b"[1]"),
    "without a type": raw(b'{"op":"open"}'),
    "with a type that is no string": raw(b'{"type":1}'),
    "NaN": raw(b'{"type":"ping","x":NaN}'),
    "nested without end": raw(b"[" * 200_000),
}


@pytest.mark.parametrize("stream", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_frame_is_refused(stream: bytes) -> None:
    with pytest.raises(FramingError) as refused:
        Decoder().feed(stream)
    assert refused.value.code == "bad_frame" and refused.value.message


def test_a_length_beyond_the_limit_is_refused_before_its_bytes_come() -> None:
    with pytest.raises(FramingError):
        Decoder().feed(struct.pack("!I", 0xFFFFFFFF))


def test_a_message_too_long_to_send_is_refused() -> None:
    encode({"type": "x", "pad": "y" * (FRAME_MAX - 100)})
    with pytest.raises(FramingError):
        encode({"type": "x", "pad": "y" * FRAME_MAX})


def test_numbers_of_numpy_are_numbers_and_what_is_no_message_is_an_error() -> None:
    message = {"type": "x", "of": [np.float64(1.5), np.int64(3), 2]}
    assert Decoder().feed(encode(message)) == [{"type": "x", "of": [1.5, 3, 2]}]
    with pytest.raises(TypeError, match="object has no form in JSON"):
        encode({"type": "x", "of": object()})


def _read_all(stream: bytes) -> list[dict]:
    async def run() -> list[dict]:
        reader = asyncio.StreamReader()
        reader.feed_data(stream)
        reader.feed_eof()
        got = []
        while (message := await read(reader)) is not None:
            got.append(message)
        return got

    return asyncio.run(run())


def test_an_asyncio_stream_is_read_to_its_end() -> None:
    messages = [{"type": "ping"}, {"type": "ack", "id": 2**53}]
    assert _read_all(b"".join(encode(message) for message in messages)) == messages
    assert _read_all(b"") == []


@pytest.mark.parametrize("cut", [1, 3, 5, 12])
def test_an_asyncio_stream_that_ends_inside_a_frame_is_an_error(cut: int) -> None:
    with pytest.raises(FramingError):
        _read_all(encode({"type": "ping"})[:cut])


def test_integers_and_compact_form() -> None:
    frame = encode({"type": "event", "t_ns": 1_700_000_000_000_000_000})
    assert struct.unpack("!I", frame[:4])[0] == len(frame) - 4
    assert b" " not in frame and json.loads(frame[4:])["t_ns"] == 1_700_000_000_000_000_000
