"""Frames of the signalling: 4 bytes of length, then that many bytes of UTF-8 JSON, one object (docs/signalling.md).

`Cutter` and `Decoder` are sans-I/O: bytes in, messages out. `read` and `encode` serve asyncio streams.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from datacast.core.errors import DatacastError

if TYPE_CHECKING:
    import asyncio

FRAME_MAX = 4 << 20
_LENGTH = struct.Struct("!I")

Message = dict[str, Any]
T = TypeVar("T")


class FramingError(DatacastError):
    """The peer sent what is no frame; the connection is of no more use. `code` goes into the `error` message."""

    code = "bad_frame"


def _plain(value: Any) -> Any:
    """numpy's numbers are numbers."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no form in JSON")


_writer = msgspec.json.Encoder(enc_hook=_plain)


def text(value: Any) -> bytes:
    """A value as it stands in a frame, or a line."""
    return _writer.encode(value)


def encode(message: Message | msgspec.Struct) -> bytes:
    """One frame. Raises FramingError when the message is longer than a frame may be."""
    body = text(message)
    if len(body) > FRAME_MAX:
        raise FramingError(f"a message of {len(body)} bytes exceeds the limit of {FRAME_MAX}")
    return _LENGTH.pack(len(body)) + body


def _length(head: bytes) -> int:
    (length,) = _LENGTH.unpack(head)
    if length > FRAME_MAX:
        raise FramingError(f"a frame of {length} bytes exceeds the limit of {FRAME_MAX}")
    return length


_reader = msgspec.json.Decoder()


def read_json(reader: msgspec.json.Decoder[T], body: bytes | str | msgspec.Raw) -> T:
    """Raises FramingError: it is no JSON, or not of the reader's shape."""
    try:
        return reader.decode(body)
    except msgspec.ValidationError as error:
        raise FramingError(str(error)) from error
    except (ValueError, RecursionError) as error:
        raise FramingError(f"a frame is not JSON: {error}") from error


def whole(body: bytes) -> Message:
    """All of a message. Raises FramingError."""
    message = read_json(_reader, body)
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise FramingError("a frame is not a JSON object with a type")
    return message


class Cutter(Generic[T]):
    """Cuts a stream of bytes into frames; `read` says what becomes of each."""

    def __init__(self, read: Callable[[bytes], T]) -> None:
        self._read = read
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[T]:
        """Those that are complete now. Raises FramingError; then the stream is lost."""
        self._buffer += data
        messages, at = list[T](), 0
        while len(self._buffer) - at >= _LENGTH.size:
            length = _length(bytes(self._buffer[at : at + _LENGTH.size]))
            end = at + _LENGTH.size + length
            if len(self._buffer) < end:
                break
            messages.append(self._read(bytes(self._buffer[at + _LENGTH.size : end])))
            at = end
        del self._buffer[:at]
        return messages

    def end(self) -> None:
        """The stream is over. Raises FramingError when that is inside a frame."""
        if self._buffer:
            raise FramingError("the connection ended inside a frame")


class Decoder(Cutter[Message]):
    """Messages, all of each."""

    def __init__(self) -> None:
        super().__init__(whole)


async def read(reader: asyncio.StreamReader) -> Message | None:
    """The next message; None at the end of the stream. Raises FramingError, also when it ends inside a frame."""
    import asyncio

    try:
        head = await reader.readexactly(_LENGTH.size)
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise FramingError("the connection ended inside a frame") from error
        return None
    try:
        return whole(await reader.readexactly(_length(head)))
    except asyncio.IncompleteReadError as error:
        raise FramingError("the connection ended inside a frame") from error
