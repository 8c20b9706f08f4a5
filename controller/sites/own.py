"""The group of this site's own hosts that a group of several sites has here: begun once that one is written down, so
that none runs of which nobody knows, and followed to its end."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from datacast.fabric_manager.api import FabricManagerClient, GroupSpec
from datacast.fabric_manager.api.records import GroupRecord
from datacast.origins.ranges import A_FOLDER, AT_SITE
from datacast.services.problems import Problem
from datacast.services.sites_file import host_port

from .book import Book
from .peers import Peers
from .records import Failure, HostFigures, Progress, SiteGroup

log = logging.getLogger("datacast.sites")

FETCHERS = 2
"""Of a site: cards are seldom the bottleneck between sites, and each byte comes once (docs/decisions/sites.md)."""
RESUMABLE = ("throttled", "origin_failed", "stalled", "truncated", "origin_unreachable", "unreachable", "lease")
"""How a part ends whose origin was away for long: it is started again, and goes on from what it has."""
RESUME_S, STILL_S = 2.0, 120.0
"""One that gets no further for so long though its origin is there has failed: its hosts are gone, or get nothing."""


@dataclass
class _Still:
    """A part that has failed and is started again."""

    fraction: float
    since: float
    """That it is no further."""
    again: float = 0.0
    """When it is started again at the earliest."""


class Own:
    def __init__(self, client: FabricManagerClient, peers: Peers, book: Book) -> None:
        self._client, self._peers, self._book = client, peers, book
        self.busy: set[str] = set()
        """Groups that are being taken up."""
        self._still: dict[str, _Still] = {}

    def forget(self) -> None:
        """What is remembered of groups that have ended, or are not known any more."""
        for group_id in [one for one in self._still if (g := self._book.groups.get(one)) is None or g.own.final]:
            del self._still[group_id]

    @contextlib.contextmanager
    def alone(self, group_id: str) -> Iterator[None]:
        """No look at it begins with it meanwhile."""
        self.busy.add(group_id)
        try:
            yield
        finally:
            self.busy.discard(group_id)

    async def start(self, group: SiteGroup) -> SiteGroup:
        """Begin with it. Raises Problem: it is refused (409, 422), or nobody knows whether it has begun (503)."""
        spec = group.spec if group.parent is None or group.fetched else self._from_here(group)
        by = group.requested_by if group.parent is None else f"site {group.parent}"
        here = await self._client.create_group(spec, by=by, key=group.id)
        if group.parent is not None and not group.fetched:
            spec = replace(spec, size=group.size)
        group = self._book.put(group, local=here.id, spec=spec)
        await self._book.save(group)
        for site in group.parts:
            self._book.wake(site)
        if group.cancelled or group.id not in self._book.groups:
            await self._client.cancel_group(here.id)
        return group

    def _from_here(self, group: SiteGroup) -> GroupSpec:
        """What comes from another site its hosts fetch from this controller."""
        spec = group.spec
        url = f"{AT_SITE}//{host_port(self._peers.directory.sites.url)}/site/objects/{group.id}"
        return replace(
            spec,
            url=url + (A_FOLDER if group.folder else ""),
            parts=[],
            fetchers=None if spec.shards else FETCHERS,  # each range is fetched by who wants it
            origin_policy="steal" if spec.shards else spec.origin_policy,
            size=None,
            options=replace(spec.options, planner=None),
        )

    async def begin(self, group: SiteGroup) -> SiteGroup:
        """As `start`; what refuses it is how it ends, and where its fabric manager is away that is asked again with the
        next look. Raises Problem: it could not be written down."""
        try:
            return await self.start(group)
        except Problem as error:
            if self._book.groups.get(group.id, group).local is not None:  # it has begun: something else failed
                raise
            own = Progress(
                state="starting" if error.status == 503 else "failed", error=Failure.cut(error.code, error.message)
            )
            if own != group.own:
                log.warning("group %s of %s: %s", group.id, group.parent or self._name, error.message)
            group = self._book.put(group, own=own)
            await self._book.save(group)
            return group

    @property
    def _name(self) -> str:
        return self._peers.directory.name

    async def look(self, group: SiteGroup) -> SiteGroup:
        """How it is doing now. Raises Problem."""
        if group.begins and group.id not in self.busy:
            if group.cancelled:
                return self._book.put(group, own=_over(group))
            with self.alone(group.id):
                await self._book.save(group)
                return await self.begin(group)
        if group.local is None or group.own.final:
            return group
        own = await self._progress(group, group.local)
        group = self._book.put(group, own=own)
        if group.cancelled and own.state in ("queued", "starting", "running"):
            await self._client.cancel_group(group.local or "")  # it did not hear of it
        return group

    async def _progress(self, group: SiteGroup, local: str) -> Progress:
        try:
            record = await self._client.group(local)
        except Problem as error:
            if error.status != 404:
                raise
            why = Failure.cut("group_not_found", f"{self._name} knows its part no more: {error.message}")
            state: Literal["failed", "cancelled"] = "cancelled" if group.cancelled else "failed"
            return group.own.model_copy(update={"state": state, "error": why})
        hosts = {
            name: HostFigures(
                state=row.state, fraction=row.fraction, sha256_ok=row.sha256_ok, error=Failure.of(row.error)
            )
            for name, row in record.receivers.items()
        }
        told = Progress(
            state=record.state,
            fraction=record.fraction,
            rate_bps=record.rate_bps,
            hosts=hosts,
            error=Failure.of(record.error),
            slow=Failure.of(record.slow),
        )
        if await self._goes_on(group, record, told):
            return group.own.model_copy(update={"state": "running", "error": told.error})
        return told

    async def _goes_on(self, group: SiteGroup, record: GroupRecord, told: Progress) -> bool:
        """Whether it has failed as the site that it comes from was away for longer than a fetcher waits: it is started
        again when that one is back, and what is here stays."""
        if told.state != "failed" or told.error is None or told.error.code not in RESUMABLE:
            return False
        if group.parent is None or group.fetched or group.cancelled:
            return False
        peer, now = self._peers.all.get(group.parent), time.monotonic()
        still = self._still.setdefault(group.id, _Still(told.fraction, now))
        if peer is None or not peer.there or peer.problem or told.fraction > still.fraction:
            still.fraction, still.since = max(still.fraction, told.fraction), now
        if peer is None or not peer.there or peer.problem or now < still.again:
            return True
        if now - still.since > STILL_S:
            return False
        still.again = now + RESUME_S
        try:
            await self._client.resume_group(record.id)
        except Problem as error:
            if error.status == 503:
                raise
            log.info("group %s: %s", group.id, error.message)  # no host of it is there
        return True


def _over(group: SiteGroup) -> Progress:
    return Progress(state="failed" if group.lost else "cancelled", error=group.lost)
