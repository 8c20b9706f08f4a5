"""What a service has used for a while, and uses no more, is not kept."""

from __future__ import annotations

from datacast.services.garbage import give_back, resident

PIECES, SIZE = 60_000, 1024


def test_what_is_free_between_what_is_used_goes_back_to_the_system() -> None:
    pieces = [bytes([number % 256]) * SIZE for number in range(PIECES)]
    used = pieces[::1000] + pieces[-1:]
    del pieces
    before = resident()
    give_back()
    assert before - resident() > PIECES * SIZE / 2 and len(used) > 60
