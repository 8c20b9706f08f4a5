"""An object's bytes through this controller: to another site, from the hosts here that have them; to the hosts here,
from another site. What this controller has read ahead (sharing.py) is given first; what it has not is passed on while
it comes in.

Bytes that are still on their way to this site are waited for, a moment; then whoever asks asks again. So a site that
stands behind another gets each piece a little later than that one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import AsyncGenerator

from datacast.fabric_manager.api import FabricManagerClient
from datacast.services.problems import Problem
from datacast.services.sites_file import SiteError

from .agents import READ_MAX, Agents, What
from .peers import Peers
from .records import Mark, SiteGroup
from .sharing import Sharing
from .wants import along, here, of_host

log = logging.getLogger("datacast.sites")

RANGE_MAX = 16 << 20
"""Of one request."""
WAIT_S, LOOK_S = 1.0, 0.02
"""Another site's question is held for so long; hosts are asked so often meanwhile."""
PATIENCE_S = 8.0
"""A host's question likewise: it gives up after ten seconds without a byte. So is another site's for what is still to
come here: that one breaks off sooner where this controller is not heard of."""
AGAIN_S, NEWS_S = 0.1, 0.5
HOLDERS_S = 1.0
LOST_MAX = 1024


def parse_range(value: str | None, size: int) -> tuple[int, int]:
    """First and last byte. Raises Problem: only one range, with both ends, inside the object, not too long."""
    match = re.fullmatch(r"bytes=([0-9]{1,16})-([0-9]{1,16})", value or "")
    if not match:
        raise Problem(416, "bad_range", "ask for one range: bytes=FIRST-LAST", what="range")
    first, last = int(match[1]), int(match[2])
    if first > last or first >= size:
        raise Problem(416, "bad_range", f"bytes {first} to {last} of {size}", what="range")
    last = min(last, size - 1)
    if last - first >= RANGE_MAX:
        raise Problem(416, "bad_range", f"more than {RANGE_MAX} bytes at once", what="range")
    return first, last


class Gateway:
    def __init__(self, client: FabricManagerClient, agents: Agents, peers: Peers) -> None:
        self._client, self._agents, self._peers = client, agents, peers
        self._holders: dict[str, tuple[float, list[str], set[str]]] = {}
        """Of a local group: when it was looked at, its receivers, those that fetch first, and who is done."""
        self.sharing: dict[str, Sharing] = {}
        """Of groups that come from other sites."""
        self.lost: dict[str, tuple[float, float, SiteError]] = {}
        """Groups that begin here and whose source cannot be read, nor what it has from others: since when, when it was
        tried last, and why."""

    # ---- from this site ----
    async def stat(self, host: str, path: str) -> tuple[int, Mark, bool]:
        """Size, what tells it from another, whether it is a directory. Raises SiteError."""
        found = await self._agents.read(host, What(path=path), 0, 0)
        return found.size, Mark(mtime_ns=found.mtime_ns, inode=found.inode), found.folder

    async def others(self, host: str) -> bool:
        """Whether this site has other hosts than this one."""
        return bool((await self._agents.addresses()).keys() - {host})

    async def _from_source(self, group: SiteGroup, off: int, length: int) -> bytes:
        found = await self._agents.read(group.spec.source, What(path=group.spec.source_path), off, length)
        if Mark(mtime_ns=found.mtime_ns, inode=found.inode) != group.file or found.size != group.size:
            raise SiteError(f"{group.spec.source_path} changed while it was sent", group.spec.source_path, "changed")
        return found.data

    async def _from_first(self, group: SiteGroup, off: int, length: int) -> bytes:
        """From the source; where that is gone, from receivers here. Raises SiteError."""
        try:
            data = await self._from_source(group, off, length)
        except SiteError as error:
            if error.code == "changed":
                raise
            data = await self._from_receivers(group, off, length) if group.local else b""
            if not data:
                while len(self.lost) >= LOST_MAX:
                    self.lost.pop(next(iter(self.lost)))
                now = time.monotonic()
                self.lost[group.id] = self.lost.get(group.id, (now,))[0], now, error
                raise
        self.lost.pop(group.id, None)
        return data

    async def _who_has(self, local: str) -> tuple[list[str], set[str]]:
        at, hosts, done = self._holders.get(local, (0.0, [], set()))
        if time.monotonic() - at > HOLDERS_S:
            record = await self._client.group(local)
            roots = [record.source, *record.other_sources]
            hosts = [*roots, *(name for name in record.receivers if name not in roots)]
            done = {name for name, figures in record.receivers.items() if figures.state == "done"}
            while len(self._holders) > 1000:
                self._holders.pop(next(iter(self._holders)))
            self._holders[local] = time.monotonic(), hosts, done
        return hosts, done

    async def _from_receivers(self, group: SiteGroup, off: int, length: int) -> bytes:
        """What one of them has from `off` on; none when nobody has it yet. Raises SiteError: nobody ever will."""
        assert group.local and group.spec.dest_path
        hosts, done = await self._who_has(group.local)
        turn = off // RANGE_MAX
        for at in range(len(hosts)):
            host = hosts[(turn + at) % len(hosts)]
            wanted, until = along(of_host(group.spec, host, group.size), off, off + length - 1)
            if not wanted:
                continue  # a hole in its file
            what = What(dest=group.spec.dest_path) if host in done else What(group=group.local)
            try:
                found = await self._agents.read(host, what, off, until + 1 - off)
            except SiteError as error:
                log.debug("group %s: %s", group.id, error)
                continue
            if host in done and (found.size, found.folder) != (group.size, group.folder):
                continue  # somebody has changed it since
            if found.data:
                return found.data
        return b""

    async def _here(self, group: SiteGroup, off: int, length: int) -> bytes:
        if group.parent is None:
            return await self._from_first(group, off, length)
        sharing = self.sharing.get(group.id)
        if sharing is not None and (data := sharing.store.peek(off, off + length - 1)):
            return data
        if self._due(group, off):
            return b""  # no host has it before it is here
        return await self._from_receivers(group, off, length)

    async def to_site(self, group: SiteGroup, first: int, last: int) -> AsyncGenerator[bytes, None]:
        """For another site. Raises SiteError before the first bytes: `not_yet`, and others."""
        if group.passes_on:
            async for chunk in self.to_host(group, first, last, WAIT_S):
                yield chunk
            return
        at, since = first, time.monotonic()
        rows = here(group.spec, group.size) if group.parent is not None else [(0, group.size)]
        while at <= last:
            wanted, until = along(rows, at, last)
            if not wanted:  # by nobody here
                async for chunk in self.to_host(group, at, until, WAIT_S):
                    yield chunk
                at, since = until + 1, time.monotonic()
                continue
            data = await self._here(group, at, min(READ_MAX, until + 1 - at))
            if data:
                yield data
                at, since = at + len(data), time.monotonic()
            elif time.monotonic() - since > (PATIENCE_S if self._due(group, at) else WAIT_S):
                raise SiteError("that has not arrived here yet", group.id, "not_yet")
            else:
                await asyncio.sleep(LOOK_S)

    def _due(self, group: SiteGroup, at: int) -> bool:
        """Whether this byte is still to come here."""
        sharing = self.sharing.get(group.id)
        if group.parent is None or group.own.final:
            return False
        return group.local is None or (sharing is not None and sharing.due(at))

    # ---- from other sites ----
    async def to_host(
        self, group: SiteGroup, first: int, last: int, patience: float = PATIENCE_S
    ) -> AsyncGenerator[bytes, None]:
        """For a host here, or for a site behind one that only passes on. A connection that breaks is opened again where
        it broke off, or to another site that has the bytes. Raises SiteError."""
        at, end, avoided = first, time.monotonic() + patience, set[str]()
        while at <= last:
            sharing = self.sharing.get(group.id)
            if sharing is not None and (data := sharing.store.get(at, last)):
                at, end = at + len(data), time.monotonic() + patience
                yield data
                continue
            if sharing is not None and (sharing.coming(at) or self._left_to_lines(group, sharing, at, last - first)):
                if time.monotonic() > end:
                    raise SiteError("no other site has sent that yet", group.id, "not_yet")
                with sharing.waiting(at):
                    await sharing.more(NEWS_S)
                continue
            site, until = self._way(group, at, last, avoided)
            try:
                if site is None:
                    raise SiteError("no other site has that yet", group.id, "not_yet")
                if sharing is not None:
                    sharing.apart(at, until)
                async with contextlib.aclosing(self._peers.stream(site, group.id, at, until, group.etag)) as stream:
                    async for chunk in stream:
                        at, end = at + len(chunk), time.monotonic() + patience
                        yield chunk
                avoided.clear()
            except SiteError as error:
                if site is not None and self._gives_way(group, site, error):
                    avoided.add(site)
                    continue
                if error.code not in ("not_yet", "site_away") or time.monotonic() > end:
                    raise
                avoided.clear()
                await asyncio.sleep(AGAIN_S)

    @staticmethod
    def _left_to_lines(group: SiteGroup, sharing: Sharing, at: int, more: int) -> bool:
        """Whether a line will bring what a host asks for: asked for past them it would come twice. One byte is a
        question for the size, which cannot wait; a site that only passes on has no lines."""
        return more > 0 and group.local is not None and not group.passes_on and sharing.first(at)

    def _way(self, group: SiteGroup, at: int, last: int, avoided: set[str]) -> tuple[str | None, int]:
        """Which site is asked from byte `at` on, and up to which."""
        assert group.parent
        sharing = self.sharing.get(group.id)
        if sharing is None or not sharing.origins:  # nobody has told what it has: whoever gave the order has it
            return group.parent, last
        return sharing.way(at, last, avoided)

    def _gives_way(self, group: SiteGroup, site: str, error: SiteError) -> bool:
        """Whether others may have it. One that has failed is asked for nothing until it tells again what it has; the
        site of the order is, when nobody else is left."""
        sharing = self.sharing.get(group.id)
        if sharing is None or (site == group.parent and error.code not in ("not_yet", "site_away")):
            return False
        others = site != group.parent or any(origin != site for origin in sharing.origins)
        if sharing.fails(site, error.code):
            log.info("group %s: %s", group.id, error.message)
        return others
