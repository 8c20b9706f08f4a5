"""A host's range comes from whichever sites have its pieces, and goes on from another where one breaks off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import simulated

from datacast.controller.sites import gateway
from datacast.controller.sites.gateway import Gateway
from datacast.controller.sites.records import SiteGroup
from datacast.controller.sites.sharing import Sharing
from datacast.fabric_manager.api import GroupSpec
from datacast.origins.exchange import packed
from datacast.services.sites_file import SiteError

SIZE = 3 << 20
DATA = bytes(range(251)) * (SIZE // 251 + 1)
GROUP = SiteGroup(id="s-0123456789abcdef", path=["ams"], spec=GroupSpec(receivers="all"), size=SIZE, others=["syd"])


class Sites:
    """`fails`: after so many bytes a site's connection breaks, with this code, for good."""

    def __init__(self, fails: dict[str, tuple[int, str]] | None = None) -> None:
        self.fails, self.gave, self.asked = fails or {}, dict.fromkeys(("ams", "syd"), 0), list[str]()

    async def stream(self, name: str, group: str, first: int, last: int, etag: str) -> AsyncIterator[bytes]:
        self.asked.append(name)
        assert len(self.asked) < 10_000, "asked without an end"
        at = first
        while at <= last:
            after, code = self.fails.get(name, (SIZE + 1, ""))
            n = min(64 << 10, last + 1 - at, after - self.gave[name])
            if n <= 0:
                raise SiteError(f"{name} is away", name, code)
            self.gave[name] += n
            yield DATA[at : at + n]
            at += n


def made(sites: Sites, held: dict[str, slice] | None) -> Gateway:
    found = Gateway(SimpleNamespace(), SimpleNamespace(), sites)  # type: ignore[arg-type]
    if held is not None:
        sharing = found.sharing[GROUP.id] = Sharing(SIZE)
        sharing.have(packed(np.zeros(sharing.total, bool)))
        for name, part in held.items():
            pieces = np.zeros(sharing.total, bool)
            pieces[part] = True
            sharing.told(name, packed(pieces), packed(np.zeros(sharing.total, bool)))
    return found


def read(way: Gateway, first: int = 0, last: int = SIZE - 1, run: Callable[..., Any] = asyncio.run) -> bytes:
    async def all_of_it() -> bytes:
        return b"".join([chunk async for chunk in way.to_host(GROUP, first, last)])

    return run(all_of_it())


def test_a_range_is_put_together_from_those_that_have_its_pieces():
    sites = Sites()
    way = made(sites, {"ams": slice(0, 5), "syd": slice(5, None)})
    assert read(way, 1000, SIZE - 7) == DATA[1000 : SIZE - 6]
    piece = way.sharing[GROUP.id].piece
    assert sites.gave == {"ams": 5 * piece - 1000, "syd": SIZE - 6 - 5 * piece}


@pytest.mark.parametrize("code", ["site_away", "not_yet", "origin_denied", "changed", "bad_answer"])
def test_where_a_sibling_breaks_off_another_goes_on(code: str):
    sites = Sites({"syd": (100_000, code)})
    way = made(sites, {"ams": slice(None), "syd": slice(None)})
    assert way.sharing[GROUP.id].take("syd/0")
    way.sharing[GROUP.id]._exchange.measured("syd/0", 5.0)  # the faster one is asked first
    assert read(way) == DATA[:SIZE]
    assert sites.gave == {"ams": SIZE - 100_000, "syd": 100_000}  # nothing twice
    assert way.sharing[GROUP.id].origins == (["ams", "syd"] if code == "not_yet" else ["ams"])


def test_what_the_site_of_the_order_says_counts():
    sites = Sites({"ams": (0, "changed")})
    with pytest.raises(SiteError, match="ams is away"):
        read(made(sites, {"ams": slice(None)}))


def test_bytes_that_nobody_has_are_waited_for_and_then_given_up():
    sites = Sites()
    with pytest.raises(SiteError, match="no other site has that yet") as caught:
        read(made(sites, {"ams": slice(0, 2)}), run=simulated.run)
    assert caught.value.code == "not_yet" and sites.gave["ams"] == 2 << 18


def test_before_anybody_has_told_the_site_of_the_order_is_asked():
    for held in (None, {}):
        sites = Sites()
        assert read(made(sites, held), 0, 999) == DATA[:1000]
        assert sites.asked == ["ams"]


@pytest.mark.parametrize("away", [("ams",), ("ams", "syd")])
def test_a_range_of_sites_that_are_away_is_given_up(away: tuple[str, ...]):
    """The host gives up before, and asks again: an answer that went on would bring all of it for nobody."""
    sites = Sites(dict.fromkeys(away, (0, "site_away")))

    with pytest.raises(SiteError, match="ams is away") as caught:
        read(made(sites, dict.fromkeys(away, slice(None))), run=simulated.run)
    asked = sites.asked.count("ams")
    assert caught.value.code == "site_away" and 0.9 < asked * gateway.AGAIN_S / gateway.PATIENCE_S < 1.1, asked


async def test_a_host_gets_what_was_read_ahead_and_waits_for_what_has_been_asked_for():
    sites = Sites()
    way = made(sites, {"ams": slice(None)})
    sharing = way.sharing[GROUP.id]
    assert sharing.take("ams/0") and sharing.ask("ams/0") == (0, sharing.piece - 1)

    async def line() -> None:
        for at in range(0, sharing.piece, 64 << 10):
            await asyncio.sleep(0)
            assert sharing.came("ams/0", DATA[at : at + (64 << 10)])

    bringing = asyncio.create_task(line())
    found = b"".join([chunk async for chunk in way.to_host(GROUP, 5, sharing.piece + 9, 8.0)])
    await bringing
    asked = sites.asked
    assert found == DATA[5 : 5 + len(found)] and len(found) == (1 << 18) + 5
    assert asked == ["ams"]  # for the last bytes alone


async def test_a_host_leaves_to_the_lines_what_they_will_bring() -> None:
    """Its request and a line's would both bring it. The question for the size, one byte, does not wait."""
    sites = Sites()
    group = GROUP.model_copy(update={"local": "g-0"})
    way = made(sites, {"ams": slice(None)})
    sharing = way.sharing[GROUP.id]
    assert sharing.take("ams/1")  # the first of all begins at 0
    async def line() -> None:
        while not sharing.take("ams/0"):
            await asyncio.sleep(0.001)
        assert sharing._runs["ams/0"].at == 2 * sharing.piece, "where the host waits"
        while (asked := sharing.ask("ams/0")) is not None:
            sharing.came("ams/0", DATA[asked[0] : asked[1] + 1])
        sharing.ended("ams/0", 0.5)

    size = b"".join([chunk async for chunk in way.to_host(group, 0, 0)])
    brings = asyncio.create_task(line())
    first, last = 2 * sharing.piece, 3 * sharing.piece - 1
    found = b"".join([chunk async for chunk in way.to_host(group, first, last)])
    await brings
    assert (size, found) == (DATA[:1], DATA[2 * sharing.piece : 3 * sharing.piece])
    assert sites.asked == ["ams"] and sites.gave["ams"] == 1


def test_what_does_not_come_is_not_waited_for_without_an_end():
    way = made(Sites(), {"ams": slice(None)})
    sharing = way.sharing[GROUP.id]
    assert sharing.take("ams/0") and sharing.ask("ams/0")
    with pytest.raises(SiteError, match="no other site has sent that yet") as caught:
        read(way, run=simulated.run)
    assert caught.value.code == "not_yet"


async def test_another_site_gets_what_was_read_ahead_from_the_controller():
    way = made(Sites(), {"ams": slice(None)})
    sharing = way.sharing[GROUP.id]
    sharing.store.put(0, DATA[:1000])
    group = GROUP.model_copy(update={"local": "g-1"})
    assert b"".join([chunk async for chunk in way.to_site(group, 10, 999)]) == DATA[10:1000]
