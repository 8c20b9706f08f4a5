"""What a site's connections bring from other sites, and what its hosts may ask for: each byte once, whoever goes."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from datacast.controller.sites import sharing as module
from datacast.controller.sites.sharing import LINES_LEAST, LINES_MOST, SLOTS, Sharing
from datacast.origins.dealing import DealingError
from datacast.origins.exchange import packed
from datacast.origins.ranges import piece_bytes

KIB = 1 << 10
SIZE = 24 << 20
STEP = 64 * KIB


def every(total: int) -> str:
    return packed(np.ones(total, bool))


def none(total: int) -> str:
    return packed(np.zeros(total, bool))


class Site:
    """Lines that bring 64 KiB at a time, each site as many of them in a look as its rate says; hosts that have a piece
    a look after it has come."""

    def __init__(self, rates: dict[str, int], size: int = SIZE, wanted: list[tuple[int, int]] | None = None) -> None:
        self.sharing, self.rates, self.size = Sharing(size, seed=1, wanted=wanted), rates, size
        self.came: dict[str, int] = dict.fromkeys(rates, 0)
        self.times = np.zeros(size, np.uint8)
        self.got = ~self.sharing.wanted
        self.sharing.have(packed(self.got))

    def lines(self, site: str) -> list[str]:
        return [f"{site}/{number}" for number in range(LINES_MOST)]

    def step(self, line: str) -> bool:
        """Some bytes over a line. False: there is nothing for it."""
        s = self.sharing
        while (run := s._runs.get(line)) is None or run.at >= run.asked:
            if run is None and not s.take(line):
                return False
            if s.ask(line) is None:
                s.ended(line, 0.5)
        n = min(STEP, run.asked - run.at)
        self.times[run.at : run.at + n] += 1
        self.came[line.rpartition("/")[0]] += n
        assert s.came(line, bytes(n))
        return True

    def look(self) -> None:
        for site, rate in self.rates.items():
            left, lines = rate, self.lines(site)
            while left > 0 and (brought := sum(self.step(line) for line in lines[:left])):
                left -= brought
        for first, count in self.sharing.offers():
            assert not self.got[first : first + count].any()  # nothing that is here
            pieces = np.arange(first, first + count)
            self.got[pieces[self.sharing._came[pieces]]] = True
        self.sharing.have(packed(self.got))

    def until_whole(self, looks: int = 2000) -> int:
        looked = 0
        while not self.got.all():
            looked += 1
            assert looked < looks, self.sharing.offers()
            self.look()
        return looked


def test_only_what_is_wanted_is_read_ahead():
    """Two ranges, one of them inside a piece, one over several with an end inside one."""
    wanted = [(5 * 256 * KIB + 100, 70 * KIB), (40 * 256 * KIB - 9, 6 << 20)]
    site = Site({"near": 24, "far": 8}, wanted=wanted)
    total = site.sharing.total
    for name in ("near", "far"):
        site.sharing.told(name, every(total), none(total))
    assert site.sharing.held() == none(total) and site.sharing.offers() == []
    site.until_whole()
    came = np.zeros(SIZE, np.uint8)
    for first, n in wanted:
        came[first : first + n] = 1
    assert (site.times == came).all()
    held = np.unpackbits(np.frombuffer(bytes.fromhex(site.sharing.held()), np.uint8))[:total]
    assert held.sum() == 1 + 25 and held[[5, 39, 40]].all()  # other sites hear of no more
    assert site.sharing.held(below=True) == every(total)  # what these two have is passed on


def test_two_sites_that_have_it_all_give_as_they_can():
    site = Site({"near": 24, "far": 8})
    total = site.sharing.total
    site.sharing.told("near", every(total), none(total))
    site.sharing.told("far", every(total), none(total))
    took = site.until_whole()
    assert (site.times == 1).all()
    assert 0.15 < site.came["far"] / SIZE < 0.35
    assert took < 1.3 * SIZE / STEP / 32


def test_nobody_is_asked_for_what_it_has_not():
    site = Site({"part": 8})
    total = site.sharing.total
    half = np.zeros(total, bool)
    half[: total // 2] = True
    site.sharing.told("part", packed(half), none(total))
    for _ in range(200):
        site.look()
    assert (site.got == half).all()
    assert site.sharing.offers() == []
    assert site.sharing.way(SIZE - 1, SIZE - 1, set())[0] is None
    site.sharing.told("part", every(total), none(total))
    site.until_whole()
    assert (site.times == 1).all()


def test_a_way_goes_as_far_as_one_site_is_meant_and_to_what_is_here():
    s = Sharing(SIZE)
    first = np.zeros(s.total, bool)
    first[:3] = True
    s.told("a", packed(first), none(s.total))
    s.told("b", packed(~first), none(s.total))
    assert s.way(100, SIZE - 1, set()) == ("a", 3 * s.piece - 1)
    assert s.way(3 * s.piece, SIZE - 1, set()) == ("b", SIZE - 1)
    assert s.way(100, SIZE - 1, {"a"}) == (None, 3 * s.piece - 1)
    s.store.put(8 * s.piece, b"12")
    assert s.way(3 * s.piece, SIZE - 1, set()) == ("b", 8 * s.piece - 1)


def test_what_a_site_that_goes_had_begun_goes_on_where_it_broke_off():
    site = Site({"a": 8, "b": 8})
    s = site.sharing
    for name in site.rates:
        s.told(name, every(s.total), none(s.total))
    for _ in range(5):
        site.look()
    assert any(run.at > run.pieces.first * s.piece for line, run in s._runs.items() if line.startswith("a/"))
    site.rates.pop("a")
    s.away("a")
    assert s.origins == ["b"] and not s.came("a/0", b"late")
    site.until_whole()
    assert (site.times == 1).all()  # also the pieces that had come in part


def test_a_connection_that_breaks_costs_nothing_that_came():
    site = Site({"a": 8})
    s = site.sharing
    s.told("a", every(s.total), none(s.total))
    for number in range(200):
        site.look()
        s.broke(f"a/{number % LINES_MOST}")
        if site.got.all():
            break
    assert site.got.all() and (site.times == 1).all()


def test_what_is_lost_here_is_fetched_again(monkeypatch: pytest.MonkeyPatch):
    """But not at once: a group that goes on hears of what its hosts have one after another."""
    site = Site({"a": 16})
    total = site.sharing.total
    site.sharing.told("a", every(total), none(total))
    site.until_whole()
    version = site.sharing.version
    site.got[5:9] = False
    site.sharing.have(packed(site.got))
    assert site.sharing.version == version and not any(site.sharing.take(f"a/{n}") for n in range(LINES_MOST))
    monkeypatch.setattr(module, "GONE_S", 0.0)
    site.sharing.have(packed(site.got))
    assert site.sharing.version > version  # others hear of it
    site.until_whole()
    piece = site.sharing.piece
    assert (site.times[5 * piece : 9 * piece] == 2).all() and site.times.sum() == SIZE + 4 * piece


def test_a_site_that_has_lost_pieces_is_not_asked_for_them():
    s = Sharing(SIZE)
    s.have(none(s.total))
    s.told("a", every(s.total), none(s.total))
    assert s.take("a/0")
    s.told("a", none(s.total), none(s.total))
    assert s.offers() == [] and not s.take("a/0")
    assert s.way(0, SIZE - 1, set())[0] is None


def test_what_others_have_begun_is_left_to_the_last():
    site = Site({"source": 8})
    s = site.sharing
    busy = np.zeros(s.total, bool)
    busy[: s.total - 4] = True
    s.told("sibling", none(s.total), packed(busy))
    s.told("source", every(s.total), none(s.total))
    s.take("source/0")  # the first byte is asked for by whoever wants the size
    assert s._runs["source/0"].pieces.first == 0
    s.take("source/1")
    assert s._runs["source/1"].pieces.first >= s.total - 4


@pytest.mark.parametrize("early", [0, 2 << 20])
def test_before_the_master_has_told_what_hosts_have_a_little_is_read(early: int):
    s = Sharing(SIZE, early=early)
    s.told("a", every(s.total), none(s.total))
    while any([s.take(f"a/{number}") for number in range(LINES_MOST)]):
        for number in range(LINES_MOST):
            while request := s.ask(f"a/{number}"):
                s.came(f"a/{number}", bytes(request[1] + 1 - request[0]))
            s.ended(f"a/{number}", 1.0)
    assert early <= s.store.used <= (early and early + 4 * s.piece)
    s.have(every(s.total))
    assert s.offers() == [] and not s.take("a/0")  # they have all of it


def test_several_sites_share_the_lines():
    s = Sharing(SIZE)
    s.have(none(s.total))
    for name in "abcdefgh":
        s.told(name, every(s.total), none(s.total))
    taken = [s.take(f"{name}/{number}") for name in "abcdefgh" for number in range(LINES_MOST)]
    assert sum(taken) == 8 * LINES_LEAST
    assert s.offers() == []  # more than hosts can wait for at once: they ask for what has come
    line = "a/0"
    while request := s.ask(line):
        s.came(line, bytes(request[1] + 1 - request[0]))
    assert sum(count for _, count in s.offers()) == s._runs[line].pieces.count
    s.away("b")
    for name in "cdef":
        s.away(name)
    assert len(s._runs) <= SLOTS and sum(count for _, count in s.offers()) > 1


def test_hosts_wait_for_what_was_asked_for_and_get_the_rest_past_the_lines(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "REQUEST_LEAST", 100 * KIB)
    s = Sharing(4 << 20)
    s.have(none(s.total))
    s.told("a", every(s.total), none(s.total))
    s.take("a/0")
    assert s.ask("a/0") == (0, 100 * KIB - 1)
    assert s.coming(0) and s.coming(100 * KIB - 1) and not s.coming(100 * KIB)
    s.apart(120 * KIB, 150 * KIB - 1)
    s.came("a/0", bytes(100 * KIB))
    assert not s.coming(0) and s.ask("a/0") == (100 * KIB, 120 * KIB - 1)
    s.came("a/0", bytes(20 * KIB))
    assert s.ask("a/0") == (150 * KIB, 250 * KIB - 1)
    s.came("a/0", bytes(100 * KIB))
    assert s.ask("a/0") == (250 * KIB, 256 * KIB - 1)
    s.came("a/0", bytes(6 * KIB))
    assert s.ask("a/0") is None
    s.ended("a/0", 1.0)
    assert s.held() == packed(np.arange(s.total) == 0)


async def test_who_waits_hears_of_news():
    s = Sharing(SIZE)
    waiting = asyncio.create_task(s.news(60.0))
    await asyncio.sleep(0)
    s.told("a", every(s.total), none(s.total))
    await asyncio.wait_for(waiting, 60.0)
    await s.news(0.001)


async def test_bytes_that_come_are_news_for_hosts_and_not_for_other_lines():
    """Lines would look, all of them, at each few bytes of any: most of what a controller with many of them did."""
    s = Sharing(SIZE)
    s.have(none(s.total))
    s.told("a", every(s.total), none(s.total))
    s.take("a/0")
    s.ask("a/0")
    line, host = asyncio.create_task(s.news(60.0)), asyncio.create_task(s.more(60.0))
    await asyncio.sleep(0)
    s.came("a/0", b"some")
    await asyncio.wait_for(host, 60.0)
    assert not line.done()
    host = asyncio.create_task(s.more(60.0))
    await asyncio.sleep(0)
    s.ended("a/0", 1.0)
    await asyncio.wait_for(line, 60.0)
    await asyncio.wait_for(host, 60.0)


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


def test_what_a_host_waits_for_is_where_the_next_run_begins() -> None:
    s = Sharing(SIZE)
    assert not s.first(0), "hosts may have it: the lines begin nothing yet"
    s.have(none(s.total))
    s.told("a", every(s.total), none(s.total))
    assert s.take("a/1"), "the first of all begins at 0"
    for at in (40 * s.piece + 7, 30 * s.piece):
        assert s.first(at)
        assert s.take("a/0") and s._runs["a/0"].pieces.first == at // s.piece
        assert not s.first(at), "a line brings it"
        s.broke("a/0")
    assert not s.fails("a", "not_yet") and s.first(SIZE - 1), "it has it soon"
    assert s.fails("a", "origin_denied") and not s.first(SIZE - 1), "who asks past the lines hears why"
    s.told("a", every(s.total), none(s.total))
    assert s.first(SIZE - 1), "it is there again"


def test_who_asks_past_the_lines_asks_for_nothing_that_lines_may_take_meanwhile() -> None:
    s = Sharing(SIZE)
    s.have(packed(np.arange(s.total) < 3))
    s.told("a", every(s.total), none(s.total))
    assert s.way(0, SIZE - 1, set()) == ("a", 3 * s.piece - 1)
    assert s.way(3 * s.piece, SIZE - 1, set()) == ("a", SIZE - 1)


def test_a_site_behind_follows_runs_from_where_they_have_got_to() -> None:
    first, behind = Sharing(SIZE), Sharing(SIZE)
    first.have(none(first.total))
    behind.have(none(behind.total))
    first.told("source", every(first.total))
    assert first.take("source/0") and first.ask("source/0")
    run = first._runs["source/0"]
    behind.told("first", none(first.total), first.begun(), first.heads())
    assert behind.take("first/0") and behind._runs["first/0"].pieces.first == run.pieces.first
    assert first.due(run.at) and first.due(run.end - 1) and first.due(run.end), "what is begun, and what is not yet"
    first.came("source/0", bytes(STEP))
    assert not first.due(0 if run.pieces.first == 0 else run.pieces.first * first.piece), "that has come"


def test_more_connections_ask_a_site_that_is_receiving_itself() -> None:
    for held, lines in ((np.ones, LINES_MOST // 2), (lambda total, kind: np.arange(total) > 0, LINES_MOST)):
        s = Sharing(SIZE)
        s.have(none(s.total))
        s.told("a", packed(held(s.total, bool)))
        assert sum(s.take(f"a/{number}") for number in range(LINES_MOST)) == lines


def test_as_many_connections_ask_a_site_that_has_received_it_all_meanwhile() -> None:
    s = Sharing(64 << 20)
    s.have(none(s.total))
    s.told("a", packed(np.arange(s.total) < s.total // 2), none(s.total))
    assert sum(s.take(f"a/{number}") for number in range(LINES_MOST)) == LINES_MOST
    s.told("a", every(s.total), none(s.total))
    s.broke("a/15")
    assert s.take("a/15")


def test_where_there_is_no_room_what_a_host_waits_for_still_comes() -> None:
    s = Sharing(SIZE, alone=True)
    s.have(none(s.total))
    s.told("a", every(s.total), none(s.total))
    s.store.limit = STEP
    assert s.take("a/0") and s.ask("a/0")
    s.came("a/0", bytes(STEP))
    assert s.store.full() and not s.may_read("a/0") and not s.take("a/1"), "nobody has asked for it: it waits"
    with s.waiting(STEP):
        assert s.may_read("a/0") and s.coming(STEP)
    with s.waiting(20 * s.piece):
        assert not s.may_read("a/0") and s.first(20 * s.piece)
        assert s.take("a/1") and s._runs["a/1"].pieces.first == 20
    assert s.store.get(0, STEP - 1) and s.may_read("a/0"), "a host has it: there is room"


def test_a_site_that_is_to_pass_it_on_is_asked_for_the_front_before_it_has_any() -> None:
    s = Sharing(SIZE, alone=True)
    s.have(none(s.total))
    s.will_have("a")
    assert [s.take(f"a/{n}") for n in range(2)] == [True, True]
    assert [s._runs[f"a/{n}"].pieces.first for n in range(2)] == [0, 2]


def test_pieces_that_a_site_has_lost_break_off_only_what_brings_them() -> None:
    s = Sharing(SIZE, alone=True)
    s.have(none(s.total))
    s.told("a", every(s.total), none(s.total))
    assert s.take("a/0") and s.take("a/1")
    s.told("a", packed(np.arange(s.total) >= 2), none(s.total))
    assert list(s._runs) == ["a/1"] and s.way(0, 9, set())[0] is None
