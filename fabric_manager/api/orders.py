"""What the fabric manager tells a worker over its stream of orders (docs/signalling.md, "Workers"): a form for each.

Times are Unix nanoseconds (`_ns`).
"""

from __future__ import annotations

import msgspec

from datacast.services import framing

from .reports import Adopt, Reaction
from .specs import GroupSpec


class ToWorker(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag_field="type"):
    pass


class Hello(ToWorker, frozen=True, kw_only=True, tag="hello"):
    pass


class Ping(ToWorker, frozen=True, kw_only=True, tag="ping"):
    pass


class Owned(ToWorker, frozen=True, kw_only=True, tag="owned"):
    """What it has, with epochs; it drops the others."""

    groups: dict[str, int]


class Load(ToWorker, frozen=True, kw_only=True, tag="load", omit_defaults=True):
    """Trees of all groups on links: so many more, or less, on each arc."""

    arcs: list[tuple[str, str, int]]
    whole: bool = False
    """These are all there are."""


class Drop(ToWorker, frozen=True, kw_only=True, tag="drop"):
    """Of a group, masters before this epoch."""

    group: str
    epoch: int


class StartOrder(ToWorker, frozen=True, kw_only=True, tag="order"):
    """A worker is to run a group's master."""

    group: str
    epoch: int
    """Of this master; what an earlier one says is refused everywhere."""
    spec: GroupSpec
    """`receivers` a list, `dest_path` given."""
    tree_ids: list[int]
    """Ids reserved for its trees; more by `FabricManagerClient.tree_ids`."""
    version: int
    """The topology's version when the group was given out."""
    accepted_ns: int
    """When the request arrived."""
    dest_paths: dict[str, str] = {}
    own: list[tuple[str, str, int]] = []
    """What the worker has heard of as load, but is this group's own, of an earlier master: (from, to, trees)."""
    adopt: Adopt | None = None
    """Go on with what an earlier master began."""
    reactions: list[Reaction] = []
    """Of earlier masters."""
    done: dict[str, int | None] = {}
    """Receivers that have the file already, and since when."""

    @property
    def receivers(self) -> list[str]:
        assert isinstance(self.spec.receivers, list)
        return self.spec.receivers

    @property
    def again(self) -> bool:
        """Another master had the group before: members may know it, also where there is nothing to adopt."""
        return self.epoch > 1


class ToMaster(ToWorker, frozen=True, kw_only=True, omit_defaults=True):
    """To the master of this epoch."""

    group: str = ""
    epoch: int = 0


class Cancel(ToMaster, frozen=True, kw_only=True, tag="cancel"):
    """End it: as cancelled, or as failed where there is a `code`."""

    code: str = ""
    message: str = ""


class Join(ToMaster, frozen=True, kw_only=True, tag="join"):
    """A receiver more."""

    host: str
    dest_path: str | None = None


class Leave(ToMaster, frozen=True, kw_only=True, tag="leave"):
    """A receiver less."""

    host: str


class Members(ToMaster, frozen=True, kw_only=True, tag="members"):
    """All receivers that there should be, when the master was out of touch."""

    receivers: list[str]
    dest_paths: dict[str, str]


class Rates(ToMaster, frozen=True, kw_only=True, tag="rates"):
    """Bit/s that trees may send at most, by id; None: no bound."""

    rates: dict[str, int | None]


class Offers(ToMaster, frozen=True, kw_only=True, tag="offers"):
    """Of an object of another site, first and count of the pieces that may be fetched now."""

    pieces: list[tuple[int, int]]


AnyOrder = Hello | Ping | Owned | Load | Drop | StartOrder | Cancel | Join | Leave | Members | Rates | Offers
_reader: msgspec.json.Decoder[AnyOrder] = msgspec.json.Decoder(AnyOrder)


def read(line: bytes | str) -> AnyOrder:
    """Raises FramingError: it is none of these, or not of its form."""
    return framing.read_json(_reader, line)
