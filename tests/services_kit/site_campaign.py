"""Seeded faults of three sites: controllers that are started again, fabric managers that answer nobody or late, hosts
and answers that break. When they are over every group ends `done`, and every host it was for has the bytes.

    make sites SEEDS=0:100

In real time, some six seconds a seed: one that fails may pass when it is run again. What a run did is shown.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
import tempfile
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from mesh import Site, mesh

from datacast.services.problems import Problem

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
FAULTS = ("kill", "kill", "away", "slow", "hold", "source", "cut", "bytes")
END_S = 60.0
"""A group that has not ended so long after the last fault never will."""


class Campaign:
    """One seed's. `said`: what happened, in seconds; `wrong`: what must not be."""

    def __init__(self, seed: int) -> None:
        self._rng, self._began = random.Random(seed), time.monotonic()
        self._sites: dict[str, Site] = {}
        self._down: set[str] = set()
        self._away: set[str] = set()
        self._slow: dict[str, float] = {}
        self.said: list[str] = []
        self.wrong: list[str] = []

    async def run(self, folder: Path) -> None:
        asks = self._rng.choice([CHAIN, TRIANGLE, BOTH_WAYS])
        async with mesh(folder, HOSTS, asks) as self._sites:
            for site in self._sites.values():
                self._unreliable(site)
            self._sites["ams"].give(DATA)
            to = [self._rng.choice(WIDE if asks is TRIANGLE else DEEP) for _ in range(self._rng.randrange(1, 5))]
            orders = [self._order(names, f"f{n}") for n, names in enumerate(to)]
            groups = (await asyncio.gather(*orders, self._faults(), self._faults()))[: len(to)]
            self._slow.clear()
            for site in self._sites.values():
                site.port.left = 0
            self._say("the last fault is over")
            for n, group in enumerate(groups):
                assert group is not None
                await self._must_end(group, to[n], f"f{n}")

    def _say(self, text: str) -> None:
        self.said.append(f"{time.monotonic() - self._began:6.2f} {text}")

    def _unreliable(self, site: Site) -> None:
        """Its fabric manager may not answer: what was asked has been carried out then, or not."""

        async def call(real: Any, *args: Any, **more: Any) -> Any:
            await asyncio.sleep(self._slow.get(site.name, 0.0) * self._rng.random())
            if site.name in self._away:
                raise Problem(503, "unreachable", "no fabric manager answers")
            told = await real(*args, **more)
            if site.name in self._away:
                raise Problem(503, "unreachable", "the fabric manager's answer was lost")
            return told

        for name in ASKED:
            setattr(site.fabric, name, partial(call, getattr(site.fabric, name)))

    async def _order(self, to: list[str], dest: str) -> str:
        await asyncio.sleep(1.5 * self._rng.random())
        while True:
            with suppress(httpx.HTTPError, RuntimeError):  # the latter where its controller is being ended
                answer = await self._sites["ams"].order(to, headers={"idempotency-key": dest}, dest_path=dest)
                if answer.status_code == 201:
                    self._say(f"group {answer.json()['id']} to {' '.join(to)}")
                    return str(answer.json()["id"])
                assert answer.status_code in (409, 502, 503), answer.text
            await asyncio.sleep(0.1)

    async def _faults(self) -> None:
        for _ in range(self._rng.randrange(2, 16)):
            await asyncio.sleep(0.7 * self._rng.random())
            await self._fault(self._rng.choice(FAULTS), self._rng.choice(list(self._sites.values())))

    async def _fault(self, kind: str, site: Site) -> None:
        a_while = 0.8 * self._rng.random()
        self._say(f"{kind} {site.name}")
        if kind == "kill" and site.name not in self._down:
            self._down.add(site.name)
            await site.stop()
            await asyncio.sleep(a_while)
            await site.start()
            self._down.remove(site.name)
        elif kind == "away":
            self._away.add(site.name)
            await asyncio.sleep(a_while)
            self._away.discard(site.name)
        elif kind == "slow":
            self._slow[site.name] = a_while
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

    async def _must_end(self, group: str, to: list[str], dest: str) -> None:
        told: dict[str, Any] = {}
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                told = await self._sites["ams"].end(group)
        if told.get("state") != "done":
            self.wrong.append(f"group {group} to {' '.join(to)}: {told or await self._sites['ams'].now(group)}")
            for name, site in self._sites.items():
                self.wrong.append(f"  at {name}: {site.coordinator.groups.get(group)}")
        for name in told.get("receivers", ()):
            host = name.rpartition("/")[2]
            site = next(site for site in self._sites.values() if host in site.fabric.hosts)
            if told["state"] == "done" and not site.has(host, DATA, dest):
                self.wrong.append(f"group {group}: {name} is done and has not the bytes")


async def campaign(seed: int, folder: Path) -> list[str]:
    """What went wrong, and then what happened; empty where nothing did."""
    one = Campaign(seed)
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
