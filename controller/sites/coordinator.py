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
import posixpath
import secrets
import time
from collections import OrderedDict
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from pydantic import ValidationError

from datacast.fabric_manager.api import FINAL_STATES, FabricManagerClient, GroupSpec
from datacast.origins.ranges import A_FOLDER, AT_SITE
from datacast.services.problems import Problem
from datacast.services.sites_file import SiteError, host_port

from . import wants
from .exchanges import Exchanges
from .gateway import Gateway
from .naming import Members, for_site, reaches_out, split
from .peers import Peers
from .records import PATH_MAX, Failure, Held, HostFigures, Mark, Order, Orders, Part, Progress, SiteGroup, is_fetched

log = logging.getLogger("datacast.sites")

TICK_S = 0.25
AGAIN_S, AGAIN_MOST_S = 0.5, 5.0
LIVE_MAX = 1024
"""Groups that have not ended."""
TRIED_MAX = 1024
FETCHERS = 2
"""Of a site: cards are seldom the bottleneck between sites, and each byte comes once (docs/decisions/sites.md)."""
TELL_S = 2.0
"""Also when nothing is new: so a site is known to be there."""
RESUMABLE = ("throttled", "origin_failed", "stalled", "truncated", "origin_unreachable", "unreachable", "lease")
"""How a part ends whose origin was away for long: it is started again, and goes on from what it has."""
RESUME_S = 2.0
LOST_S, ASKED_S = 60.0, 10.0
"""A group whose source cannot be read, nor its file anywhere else here, fails when nothing has moved for so long, and
somebody has asked for it so lately."""


class Coordinator:
    """`start()`; `create` for those who ask here, `orders`, `heard` for other sites."""

    def __init__(self, client: FabricManagerClient, peers: Peers, gateway: Gateway) -> None:
        self._client, self.peers, self.gateway = client, peers, gateway
        self.groups: dict[str, SiteGroup] = {}
        self._exchanges = Exchanges(client, peers, self.groups, gateway.sharing)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._saved: dict[str, str] = {}
        self._last_told: dict[str, tuple[float, Progress]] = {}
        self._resume_at: dict[str, float] = {}
        self._still: dict[str, tuple[float, list[float]]] = {}
        """Groups whose source is lost: how far their parts are, and since when."""
        self._beginning: set[str] = set()
        """Orders that are being taken up: the same one may come from two sites at one moment."""
        self._keyed: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._tried: OrderedDict[str, str] = OrderedDict()
        """Ids of requests with a key that failed half-way: what they began here is found by the same one again."""
        self._ready = asyncio.Event()

    @property
    def name(self) -> str:
        return self.peers.directory.name

    def start(self) -> None:
        self._tasks[""] = asyncio.create_task(self._run())

    async def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._exchanges.stop()
        await self.peers.close()

    # ---- asked for here ----
    def concerns(self, spec: GroupSpec) -> bool:
        return reaches_out(spec)

    async def create(self, spec: GroupSpec, by: str, key: str | None = None) -> SiteGroup:
        """`by`: whose request it is; `key`: their own name for it: with the same one the same request is carried out
        once, and answered with the group that it made. Raises Problem."""
        await self._ready.wait()
        if key is None:
            return await self._create(spec, by, f"s-{secrets.token_hex(8)}", "")
        named = f"{by}/{key}"
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
            members = split(spec.receivers, self.name, self._below(), [])
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
            status = 422 if error.code in ("unknown_site", "cycle", "bad_shards") else 409
            raise Problem(status, error.code, error.message, what=error.what, remedy=error.remedy) from error
        if folder and spec.sha256:
            raise _refusal("bad_sha256", "sha256", f"{spec.source_path} is a directory: a SHA-256 is of a file")
        if spec.size is not None and spec.size != size:
            raise _refusal("size", "size", f"{spec.source_path} has {size} bytes, expected were {spec.size}")
        name = spec.source_path if spec.url is None else urlsplit(spec.url).path
        spec = replace(spec, dest_path=spec.dest_path or posixpath.basename(name) or None)
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
        self._room()
        if members.here is not None:
            here = await self._client.create_group(group.spec, by=by, key=group.id)
            group = group.model_copy(update={"local": here.id})
        await self._take_up(group)
        return group

    def _below(self) -> list[str]:
        return [peer.name for peer in self.peers.all.values()]

    def _must_be_there(self, site: str) -> None:
        peer = self.peers.get(site)
        if not peer.there:
            since = "not since this controller started" if peer.heard is None else (
                f"not for {time.monotonic() - peer.heard:.0f} s"
            )  # fmt: skip
            raise SiteError(
                f"site {site} has not asked for orders ({since}){': ' + peer.problem if peer.problem else ''}", site,
                "site_away", f"its controller must know this site's URL (`datacast sites add {self.name} --url …`)",
            )  # fmt: skip

    def _room(self) -> None:
        if sum(not group.progress().final for group in self.groups.values()) >= LIVE_MAX:
            raise Problem(429, "too_many_groups", f"{LIVE_MAX} groups of several sites are running", remedy="wait")

    async def _take_up(self, group: SiteGroup) -> None:
        self.groups[group.id] = group
        await self._save(group)
        for site in group.parts:
            self._wake(site)

    def _wake(self, site: str) -> None:
        if site in self.peers.all:
            self.peers.all[site].wake.set()

    async def cancel(self, group: SiteGroup, why: Failure | None = None) -> SiteGroup:
        """`why`: it has failed."""
        if group.progress().final:
            return group
        group = self._put(group, cancelled=True, lost=why)
        group = self._look_for_takers(group)
        await self._save(group)
        if group.local:
            await self._client.cancel_group(group.local)
        for site in group.parts:
            self._wake(site)
        return group

    async def forget(self, group: SiteGroup) -> None:
        """Raises Problem."""
        if not group.progress().final:
            raise Problem(409, "not_ended", f"group {group.id} has not ended", what=group.id, remedy="cancel it first")
        await self._client.delete_site_group(group.id)
        self.groups.pop(group.id, None)
        self._saved.pop(group.id, None)

    def _put(self, group: SiteGroup, **changes: Any) -> SiteGroup:
        group = self.groups.get(group.id, group).model_copy(update=changes)
        if group.finished_ns is None and group.progress().final:
            group = group.model_copy(update={"finished_ns": time.time_ns()})
        self.groups[group.id] = group
        return group

    async def _save(self, group: SiteGroup) -> None:
        """When something has changed that must outlast this process: figures need not. Raises Problem."""
        group = self.groups[group.id]
        states = [group.own.state, *(part.progress.state for part in group.parts.values())]
        mark = f"{states} {group.local} {group.cancelled} {group.told} {group.others}"
        if self._saved.get(group.id) != mark:
            await self._client.put_site_group(group.id, group.model_dump_json())
            self._saved[group.id] = mark

    # ---- other sites ask ----
    async def orders(self, site: str, wait: float) -> Orders:
        """What a site has to do; waits until there is something."""
        peer = self.peers.get(site)
        peer.hear()
        end = time.monotonic() + wait
        while True:
            peer.wake.clear()
            mine = [group for group in self.groups.values() if site in group.parts]
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
                if group.parts[site].progress.state == "ordered" and not group.cancelled
            ]
            for group in mine:
                if group.cancelled and group.parts[site].progress.state == "ordered":  # it never heard of it
                    self._part(group, site, Progress(state="failed" if group.lost else "cancelled", error=group.lost))
            cancel = [g.id for g in mine if g.cancelled and not g.parts[site].progress.final]
            if orders or cancel or time.monotonic() >= end:
                why = {g.id: g.lost for g in mine if g.lost is not None and g.id in cancel}
                return Orders(orders=orders[:64], cancel=cancel[:4096], why=why)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(5.0, max(0.01, end - time.monotonic()))):
                    await peer.wake.wait()
            peer.hear()

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
        if progress.state != "ordered" and not group.parts[site].progress.final:
            group = self._part(group, site, progress)
            await self._save(group)
        return group

    def _part(self, group: SiteGroup, site: str, progress: Progress) -> SiteGroup:
        group = self.groups.get(group.id, group)
        part = group.parts[site].model_copy(update={"progress": progress})
        return self._put(group, parts={**group.parts, site: part})

    # ---- ordered by another site ----
    async def _follow(self, site: str) -> None:
        """Ask it for orders, for as long as it is known."""
        rest = AGAIN_S
        while True:
            try:
                told = await self.peers.orders(site)
                rest = AGAIN_S
                for order in told.orders:
                    if order.id in self._beginning:
                        continue  # it is told again
                    self._beginning.add(order.id)
                    try:
                        await self._accept(order, site)
                    finally:
                        self._beginning.discard(order.id)
                for group_id in told.cancel:
                    group = self.groups.get(group_id)
                    if group is not None and group.parent == site:
                        await self.cancel(group, told.why.get(group_id))
            except (SiteError, Problem) as error:
                if isinstance(error, Problem):
                    self._complain(site, f"site {site}: {error.message}")
                await asyncio.sleep(rest)
                rest = min(AGAIN_MOST_S, 2 * rest)

    def _complain(self, site: str, text: str) -> None:
        peer = self.peers.all.get(site)
        if peer is not None and peer.problem != text:
            peer.problem = text
            log.warning("%s", text)

    async def _accept(self, order: Order, site: str) -> None:
        if order.id in self.groups:
            group = self.groups[order.id]
            if group.parent != site and order.spec.receivers == group.asked:
                # Another way to the same group. Only the first one hears how it does: sites may be joined in a ring.
                if site not in group.others:
                    await self._save(self._put(group, others=[*group.others, site]))
                await self._tell_once(site, order.id, Progress(state="done"))
            elif group.parent != site:
                text = f"site {self.name} has this group from {group.parent} already, for other receivers: name it once"
                await self._tell_once(site, order.id, _failed("named_twice", text))
            return
        if order.path[-1] != site:
            text = f"the site that {self.name} knows as {site} calls itself {order.path[-1]}: sites go by one name each"
            await self._tell_once(site, order.id, _failed("other_name", text))
            return
        if self.name in order.path and self._means_another(order, self.name):
            text = f"two sites have the name {self.name}: it came to one from the other: {' > '.join(order.path)}"
            await self._tell_once(site, order.id, _failed("two_of_a_name", text))
            return
        if self.name in order.path or len(set(order.path)) < len(order.path):
            await self._tell_once(
                site, order.id, _failed("cycle", f"the group leads in a circle: {' > '.join([*order.path, self.name])}")
            )
            return
        group = SiteGroup(
            id=order.id,
            path=order.path,
            keys={name: key for name, key in order.keys.items() if name in order.path},
            spec=replace(order.spec, receivers=None),
            size=order.size,
            folder=order.folder,
            others=[name for name in order.others if not self._means_another(order, name)],
            asked=order.spec.receivers if isinstance(order.spec.receivers, list) else [],
            created_ns=time.time_ns(),
        )
        try:
            self._room()
            group = self._divided(group, order)
        except (Problem, SiteError) as error:
            log.warning("group %s of site %s: %s", order.id, site, error.message)
            group = group.model_copy(update={"own": _failed(error.code, error.message)})
        if not _waits(group):
            await self._take_up(group)
            return
        with self._exchanges.starting(group):
            await self._take_up(group)  # those behind hear of it before hosts here are made ready
            await self._begin(group)

    def _means_another(self, order: Order, name: str) -> bool:
        """Than the site that this one knows by that name."""
        known = self.peers.directory.key(name)
        return known is not None and order.keys.get(name, known) != known

    def _divided(self, group: SiteGroup, order: Order) -> SiteGroup:
        """With what is for hosts here, and what for sites behind. Raises Problem, SiteError."""
        names = order.spec.receivers if order.spec.receivers is not None else []
        path = [*(name for name in order.path if not self._means_another(order, name)), self.name]
        members: Members = split(names, self.name, self._below(), path, group.others)
        if members.there and len(order.path) >= PATH_MAX:
            text = f"{' > '.join(order.path)} > {self.name}: a group goes through {PATH_MAX} sites at most"
            raise SiteError(text, group.id, "too_deep")
        shards, others = wants.split(order.spec.shards, self.name, members.there)
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

    async def _begin(self, group: SiteGroup) -> None:
        """A group of this site's own. Raises Problem: it could not be written down."""
        spec = group.spec
        if not group.fetched:
            own = host_port(self.peers.directory.sites.url)
            options = replace(spec.options, planner=None)
            url = f"{AT_SITE}//{own}/site/objects/{group.id}{A_FOLDER if group.folder else ''}"
            fetchers = None if spec.shards else FETCHERS  # each range is fetched by who wants it
            policy = "steal" if spec.shards else spec.origin_policy
            spec = replace(
                spec, url=url, parts=[], fetchers=fetchers, origin_policy=policy, size=None, options=options
            )  # fmt: skip
        try:
            here = await self._client.create_group(spec, by=f"site {group.parent}", key=group.id)
        except Problem as error:
            log.warning("group %s of site %s: %s", group.id, group.parent, error.message)
            group = self._put(group, own=_failed(error.code, error.message))
        else:
            spec = spec if group.fetched else replace(spec, size=group.size)
            group = self._put(group, local=here.id, spec=spec)
        await self._save(group)
        if group.local and group.cancelled:
            await self._client.cancel_group(group.local)

    async def _tell_once(self, site: str, group_id: str, progress: Progress) -> None:
        if progress.error is not None:
            log.warning("group %s of site %s: %s", group_id, site, progress.error.message)
        with contextlib.suppress(SiteError, Problem):
            await self.peers.tell(site, group_id, progress)

    # ---- all the time ----
    async def _run(self) -> None:
        while not self._ready.is_set():
            try:
                for group_id, text in (await self._client.site_groups()).items():
                    with contextlib.suppress(ValidationError):
                        self.groups[group_id] = SiteGroup.model_validate_json(text)
                self._ready.set()
            except Problem as error:
                log.warning("groups of several sites: %s", error.message)
                await asyncio.sleep(1.0)
        while True:
            if self.peers.directory.look():
                self.peers.follow()
            self._follow_all()
            self._exchanges.keep()
            for group in tuple(self.groups.values()):
                if not (group.finished_ns and (group.parent is None or group.told)):
                    try:
                        await self._look(group)
                    except (Problem, SiteError) as error:
                        log.info("group %s: %s", group.id, error.message)
            await asyncio.sleep(TICK_S)

    def _follow_all(self) -> None:
        wanted = {peer.name for peer in self.peers.all.values() if peer.url is not None}
        for name in [name for name in self._tasks if name and (name not in wanted or self._tasks[name].done())]:
            self._tasks.pop(name).cancel()
        for name in wanted - self._tasks.keys():
            self._tasks[name] = asyncio.create_task(self._follow(name))

    async def _look(self, group: SiteGroup) -> None:
        if _waits(group) and group.id not in self._beginning:  # this controller was started again meanwhile
            if group.cancelled:
                self._put(group, own=Progress(state="cancelled"))
            else:
                await self._begin(group)
            group = self.groups[group.id]
        if group.local and not group.own.final:
            own = await self._of_local(group)
            group = self._put(group, own=own)
        group = self._look_for_takers(group)
        if group.id in self.gateway.lost and not group.cancelled:
            await self._look_for_source(group)
        await self._save(group)
        if group.parent is not None:
            await self._report(self.groups[group.id])

    def _look_for_takers(self, group: SiteGroup) -> SiteGroup:
        """Whoever waits for a site that has not taken its order hears why. A group that is cancelled does not wait."""
        for site, part in group.parts.items():
            if part.progress.state != "ordered":
                continue
            error = self._not_taken(site)
            if error is not None and group.cancelled:
                state: Literal["failed", "cancelled"] = "failed" if group.lost else "cancelled"
                group = self._part(group, site, Progress(state=state, error=group.lost))
            elif error != part.progress.error:
                group = self._part(group, site, Progress(error=error))
        return group

    def _not_taken(self, site: str) -> Failure | None:
        """Why it does not take an order; None: it will, in a moment."""
        peer = self.peers.all.get(site)
        if peer is not None and peer.there and not peer.problem:
            return None
        why = "it has not asked for any for a minute" if peer is not None else f"{self.name} does not know it any more"
        text = f"site {site} has not taken the order yet: {(peer.problem if peer is not None else '') or why}"
        return Failure(code="site_away", message=text[:8192])

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
            why = Failure(code="source_lost", message=(text + error.message)[:8192])
            for site in [name for name, part in group.parts.items() if part.progress.state == "ordered"]:
                self._part(group, site, Progress(state="failed", error=why))  # whoever never asked is not waited for
            await self.cancel(self.groups[group.id], why)

    async def _of_local(self, group: SiteGroup) -> Progress:
        assert group.local
        record = await self._client.group(group.local)
        error = Failure.of(record.error)
        again = error is not None and error.code in RESUMABLE and group.parent is not None and not group.fetched
        if record.state == "failed" and error is not None and again and not group.cancelled:
            return await self._resume(group, error)
        hosts = {
            name: HostFigures(
                state=row.state, fraction=row.fraction, sha256_ok=row.sha256_ok, error=Failure.of(row.error)
            )
            for name, row in record.receivers.items()
        }
        return Progress(
            state=record.state, fraction=record.fraction, rate_bps=record.rate_bps, hosts=hosts, error=error
        )

    async def _resume(self, group: SiteGroup, error: Failure) -> Progress:
        """The site that it comes from was away for longer than a fetcher waits. What is here stays."""
        assert group.local and group.parent
        peer = self.peers.all.get(group.parent)
        now = time.monotonic()
        if peer is not None and peer.there and not peer.problem and now > self._resume_at.get(group.id, 0.0):
            self._resume_at[group.id] = now + RESUME_S
            await self._client.resume_group(group.local)
        return group.own.model_copy(update={"state": "running", "error": error})

    async def _report(self, group: SiteGroup) -> None:
        assert group.parent
        progress, now = group.progress(), time.monotonic()
        at, before = self._last_told.get(group.id, (0.0, Progress()))
        if progress == before and now - at < TELL_S:
            return
        why = None
        try:
            cancel, why = await self.peers.tell(group.parent, group.id, progress)
        except Problem as error:
            if error.status != 404:
                raise
            cancel = not progress.final  # it does not know the group any more
        self._last_told[group.id] = now, progress
        if progress.final:
            self._last_told.pop(group.id, None)
            await self._save(self._put(group, told=True))
        elif cancel:
            await self.cancel(group, why)


def _waits(group: SiteGroup) -> bool:
    """Its hosts here have no group yet."""
    return group.parent is not None and not group.passes_on and group.local is None and not group.own.final


def _failed(code: str, message: str) -> Progress:
    return Progress(state="failed", error=Failure(code=code[:64], message=message[:8192]))


def _refusal(code: str, field: str, message: str) -> Problem:
    return Problem(422, code, message, what=field, fields=[{"field": field, "message": message}])


assert set(FINAL_STATES) == {"done", "partial", "failed", "cancelled"}
