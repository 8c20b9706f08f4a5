"""Groups that reach beyond this site: their orders to other sites, their parts here, and how all of it is doing.

Nobody is called: a site with an open port keeps its orders until they are asked for, and whoever knows its URL asks all
the time (a question that waits for its answer). So a site without a way in takes part. What a site is to do it does by
a group of its own, whose origin is this controller (gateway.py), and it tells how that goes to whoever gave the order.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import secrets
import time
from collections import OrderedDict
from dataclasses import replace
from functools import partial
from typing import Literal
from weakref import WeakValueDictionary

from datacast.fabric_manager.api import FINAL_STATES, FabricManagerClient, GroupSpec
from datacast.fabric_manager.api.specs import LABELS_MAX
from datacast.services.problems import Problem
from datacast.services.sites_file import SiteError

from . import wants
from .book import Book
from .exchanges import Exchanges
from .gateway import Gateway
from .kept import Kept, Work
from .naming import for_site, reaches_out, split
from .own import Own
from .parents import Parents
from .peers import Peer, Peers
from .records import Failure, Held, Mark, Order, Orders, Part, Progress, SiteGroup

log = logging.getLogger("datacast.sites")

TICK_S = 0.25
TRIED_MAX = 1024
READY_S = 10.0
"""Whoever asks waits so long for the groups that an earlier process knew."""
FORGOTTEN_S = 30.0
"""Who asks for orders and tells nothing of its part for so long is given the order again: its store was lost."""
ORDERS_MAX, ORDERS_BYTES, CANCEL_MAX = 64, 4 << 20, 256
"""In one answer, of which whoever asks reads 8 MiB (peers.py): the others follow when these are taken."""
LOST_S, ASKED_S = 60.0, 10.0
"""A group whose source cannot be read, nor its file anywhere else here, fails when nothing has moved for so long, and
somebody has asked for it so lately."""


class Coordinator:
    """`start()`; `create` for those who ask here, `orders`, `heard` for other sites."""

    def __init__(self, client: FabricManagerClient, peers: Peers, gateway: Gateway) -> None:
        self._client, self.peers, self.gateway = client, peers, gateway
        self._book = Book(client, peers)
        self.groups = self._book.groups
        self._exchanges = Exchanges(client, peers, self.groups, gateway.sharing)
        self._own = Own(client, peers, self._book)
        self._parents = Parents(peers, self._book, self._own, self._exchanges, self.cancel)
        self._task: asyncio.Task[None] | None = None
        self._rounds: Kept[str | None] = Kept()
        self._still: dict[str, tuple[float, list[float]]] = {}
        """Groups whose source is lost: how far their parts are, and since when."""
        self._heard: dict[tuple[str, str], float] = {}
        """By group and site: when it told of its part, or was given the order again."""
        self._keyed: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._tried: OrderedDict[str, str] = OrderedDict()
        """Ids of requests with a key that failed half-way: what they began here is found by the same one again."""
        self._ready = asyncio.Event()

    @property
    def name(self) -> str:
        return self.peers.directory.name

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._rounds.stop()
        await self._parents.stop()
        await self._exchanges.stop()
        await self.peers.close()

    async def ready(self) -> None:
        """Returns when the groups are known that an earlier process had: before that they would be denied to those that
        have a part in them, who take it for the end. Raises Problem."""
        try:
            async with asyncio.timeout(READY_S):
                await self._ready.wait()
        except TimeoutError:
            raise Problem(
                503, "starting", "which groups of several sites there are is not known yet: the fabric manager does "
                "not say it", what=self.name, remedy="start datacast-fabric-manager, or ask again in a moment",
            ) from None  # fmt: skip

    # ---- asked for here ----
    def concerns(self, spec: GroupSpec) -> bool:
        return reaches_out(spec)

    async def create(self, spec: GroupSpec, by: str, key: str | None = None) -> SiteGroup:
        """`by`: whose request it is; `key`: their own name for it: with the same one the same request is carried out
        once, and answered with the group that it made. Raises Problem."""
        await self.ready()
        if key is None:
            return await self._create(spec, by, f"s-{secrets.token_hex(8)}", "")
        named = f"{by} {key}"  # a key has no space, whatever a token is called
        request = f"{hashlib.sha256(repr(spec).encode()).hexdigest()[:16]} {named}"
        async with self._keyed.setdefault(named, asyncio.Lock()):  # others wait for the answer to the same one only
            known = next((g for g in self.groups.values() if g.request_key[17:] == named), None)
            if known is None:
                group_id = self._tried.setdefault(request, f"s-{secrets.token_hex(8)}")
                while len(self._tried) > TRIED_MAX:
                    self._tried.popitem(last=False)
                known = await self._create(spec, by, group_id, request)
                self._tried.pop(request, None)
        if known.request_key != request:
            raise Problem(
                422, "key_reused", f"the Idempotency-Key {key!r} was another request's", what=key,
                remedy="give every request a key of its own",
            )  # fmt: skip
        return known

    async def _create(self, spec: GroupSpec, by: str, group_id: str, request_key: str) -> SiteGroup:
        """Raises Problem."""
        if (spec.scatter or spec.shards) and spec.url is not None:
            field = "scatter" if spec.scatter else "shards"
            raise _refusal("bad_shards", field, "what a url names goes to all receivers as a whole")
        for field in ("other_sources", "holds", "unfinished", "source_paths"):
            if getattr(spec, field):
                why = "a group of several sites has one source, which has all of a file at source_path"
                raise _refusal("not_between_sites", field, why)
        assert isinstance(spec.receivers, list)
        try:
            members = split(spec.receivers, self.name, list(self.peers.all), [])
            if members.there and spec.deadline_s is not None:
                why = "when hosts of another site have it nobody here can promise"
                raise _refusal("not_between_sites", "deadline_s", why)
            if members.there and len(spec.labels) >= LABELS_MAX:
                text = f"{LABELS_MAX} labels: of a group of several sites {LABELS_MAX - 1}, as each site adds one"
                raise _refusal("too_many_labels", "labels", text)
            for site in members.there:
                self._must_be_there(site)
            size = spec.size or 0
            mark: Mark | None = None
            folder = False
            if spec.url is None:
                size, mark, folder = await self.gateway.stat(spec.source, spec.source_path)
            if members.here == "all" and members.there and not await self.gateway.others(spec.source):
                members.here = None
            spec = wants.with_ranges(spec, size, folder, self.name)
            shards, others = wants.split(spec.shards, self.name, members.there)
        except SiteError as error:
            status = 422 if error.code in ("unknown_site", "unknown_host", "cycle", "bad_shards") else 409
            raise Problem(status, error.code, error.message, what=error.what, remedy=error.remedy) from error
        if folder and spec.sha256:
            raise _refusal("bad_sha256", "sha256", f"{spec.source_path} is a directory: a SHA-256 is of a file")
        if spec.size is not None and spec.size != size:
            raise _refusal("size", "size", f"{spec.source_path} has {size} bytes, expected were {spec.size}")
        spec = replace(spec, dest_path=spec.dest_path or spec.name or None)
        group = SiteGroup(
            id=group_id,
            spec=replace(spec, receivers=members.here, shards=shards),
            size=size,
            folder=folder,
            file=mark,
            parts={site: Part(receivers=names, shards=others.get(site, {})) for site, names in members.there.items()},
            requested_by=by,
            request_key=request_key,
            created_ns=time.time_ns(),
        )
        self._book.room()
        try:
            with self._own.alone(group_id):
                await self._book.take_up(group)  # first: a group here that no other knows of would go on for itself
                return await self._own.start(group) if group.begins else group
        except Problem as error:
            if self._book.written(group) and error.status == 503:  # it goes on by itself
                return self.groups.get(group_id, group)
            self._book.withdraw(group)
            raise

    def _must_be_there(self, site: str) -> None:
        peer = self.peers.get(site)
        if not peer.takes_orders:
            since = "not since this controller started" if peer.asked is None else (
                f"not for {time.monotonic() - peer.asked:.0f} s"
            )  # fmt: skip
            raise SiteError(
                f"site {site} has not asked for orders ({since}){': ' + peer.problem if peer.problem else ''}", site,
                "site_away", f"its controller must know this site's URL (`datacast sites add {self.name} --url …`)",
            )  # fmt: skip

    async def cancel(self, group: SiteGroup, why: Failure | None = None) -> SiteGroup:
        """`why`: it has failed."""
        if group.progress().final:
            return group
        group = self._book.put(group, cancelled=True, lost=why)
        group = self._look_for_takers(group)
        await self._book.save(group)
        for site in group.parts:
            self._book.wake(site)
        if group.local and not group.own.final:
            try:
                await self._client.cancel_group(group.local)
            except Problem as error:
                if error.status != 404:  # where it is gone `_look` says so
                    raise
        return group

    async def forget(self, group: SiteGroup) -> None:
        """Raises Problem."""
        if not group.progress().final:
            raise Problem(409, "not_ended", f"group {group.id} has not ended", what=group.id, remedy="cancel it first")
        if not self._told(group):
            raise Problem(
                409, "not_told", f"site {group.parent}, where group {group.id} comes from, has not heard of its end",
                what=group.id, remedy="ask again when it is there; one that never will be: `datacast sites remove`",
            )  # fmt: skip
        await self._book.forget(group)

    # ---- other sites ask ----
    async def orders(self, site: str, wait: float) -> Orders:
        """What a site has to do; waits until there is something."""
        peer = self.peers.get(site)
        peer.asks()
        end = time.monotonic() + wait
        while True:
            if self.peers.all.get(site) is not peer:  # it was taken out of the file, or is another one now
                return Orders()
            peer.wake.clear()
            # What is not written down yet a controller that starts again denies: the site would take it for cancelled.
            # Where its own hosts are to have it too, that may still be refused.
            every = (g for g in self.groups.values() if g.parent is not None or not g.begins)
            mine = [g for g in every if site in g.parts and self._book.written(g)]
            orders = [
                Order(
                    id=group.id,
                    size=group.size,
                    folder=group.folder,
                    path=[*group.path, self.name],
                    spec=for_site(group.spec, group.parts[site]),
                    others=[name for name in group.parts if name != site],
                    keys=self._keys(self.name, *(name for name in group.parts if name != site)) | group.keys,
                )
                for group in mine
                if not group.cancelled and self._is_to_have(group, site)
            ]
            for group in mine:
                if group.cancelled and group.parts[site].progress.state == "ordered":  # it never heard of it
                    self._book.part(
                        group, site, Progress(state="failed" if group.lost else "cancelled", error=group.lost)
                    )
            cancel = [g.id for g in mine if g.cancelled and not g.parts[site].progress.final][:CANCEL_MAX]
            if orders or cancel or time.monotonic() >= end:
                why = {g.id: g.lost for g in mine if g.lost is not None and g.id in cancel}
                return Orders(orders=_as_many(orders), cancel=cancel, why=why)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(5.0, max(0.01, end - time.monotonic()))):
                    await peer.wake.wait()
            peer.asks()

    def _is_to_have(self, group: SiteGroup, site: str) -> bool:
        """The order, now."""
        told = group.parts[site].progress
        if told.state == "ordered" or told.final:
            return not told.final
        now = time.monotonic()
        if now - self._heard.setdefault((group.id, site), now) < FORGOTTEN_S:
            return False
        self._heard[group.id, site] = now
        return True

    def _keys(self, *names: str) -> dict[str, str]:
        found = {name: self.peers.directory.key(name) for name in names}
        return {name: key for name, key in found.items() if key is not None}

    def offered(self, group_id: str, site: str) -> SiteGroup | None:
        """The group, if this site may have its bytes."""
        group = self.groups.get(group_id)
        if (
            group is None
            or group.fetched
            or group.cancelled
            or not (site in group.parts or site == group.parent or site in group.others)
        ):
            return None
        return group

    async def held(self, group_id: str, site: str, version: int, wait: float) -> Held:
        """What this site has of an object, for one that may have it; waits until that is another version. Raises
        Problem."""
        group = self.offered(group_id, site)
        if group is None:
            raise Problem(404, "not_found", f"no object {group_id} is offered to you", what=group_id)
        return await self._exchanges.held(lambda: self.groups.get(group_id, group), site, version, wait)

    async def heard(self, group_id: str, site: str, progress: Progress) -> SiteGroup:
        """A site tells of its part, which is to end where the group is cancelled. Raises Problem."""
        group = self.groups.get(group_id)
        if group is None or site not in group.parts:
            raise Problem(404, "group_not_found", f"site {site} has no part in a group {group_id}", what=group_id)
        self.peers.get(site).hear()
        self._heard[group_id, site] = time.monotonic()
        if progress.state != "ordered" and not group.parts[site].progress.final:
            group = self._book.part(group, site, progress)
        await self._book.save(group)  # also what the store did not take before: it is told once more
        return group

    # ---- all the time ----
    async def _run(self) -> None:
        while not self._ready.is_set():
            try:
                await self._book.load()
                self._ready.set()
            except Problem as error:
                log.warning("groups of several sites: %s", error.message)
                await asyncio.sleep(1.0)
        while True:
            try:
                if self.peers.directory.look():
                    self.peers.follow()
                self._parents.keep()
                self._exchanges.keep()
                self._forget()
            except Exception:  # what is under way goes on
                log.exception("other sites")
            parents = {group.parent for group in self.groups.values() if not self._over(group)}
            wanted: dict[str | None, Work] = {parent: partial(self._round, parent) for parent in parents}
            if (old := self._book.untidy(self._over)) is not None:
                wanted[""] = partial(self._book.tidy, old)
            self._rounds.keep(wanted)
            await asyncio.sleep(TICK_S)

    def _forget(self) -> None:
        """What is remembered of groups that have ended, or are not known any more."""
        for group_id in [one for one in self._still if (g := self.groups.get(one)) is None or g.finished_ns]:
            del self._still[group_id]
        for key in [key for key in self._heard if (g := self.groups.get(key[0])) is None or g.finished_ns]:
            del self._heard[key]
        self._own.forget()
        self._parents.forget()

    async def _round(self, parent: str | None) -> None:
        """A look at each of the groups that come from there. One site that answers late holds up no other's."""
        for group_id in [group.id for group in self.groups.values() if group.parent == parent]:
            group = self.groups.get(group_id)  # it may have been forgotten meanwhile
            if group is not None and not self._over(group):
                try:
                    await self._look(group)
                except (Problem, SiteError) as error:
                    log.info("group %s: %s", group.id, error.message)
                except Exception:  # of one group: the others go on
                    log.exception("group %s", group.id)

    def _over(self, group: SiteGroup) -> bool:
        """Nothing is left to do for it."""
        return group.finished_ns is not None and self._told(group) and self._book.saved(group)

    def _told(self, group: SiteGroup) -> bool:
        """Whether the site that it comes from knows how it ended, or is nobody to be told any more."""
        return group.parent is None or group.told or group.parent not in self.peers.all

    async def _look(self, group: SiteGroup) -> None:
        group = await self._own.look(group)
        if group.parent is not None and group.parent not in self.peers.all and not group.progress().final:
            group = await self.cancel(group, self._unknown(group.parent))
        group = self._look_for_takers(group)
        if group.id in self.gateway.lost and not group.cancelled:
            await self._look_for_source(group)
        await self._book.save(group)
        group = self.groups.get(group.id, group)
        if not self._told(group) and group.id in self.groups:
            await self._parents.report(group)

    def _look_for_takers(self, group: SiteGroup) -> SiteGroup:
        """Whoever waits for a site that has not taken its order hears why. A group that is cancelled does not wait, and
        for a site that is not known any more none does."""
        for site, part in group.parts.items():
            if part.progress.final:
                continue
            if site not in self.peers.all:
                why = self._unknown(site)
                failed = {"state": "failed", "error": why}
                hosts = part.progress.hosts.items()
                rows = {name: row if row.state == "done" else row.model_copy(update=failed) for name, row in hosts}
                group = self._book.part(group, site, Progress(state="failed", error=why, hosts=rows))
            elif part.progress.state == "ordered":
                error = self._not_taken(self.peers.all[site])
                if error is not None and group.cancelled:
                    state: Literal["failed", "cancelled"] = "failed" if group.lost else "cancelled"
                    group = self._book.part(group, site, Progress(state=state, error=group.lost))
                elif error != part.progress.error:
                    group = self._book.part(group, site, Progress(error=error))
        return group

    def _unknown(self, site: str) -> Failure:
        return Failure(code="unknown_site", message=f"{self.name} does not know site {site} any more")

    @staticmethod
    def _not_taken(peer: Peer) -> Failure | None:
        """Why it does not take an order; None: it will, in a moment."""
        if peer.takes_orders and not peer.problem:
            return None
        why = peer.problem or "it has not asked for any for a minute"
        return Failure.cut("site_away", f"site {peer.name} has not taken the order yet: {why}")

    async def _look_for_source(self, group: SiteGroup) -> None:
        """It may come back, and sites may have all of it between them."""
        since, tried, error = self.gateway.lost[group.id]
        moved, now = [part.progress.fraction for part in group.parts.values()], time.monotonic()
        at, before = self._still.get(group.id, (0.0, []))
        if moved != before or at < since:
            self._still[group.id] = now, moved
        elif now - at > LOST_S and now - tried < ASKED_S and not group.progress().final:
            text = f"the source {group.spec.source} cannot be read, and no other host of {self.name} has all of it: "
            self._still.pop(group.id)
            why = Failure.cut("source_lost", text + error.message)
            # First of all: a site may have its order and not have said so yet. It hears of the end when it does.
            group = self._book.put(group, cancelled=True, lost=why)
            for site in [name for name, part in group.parts.items() if part.progress.state == "ordered"]:
                group = self._book.part(group, site, Progress(state="failed", error=why))  # it is not waited for
            await self.cancel(group, why)


def _as_many(orders: list[Order]) -> list[Order]:
    """As one answer holds, one at least."""
    found, room = list[Order](), ORDERS_BYTES
    for order in orders[:ORDERS_MAX]:
        room -= len(order.model_dump_json())
        if found and room < 0:
            break
        found.append(order)
    return found


def _refusal(code: str, field: str, message: str) -> Problem:
    return Problem(422, code, message, what=field, fields=[{"field": field, "message": message}])


assert set(FINAL_STATES) == {"done", "partial", "failed", "cancelled"}
