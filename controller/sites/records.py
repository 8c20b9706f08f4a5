"""What controllers tell each other, and what one remembers of a group that reaches beyond its site."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from datacast.fabric_manager.api import FINAL_STATES, GroupSpec
from datacast.fabric_manager.api.reports import CODE_MAX, INT_MAX, MESSAGE_MAX, GroupFailure, Reason, ReceiverState
from datacast.origins.ranges import AT_SITE, PIECES_MAX
from datacast.services.sites_file import Name

Id = Annotated[str, Field(pattern=r"^s-[0-9a-f]{16}$")]
Receiver = Annotated[str, Field(min_length=1, max_length=320)]
Key = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Size = Annotated[int, Field(ge=0, le=1 << 53)]
HOSTS_MAX, PATH_MAX, PARTS_MAX = 8192, 16, 256
WHY_BYTES = 512 << 10
"""Of what is told at once of hosts' errors: another site's controller takes 2 MiB."""
HELD_MAX = PIECES_MAX // 4
"""Hexadecimal digits."""

State = Literal["ordered", "queued", "starting", "running", "cancelling", "done", "partial", "failed", "cancelled"]


class _Message(BaseModel):
    model_config = ConfigDict(extra="ignore")


class Failure(_Message):
    code: Annotated[str, Field(max_length=CODE_MAX)]
    message: Annotated[str, Field(max_length=MESSAGE_MAX)]

    @classmethod
    def cut(cls, code: str, message: str) -> Failure:
        """As long as it may be."""
        why = Reason.cut(code, message)
        return cls(code=why.code, message=why.message)

    @classmethod
    def of(cls, told: Reason | None) -> Failure | None:
        return None if told is None else cls(code=told.code, message=told.message)

    def told(self) -> GroupFailure:
        return GroupFailure(code=self.code, message=self.message)


class HostFigures(_Message):
    state: ReceiverState = "waiting"
    fraction: Annotated[float, Field(ge=0, le=1)] = 0.0
    sha256_ok: bool | None = None
    error: Failure | None = None

    def short(self, most: int) -> HostFigures:
        """With so many letters of an error."""
        if self.error is None:
            return self
        return self.model_copy(update={"error": Failure.cut(self.error.code, self.error.message[:most])})


class Progress(_Message):
    """What a site tells of its part."""

    state: State = "ordered"
    fraction: Annotated[float, Field(ge=0, le=1)] = 0.0
    rate_bps: Annotated[int, Field(ge=0, le=INT_MAX)] = 0
    error: Failure | None = None
    slow: Failure | None = None
    """Why it is slow, or waits, and goes on all the same."""
    hosts: Annotated[dict[Receiver, HostFigures], Field(max_length=HOSTS_MAX)] = {}
    """By name there; a host of a site behind it as SITE/host."""

    @property
    def final(self) -> bool:
        return self.state in FINAL_STATES

    def short(self) -> Progress:
        """As it is told: where thousands of hosts have failed each of them in fewer words."""
        failed = [row.error.message for row in self.hosts.values() if row.error is not None]
        most = WHY_BYTES // max(1, len(failed))
        if all(len(message) <= most for message in failed):
            return self
        return self.model_copy(update={"hosts": {name: row.short(most) for name, row in self.hosts.items()}})


class Order(_Message):
    """What a site is to do: fetch the object from who tells it this, and give it to these receivers."""

    id: Id
    size: Size
    path: Annotated[list[Name], Field(min_length=1, max_length=PATH_MAX)]
    """The sites it came through, the one that has the source first."""
    spec: GroupSpec
    """`receivers` as the site that gets this reads them; no source."""
    folder: bool = False
    """The object is the stream of a directory."""
    others: Annotated[list[Name], Field(max_length=PARTS_MAX)] = []
    """Sites that were given the same order: they will have pieces."""
    keys: Annotated[dict[Name, Key], Field(max_length=PATH_MAX + PARTS_MAX)] = {}
    """Of the sites of `path` and `others`: which ones of these names are meant (directory.py)."""


class Orders(_Message):
    orders: Annotated[list[Order], Field(max_length=64)] = []
    cancel: Annotated[list[Id], Field(max_length=4096)] = []
    why: dict[Id, Failure] = {}
    """Of some of these: they have failed where they began."""


class Held(_Message):
    """Which pieces of a group's object a site has, which it has begun, and in which of these it is now
    (origins/exchange.py: packed)."""

    version: Annotated[int, Field(ge=0)] = 0
    held: Annotated[str, Field(max_length=HELD_MAX)] = ""
    begun: Annotated[str, Field(max_length=HELD_MAX)] = ""
    heads: Annotated[str, Field(max_length=HELD_MAX)] = ""


class Mark(_Message):
    """What tells the source's file from another."""

    mtime_ns: int
    inode: int


class Part(_Message):
    """Another site's."""

    receivers: list[Receiver]
    shards: dict[Receiver, list[str]] = {}
    """Of these, who does not want all of it."""
    progress: Progress = Progress()


def is_fetched(spec: GroupSpec) -> bool:
    return spec.url is not None and not spec.url.startswith(AT_SITE)


class SiteGroup(_Message):
    id: Id
    path: list[Name] = []
    """Sites through which it came here; empty where the source is."""
    keys: dict[Name, Key] = {}
    """Of these."""
    spec: GroupSpec
    """`receivers`: those of this site."""
    size: Size
    folder: bool = False
    file: Mark | None = None
    local: str | None = None
    """The group of this site; None: it has no receivers here, or that is still to be begun (`begins`)."""
    others: list[Name] = []
    """Sites that were given the same order, and those that have given it too."""
    asked: list[Receiver] = []
    """The receivers of the order."""
    parts: Annotated[dict[Name, Part], Field(max_length=PARTS_MAX)] = {}
    cancelled: bool = False
    lost: Failure | None = None
    """It is cancelled because there is nobody left to have it from."""
    own: Progress = Progress()
    """Of the receivers here."""
    told: bool = False
    """Whoever ordered it knows how it ended."""
    requested_by: str = ""
    request_key: str = ""
    """Digest of the request, whose it is, and their name for it."""
    created_ns: int = 0
    finished_ns: int | None = None

    @property
    def fetched(self) -> bool:
        """Each site fetches it from the same URL: no site gives it to another."""
        return is_fetched(self.spec)

    @property
    def passes_on(self) -> bool:
        """It came here for sites behind this one only, or no host here will have it."""
        nobody = self.spec.receivers is None or (self.own.final and not self.has_all)
        return self.parent is not None and nobody

    @property
    def has_all(self) -> bool:
        """A host here has what all were to have."""
        return self.own.state == "done" or (self.own.state == "partial" and not self.spec.shards)

    @property
    def begins(self) -> bool:
        """Its hosts here have no group yet."""
        return self.spec.receivers is not None and self.local is None and not self.own.final

    @property
    def parent(self) -> str | None:
        return self.path[-1] if self.path else None

    @property
    def etag(self) -> str:
        return f'"{self.id}-{self.size}"'

    def progress(self) -> Progress:
        """Of all of it."""
        every = [
            *([self.own] if self.spec.receivers is not None or self.own.final else []),
            *(part.progress for part in self.parts.values()),
        ]
        hosts = dict(self.own.hosts)
        for name, part in self.parts.items():
            hosts |= {f"{name}/{host}": figures for host, figures in part.progress.hosts.items()}
        rows = list(hosts.values())
        error = next((p.error for p in every if p.error is not None and p.state in ("failed", "partial")), None)
        error = error or next((p.error for p in every if p.error is not None), None)
        slow = next((p.slow for p in every if p.slow is not None and not p.final), None)
        state = _together([p.state for p in every], self.cancelled)
        if self.lost is not None:
            state, error = "failed" if state == "cancelled" else state, self.lost
        return Progress(
            state=state,
            fraction=sum(row.fraction for row in rows) / len(rows) if rows else 0.0,
            rate_bps=max((p.rate_bps for p in every), default=0),
            error=error,
            slow=slow,
            hosts=hosts if len(hosts) <= HOSTS_MAX else {},
        )


def _together(states: list[State], cancelled: bool) -> State:
    if not all(state in FINAL_STATES for state in states):
        if cancelled:
            return "cancelling"
        return "running" if any(state in ("running", *FINAL_STATES) for state in states) else "starting"
    kinds = set(states)
    if len(kinds) == 1:
        return states[0]
    return "cancelled" if cancelled and "done" not in kinds else "partial" if kinds & {"done", "partial"} else "failed"
