"""What nodes tell over their registration: messages of anybody, each read once into what is looked at. What is optional
and makes no sense is passed over; without what must be there a message is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from datacast.core.errors import DatacastError
from datacast.services.framing import Message

from .api.topology import Counted

NAME_MAX = 64
PORTS_MAX = 65535
AWAY_MS_MAX = 10_000
"""As neighbours (libdatacast/include/datacast/hello.h)."""
REASONS_MAX, REASON_MAX = 64, 64
TEXT_MAX, IFNAME_MAX, ROOTS_MAX = 4096, 64, 16
"""Letters of what a node says of itself, of a port's name, and folders: it is told to all who follow the topology, and
kept for those who come again."""
COUNTED = ("forwarded", "interests", "hits", "trees", "bytes")


class FabricError(DatacastError):
    """A report that cannot be accepted; `code` as in docs/signalling.md."""

    def __init__(self, code: str, message: str, what: str = "") -> None:
        super().__init__(message, what=what)
        self.code = code


@dataclass(frozen=True)
class PortTold:
    number: int
    up: bool
    ifname: str | None
    mtu: int | None


@dataclass(frozen=True, kw_only=True)
class Registration:
    """A `register` message. What is None was not said."""

    node: str
    kind: str
    addr: str | None = None
    ports: tuple[PortTold, ...] = ()
    pid: int | None = None
    instance: str | None = None
    """Which run of its process this is."""
    n: int | None = None
    """Its last link report; `ports` tells what became of it."""
    version: str | None = None
    control: str | None = None
    msd: int | None = None
    cache: bool | None = None
    proxy: bool = False
    dest_roots: tuple[str, ...] = ()
    source_roots: tuple[str, ...] = ()

    @classmethod
    def read(cls, message: Message) -> Registration:
        """Raises FabricError."""
        name, kind, cache = message.get("node"), message.get("kind"), message.get("cache")
        if not isinstance(name, str) or len(name) > TEXT_MAX:
            raise FabricError("unknown_node", f"no topology has a node {str(name)[:NAME_MAX]!r}", str(name)[:NAME_MAX])
        msd = _count(message.get("msd"))
        return cls(
            node=name,
            kind=(kind if isinstance(kind, str) else repr(kind))[:NAME_MAX],
            addr=_text(message.get("addr")),
            ports=_ports(name, message.get("ports", [])),
            pid=_count(message.get("pid")),
            instance=_text(message.get("instance")),
            n=_count(message.get("n")),
            version=_text(message.get("version")),
            control=_text(message.get("control")),
            msd=msd or None,
            cache=cache if isinstance(cache, bool) else None,
            proxy=message.get("proxy") is True,
            dest_roots=_texts(message.get("dest_roots")),
            source_roots=_texts(message.get("source_roots")),
        )


@dataclass(frozen=True)
class NodeTold:
    """Of a node, with a heartbeat."""

    counted: Counted
    carried: dict[str, int]
    """By port: how long a frame came whole from there lately."""


@dataclass(frozen=True)
class Heartbeat:
    """Anything may be missing."""

    t_ns: int | None
    disks: tuple[tuple[int, int], ...] | None
    """Bytes free and bytes in all of each of dest_roots."""
    nodes: dict[str, NodeTold]

    @classmethod
    def read(cls, message: Message, names: Sequence[str]) -> Heartbeat:
        """`names`: a process speaks for its own nodes."""
        disks, nodes, found = message.get("disks"), _object(message.get("nodes")), dict[str, NodeTold]()
        for name in names:
            if isinstance(told := nodes.get(name), dict):
                found[name] = NodeTold(_counted(told), _counts(_object(told.get("carried"))))
        pairs = [
            (pair[0], pair[1])
            for pair in (disks if isinstance(disks, list) else ())
            if isinstance(pair, list) and len(pair) == 2 and None not in map(_count, pair)
        ]
        return cls(_count(message.get("t_ns")), tuple(pairs) if isinstance(disks, list) else None, found)


@dataclass(frozen=True)
class LinkReport:
    """A node's, about one of its ports. `node` None: the process has only one."""

    node: str | None
    port: int
    up: bool
    n: int
    t_ns: int | None
    reason: str | None = None

    @classmethod
    def read(cls, message: Message) -> LinkReport:
        """Raises FabricError."""
        node, port, up, n = message.get("node"), message.get("port"), message.get("up"), message.get("n")
        t_ns, reason = message.get("t_ns"), _text(message.get("reason"))
        if type(port) is not int or type(up) is not bool or type(n) is not int:
            raise FabricError("bad_request", "a link report needs port, up and n", str(node))
        if node is not None and not isinstance(node, str):
            raise FabricError("bad_request", f"a link report of {node!r}, which is no name", str(node))
        return cls(node, port, up, n, t_ns if type(t_ns) is int else None, reason and reason[:REASON_MAX])


def away_ms(message: Message) -> int:
    """For how long a process will be away. Raises FabricError."""
    for_ms = _count(message.get("for_ms"))
    if for_ms is None or for_ms > AWAY_MS_MAX:
        raise FabricError("bad_request", f"away needs for_ms, 0 to {AWAY_MS_MAX}, not {message.get('for_ms')!r}")
    return for_ms


def _ports(node: str, told: Any) -> tuple[PortTold, ...]:
    rows: list[Any] = told[:PORTS_MAX] if isinstance(told, list) else [None]
    if not all(isinstance(p, dict) and _is_port(p.get("port")) and isinstance(p.get("up", True), bool) for p in rows):
        raise FabricError("bad_request", f"node {node}: ports must be a list of {{port, up}}", node)
    return tuple(
        [PortTold(p["port"], p.get("up", True), _text(p.get("ifname"), IFNAME_MAX), _count(p.get("mtu"))) for p in rows]
    )


def _counted(told: Message) -> Counted:
    """What is no count is left out."""
    reasons = list(_object(told.get("drop")).items())[:REASONS_MAX]
    return Counted(**_counts(told, COUNTED), drop=_counts({key[:NAME_MAX]: count for key, count in reasons}))


def _is_port(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 65534


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63 else None


def _counts(told: Message, keys: tuple[str, ...] | None = None) -> dict[str, int]:
    return {key: n for key in (told if keys is None else keys) if (n := _count(told.get(key))) is not None}


def _text(value: Any, most: int = TEXT_MAX) -> str | None:
    return value if isinstance(value, str) and len(value) <= most else None


def _object(value: Any) -> Message:
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> tuple[str, ...]:
    found = (v for v in value if _text(v) is not None) if isinstance(value, list) else ()
    return tuple(islice(found, ROOTS_MAX))
