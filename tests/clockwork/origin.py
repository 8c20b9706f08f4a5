"""Agents that fetch, and the origin that they fetch from."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from .agents import Agent, Message, Role
from .plane import ones

AT_ONCE = 4
CRAWLS = 100_000


@dataclass
class Origin:
    """Its objects, and what befalls who asks for them."""

    sizes: dict[str, int] = field(default_factory=dict)
    """By URL."""
    bps: float = 50_000_000
    """To each fetcher."""
    asked: Counter[tuple[str, int]] = field(default_factory=Counter)
    """How often each block of a group was asked for, by all."""
    by: Counter[str] = field(default_factory=Counter)
    vain: Counter[str] = field(default_factory=Counter)
    """How often one was ordered to fetch that cannot."""
    wrong: dict[str, str] = field(default_factory=dict)
    """What those answer who are to fetch and cannot: a code, by host."""
    slow: set[str] = field(default_factory=set)
    """What they ask for comes CRAWLS times as slowly."""
    left: set[str] = field(default_factory=set)
    """Taken out of the group."""
    opened: set[str] = field(default_factory=set)
    """Of these, who was opened again all the same."""
    busy_to: float = 0.0
    """Nobody is opened anew before."""


@dataclass
class Wanted:
    """What a fetcher is ordered to fetch."""

    blocks: list[int] = field(default_factory=list)
    under_way: set[int] = field(default_factory=set)
    task: asyncio.Task[None] | None = None


class Fetcher(Agent):
    """An agent that fetches, as host_agent/fetching.c."""

    def __init__(self, origin: Origin, *given: Any) -> None:
        super().__init__(*given)
        self.origin = origin
        self.wanted: dict[str, Wanted] = {}
        """By group, of those that it fetches for."""

    def _stat(self, group: str, part: Message) -> Message:
        if "urls" not in part:
            return super()._stat(group, part)
        if code := self.origin.wrong.get(self.name):
            return {"ok": False, "code": code, "error": f"403 for {self.name}"}
        return {"ok": True, "objects": [[self.origin.sizes[url], "etag"] for url in part["urls"]]}

    def _open(self, group: str, part: Message, body: Message, writer: asyncio.StreamWriter) -> Message:
        self.origin.opened |= {self.name} & self.origin.left
        fresh, fetches = group not in self.roles, part.get("roots") or part.get("fetches")
        if fresh and self.plane.loop.now < self.origin.busy_to:
            return {"ok": False, "code": "busy", "error": "the file is being written out"}
        if fresh or not fetches:
            self.wanted.pop(group, None)
        if fetches:
            self.wanted.setdefault(group, Wanted())
        answer = super()._open(group, part, body, writer)
        if fresh and (role := self.roles.get(group)) is not None:
            asyncio.get_running_loop().call_soon(self._tell_blocks, role)
        return answer

    def _fetch(self, role: Role, part: Message) -> Message:
        wanted = self.wanted.get(role.group)
        if wanted is None:
            return super()._fetch(role, part)
        if code := self.origin.wrong.get(self.name):
            wanted.blocks.clear()
            self.origin.vain[self.name] += 1
            return {"ok": False, "code": code, "error": f"403 for {self.name}"}
        if "leave" in part:
            left = {b for first, n in part["leave"] for b in range(first, first + n)} & set(wanted.blocks)
            wanted.blocks = [block for block in wanted.blocks if block not in left]
            return {"ok": True, "left": sorted(left)}
        for first, count in part["blocks"]:
            known = {*wanted.blocks, *wanted.under_way}
            wanted.blocks += [block for block in range(first, first + count) if block not in known]
        if wanted.task is None or wanted.task.done():
            wanted.task = asyncio.create_task(self._fetch_all(role, wanted))
        return {"ok": True}

    async def _fetch_all(self, role: Role, wanted: Wanted) -> None:
        _, piece, per = role.cut
        origin = self.origin
        while wanted.blocks and self._goes_on(role, wanted):
            some, wanted.blocks = wanted.blocks[:AT_ONCE], wanted.blocks[AT_ONCE:]
            new = [block for block in some if block not in role.blocks]
            wanted.under_way = set(new)
            origin.asked.update([(role.group, block) for block in new])
            origin.by[self.name] += len(new)
            share = origin.bps / (CRAWLS if self.name in origin.slow else 1)
            await asyncio.sleep(len(new) * per * piece * 8 / share)
            if not self._goes_on(role, wanted):
                return
            for block in set(new) - role.blocks:
                whole = ones(min(per, role.pieces - block * per), block * per)
                self.plane.watch.fetched(role.group, self.name, whole)
                role.held |= whole
            role.digests.update(new)
            wanted.under_way = set()
            self.tell_digests(role, some)
            self._verify(role)

    def _goes_on(self, role: Role, wanted: Wanted) -> bool:
        return self.roles.get(role.group) is role and self.wanted.get(role.group) is wanted

    def _repeat(self, role: Role) -> None:
        self._tell_blocks(role)
        super()._repeat(role)

    def _tell_blocks(self, role: Role) -> None:
        """What others may be sent, or need not fetch."""
        if role.group in self.wanted:
            self.tell_digests(role, sorted(role.blocks))
