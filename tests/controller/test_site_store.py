"""What is read ahead is given once, kept while there is room, and bounded."""

from __future__ import annotations

import tracemalloc

from datacast.controller.sites.store import EACH, Store


def test_what_was_put_is_given_from_any_byte_on():
    s = Store(1000)
    s.put(100, b"abcdef")
    s.put(106, b"ghi")
    assert s.get(99, 200) == b"" and s.get(109, 200) == b""
    assert s.get(102, 103) == b"cd" and s.get(102, 200) == b"cdef" and s.get(106, 200) == b"ghi"
    assert s.has(108) and not s.has(99) and s.used == 9


def test_room_is_made_of_what_was_given_and_of_nothing_else():
    s = Store(8 + 2 * EACH)
    s.put(0, b"abcd")
    s.put(4, b"efgh")
    assert s.full()
    assert s.peek(4, 7) == b"efgh" and s.full()  # another site's question counts for nothing
    assert s.get(4, 7) == b"efgh" and s.get(4, 7) == b"efgh"  # it stays until its room is needed
    assert not s.full() and s.get(4, 7) == b"" and s.get(0, 3) == b"abcd"


def test_a_question_for_the_size_takes_nothing():
    s = Store(1 + EACH)
    s.put(0, b"a")
    assert s.get(0, 0) == b"a" and s.full()


def test_what_hosts_have_needs_no_room():
    s = Store(4 + 2 * EACH)
    s.put(0, b"ab")
    s.put(2, b"cd")
    s.put(4, b"ef")
    s.done(0, 3)  # the second one reaches beyond
    assert s.full() and not s.has(0) and s.has(2)
    s.done(2, 6)
    assert not s.full() and s.used < 4


def test_bytes_come_once():
    s = Store(100)
    s.put(0, b"ab")
    s.put(0, b"xyz")
    s.put(7, b"")
    assert s.get(0, 9) == b"ab" and s.used == 2


def test_bytes_that_come_one_by_one_take_no_more_memory_than_there_is_room():
    """A site that trickles filled a room of 32 MiB with 5 GiB of single bytes."""
    s = Store(1 << 20)
    tracemalloc.start()
    try:
        at = 0
        while not s.full() and at < 1 << 18:
            s.put(at, bytes([at % 256]))
            at += 1
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert s.full() and held < 2 << 20
