"""What a group fetches: one object, or those of a folder's files, as one stream (origins/bundle.py)."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from datacast.origins.bundle import Entry, stream
from datacast.origins.ranges import A_FOLDER, AT_SITE

from .answers import Refused, Results, StatAnswer
from .busy import Busy
from .errors import GroupError

if TYPE_CHECKING:
    from datacast.fabric_manager.api import GroupSpec

AT_ONCE = 32
"""Objects that a fetcher is asked about at a time (FETCH_STAT_MAX of the agent)."""
FATAL = ("changed", "bad_answer", "no_ranges", "not_found")
"""What an origin says of the object, not of who asks."""

THROTTLED = "throttled"


class Throttled(GroupError):
    """For the moment an origin has no time."""

    def __init__(self, row: Refused, name: str) -> None:
        super().__init__(row.code, row.error, name)
        self.later_s = row.later_s


Ask = Callable[[dict[str, tuple[str, ...]]], Awaitable[Results[StatAnswer]]]
"""URLs by fetcher."""


@dataclass
class Object:
    """Bytes of a URL, or `data` in base64. The ETag is known once it was `seen`; "": it has none."""

    url: str
    data: str = ""
    size: int | None = None
    etag: str = ""
    seen: bool = False


class Objects:
    """`all`: in the order of the stream. `manifest`: what the stream begins with, where there are several. `folder`: it
    is a directory's, also where another site gives the whole of it as one object."""

    def __init__(self, spec: GroupSpec) -> None:
        self.manifest = b""
        self._name, self._fetchers, self._bytes = spec.url or "", spec.roots, 0
        self._lease_s = spec.options.lease_ms / 1000
        self.folder = bool(spec.parts) or (self._name.startswith(AT_SITE) and self._name.endswith(A_FOLDER))
        if not spec.parts:
            self.all = [Object(self._name)]
            return
        parts = {part.path: part for part in spec.parts}
        made = stream({part.path: Entry(part.size, part.sha256) for part in spec.parts})
        self.manifest, self._bytes = made.manifest, made.size
        self.all = [Object(parts[path].url, parts[path].data, parts[path].size) for path in made.files]

    @property
    def size(self) -> int:
        """Bytes of the stream, once they are known."""
        return self._bytes if self.manifest else self.all[0].size or 0

    async def stat(
        self, ask: Ask, refused: Callable[[str, GroupError], list[str]], waits: Callable[[dict[str, str]], None]
    ) -> None:
        """Ask fetchers for sizes and ETags, each object at one of them, and each of them for one at least: so all have
        shown that they may. `ask`: what is to be asked by fetcher, what they answer. `refused`: a fetcher cannot;
        answers those who are left. `waits`: what origins have no time for, by fetcher; they are asked again until the
        lease is over, unless others have said everything. Raises GroupError."""
        fetchers, proven = list(self._fetchers), set[str]()
        todo = deque(one for one in self.all if one.url)
        sample = list(todo)[:1]
        busy = Busy(self._lease_s)
        while sample and (todo or not proven.union(busy.waiting).issuperset(fetchers)):
            shares: dict[str, list[Object]] = {}
            able = [name for name in fetchers if name not in busy.waiting]
            if not able:
                await asyncio.sleep(busy.next_s(time.monotonic()))
                busy.again(time.monotonic())
                continue
            for n, name in enumerate(able):
                count = min(AT_ONCE, -(-len(todo) // (len(able) - n)))
                shares[name] = [todo.popleft() for _ in range(count)] or ([] if name in proven else sample)
            answers = await ask({name: tuple([one.url for one in share]) for name, share in shares.items() if share})
            for name, share in shares.items():
                error = self._answered(name, share, answers.of(name)) if share else None
                if error is None:
                    proven.add(name)
                    continue
                if self.manifest and error.code in FATAL:
                    raise error
                todo.extend(one for one in share if not one.seen and one not in todo)
                if isinstance(error, Throttled):
                    if not (why := busy.refused(name, error.message, error.later_s, time.monotonic())):
                        continue
                    error = GroupError(error.code, why, name)
                fetchers = refused(name, error)
            waits({**busy.waiting})
        waits({})

    def _answered(self, name: str, share: list[Object], told: StatAnswer) -> GroupError | None:
        """Take down what a fetcher says; why it cannot fetch. Raises GroupError where others were told otherwise."""
        rows = told.objects
        if not told.ok or rows is None or len(rows) != len(share):
            return GroupError(told.code or "error", told.error or "no sizes", name)
        for one, row in zip(share, rows, strict=True):
            if isinstance(row, Refused):
                return Throttled(row, name) if row.code == THROTTLED else GroupError(row.code, row.error, name)
            size, etag = row
            if one.seen and (size, etag) != (one.size, one.etag):
                raise GroupError("changed", f"{one.url} is not the same object for all who fetch it", one.url)
            if one.size not in (None, size):
                message = f"{one.url} has {size} bytes, expected were {one.size}"
                raise GroupError("changed", message, one.url)
            one.size, one.etag, one.seen = size, etag or "", True
        return None
