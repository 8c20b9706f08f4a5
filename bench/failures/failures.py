"""Seeded link failures under transfers in one lab: how soon they are detected, decided and signalled, and
data flows again.

    make bench-failures N=200 SEED=1
    .venv/bin/python bench/failures/failures.py --failures 200 --silent 50 --seed 1 --json failures.json

One cable after another that a tree uses loses its carrier (or, for `--silent`, swallows frames in one or both
directions) for 0.6 s, while file after file goes to the same receivers. Between failures the signalling tree is
measured beside parallel TCP connections. Per figure: how many there are, the median, the 99th percentile and
the largest. Root.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

from breaker import Breaker, Failure
from signalling import Signalling
from transfers import SIX, SOURCE, Transfers

from datacast.core.errors import DatacastError
from datacast.lab.counters import cpu_sample, cpu_use
from datacast.lab.lab import Lab, LabOptions
from datacast.lab.state import marked
from datacast.services import eventloop

FIGURES = {
    "detected_ms": "detected_ns",
    "known_ms": "received_ns",
    "recomputed_ms": "recomputed_ns",
    "signalled_ms": "signalled_ns",
    "resumed_ms": "resumed_ns",
    "all_resumed_ms": "all_resumed_ns",
}
BROKEN_S = 0.6
SETTLED_S = 0.3


def summary(values: list[float]) -> dict[str, float | int]:
    """Nearest rank."""
    ordered = sorted(values)
    rank = max(0, -(-99 * len(ordered) // 100) - 1)
    return {
        "n": len(ordered),
        "p50": round(ordered[(len(ordered) - 1) // 2], 3),
        "p99": round(ordered[rank], 3),
        "max": round(ordered[-1], 3),
    }


class Sampler(threading.Thread):
    """The signalling's own event loop and priority; `sample()` from any thread."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(daemon=True)
        fifteen = [h for h, data in lab.graph.nodes(data=True) if data["kind"] == "host" and h != SOURCE]
        self.signalling = Signalling(lab, SOURCE, [SIX, fifteen])
        self.loop = eventloop.new()

    def run(self) -> None:
        self.loop.run_forever()

    def do(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self.loop).result(60.0)


def phase(
    transfers: Transfers, breaker: Breaker, sampler: Sampler, silent: bool, count: int, name: str
) -> list[Failure]:
    first = len(breaker.failures)
    for number in range(count):
        group = transfers.current()
        arcs = [arc for tree in group["trees"].values() for arc in tree["arcs"]]
        breaker.break_one(group["id"], arcs, silent, BROKEN_S)
        sampler.do(sampler.signalling.sample())
        transfers.lab.signals.sleep(SETTLED_S)
        if sys.stderr.isatty() or number % 10 == 9:
            end = "\r" if sys.stderr.isatty() else "\n"
            print(f"{name}: {number + 1} of {count} failures, transfer {transfers.sent}", file=sys.stderr, end=end)
    transfers.finish()
    return breaker.failures[first:]


def figures(failures: list[Failure]) -> dict[str, Any]:
    """All, and apart those whose trees could be mended."""
    result: dict[str, Any] = {"failures": len(failures)}
    parts = {
        "": failures,
        "repaired": [f for f in failures if f.reaction and not f.reaction.get("lost")],
        "tree_lost": [f for f in failures if f.reaction.get("lost")],
    }
    for part, of in parts.items():
        found = {name: [v for f in of if (v := f.ms(key)) is not None] for name, key in FIGURES.items()}
        shown = {name: summary(values) for name, values in found.items() if values}
        acknowledged = [
            (f.reaction["signalled_ns"] - f.reaction["recomputed_ns"]) / 1e6
            for f in of
            if f.reaction.get("signalled_ns")
        ]
        if acknowledged:
            shown["reroute_acknowledged_ms"] = summary(acknowledged)
        if part:
            result[part] = {"failures": len(of), **shown}
        else:
            result |= shown
    result["not_detected"] = [f.what for f in failures if f.detected_ns is None]
    result["all"] = [
        {"what": f.what, **{name: f.ms(key) for name, key in FIGURES.items()}, "lost": f.reaction.get("lost", [])}
        for f in failures
    ]
    return result


def measure(args: argparse.Namespace) -> dict[str, Any]:
    options = LabOptions(
        rate_bps=args.link * 10**6, rest_port=args.port, fabric_port=args.port + 1, room=7 * (args.size << 20)
    )
    with Lab(options, "bench-failures", lambda text: None) as lab:
        lab.up()
        breaker = Breaker(lab, random.Random(args.seed))
        sampler = Sampler(lab)
        sampler.start()
        sampler.do(sampler.signalling.start())
        before = cpu_sample(marked(lab.identity))
        started = time.monotonic()
        try:
            transfers = Transfers(lab, args.size << 20, args.seed, breaker.note)
            carrier = phase(transfers, breaker, sampler, False, args.failures, "carrier")
            silent = phase(transfers, breaker, sampler, True, args.silent, "silent")
            sampler.do(sampler.signalling.stop())
        finally:
            breaker.close()
        cpu = cpu_use(before, cpu_sample(marked(lab.identity)), True)
        return {
            "seed": args.seed,
            "link_mbit": args.link,
            "size_mib": args.size,
            "seconds": round(time.monotonic() - started, 1),
            "load_average": os.getloadavg(),
            "cpu_busy": round(cpu.busy, 3),
            "cpu_lab": round(cpu.lab, 3),
            "transfers": transfers.sent,
            "not_delivered": transfers.undelivered,
            "false_alarms": breaker.false_alarms(),
            "carrier": figures(carrier),
            "silent": figures(silent),
            "signalling": {way: summary(values) for way, values in sampler.signalling.found.items()},
        }


def table(result: dict[str, Any]) -> str:
    lines = ["| milliseconds | n | p50 | p99 | max |", "| --- | --- | --- | --- | --- |"]

    def row(name: str, one: dict[str, Any]) -> None:
        lines.append(f"| {name} | {one['n']} | {one['p50']:.2f} | {one['p99']:.2f} | {one['max']:.2f} |")

    for kind in ("carrier", "silent"):
        for name in (*FIGURES, "reroute_acknowledged_ms"):
            if name in result[kind]:
                row(f"{kind}: {name.removesuffix('_ms')}", result[kind][name])
    for way, one in sorted(result["signalling"].items()):
        row(f"signalling: {way.removesuffix('_ms')}", one)
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--failures", type=int, default=200, help="carrier losses (default %(default)s)")
    parser.add_argument("--silent", type=int, default=50, help="silent failures (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--link", type=int, default=50, metavar="MBIT", help="rate of all links (default %(default)s)")
    parser.add_argument("--size", type=int, default=256, metavar="MIB", help="of each transfer (default %(default)s)")
    parser.add_argument("--port", type=int, default=18580, help="REST's; the next one is the fabric manager's")
    parser.add_argument("--json", type=Path, default=None)
    args = parser.parse_args()
    try:
        result = measure(args)
    except DatacastError as error:
        print(f"bench-failures: {error}", file=sys.stderr)
        return 1
    print(table(result))
    alarms, missing = result["false_alarms"], result["not_delivered"]
    print(f"{result['transfers']} transfers, {len(missing)} files not delivered, {len(alarms)} false alarms")
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if alarms or missing else 0


if __name__ == "__main__":
    sys.exit(main())
