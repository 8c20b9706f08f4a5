"""The embedded store after a loss of power: what it has answered is there, and nothing that nobody wrote."""

from __future__ import annotations

import os
from pathlib import Path

import disk
import pytest
from witness import Witness

from datacast.services.store.sqlite import SqliteStore

CUTS = int(os.environ.get("DATACAST_CUTS", "300"))
"""`make power-loss` takes ten thousand."""
WRITER = """
import asyncio
from datacast.services.store.sqlite import SqliteStore

async def main():
    store = SqliteStore(ROOT + '/store.db')
    mark('open')
    revisions = {}
    for n in range(60):
        batch = [f'g{(n + k) % 7}' for k in range(1 + n % 3)]
        mark('begin ' + ' '.join(f'{key}={n}' for key in batch))
        done = await asyncio.gather(*(store.put(key, f'{n} ' + 'x' * (n * 97), revisions.get(key, 0)) for key in batch))
        revisions.update(zip(batch, done))
        mark('end ' + ' '.join(f'{key}={n}' for key in batch))
    await store.close()

asyncio.run(main())
"""


def values(marks: list[str]) -> tuple[dict[str, int], dict[str, int]]:
    """By key: the last value that was answered, and the last that may have been written."""
    sure: dict[str, int] = {}
    perhaps: dict[str, int] = {}
    for line in marks:
        word, *pairs = line.split()
        for key, number in (pair.split("=") for pair in pairs):
            (sure if word == "end" else perhaps)[key] = int(number)
    return sure, perhaps


async def stored(path: Path) -> dict[str, str]:
    store = SqliteStore(str(path))
    try:
        return {entry.key: entry.value for entry in await store.list("g")}
    finally:
        await store.close()


@pytest.mark.slow
async def test_what_was_answered_is_there_and_whole(witness: Witness, tmp_path: Path):
    ops = witness.python(WRITER)
    assert sum(op.kind == "S" for op in ops) > 50, "the store does not sync"
    for number, (moment, state, rng) in enumerate(disk.cuts(ops, CUTS, 4)):
        where = f"cut {number} after {moment} operations"
        folder = witness.lay_out(state.cut(rng), tmp_path / "cut")
        found = await stored(folder / "store.db")
        sure, perhaps = values(state.marks)
        for key, value in found.items():
            head, tail = value.split(" ")
            assert tail == "x" * (int(head) * 97), f"{where}: {key} is torn"
            assert int(head) in {sure.get(key), perhaps.get(key)}, f"{where}: {key} is {head}, was {sure.get(key)}"
        assert sure.keys() <= found.keys(), f"{where}: lost {sure.keys() - found.keys()}"
        assert all(int(found[key].split(" ")[0]) >= n for key, n in sure.items()), f"{where}: an old value is back"
