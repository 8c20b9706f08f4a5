"""The table: frames in, frames expected out, the same for every data plane.

A scenario is a list of steps. A step sends frames into ports and says which frames leave which ports; every other port
stays silent. Ethernet addresses are not compared: they do not route (docs/wire.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from scapy.contrib.mpls import MPLS
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet, Raw

from datacast.core import constants as c
from datacast.core.scapy_layer import Datacast, Stop, stack

PORTS = 8
SOURCE, LEFT, RIGHT = 0, 1, 2
"""Ports: towards the source, two receivers."""
CACHE_BYTES = 16 << 10
"""Of the content store, per tree (planes.CACHE)."""
RETX_S = 0.150
"""After this a RETX is sent on again (planes.CACHE: 100 ms)."""


@dataclass
class Step:
    """`send`: (port, frame). `expect`: (port, frame), in any order. `wait_s`: before sending."""

    send: list[tuple[int, bytes]]
    expect: list[tuple[int, bytes]] = field(default_factory=list)
    wait_s: float = 0.0
    knows: tuple[str, ...] = ()
    """Addresses of ordinary Ethernet that were seen: to be learned before this step."""


@dataclass
class Scenario:
    """`needs`: "bridge" where ordinary Ethernet must be forwarded. `depth`: the deepest stack that must be popped.
    `drop`: the node's counter that must have grown by one at the end (of the appliance, or of the whitebox itself)."""

    name: str
    steps: list[Step]
    needs: str = ""
    depth: int = 2
    drop: str = ""
    below: bool = False
    """The fault is below the label that is popped: a switch that does not look there (Open vSwitch) may send the frame
    on, and the next one refuses it. Such frames are shorter than Ethernet allows."""


def labels_of(frame: bytes) -> int:
    """Labels of a stack, up to the bottom or the end."""
    if frame[12:14] != c.ETHERTYPE_MPLS.to_bytes(2, "big"):
        return 0
    count, at = 0, 14
    while at + 4 <= len(frame):
        count += 1
        if frame[at + 2] & 1:
            break
        at += 4
    return count


def adj(port: int) -> int:
    return c.LABEL_ADJ + port


def some(n: int, seed: int = 7) -> bytes:
    """n bytes that repeat late."""
    return bytes((i * 131 + seed * 17 + (i >> 8)) & 255 for i in range(n))


# ---- labels ----
def data(tree: int = 0xA1, seq: int = 7, payload: bytes = b"payload", flags: str = "") -> Packet:
    return Datacast(type="data", tree=tree, seq=seq, flags=flags) / Raw(payload)


Out = Iterable[tuple[int, Packet | bytes]]


def one(name: str, port: int, frame: Packet | bytes, out: Out = (), **more: Any) -> Scenario:
    """A scenario of one frame."""
    raw = bytes(frame)
    expect = [(p, bytes(f)) for p, f in out]
    return Scenario(name, [Step([(port, raw)], expect)], depth=max(labels_of(raw), 1), **more)


def label_scenarios() -> list[Scenario]:
    found = []
    for port in range(PORTS):
        found.append(one(f"adjacency {port} at the bottom", (port + 1) % PORTS, stack(adj(port)) / data(),
                         [(port, stack() / data())]))
    found += [
        one("adjacency above LOCAL", 3, stack(adj(2), c.LABEL_LOCAL) / data(), [(2, stack(c.LABEL_LOCAL) / data())]),
        one("adjacency above an adjacency this switch has not", 3, stack(adj(2), adj(60000)) / data(),
            [(2, stack(adj(60000)) / data())]),
        one("two labels below are left alone", 1, stack(adj(5), adj(6), c.LABEL_LOCAL) / data(),
            [(5, stack(adj(6), c.LABEL_LOCAL) / data())]),
        one("out of the port it came in by: never", 4, stack(adj(4)) / data()),
        one("out of the port it came in by, not at the bottom", 4, stack(adj(4), adj(4), c.LABEL_LOCAL) / data()),
        one("below: TTL and class are left alone", 0,
            Ether(type=c.ETHERTYPE_MPLS) / MPLS(label=adj(1), s=0, ttl=255) / MPLS(label=adj(3), s=1, cos=5, ttl=9)
            / data(), [(1, Ether(type=c.ETHERTYPE_MPLS) / MPLS(label=adj(3), s=1, cos=5, ttl=9) / data())]),
        one("top: TTL and class do not matter", 0, Ether(type=c.ETHERTYPE_MPLS) / MPLS(label=adj(1), s=1, cos=3, ttl=1)
            / data(), [(1, stack() / data())]),
        one("what lies under the stack is not looked at", 0, stack(adj(1)) / Raw(some(200)),
            [(1, stack() / Raw(some(200)))]),
        one("no such port, at the bottom", 0, stack(adj(PORTS)) / data()),
        one("no such port, not at the bottom", 0, stack(adj(PORTS), c.LABEL_LOCAL) / data()),
        one("the highest port there can be", 0, stack(adj(65534)) / data()),
        one("copies are for the appliance to ask for", 0, stack(c.LABEL_REPLICATE | 0b110) / data()),
        one("a label beyond all ports", 0, stack((1 << 20) - 1) / data()),
        one("LOCAL with a label below", 0, stack(c.LABEL_LOCAL, adj(1)) / data()),
        one("an empty stack: no endpoint here", 0, stack() / data()),
        one("a hello", 0, stack(hello=True) / Datacast(type="hello")),
        one("a hello where data would be", 0, stack() / Datacast(type="hello")),
        one("no label after the EtherType", 0, Ether(type=c.ETHERTYPE_MPLS)),
        one("a label cut in two", 0, bytes(stack(adj(1)))[:16]),
        one("no label where one must follow", 0, bytes(stack(adj(1), c.LABEL_LOCAL))[:18], below=True),
        one("the second label cut in two", 0, bytes(stack(adj(1), c.LABEL_LOCAL))[:20], below=True),
    ]
    found += [one(f"unknown label {label}", 0, stack(label, adj(1)) / data())
              for label in (0, 3, 16, c.LABEL_LOCAL - 1, c.LABEL_LOCAL + 1, c.LABEL_ADJ - 1)]
    return found


def size_scenarios() -> list[Scenario]:
    found = []
    for name, total in (("minimal", 60), ("of 1,500 bytes", 1514), ("of 9,000 bytes", 9014)):
        front = 14 + 8 + 16
        packet = data(payload=some(total - front))
        found.append(one(f"a frame {name}", 6, stack(adj(7), c.LABEL_LOCAL) / packet,
                         [(7, stack(c.LABEL_LOCAL) / packet)]))
    return found


def deep_scenarios(limit: int | None) -> list[Scenario]:
    """As deep as the data plane goes, and one deeper where it has a limit."""
    depth = limit or 50
    deep = [adj(1)] + [adj(2)] * (depth - 2) + [c.LABEL_LOCAL]
    found = [one(f"a stack of {depth} labels", 0, stack(*deep) / data(), [(1, stack(*deep[1:]) / data())])]
    if limit is not None:
        found.append(one(f"a stack of {depth + 1} labels", 0, stack(adj(1), *deep) / data()))
    return found


# ---- ordinary Ethernet ----
def ethernet_scenarios() -> list[Scenario]:
    a, b = "02:00:00:00:00:0a", "02:00:00:00:00:0b"
    shout = Ether(src=a, dst="ff:ff:ff:ff:ff:ff") / ARP(op=1, hwsrc=a, psrc="10.0.0.1", pdst="10.0.0.2")
    answer = Ether(src=b, dst=a) / ARP(op=2, hwsrc=b, psrc="10.0.0.2", hwdst=a, pdst="10.0.0.1")
    tcp = Ether(src=a, dst=b) / IP(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=1, dport=2) / Raw(some(1400))
    jumbo = Ether(src=b, dst=a) / IP(src="10.0.0.2", dst="10.0.0.1") / UDP(sport=1, dport=2) / Raw(some(8972))
    steps = [
        Step([(0, bytes(shout))], [(port, bytes(shout)) for port in range(1, PORTS)]),
        Step([(5, bytes(answer))], [(0, bytes(answer))], knows=(a,)),
        Step([(0, bytes(tcp))], [(5, bytes(tcp))], knows=(a, b)),
        Step([(5, bytes(jumbo))], [(0, bytes(jumbo))]),
        # Datacast between the same ports does not disturb it.
        Step([(0, bytes(stack(adj(5)) / data()))], [(5, bytes(stack() / data()))]),
        Step([(0, bytes(tcp))], [(5, bytes(tcp))]),
    ]
    return [Scenario("Ethernet and IP: flooded, learned, untouched", steps, needs="bridge")]


# ---- interests and data, through the node ----
Segments = tuple[list[int], list[int]]


def interest(tree: int, seq: int, receiver: int, *, store: bool = True, flags: str = "", lag: int = 0) -> bytes:
    """From a receiver at port `receiver`: this switch is the one waypoint, the source is one link on."""
    own = Stop(flags="store" if store else "", ret=[receiver], fwd=[SOURCE])
    last = Stop(flags="ret_local", ret=[3])
    return bytes(stack(c.LABEL_LOCAL) / Datacast(type="interest", tree=tree, seq=seq, flags=flags, lag=lag,
                                                 path=[own, last]))


def onward(tree: int, seq: int, *, flags: str = "", lag: int = 0) -> bytes:
    """What this switch sends to the source."""
    last = Stop(flags="ret_local", ret=[3])
    return bytes(stack() / Datacast(type="interest", tree=tree, seq=seq, flags=flags, lag=lag, path=[last]))


def arriving(tree: int, seq: int, payload: bytes, flags: str = "") -> bytes:
    return bytes(stack(c.LABEL_LOCAL) / data(tree, seq, payload, flags))


def leaving(tree: int, seq: int, payload: bytes, flags: str = "") -> bytes:
    return bytes(stack() / data(tree, seq, payload, flags))


def node_scenarios(tree: Callable[[], int]) -> list[Scenario]:
    """`tree()`: an id not used before."""
    found = []
    p = some(1000)

    t = tree()
    found.append(Scenario("an interest and its data", [
        Step([(LEFT, interest(t, 0, LEFT))], [(SOURCE, onward(t, 0))]),
        Step([(SOURCE, arriving(t, 0, p))], [(LEFT, leaving(t, 0, p))])]))

    t = tree()
    found.append(Scenario("two interests are aggregated, the data is copied", [
        Step([(LEFT, interest(t, 1, LEFT))], [(SOURCE, onward(t, 1))]),
        Step([(RIGHT, interest(t, 1, RIGHT))]),
        Step([(SOURCE, arriving(t, 1, p))], [(LEFT, leaving(t, 1, p)), (RIGHT, leaving(t, 1, p))])]))

    t = tree()
    found.append(Scenario("a storing waypoint answers later interests itself", [
        Step([(LEFT, interest(t, 2, LEFT))], [(SOURCE, onward(t, 2))]),
        Step([(SOURCE, arriving(t, 2, p))], [(LEFT, leaving(t, 2, p))]),
        Step([(RIGHT, interest(t, 2, RIGHT))], [(RIGHT, leaving(t, 2, p))])]))

    t = tree()
    found.append(Scenario("a waypoint that does not store asks again", [
        Step([(LEFT, interest(t, 3, LEFT, store=False))], [(SOURCE, onward(t, 3))]),
        Step([(SOURCE, arriving(t, 3, p))], [(LEFT, leaving(t, 3, p))]),
        Step([(RIGHT, interest(t, 3, RIGHT, store=False))], [(SOURCE, onward(t, 3))]),
        Step([(SOURCE, arriving(t, 3, p))], [(RIGHT, leaving(t, 3, p))])]))

    t = tree()
    big = some(8000)
    steps = []
    for seq in range(3):  # 24,000 bytes: the first of the three no longer fits 16 KB
        steps += [Step([(LEFT, interest(t, seq, LEFT))], [(SOURCE, onward(t, seq))]),
                  Step([(SOURCE, arriving(t, seq, big))], [(LEFT, leaving(t, seq, big))])]
    steps += [Step([(LEFT, interest(t, 2, LEFT))], [(LEFT, leaving(t, 2, big))]),
              Step([(LEFT, interest(t, 0, LEFT))], [(SOURCE, onward(t, 0, lag=ANY_LAG))])]
    found.append(Scenario("the oldest packet leaves the cache first", steps))

    t = tree()
    found.append(Scenario("RETX is sent on again, but not at once", [
        Step([(LEFT, interest(t, 4, LEFT))], [(SOURCE, onward(t, 4))]),
        Step([(LEFT, interest(t, 4, LEFT, flags="RETX"))], [(SOURCE, onward(t, 4, flags="RETX"))], wait_s=RETX_S),
        Step([(SOURCE, arriving(t, 4, p))], [(LEFT, leaving(t, 4, p))])]))

    t = tree()
    found.append(Scenario("the answer to a duplicate passes and is not stored", [
        Step([(LEFT, interest(t, 5, LEFT))], [(SOURCE, onward(t, 5))]),
        Step([(SOURCE, arriving(t, 5, p, "DUP"))], [(LEFT, leaving(t, 5, p, "DUP"))]),
        Step([(RIGHT, interest(t, 5, RIGHT))], [(SOURCE, onward(t, 5))])]))

    t = tree()
    q = some(1000, seed=8)
    found.append(Scenario("NOCACHE is not answered from the cache, and replaces what is there", [
        Step([(LEFT, interest(t, 6, LEFT))], [(SOURCE, onward(t, 6))]),
        Step([(SOURCE, arriving(t, 6, p))], [(LEFT, leaving(t, 6, p))]),
        Step([(LEFT, interest(t, 6, LEFT, flags="RETX+NOCACHE"))], [(SOURCE, onward(t, 6, flags="RETX+NOCACHE"))]),
        Step([(SOURCE, arriving(t, 6, q))], [(LEFT, leaving(t, 6, q))]),
        Step([(RIGHT, interest(t, 6, RIGHT))], [(RIGHT, leaving(t, 6, q))])]))

    t = tree()
    found.append(Scenario("data nobody asked for", [
        Step([(LEFT, interest(t, 8, LEFT))], [(SOURCE, onward(t, 8))]),
        Step([(SOURCE, arriving(t, 9, p))])], drop="unwanted"))

    t = tree()
    found.append(Scenario("data of an unknown tree", [Step([(SOURCE, arriving(t, 0, p))])], drop="unknown_tree"))

    t = tree()
    full = some(9000 - 16)
    found.append(Scenario("jumbo data through the node", [
        Step([(LEFT, interest(t, 0, LEFT))], [(SOURCE, onward(t, 0))]),
        Step([(SOURCE, arriving(t, 0, full[:-4]))], [(LEFT, leaving(t, 0, full[:-4]))])]))

    t = tree()
    far = Stop(flags="store", ret=[LEFT, 6], fwd=[SOURCE, 4])
    last = Stop(flags="ret_local", ret=[2])
    frame = stack(c.LABEL_LOCAL) / Datacast(type="interest", tree=t, seq=0, path=[far, last])
    up = stack(adj(4)) / Datacast(type="interest", tree=t, seq=0, path=[last])
    found.append(Scenario("segments of two links up and down", [
        Step([(LEFT, bytes(frame))], [(SOURCE, bytes(up))]),
        Step([(SOURCE, arriving(t, 0, p))], [(LEFT, bytes(stack(adj(6)) / data(t, 0, p)))])]))

    t = tree()
    chain = [Stop(flags="store+fwd_local", ret=[LEFT], fwd=[SOURCE]), Stop(flags="ret_local", ret=[2], fwd=[5]),
             Stop(flags="ret_local", ret=[3])]
    frame = stack(c.LABEL_LOCAL) / Datacast(type="interest", tree=t, seq=0, path=chain)
    up = stack(c.LABEL_LOCAL) / Datacast(type="interest", tree=t, seq=0, path=chain[1:])
    found.append(Scenario("to the next waypoint", [
        Step([(LEFT, bytes(frame))], [(SOURCE, bytes(up))]),
        Step([(SOURCE, arriving(t, 0, p))], [(LEFT, leaving(t, 0, p))])]))

    t = tree()
    whole = interest(t, 0, LEFT)
    found.append(Scenario("an interest whose route leads out of no port", [
        Step([(LEFT, bytes(stack(c.LABEL_LOCAL) / Datacast(type="interest", tree=t, seq=0, path=[
            Stop(flags="store+ret_local+fwd_local", ret=[], fwd=[]), Stop(flags="ret_local", ret=[3])])))])],
        drop="route"))
    found.append(Scenario("an interest cut short", [Step([(LEFT, whole[:-6])])], drop="truncated"))
    return found


ANY_LAG = 0xEE
"""Stands for any value of an interest's lag: it depends on the cache's history."""


def golden(pops: Iterable[tuple[str, bytes, int, bytes]], refused: Iterable[tuple[str, bytes]]) -> list[Scenario]:
    """The frames of tests/golden, the same bytes as in the C and scapy tests.

    `pops`: (name, frame, port, frame out); `refused`: (name, frame).
    """
    found = [Scenario(f"golden: {name}", [Step([(3, frame)], [(port, out)])], depth=labels_of(frame))
             for name, frame, port, out in pops]
    found += [Scenario(f"golden, refused: {name}", [Step([(0, frame)])], depth=1) for name, frame in refused]
    return found
