"""A cable, or a receiver, that becomes much slower in mid-file: when the transfer ends over the least possible, and
what comes twice.

A source, two switches, one receiver or three. From the middle of the file on one link carries 1/PART of its rate: the
cable between the switches, or the one to a receiver. Prints a Markdown table, or with --all a line per cell. In a queue
of 20 at 10 ms and more the start takes longer than half of this file: such cells tell of the start.

    bench/sim/slowed.py
    bench/sim/slowed.py --parts 20 --trips 10 --queues 100 --frames 1500 --shapes cable --all
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from statistics import median

from datacast.simulation.engine import PAPER, SECOND
from datacast.simulation.errors import SimulationError
from datacast.simulation.experiments.base import Setting, late_hosts, simulation

RATE, BYTES = 1_000_000_000, 45_000_000
GIVE_UP = 30
"""A transfer that has not ended after so many times the ideal."""
SHAPES = {"cable": (1, ("a", "b")), "receiver": (1, ("b", "r0")), "one of three": (3, ("b", "r0"))}
"""How many receivers there are, and the link that becomes slower."""


@dataclass(frozen=True)
class Cell:
    shape: str
    part: int
    trip_ms: float
    queue: int
    frame: int
    cache: int = 0
    """Bytes of a content store (0: what masters ask for)."""


@dataclass(frozen=True)
class Found:
    finish: float
    """Over the ideal."""
    again: float
    """Packets that the source sent again, over the new ones."""
    twice: float
    """Packets that the slow receiver had already, over the file's."""


def run(c: Cell) -> Found:
    receivers = [f"r{i}" for i in range(SHAPES[c.shape][0])]
    slow = SHAPES[c.shape][1]
    cache = (c.cache,) if c.cache else ()
    s = Setting(rate=RATE, slow=RATE, mtu=c.frame, queue=c.queue, delay=int(c.trip_ms * 1e6 / 6), cache=cache)
    sim = simulation(s, PAPER)
    for switch in ("a", "b"):
        sim.switch(switch)
    arcs = [("a", "s0"), ("b", "a"), *((r, "b") for r in receivers)]
    for host in ("s0", *receivers):
        sim.host(host)
    for child, parent in arcs:
        sim.cable(parent, child, RATE, s.delay, c.queue)
    group = sim.group("s0", receivers, BYTES // c.frame * s.piece, s.piece, s.store())
    group.tree(arcs, s.tree(hops=3))
    group.assign()
    group.schedule()
    late_hosts(sim, s, [("s0", "a"), *(("b", r) for r in receivers)])
    half = BYTES // 2 * 8 * SECOND // RATE
    sim.run(until=half, whole=False)
    left = group.pieces - sim.link_stats(*slow)["data"]
    sim.rate(*slow, RATE // c.part)
    ideal = half + left * c.frame * 8 * SECOND * c.part // RATE + s.delay
    sim.run(until=GIVE_UP * ideal)
    try:
        finish = group.finish() / ideal
    except SimulationError:
        finish = float("inf")
    twice = group.asker_stats(0, "r0")["duplicates"] / group.pieces
    return Found(finish, group.duplicate_ratio(), twice)


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="2,3,5,10,20,50", help="what is left: 1/PART (default: %(default)s)")
    parser.add_argument("--trips", default="0.1,1,10,50", help="round trips in ms (default: %(default)s)")
    parser.add_argument("--queues", default="20,100,1000", help="packets (default: %(default)s)")
    parser.add_argument("--frames", default="9000,1500", help="bytes (default: %(default)s)")
    parser.add_argument("--shapes", default=",".join(SHAPES), help="(default: %(default)s)")
    parser.add_argument("--cache", type=int, default=0, help="bytes of a content store (default: the product's)")
    parser.add_argument("--all", action="store_true", help="a line per cell")
    parser.add_argument("--jobs", type=int, default=1, help="cells at once (default: %(default)s)")
    args = parser.parse_args()
    ways = product(args.shapes.split(","), numbers(args.parts), args.trips.split(","), numbers(args.queues))
    cells = [
        Cell(shape, part, float(trip), queue, frame, args.cache)
        for shape, part, trip, queue in ways
        for frame in numbers(args.frames)
    ]
    with ThreadPoolExecutor(args.jobs) as pool:
        found = dict(zip(cells, pool.map(run, cells), strict=True))
    if args.all:
        print("| slower | left | round trip ms | queue | frame | finish/ideal | sent again | came twice |")
        print("|" + " --- |" * 8)
        for c, f in found.items():
            print(
                f"| {c.shape} | 1/{c.part} | {c.trip_ms:g} | {c.queue} | {c.frame} | {f.finish:.3f} "
                f"| {100 * f.again:.1f} % | {100 * f.twice:.1f} % |"
            )
        return
    print("| slower | left | finish/ideal: median | worst | sent again: median | worst | came twice: worst |")
    print("|" + " --- |" * 7)
    for shape, part in product(args.shapes.split(","), numbers(args.parts)):
        some = [f for c, f in found.items() if (c.shape, c.part) == (shape, part)]
        finish, again, twice = ([getattr(f, name) for f in some] for name in ("finish", "again", "twice"))
        print(
            f"| {shape} | 1/{part} | {median(finish):.2f} | {max(finish):.2f} "
            f"| {100 * median(again):.1f} % | {100 * max(again):.1f} % | {100 * max(twice):.1f} % |"
        )


if __name__ == "__main__":
    main()
