"""An agent that loses its power at any moment: the note of what it receives is whole, and names nothing that a
master had this host keep, which would be removed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import disk
import pytest
from witness import Witness

sys.path.append(str(Path(__file__).resolve().parents[1] / "agent"))
from agent_harness import Net, Transfer, path_direct, random_file, until

pytestmark = pytest.mark.root
CUTS = int(os.environ.get("DATACAST_CUTS", "300"))


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Net]:
    made = Net(tmp_path / "net")
    made.host("a")
    made.host("b")
    made.cable("a", "b")
    yield made
    made.close()


def lasts(witness: Witness, kind: str, name: str) -> bool:
    """The last change of the note is of this kind, and its folder was synced since."""
    try:
        ops = disk.read(witness.journal)
    except ValueError:  # something is being written down
        return False
    names = [op.kind for op in ops if name in (op.path, op.rest.decode(errors="replace")) or op.kind == "D"]
    return names[-2:] == [kind, "D"]


def test_the_note_of_what_is_left_is_whole_and_of_now(net: Net, witness: Witness, tmp_path: Path):
    note = str(witness.root / ".b.datacast-left")
    net.start("a")
    net.start("b", dest=witness.root, environment=witness.environment())
    to = {"b": str(witness.root / "got")}
    transfer = Transfer(net, "a", random_file(tmp_path / "src", 100_000), {"b": path_direct()}, to)
    for _ in range(3):
        assert all(r["ok"] for r in transfer.open().values())
        until(lambda: lasts(witness, "R", note), "the note lasts")
        witness.mark("noted")
        assert transfer.close(keep=True)["b"]["ok"]
        until(lambda: lasts(witness, "U", note), "there is none, and that lasts")
        witness.mark("kept")
    seen = set()
    for number, (moment, state, rng) in enumerate(disk.cuts(disk.read(witness.journal), CUTS, 6)):
        where, content = f"cut {number} after {moment} operations", state.cut(rng).get(note)
        promised = state.marks[-1:] == ["noted" if note in state.now else "kept"]
        assert content is None or [row[0] for row in json.loads(content)] == ["g-1"], where
        assert not promised or (content is not None) == (note in state.now), f"{where}: the note of before"
        seen.add((promised, content is not None))
    assert len(seen) == 4
