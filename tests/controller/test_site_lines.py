"""A controller reads ahead over some connections to each site: all of it once, while hosts are told what has come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from datacast.controller.sites import exchanges as module
from datacast.controller.sites.exchanges import ROOM_ALL, Exchanges
from datacast.controller.sites.records import Held, SiteGroup
from datacast.controller.sites.sharing import LINES_MOST, ROOM, Sharing
from datacast.fabric_manager.api import GroupSpec
from datacast.origins.exchange import packed, unpacked
from datacast.origins.ranges import piece_bytes
from datacast.services.sites_file import SiteError

SIZE = 12 << 20
PIECES = -(-SIZE // piece_bytes(SIZE))
ID = "s-0123456789abcdef"
DATA = np.random.default_rng(1).bytes(SIZE)


class Sites:
    """ams has all of it; `breaks`: every so many requests to a site break off after 100 KiB, with this code."""

    def __init__(self, breaks: dict[str, tuple[int, str]] | None = None) -> None:
        self.directory = SimpleNamespace(name="syd")
        self.all = {name: SimpleNamespace(url=f"https://{name}:1") for name in ("ams", "sfo")}
        self.breaks, self.asked, self.sent = breaks or {}, 0, dict.fromkeys(self.all, 0)
        self.most = self.now = 0

    async def held(self, site: str, group: str, version: int) -> Held:
        if version:
            await asyncio.sleep(0.05)
        return Held(version=1, held=packed(np.ones(PIECES, bool)), begun=packed(np.zeros(PIECES, bool)))

    async def stream(self, site: str, group: str, first: int, last: int, etag: str) -> AsyncIterator[bytes]:
        self.asked += 1
        every, code = self.breaks.get(site, (1 << 30, ""))
        end = min(last + 1, first + (100 << 10)) if self.asked % every == 0 else last + 1
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            for at in range(first, end, 64 << 10):
                await asyncio.sleep(0)
                self.sent[site] += min(64 << 10, end - at)
                yield DATA[at : min(end, at + (64 << 10))]
        finally:
            self.now -= 1
        if end <= last:
            raise SiteError(f"{site} breaks off", site, code)


class Hosts:
    """Of the fabric here: they take what they are offered from the store, as far as it has come."""

    def __init__(self, sharing: dict[str, Sharing]) -> None:
        self.sharing, self.got, self.bytes = sharing, np.zeros(PIECES, bool), bytearray(SIZE)
        self.told, self.offered, self.asked = True, 0, 0

    async def offer(self, local: str, offers: list[tuple[int, int]]) -> None:
        s = self.sharing[ID]
        for first, count in offers:
            self.offered += count
            for piece in range(first, first + count):
                at, end = piece * s.piece, min(SIZE, (piece + 1) * s.piece)
                while at < end and (data := s.store.get(at, end - 1)):
                    self.bytes[at : at + len(data)] = data
                    at += len(data)
                self.got[piece] |= at == end

    async def fetched(self, local: str) -> str:
        self.asked += 1
        return packed(self.got) if self.told else ""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AGAIN_S", "OFFER_S", "NEWS_S", "LOOK_S"):
        monkeypatch.setattr(module, name, 0.01)


def group(**more: Any) -> SiteGroup:
    return SiteGroup(id=ID, path=["ams"], spec=GroupSpec(receivers="all"), size=SIZE, **more)


def until(
    sites: Sites, one: SiteGroup, true: Callable[[Hosts], bool], starting: bool = False, told: bool = True
) -> Hosts:
    async def run() -> Hosts:
        sharing: dict[str, Sharing] = {}
        hosts, groups = Hosts(sharing), {} if starting else {ID: one}
        hosts.told = told
        at = Exchanges(hosts, sites, groups, sharing)  # type: ignore[arg-type]
        try:
            async with asyncio.timeout(60.0):
                if starting:
                    with at.starting(one):
                        while not true(hosts):
                            await asyncio.sleep(0.01)
                            at.keep()
                    groups[ID] = one.model_copy(update={"local": "g-1"})
                while not true(hosts):
                    at.keep()
                    await asyncio.sleep(0.01)
        finally:
            await at.stop()
        return hosts

    return asyncio.run(run())


@pytest.mark.parametrize(
    "breaks",
    [{}, {"ams": (3, "site_away")}, {"ams": (2, "not_yet"), "sfo": (5, "site_away")}, {"sfo": (1, "origin_denied")}],
)
def test_all_of_it_comes_whatever_breaks(breaks: dict[str, tuple[int, str]]):
    sites = Sites(breaks)
    hosts = until(sites, group(local="g-1", others=["sfo"]), lambda hosts: bool(hosts.got.all()))
    assert bytes(hosts.bytes) == DATA
    assert sum(sites.sent.values()) <= SIZE * (1.0 if not breaks else 1.1)
    assert min(sites.sent.values()) > 0  # both give
    assert 1 < sites.most <= 2 * LINES_MOST


def test_the_first_bytes_come_while_the_group_here_is_still_made(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "EARLY", 4 << 20)
    sites = Sites()
    until(sites, group(), lambda hosts: ID in hosts.sharing and hosts.sharing[ID].store.used >= 4 << 20, starting=True)
    assert 4 << 20 <= sites.sent["ams"] < (4 << 20) + 4 * piece_bytes(SIZE)


def test_after_a_new_start_nothing_is_read_before_hosts_have_told_what_they_have():
    sites = Sites()
    until(sites, group(local="g-1"), lambda hosts: hosts.asked > 5, told=False)
    assert sites.asked == 0


def test_a_site_without_hosts_that_want_it_reads_nothing_ahead():
    sites = Sites()
    until(sites, group(), lambda hosts: ID in hosts.sharing and "ams" in hosts.sharing[ID].origins)
    assert sites.asked == 0


def test_lines_wait_while_there_is_no_room(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "ROOM_ALL", 2 << 20)

    class Idle(Hosts):
        async def offer(self, local: str, offers: list[tuple[int, int]]) -> None:
            self.offered += 1

    monkeypatch.setitem(globals(), "Hosts", Idle)
    sites = Sites()
    hosts = until(sites, group(local="g-1"), lambda hosts: hosts.offered > 5)
    store = hosts.sharing[ID].store
    assert store.limit == 2 << 20 and store.used < store.limit + LINES_MOST * (64 << 10)
    assert min(ROOM, ROOM_ALL) == ROOM


async def test_other_sites_hear_of_what_has_come_before_hosts_have_it():
    sharing: dict[str, Sharing] = {}
    at = Exchanges(Hosts(sharing), Sites(), {}, sharing)  # type: ignore[arg-type]
    one = group(local="g-1")
    s = sharing[ID] = Sharing(SIZE)
    s.told("ams", packed(np.ones(PIECES, bool)), packed(np.zeros(PIECES, bool)))
    s.have(packed(np.zeros(PIECES, bool)))
    request = s.ask("ams/0") if s.take("ams/0") else None
    assert request
    waiting = asyncio.create_task(at.held(lambda: one, "syd", 2 + s.version, 60.0))
    await asyncio.sleep(0.02)
    s.came("ams/0", bytes(request[1] + 1 - request[0]))
    told = await asyncio.wait_for(waiting, 60.0)
    assert np.flatnonzero(unpacked(told.held, PIECES)).tolist() == [0]
