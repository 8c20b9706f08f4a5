"""What an agent answers and tells is what masters read: each form whole, and every count of it."""

from __future__ import annotations

from pathlib import Path

import msgspec
from agent_harness import Net, Transfer, path_direct, random_file

from datacast.master import events
from datacast.master.answers import StatAnswer, StatusAnswer, TreeCounts
from datacast.master.requests import OPEN, STAT, STATUS
from datacast.services import framing

PIECE = 8000
OF_A_ROOT = {"seq", "rate_bps", "new_packets", "dup_packets", "interests", "merged", "duplicates", "numbers", "queued"}
SELDOM = {"code", "error", "sends", "origin"}
"""Of one that has failed; of a receiver that sends."""


def test_masters_read_all_that_agents_say(pair: Net, tmp_path: Path) -> None:
    transfer = Transfer(pair, "a", random_file(tmp_path / "src", 300 * PIECE), {"b": path_direct()}, piece=PIECE)
    tree = pair.member("a", {"path": str(tmp_path / "src")}, [pair.member("b", {"dest": "got"})])
    told = transfer.client.request("stat", tree)
    stat = STAT.answers.read(msgspec.Raw(framing.text(told)))
    assert stat["a"] == StatAnswer(ok=True, size=300 * PIECE, **stat["a"].file) and len(stat["a"].file) == 2
    assert stat["b"].ok
    transfer.deliver()
    opened = OPEN.answers.read(msgspec.Raw(framing.text(transfer.open())))
    assert opened["a"].ok and opened["b"].ok

    told = transfer.status()
    status = STATUS.answers.read(msgspec.Raw(framing.text(told)))
    assert set(StatusAnswer.__struct_fields__) - SELDOM <= told["b"].keys()
    assert set(TreeCounts.__struct_fields__) - OF_A_ROOT | {"seq", "interests"} <= told["b"]["trees"]["7"].keys()
    assert told["a"]["trees"]["7"].keys() >= OF_A_ROOT
    assert (status["a"].role, status["b"].role, status["b"].state) == ("source", "receiver", "done")
    assert status["b"].bytes == status["b"].trees["7"].bytes == 300 * PIECE == status["a"].trees["7"].seq * PIECE
    assert status["b"].t_done_ns and (status["a"].n, status["b"].n) == (0, 0)

    read = [events.read(framing.text(event)) for event in transfer.client.events]
    assert {type(event) for event in read} >= {events.First, events.Progress, events.Digests, events.Done}
