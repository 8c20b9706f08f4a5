"""What a site's hosts may ask other sites for, and which one is asked: every byte once, whoever goes away."""

from __future__ import annotations

import numpy as np
import pytest

from datacast.controller.sites.sharing import STALE_S, Sharing
from datacast.origins.dealing import DealingError
from datacast.origins.exchange import packed
from datacast.origins.ranges import piece_bytes

KIB = 1 << 10
SIZE = 24 << 20
TICK_S = 0.25


def every(total: int) -> str:
    return packed(np.ones(total, bool))


def none(total: int) -> str:
    return packed(np.zeros(total, bool))


class Site:
    """Hosts that ask for what they are offered, 64 KiB at a time; the news of a piece comes a look later."""

    def __init__(self, rates: dict[str, float], size: int = SIZE) -> None:
        self.sharing, self.rates, self.size = Sharing(size, seed=1), rates, size
        self.came: dict[str, int] = dict.fromkeys(rates, 0)
        self.got = np.zeros(self.sharing.total, bool)
        self.now = 100.0
        self._credit = dict.fromkeys(rates, 0.0)

    def look(self) -> None:
        s = self.sharing
        s.have(packed(self.got))
        offers = [p for first, count in s.offers(self.now) for p in range(first, first + count)]
        assert not self.got[offers].any()  # nothing that is here
        self.now += TICK_S
        for site, rate in self.rates.items():
            self._credit[site] = min(self._credit[site] + rate * TICK_S, 2 * rate * TICK_S)
        for piece in offers:
            site, end = s.way(piece * s.piece, min(self.size, (piece + 1) * s.piece) - 1, set())
            assert site is not None and end == min(self.size, (piece + 1) * s.piece) - 1
            if self._credit.get(site, 0.0) >= s.piece:
                self._credit[site] -= s.piece
                self.came[site] += s.piece
                s.asked(site)
                s.came(site, piece * s.piece, s.piece)
                s.answered(site)
                self.got[piece] = True

    def until_whole(self, looks: int = 2000) -> float:
        began = self.now
        while not self.got.all():
            looks -= 1
            assert looks, self.sharing.offers(self.now)
            self.look()
        return self.now - began


def test_two_sites_that_have_it_all_give_as_they_can():
    site = Site({"near": 3e6, "far": 1e6})
    total = site.sharing.total
    site.sharing.told("near", every(total), none(total))
    site.sharing.told("far", every(total), none(total))
    took = site.until_whole()
    assert sum(site.came.values()) == SIZE  # each piece once
    assert 0.15 < site.came["far"] / SIZE < 0.35
    assert took < 1.25 * SIZE / 4e6


def test_nobody_is_asked_for_what_it_has_not():
    site = Site({"part": 1e6})
    total = site.sharing.total
    half = np.zeros(total, bool)
    half[: total // 2] = True
    site.sharing.told("part", packed(half), none(total))
    for _ in range(200):
        site.look()
    assert (site.got == half).all()
    assert site.sharing.offers(site.now) == []
    assert site.sharing.way(SIZE - 1, SIZE - 1, set())[0] is None
    site.sharing.told("part", every(total), none(total))
    site.until_whole()


def test_a_way_goes_as_far_as_one_site_is_meant():
    s = Sharing(SIZE)
    first = np.zeros(s.total, bool)
    first[:3] = True
    s.told("a", packed(first), none(s.total))
    s.told("b", packed(~first), none(s.total))
    assert s.way(100, SIZE - 1, set()) == ("a", 3 * s.piece - 1)
    assert s.way(3 * s.piece, SIZE - 1, set()) == ("b", SIZE - 1)
    assert s.way(100, SIZE - 1, {"a"}) == (None, 3 * s.piece - 1)


def test_what_a_site_that_goes_had_begun_is_the_others_at_once():
    site = Site({"a": 2e6, "b": 2e6})
    total = site.sharing.total
    for name in site.rates:
        site.sharing.told(name, every(total), none(total))
    for _ in range(8):
        site.look()
    site.rates.pop("a")
    site.sharing.away("a")
    assert site.sharing.origins == ["b"]
    site.until_whole()
    assert sum(site.came.values()) == SIZE


def test_what_a_site_never_sends_is_anybodys_again():
    """It tells that it has it all, and not one byte comes."""
    site = Site({"dumb": 0.0, "good": 2e6})
    total = site.sharing.total
    for name in site.rates:
        site.sharing.told(name, every(total), none(total))
    took = site.until_whole()
    assert site.came == {"dumb": 0, "good": SIZE}
    assert took < SIZE / 2e6 + 4 * STALE_S


def test_what_is_lost_here_is_fetched_again():
    site = Site({"a": 4e6})
    total = site.sharing.total
    site.sharing.told("a", every(total), none(total))
    site.until_whole()
    site.look()
    version = site.sharing.version
    site.got[5:9] = False
    site.look()
    assert site.sharing.version > version  # others hear of it
    site.until_whole()
    assert site.came["a"] == SIZE + 4 * site.sharing.piece


def test_a_site_that_has_lost_pieces_is_not_asked_for_them():
    s = Sharing(SIZE)
    s.told("a", every(s.total), none(s.total))
    s.offers(0.0)
    s.told("a", none(s.total), none(s.total))
    assert s.offers(1.0) == []
    assert s.way(0, SIZE - 1, set())[0] is None


def test_what_others_have_begun_is_left_to_the_last():
    s = Sharing(SIZE, seed=3)
    busy = np.zeros(s.total, bool)
    busy[: s.total - 4] = True
    s.told("source", every(s.total), none(s.total))
    s.told("sibling", none(s.total), packed(busy))
    assert s.offers(0.0)[-1][0] >= s.total - 4


@pytest.mark.parametrize("wrong", ["zz", "00", "f" * 24 + "ff", "ff" * 400])
def test_reports_that_tell_nothing_are_refused(wrong):
    s = Sharing(SIZE)
    with pytest.raises(DealingError):
        s.told("a", wrong, none(s.total))
    with pytest.raises(DealingError):
        s.have(wrong)
    assert s.origins == []


def test_pieces_are_bounded_and_the_same_for_all():
    assert piece_bytes(1) == 256 * KIB
    for size in (1, 256 * KIB, SIZE, (1 << 40) + 1, 1 << 53):
        assert -(-size // piece_bytes(size)) <= 1024
