"""Seeded faults of three sites: controllers that are started again, stores that cannot write, fabric managers that
answer nobody or late, messages that are lost, late or come twice, hosts that are gone for good, sites that are away for
long or taken out of a file; and users who cancel, forget and ask again. When that is over every group has ended as it
should have, and nothing of it goes on anywhere (`_check`).

    make sites SEEDS=0:100

In real time, some fifteen seconds a seed: one that fails may pass when it is run again. What a run did is shown.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import numpy as np
from mesh import FINAL, Site, mesh

from datacast.controller.sites import coordinator, own, parents, peers
from datacast.controller.sites.peers import Peers
from datacast.services.problems import Problem
from datacast.services.sites_file import SiteError

DATA = np.random.default_rng(5).bytes((1 << 19) + 77)
HOSTS = {"ams": ["a0", "a1"], "sfo": ["s0", "s1"], "syd": ["y0", "y1"]}
CHAIN = {"sfo": ["ams"], "syd": ["sfo"]}
TRIANGLE = {"sfo": ["ams"], "syd": ["ams", "sfo"]}
BOTH_WAYS = {"ams": ["sfo"], "sfo": ["ams"], "syd": ["sfo"]}
DEEP = [["sfo/all"], ["*/all"], ["sfo/syd/all"], ["a1", "sfo/s0"]]
WIDE = [["sfo/all"], ["*/all"], ["syd/all", "sfo/all"], ["syd/y0"]]
ASKED = (
    "topology", "site_groups", "put_site_group", "delete_site_group", "create_group", "group", "cancel_group",
    "resume_group", "offer", "fetched",
)  # fmt: skip
"""What a controller asks its fabric manager."""
WRITES = ("put_site_group", "delete_site_group", "create_group")
FAULTS = (
    "kill", "kill", "kill", "away", "slow", "hold", "source", "cut", "bytes", "store", "store", "letters", "letters",
    "lost", "out", "lose",
)  # fmt: skip
PLANS = ("", "", "", "cancel", "cancel there", "forget", "cancel and forget", "again", "what cannot be")
"""What a user does who has ordered."""
MOST = 16
"""Faults that come one after another, twice at a time."""
END_S = 120.0
"""A group that has not ended so long after the last fault never will."""
QUICK = (
    (coordinator, "LOST_S", 10.0), (coordinator, "FORGOTTEN_S", 3.0), (own, "STILL_S", 15.0), (parents, "TELL_S", 0.2),
    (peers, "CONNECT_S", 15.0), (peers, "HEAD_S", 15.0),
)  # fmt: skip


@dataclass
class Wish:
    """Of a user."""

    to: list[str]
    dest: str
    plan: str
    keyed: bool
    group: str | None = None
    refused: str = ""
    """How it was answered last, where it was."""
    cancelled: bool = False
    forgotten: bool = False
    told: list[str] = field(default_factory=list)
    """Final states that were told, in order, each once."""


class Campaign:
    """One seed's. `said`: what happened, in seconds; `wrong`: what must not be."""

    def __init__(self, seed: int, most: int) -> None:
        self._rng, self._began, self._most = random.Random(seed), time.monotonic(), most
        self._sites: dict[str, Site] = {}
        self._down: set[str] = set()
        self._away: set[str] = set()
        self._full: set[str] = set()
        self._letters: set[str] = set()
        self._slow: dict[str, float] = {}
        self._out: list[tuple[str, str]] = []
        """Sites, and whom they have taken out of their files."""
        self._lost: set[str] = set()
        self._wishes: list[Wish] = []
        self._posted: set[asyncio.Task[Any]] = set()
        self._over = False
        self.said: list[str] = []
        self.wrong: list[str] = []

    async def run(self, folder: Path) -> None:
        asks = self._rng.choice([CHAIN, TRIANGLE, BOTH_WAYS])
        with ExitStack() as stack:
            for method in ("tell", "orders"):
                stack.enter_context(patch.object(Peers, method, self._letter(getattr(Peers, method))))
            async with mesh(folder, HOSTS, asks) as self._sites:
                for module, constant, seconds in QUICK:
                    stack.enter_context(patch.object(module, constant, seconds))
                await self._play(asks)

    async def _play(self, asks: object) -> None:
        for site in self._sites.values():
            site.fabric.patience = 150
            self._unreliable(site)
        self._sites["ams"].give(DATA)
        for n in range(self._rng.randrange(1, 6)):
            to = self._rng.choice(WIDE if asks is TRIANGLE else DEEP)
            self._wishes.append(Wish(to, f"f{n}", self._rng.choice(PLANS), self._rng.random() < 0.6))
        users = [asyncio.create_task(self._user(wish)) for wish in self._wishes]
        await asyncio.gather(self._faults(), self._faults())
        self._slow.clear()
        self._letters.clear()
        for site in self._sites.values():
            site.port.left = 0
        self._over = True
        self._say("the last fault is over")
        try:
            async with asyncio.timeout(END_S):
                await asyncio.gather(*users)
        except TimeoutError:
            for wish in self._wishes:
                await self._describe(wish)
            for user in users:
                user.cancel()
            await asyncio.gather(*users, return_exceptions=True)
            return
        await self._check()

    def _say(self, text: str) -> None:
        self.said.append(f"{time.monotonic() - self._began:6.2f} {text}")

    # ---- what does not work ----
    def _unreliable(self, site: Site) -> None:
        """Its fabric manager may not answer: what was asked has been carried out then, or not, also where nobody waits
        for the answer any more."""

        async def carried(name: str, real: Any, args: Any, more: Any) -> Any:
            await asyncio.sleep(self._slow.get(site.name, 0.0) * self._rng.random())
            if site.name in self._away:
                raise Problem(503, "unreachable", "no fabric manager answers")
            full = site.name in self._full and name in WRITES
            if full and self._rng.random() < 0.5:
                raise Problem(503, "store", "it could not be written")
            told = await real(*args, **more)
            await asyncio.sleep(self._slow.get(site.name, 0.0) * self._rng.random())
            if full:
                raise Problem(503, "store", "whether it was written nobody knows")
            if site.name in self._away:
                raise Problem(503, "unreachable", "the fabric manager's answer was lost")
            return told

        async def call(name: str, real: Any, *args: Any, **more: Any) -> Any:
            return await asyncio.shield(self._post(carried(name, real, args, more)))

        for name in ASKED:
            setattr(site.fabric, name, partial(call, name, getattr(site.fabric, name)))

    def _post(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._posted.add(task)
        task.add_done_callback(self._came)
        return task

    def _came(self, task: asyncio.Task[Any]) -> None:
        self._posted.discard(task)
        if not task.cancelled():
            task.exception()

    def _letter(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """A message to another site: it may get lost, be late, come again later, or its answer be lost."""

        async def again(*args: Any) -> None:
            await asyncio.sleep(0.8 * self._rng.random())
            with suppress(Exception):  # whoever sent it may be gone
                await real(*args)

        async def sent(peers: Peers, *args: Any) -> Any:
            if peers.directory.name not in self._letters:
                return await real(peers, *args)
            how = self._rng.choice(["late", "lost", "no answer", "twice", "as it is"])
            if how == "lost":
                raise SiteError("a message was lost", args[0], "site_away")
            if how == "late":
                await asyncio.sleep(0.5 * self._rng.random())
            told = await real(peers, *args)
            if how == "twice" and real.__name__ == "tell":
                self._post(again(peers, *args))
            if how == "no answer":
                raise SiteError("an answer was lost", args[0], "site_away")
            return told

        return sent

    async def _faults(self) -> None:
        for _ in range(self._rng.randrange(2, self._most)):
            await asyncio.sleep(0.7 * self._rng.random())
            await self._fault(self._rng.choice(FAULTS), self._rng.choice(list(self._sites.values())))

    async def _fault(self, kind: str, site: Site) -> None:
        a_while = 0.8 * self._rng.random()
        if self._rng.random() < 0.1 and self._most == MOST:
            a_while = 4.0 + 2 * a_while  # longer than anybody is patient
        self._say(f"{kind} {site.name} {a_while:.2f}")
        if kind == "kill" and site.name not in self._down:
            self._down.add(site.name)
            await site.stop()
            await asyncio.sleep(a_while)
            while self._posted:  # a write takes less than a new start
                await asyncio.sleep(0.01)
            await site.start()
            self._down.remove(site.name)
        elif kind in ("away", "store", "letters"):
            those = {"away": self._away, "store": self._full, "letters": self._letters}[kind]
            those.add(site.name)
            await asyncio.sleep(a_while)
            those.discard(site.name)
        elif kind == "slow":
            self._slow[site.name] = min(a_while, 0.8)
        elif kind == "hold":
            site.fabric.hold.clear()
            await asyncio.sleep(a_while)
            site.fabric.hold.set()
        elif kind == "source":
            source = self._sites["ams"].fabric.hosts["a0"]
            source.gate = gate = asyncio.Event()
            await asyncio.sleep(a_while)
            source.gate = None
            gate.set()
        elif kind == "cut":
            for writer in [writer for host in site.fabric.hosts.values() for writer in host.writers]:
                writer.transport.abort()
        elif kind == "bytes":
            site.port.how = self._rng.choice(["500", "503", "429", "cut off", "longer"])
            site.port.left = self._rng.randrange(1, 6)
        elif kind == "lost" and self._rng.random() < 0.4:
            self._lose(self._rng.choice(list(site.fabric.hosts)), site)
        elif kind == "lose" and site.name not in ("ams", *self._down) and self._rng.random() < 0.5:
            self._say(f"{site.name} has lost its store")
            self._lost.add(site.name)  # sites behind it are told there that there is no such group, and end it
            self._down.add(site.name)
            await site.stop()
            while self._posted:
                await asyncio.sleep(0.01)
            site.fabric.lose()
            await site.start()
            self._down.remove(site.name)
        elif kind == "out" and self._rng.random() < 0.4:
            await self._take_out(site, a_while)

    def _lose(self, name: str, site: Site) -> None:
        self._say(f"{name} is lost for good")
        self._lost.add(name)
        host = site.fabric.hosts[name]
        host.lost, host.address = True, ""
        for writer in host.writers:
            writer.transport.abort()

    async def _take_out(self, site: Site, a_while: float) -> None:
        """`datacast sites remove`, at both ends one after the other, or at one and taken back."""
        if not (others := site.others()):
            return
        name = self._rng.choice(list(others))
        row = self._take(site, name)
        await asyncio.sleep(a_while)
        if self._rng.random() < 0.5:
            site.takes_back(name, row)
            self._say(f"{site.name} knows {name} again")
        else:
            self._take(self._sites[name], site.name)

    def _take(self, site: Site, name: str) -> Any:
        if (row := site.takes_out(name)) is not None:
            self._say(f"{site.name} takes {name} out")
            self._out.append((site.name, name))
        return row

    # ---- users ----
    async def _user(self, wish: Wish) -> None:
        ams = self._sites["ams"]
        await asyncio.sleep(1.5 * self._rng.random())
        wish.group = await self._order(wish)
        if wish.group is None:
            return
        if wish.plan == "again" and wish.keyed:
            await asyncio.sleep(self._rng.random())
            if (same := await self._order(wish)) not in (None, wish.group):  # None: it was given up
                self.wrong.append(f"{wish.dest}: its request was answered with {wish.group}, then with {same}")
        if wish.plan == "what cannot be":
            answer = await self._asked(ams, "POST", f"/groups/{wish.group}/resume")
            assert answer.status_code == 409 and answer.json()["code"] == "several_sites", answer.text
        if wish.plan.startswith("cancel"):
            await asyncio.sleep(2.0 * self._rng.random())
            site = self._sites[self._rng.choice(["sfo", "syd"])] if wish.plan == "cancel there" else ams
            answer = await self._asked(site, "POST", f"/groups/{wish.group}/cancel")
            wish.cancelled = answer.status_code == 202
            self._say(f"{wish.dest} is cancelled at {site.name}: {answer.status_code}")
        await self._end(wish)
        if wish.plan.endswith("forget"):
            answer = await self._asked(ams, "DELETE", f"/groups/{wish.group}")
            wish.forgotten = True
            self._say(f"{wish.dest} is forgotten: {answer.status_code}")
            assert answer.status_code in (200, 404), answer.text

    async def _order(self, wish: Wish) -> str | None:
        """With a key until it is answered; without, once."""
        headers = {"idempotency-key": wish.dest} if wish.keyed else None
        while True:
            wish.refused = ""
            with suppress(httpx.HTTPError, RuntimeError):  # the latter where its controller is being ended
                answer = await self._sites["ams"].order(wish.to, headers=headers, dest_path=wish.dest)
                if answer.status_code == 201:
                    self._say(f"{wish.dest} is {answer.json()['id']} to {' '.join(wish.to)}")
                    return str(answer.json()["id"])
                wish.refused = answer.text
                if answer.status_code == 422 and self._out:
                    return None
                assert answer.status_code in (409, 502, 503), answer.text
            if not wish.keyed or (self._over and (self._out or self._lost)):
                self._say(f"{wish.dest} is given up")
                return None
            await asyncio.sleep(0.1)

    async def _asked(self, site: Site, method: str, path: str) -> httpx.Response:
        while True:
            with suppress(httpx.HTTPError, RuntimeError):
                answer = await site.http.request(method, path)
                if answer.status_code != 503:
                    return answer
            await asyncio.sleep(0.1)

    async def _end(self, wish: Wish) -> dict[str, Any]:
        assert wish.group
        while True:
            answer = await self._asked(self._sites["ams"], "GET", f"/groups/{wish.group}")
            if answer.status_code != 200:
                self.wrong.append(f"{wish.dest}: {wish.group} is told to be {answer.status_code}")
                return {}
            told: dict[str, Any] = answer.json()
            if told["state"] in FINAL and told["state"] not in wish.told:
                wish.told.append(told["state"])
            if wish.told and told["state"] not in FINAL:
                self.wrong.append(f"{wish} is {told['state']} again")
                wish.told.clear()
            if told["state"] in FINAL and self._over:
                return told
            if told["state"] in FINAL and wish.plan.endswith("forget"):
                return told
            await asyncio.sleep(0.05)

    # ---- what must be ----
    async def _describe(self, wish: Wish) -> None:
        if wish.group is None or wish.told:
            return
        self.wrong.append(f"{wish} has not ended: {await self._sites['ams'].now(wish.group)}")
        for name, site in self._sites.items():
            self.wrong.append(f"  at {name}: {site.coordinator.groups.get(wish.group)}")

    async def _check(self) -> None:
        sites = self._sites
        left = list[str]()
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S / 4):
                while left := self._left():
                    await asyncio.sleep(0.05)
        self.wrong += left
        told = {wish.dest: await self._told(wish) for wish in self._wishes}
        for wish in self._wishes:
            self._check_wish(wish, told[wish.dest])
        for site in sites.values():  # what a store has is what was told
            await site.stop()
        for site in sites.values():
            await site.start()
        for wish in self._wishes:
            again = await self._told(wish)
            if again != told[wish.dest]:
                self.wrong.append(f"{wish}: after a new start {again}, before {told[wish.dest]}")

    def _left(self) -> list[str]:
        """What goes on though all should be over."""
        found = []
        for name, site in self._sites.items():
            known, fabric = site.coordinator, site.fabric
            for group in known.groups.values():
                if group.finished_ns is None or not group.progress().final:
                    found.append(f"{name}: {group.id} goes on: {group}")
                elif not known._over(group):
                    found.append(f"{name}: {group.id} is not settled: {group}")
            if known.groups.keys() != fabric.kept.keys():
                found.append(f"{name}: kept are {sorted(fabric.kept)}, known {sorted(known.groups)}")
            for key, local in fabric.keyed.items():
                if fabric.groups[local]["state"] not in FINAL:
                    found.append(f"{name}: {local} of {key} goes on: {fabric.groups[local]}")
            found += [f"{name}: somebody still reads {path}" for path in site.port.ranges]
            found += [f"{name}: shares {group}" for group in known.gateway.sharing]
            found += [f"{name}: follows {key}" for key in known._exchanges._kept._tasks]
            for what in ("_still", "_parents._last_told", "_own._still"):
                found += [f"{name}: remembers {one} in {what}" for one in attrgetter(what)(known)]
        return found

    async def _told(self, wish: Wish) -> Any:
        if wish.group is None:
            return None
        answer = await self._asked(self._sites["ams"], "GET", f"/groups/{wish.group}")
        return answer.json() if answer.status_code == 200 else answer.status_code

    def _check_wish(self, wish: Wish, told: Any) -> None:
        mine = [(name, s, key) for name, s in self._sites.items() for key in s.fabric.keyed
                if s.fabric.specs[s.fabric.keyed[key]]["dest_path"] == wish.dest]  # fmt: skip
        keys = {key for _, _, key in mine}
        if len(keys) > 1:
            self.wrong.append(f"{wish} has begun several groups: {keys}")
        for name, site, key in mine:
            if key not in site.coordinator.groups and not (wish.forgotten and name == "ams"):
                self.wrong.append(f"{wish}: nobody at {name} knows why {key} was begun")
        if wish.group is None:
            every = self._sites["ams"].coordinator.groups.values()
            known = [one.id for one in every if one.spec.dest_path == wish.dest]
            if wish.refused and known and not any("kill ams" in text for text in self.said):
                self.wrong.append(f"{wish} was refused, and is {known}")
            return
        if keys - {wish.group}:
            self.wrong.append(f"{wish} has begun {keys}")
        if wish.forgotten:
            if told != 404:
                self.wrong.append(f"{wish} was forgotten and is {told}")
            return
        if len(wish.told) != 1:
            self.wrong.append(f"{wish} has ended as {wish.told}")
        state = told["state"]
        if state != "done" and not (wish.cancelled or self._out or self._lost):
            self.wrong.append(f"{wish} is {state}: {told}")
        for name, row in told["receivers"].items():
            host = name.rpartition("/")[2]
            site = next(site for site in self._sites.values() if host in site.fabric.hosts)
            if row["state"] == "done" and not site.has(host, DATA, wish.dest):
                self.wrong.append(f"{wish}: {name} is done and has not the bytes")
            if row["state"] != "done" and site.has(host, DATA, wish.dest) and not (wish.cancelled or self._out):
                self.wrong.append(f"{wish}: {name} has the bytes and is {row}")


async def campaign(seed: int, folder: Path, most: int = MOST) -> list[str]:
    """What went wrong, and then what happened; empty where nothing did. `most`: of fewer faults each is over soon."""
    one = Campaign(seed, most)
    await one.run(folder)
    return [*one.wrong, *one.said] if one.wrong else []


def main(rows: str) -> int:
    first, end = map(int, rows.split(":"))
    logging.disable(logging.CRITICAL)  # most of it is the faults' own
    bad = 0
    for seed in range(first, end):
        with tempfile.TemporaryDirectory() as folder:
            wrong = asyncio.run(campaign(seed, Path(folder)))
        print(seed, "\n  ".join(["wrong", *wrong]) if wrong else "ok", flush=True)
        bad += bool(wrong)
    print(f"{end - first} seeds, {bad} wrong")
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
