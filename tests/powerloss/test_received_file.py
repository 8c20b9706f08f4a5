"""A receiver that loses its power at any moment: what stands under the file's name is the file, and what was said to be
done is there."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import disk
import pytest
from witness import Witness

sys.path.append(str(Path(__file__).resolve().parents[1] / "agent"))
from agent_harness import Net, Transfer, path_direct, random_file

pytestmark = pytest.mark.root
CUTS = int(os.environ.get("DATACAST_CUTS", "300"))
RESUMED = max(4, CUTS // 500)
"""So many of the cuts are given to a real agent that goes on from there."""
SIZE = 1_200_011


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Net]:
    made = Net(tmp_path / "net")
    made.host("a")
    made.host("b")
    made.cable("a", "b", rate="100mbit")
    yield made
    made.close()


def transfer(net: Net, path: Path, dest: str) -> Transfer:
    to = {"b": str(net.agents["b"].folder / dest)}
    return Transfer(net, "a", path, {"b": path_direct()}, to, rate=80_000_000, per_block=10)


@pytest.mark.parametrize("dest", ["got", "new/folders/got"])
def test_a_received_file_is_whole_or_not_there(net: Net, witness: Witness, tmp_path: Path, dest: str):
    source = random_file(tmp_path / "src", SIZE)
    net.start("a")
    agent = net.start("b", dest=witness.root, environment=witness.environment())
    transfer(net, source, dest).deliver()
    witness.mark("done")
    agent.process.send_signal(signal.SIGKILL)
    agent.process.wait()

    ops, content = disk.read(witness.journal), source.read_bytes()
    name = str(witness.root / dest)
    assert {"C", "W", "S", "R", "D"} <= {op.kind for op in ops}
    chosen = []
    for number, (moment, state, rng) in enumerate(disk.cuts(ops, CUTS, 5)):
        found = state.cut(rng)
        where = f"cut {number} after {moment} of {len(ops)} operations"
        assert name in found or not state.marks, f"{where}: what was done is gone"
        assert found.get(name, content) == content, f"{where}: a wrong file under its right name"
        if name not in found and number % (CUTS // RESUMED) == 0:
            chosen.append((number, found))
    assert chosen
    for number, found in chosen:
        folder = witness.lay_out(found, tmp_path / f"cut{number}")
        net.start("b", dest=folder)
        again = transfer(net, source, dest)
        again.deliver()  # compares the file with the source's
        assert not net.agents["b"].leftovers(), f"cut {number}"
        again.close()
        net.agents["b"].stop()
