"""The sites that give this one orders: they are asked for orders all the time, what they order becomes a group of this
site's own, whose origin is this controller (gateway.py), and they are told how it goes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from datacast.origins.ranges import AT_SITE
from datacast.services.problems import Problem
from datacast.services.sites_file import SiteError

from . import wants
from .book import Book
from .exchanges import Exchanges
from .kept import Kept
from .naming import Members, split
from .own import Own
from .peers import Peers
from .records import PATH_MAX, Failure, Order, Orders, Part, Progress, SiteGroup, is_fetched

log = logging.getLogger("datacast.sites")

AGAIN_S, AGAIN_MOST_S = 0.5, 5.0
TELL_S = 2.0
"""Also when nothing is new: so a site is known to be there."""


class Parents:
    """`cancel`: what ends a group that a site has cancelled."""

    def __init__(
        self,
        peers: Peers,
        book: Book,
        own: Own,
        exchanges: Exchanges,
        cancel: Callable[[SiteGroup, Failure | None], Awaitable[SiteGroup]],
    ) -> None:
        self._peers, self._book, self._own, self._exchanges, self._cancel = peers, book, own, exchanges, cancel
        self._kept: Kept[str] = Kept()
        self._last_told: dict[str, tuple[float, Progress]] = {}

    @property
    def _name(self) -> str:
        return self._peers.directory.name

    async def stop(self) -> None:
        await self._kept.stop()

    def keep(self) -> None:
        """Ask those that can be asked, and nobody else."""
        asked = (peer.name for peer in self._peers.all.values() if peer.url is not None)
        self._kept.keep({name: partial(self._follow, name) for name in asked})

    async def _follow(self, site: str) -> None:
        """Ask it for orders, for as long as it is known."""
        rest = AGAIN_S
        while True:
            try:
                told = await self._peers.orders(site)
                rest = AGAIN_S
                known = all(order.id in self._book.groups for order in told.orders)
                await self._carry_out(told, site)
                if known and (told.orders or told.cancel):  # it does not wait with these until they are carried out
                    await asyncio.sleep(AGAIN_S)
            except (SiteError, Problem) as error:
                if isinstance(error, Problem):
                    self._complain(site, f"site {site}: {error.message}")
                await asyncio.sleep(rest)
                rest = min(AGAIN_MOST_S, 2 * rest)

    async def _carry_out(self, told: Orders, site: str) -> None:
        """One that cannot be holds up no other. Raises SiteError, Problem: of the last such one."""
        failed: SiteError | Problem | None = None
        for order in told.orders:
            if order.id in self._own.busy:
                continue  # it came from two sites at one moment, and is told again
            try:
                with self._own.alone(order.id):
                    await self.accept(order, site)
            except (SiteError, Problem) as error:
                failed = error
        for group_id in told.cancel:
            group, why = self._book.groups.get(group_id), told.why.get(group_id)
            try:
                if group is None:  # its record was lost
                    over = Progress(state="failed" if why else "cancelled", error=why)
                    await self._tell_once(site, group_id, over)
                elif group.parent == site:
                    await self._cancel(group, why)
            except (SiteError, Problem) as error:
                failed = error
        if failed is not None:
            raise failed

    def _complain(self, site: str, text: str) -> None:
        peer = self._peers.all.get(site)
        if peer is not None and peer.problem != text:
            peer.problem = text
            log.warning("%s", text)

    async def accept(self, order: Order, site: str) -> None:
        """`site` gives this order; what cannot be done it is told."""
        if order.id in self._book.groups:
            group = self._book.groups[order.id]
            if group.parent is None:  # nor does anybody get its bytes who orders it: it was not given to that site
                text = f"the group begins at {self._name}: {site} cannot order it there"
                await self._refuse(site, order, "cycle", text)
            elif group.parent != site and order.spec.receivers == group.asked:
                # Another way to the same group. Only the first one hears how it does: sites may be joined in a ring.
                if site not in group.others:
                    await self._book.save(self._book.put(group, others=[*group.others, site]))
                await self._tell_once(site, order.id, Progress(state="done"))
            elif group.parent != site:
                text = f"has this group from {group.parent} already, for other receivers: name it once"
                await self._refuse(site, order, "named_twice", f"site {self._name} {text}")
            elif group.told:
                self._book.put(group, told=False)  # it has forgotten how it ended: it is told again
            return
        if order.path[-1] != site:
            text = f"knows as {site} calls itself {order.path[-1]}: sites go by one name each"
            await self._refuse(site, order, "other_name", f"the site that {self._name} {text}")
            return
        if self._name in order.path and self._means_another(order, self._name):
            text = f"two sites have the name {self._name}: it came to one from the other: {' > '.join(order.path)}"
            await self._refuse(site, order, "two_of_a_name", text)
            return
        if self._name in order.path or len(set(order.path)) < len(order.path):
            text = f"the group leads in a circle: {' > '.join([*order.path, self._name])}"
            await self._refuse(site, order, "cycle", text)
            return
        group = SiteGroup(
            id=order.id,
            path=order.path,
            keys={name: key for name, key in order.keys.items() if name in order.path},
            spec=replace(order.spec, receivers=None, shards={}),
            size=order.size,
            folder=order.folder,
            others=[name for name in order.others if not self._means_another(order, name)],
            asked=order.spec.receivers if isinstance(order.spec.receivers, list) else [],
            created_ns=time.time_ns(),
        )
        try:
            self._book.room()
            group = self._divided(group, order)
        except (Problem, SiteError) as error:
            log.warning("group %s of site %s: %s", order.id, site, error.message)
            group = group.model_copy(update={"own": _failed(error.code, error.message)})
        if not group.begins:
            await self._book.take_up(group)
            return
        with self._exchanges.starting(group):
            await self._book.take_up(group)  # those behind hear of it before hosts here are made ready
            await self._own.begin(group)

    def _means_another(self, order: Order, name: str) -> bool:
        """Than the site that this one knows by that name."""
        known = self._peers.directory.key(name)
        return known is not None and order.keys.get(name, known) != known

    def _divided(self, group: SiteGroup, order: Order) -> SiteGroup:
        """With what is for hosts here, and what for sites behind. Raises Problem, SiteError."""
        names = order.spec.receivers if order.spec.receivers is not None else []
        path = [*(name for name in order.path if not self._means_another(order, name)), self._name]
        members: Members = split(names, self._name, list(self._peers.all), path, group.others)
        if members.there and len(order.path) >= PATH_MAX:
            text = f"{' > '.join(order.path)} > {self._name}: a group goes through {PATH_MAX} sites at most"
            raise SiteError(text, group.id, "too_deep")
        wants.check(order.spec.shards, order.size)
        shards, others = wants.split(order.spec.shards, self._name, members.there)
        parts = {s: Part(receivers=r, shards=others.get(s, {})) for s, r in members.there.items()}
        group = group.model_copy(update={"parts": parts})
        if members.here is None:
            if not group.parts:
                raise SiteError("the order names no receiver", group.id, "no_receivers")
            return group
        labels = {**order.spec.labels, "site-group": group.id}
        spec = replace(order.spec, receivers=members.here, labels=labels, shards=shards, size=order.size)
        if is_fetched(spec):
            urls = [spec.url or "", *(part.url for part in spec.parts)]
            if any(url.startswith(AT_SITE) for url in urls):
                raise SiteError("the order names an object of a site by its URL", group.id, "bad_url")
            spec = replace(spec, size=order.spec.size)
        return group.model_copy(update={"spec": spec})

    async def _refuse(self, site: str, order: Order, code: str, text: str) -> None:
        log.warning("group %s of site %s: %s", order.id, site, text)
        await self._tell_once(site, order.id, _failed(code, text))

    async def _tell_once(self, site: str, group_id: str, progress: Progress) -> None:
        with contextlib.suppress(SiteError, Problem):
            await self._peers.tell(site, group_id, progress)

    def forget(self) -> None:
        """What is remembered of groups that have ended, or are not known any more."""
        known = self._book.groups
        for group_id in [one for one in self._last_told if one not in known or known[one].finished_ns]:
            del self._last_told[group_id]

    async def report(self, group: SiteGroup) -> None:
        """To the site that ordered it. Raises Problem, SiteError."""
        assert group.parent
        progress, now = group.progress().short(), time.monotonic()
        at, before = self._last_told.get(group.id, (0.0, Progress()))
        if progress == before and now - at < TELL_S:
            return
        why = None
        try:
            cancel, why = await self._peers.tell(group.parent, group.id, progress)
        except Problem as error:
            if error.code != "group_not_found":
                raise
            cancel = not progress.final  # nobody waits for it, and nobody has cancelled it either
            why = Failure.cut("group_not_found", f"site {group.parent} knows the group no more: {error.message}")
        self._last_told[group.id] = now, progress
        if progress.final:
            await self._book.save(self._book.put(group, told=True))
        elif cancel:
            await self._cancel(group, why)


def _failed(code: str, message: str) -> Progress:
    return Progress(state="failed", error=Failure.cut(code, message))
