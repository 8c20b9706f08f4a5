"""The log that members are told in order: who comes late is told what it became, not what it was."""

from __future__ import annotations

from typing import Any

import msgspec

from datacast.master.members import Log
from datacast.master.requests import Assign, Cut, Digest, Entry

DIGEST = "5a" * 32


def log_of(*entries: Entry) -> Log:
    log = Log()
    for at, entry in enumerate(entries):
        assert log.add(entry).n == at + 1
    return log


def told(log: Log) -> list[Any]:
    entries = [log[at] for at in range(len(log))]
    assert [entry.n for entry in entries] == list(range(1, len(log) + 1))
    return [list(msgspec.structs.astuple(entry)[0]) for entry in entries]


def test_what_is_cut_off_later_nobody_is_given_and_rows_keep_their_places() -> None:
    """A member may have taken the first rows of an order, and had no room for the others."""
    log = log_of(
        Assign(((1, 0, 0, 10), (2, 0, 10, 10))),
        Digest(((0, DIGEST),)),
        Assign(((1, 10, 20, 10), (2, 10, 30, 10), (1, 20, 40, 10))),
        Cut(((1, 15),)),
        Assign(((1, 30, 50, 10),)),
    )
    assert told(log) == [
        [(1, 0, 0, 10), (2, 0, 10, 10)],
        [(0, DIGEST)],
        [(1, 10, 20, 5), (2, 10, 30, 10), (1, 20, 40, 0)],
        [(1, 15)],
        [(1, 30, 50, 10)],
    ]


def test_a_tree_that_ends_leaves_nothing_and_begins_again_above() -> None:
    log = log_of(Assign(((1, 0, 0, 10),)), Assign(((1, 10, 10, 10),)), Cut(((1, 15),)), Cut(((1, 0),)))
    assert [rows[0][3] for rows in told(log)[:2]] == [0, 0]
    log.add(Assign(((1, 20, 5, 10),)))
    log.add(Cut(((1, 25), (9, 0))))
    assert told(log)[4] == [(1, 20, 5, 5)] and told(log)[0] == [(1, 0, 0, 0)]
