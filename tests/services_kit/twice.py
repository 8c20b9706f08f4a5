"""What is fetched once more when a fetcher was killed."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Answer:
    """Of the object's bytes [first, end) to a host; `sent` of them have left."""

    client: str
    first: int
    end: int
    sent: int


@dataclass(frozen=True)
class Twice:
    """Of a killed host, bytes: what it had asked for and not got whole; what others fetched of that; and what they
    fetched of blocks that it had verified."""

    unfinished: int
    of_that: int
    of_held: int


def twice(told: list[Answer], killed: str, held: tuple[int, set[int]]) -> Twice:
    """`held`: bytes of a block, and the blocks that it had verified."""
    block, whole = held
    asked = {b for one in told if one.client == killed for b in range(one.first // block, -(-one.end // block))}
    other = [b for one in told if one.client != killed for b in range(one.first // block, -(-one.end // block))]
    return Twice(
        block * len(asked - whole),
        block * sum(b in asked - whole for b in other),
        block * sum(b in asked & whole for b in other),
    )


def verified(folder: Path) -> tuple[int, set[int]]:
    """What the table behind an unfinished file says (host_agent/target.c): bytes of a block, verified blocks."""
    [path] = folder.rglob(".*.datacast-g-*")  # not the note of what there is (left.c)
    data = path.read_bytes()
    at = data.rindex(b"dcverif2")
    _, piece, per_block = struct.unpack_from("=QII", data, at + 8)
    rows = data[at + 24 :]
    return piece * per_block, {i // 32 for i in range(0, len(rows) - 31, 32) if any(rows[i : i + 32])}
