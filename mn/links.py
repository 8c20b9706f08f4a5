"""Cables with length: what a topology's file calls `delay_ms`, without netem, which a kernel may lack."""

from __future__ import annotations

from functools import partial
from typing import Any

from mininet.link import Intf, Link
from mininet.node import Node
from mininet.util import makeIntfPair

from datacast.lab.errors import LabError
from datacast.lab.network import INNER_MAC


def with_length(kind: Any, between: Node, inner: tuple[str, str]) -> Any:
    """The kind of link, as two veth pairs whose `inner` ends meet in the namespace of the delay line."""
    if isinstance(kind, partial):
        return partial(with_length(kind.func, between, inner), *kind.args, **kind.keywords)
    base: type[Link] = kind

    class LongLink(base):  # type: ignore[misc]
        @classmethod
        def makeIntfPair(cls, one: str, other: str, mac1: str, mac2: str, node1: Node, node2: Node, **_: Any) -> None:
            ends = zip((one, other), inner, (mac1, mac2), (node1, node2), strict=True)
            for name, far, mac, node in ends:
                makeIntfPair(name, far, mac, INNER_MAC, node, between, deleteIntfs=False)

    return LongLink


def rate_of(intf: Intf) -> int | None:
    """Bits per second of an end whose link was given `bw`, in Mbit/s."""
    bw = intf.params.get("bw")
    return round(float(bw) * 1e6) if bw else None


def shapes(intf: Intf) -> bool:
    """Whether Mininet has given an end a shaper. Raises LabError where it has put netem there and no rate."""
    if not hasattr(intf, "bwCmds"):
        return False
    if 0 < float(intf.params.get("bw") or 0) <= intf.bwParamMax:
        return True
    if any(intf.params.get(key) for key in ("delay", "loss", "max_queue_size")):
        raise LabError(
            f"{intf} has delay, loss or max_queue_size of TCLink, but no bw that TCLink takes",
            what=str(intf),
            remedy=f"give it bw, up to {intf.bwParamMax}, or delay_ms in place of them",
        )
    return False
