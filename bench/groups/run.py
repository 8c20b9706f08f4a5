"""Many groups at once in one lab, each figure beside its bound: `run.py ten sixty weights background --name LAB`.

`ten`, `sixty`, `thousand`: so many groups to five receivers each, posted at once. The bound is the busiest link's bytes
over its rate, by the trees that the groups had. `weights`: two groups over the same links, 100 and 300; how far the
light one is when the heavy one ends. `background`: a group alone, and beside a background group over the same links.
Exit code 1 when a group does not end well.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import threading
import time
from collections import Counter
from typing import Any

from datacast.lab.lab import Lab, LabOptions
from datacast.services.problems import Problem

MANY = {"ten": (10, 2 << 20), "sixty": (60, 2 << 20), "thousand": (1000, 64 << 10)}
FINAL = ("done", "partial", "failed", "cancelled")


class Bench:
    def __init__(self, lab: Lab, seed: int) -> None:
        self.lab, self.random = lab, random.Random(seed)
        self.hosts = [name for name, data in lab.graph.nodes(data=True) if data["kind"] == "host"]
        self.answers_s: list[float] = []

    def rest(self, method: str, path: str, body: Any = None) -> Any:
        began = time.monotonic()
        try:
            return self.lab.rest_json(method, path, body)
        finally:
            self.answers_s.append(time.monotonic() - began)

    def file(self, size: int) -> str:
        path = self.lab.work / f"{size}.bin"
        if not path.exists():
            path.write_bytes(os.urandom(size))
        return str(path)

    def post(self, source: str, to: list[str], size: int, **more: Any) -> str:
        number = self.random.getrandbits(48)
        spec = {"source": source, "receivers": to, "source_path": self.file(size), "dest_path": f"{number:012x}"}
        while True:
            try:
                return self.rest("POST", "/groups", {**spec, **more})["id"]
            except Problem as problem:
                if problem.status != 429:
                    raise
                self.refused = getattr(self, "refused", 0) + 1
                time.sleep(0.2)

    def wait(self, groups: list[str]) -> dict[str, dict[str, Any]]:
        left, found = set(groups), {}
        while left:
            states = {row["id"]: row["state"] for row in self.rest("GET", "/groups")}
            for group in [group for group in left if states.get(group) in FINAL]:
                left.discard(group)
                found[group] = self.rest("GET", f"/groups/{group}")
            time.sleep(0.05)
        return found

    def many(self, count: int, size: int) -> dict[str, Any]:
        wanted = []
        for _ in range(count):
            members = self.random.sample(self.hosts, 6)
            wanted.append((members[0], members[1:]))
        groups: list[str] = []
        began = time.time_ns()
        threads = [
            threading.Thread(target=lambda part=wanted[at::8]: groups.extend(self.post(*one, size) for one in part))
            for at in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        records = self.wait(groups)
        took = (max(r["finished_ns"] for r in records.values()) - began) / 1e9
        busy: Counter[tuple[str, str]] = Counter()
        for record in records.values():
            for tree in record["trees"].values():
                carried = tree["new_packets"] * ((record["report"] or {}).get("mtu", 0) + 14)
                busy.update({tuple(arc): carried for arc in tree["arcs"] or ()})
        bound = max(busy.values()) * 8 / self.lab.options.rate_bps
        first = [r["report"]["start_s"] for r in records.values() if (r["report"] or {}).get("start_s")]
        return {
            "groups": count,
            "done": sum(r["state"] == "done" for r in records.values()),
            "refused": getattr(self, "refused", 0),
            "seconds": round(took, 2),
            "bound_s": round(bound, 2),
            "over_bound": round(took / bound, 2),
            "rest_p99_ms": round(1000 * sorted(self.answers_s)[int(0.99 * len(self.answers_s))], 1),
            "first_data_p50_ms": round(1000 * statistics.median(first), 1) if first else None,
        }

    def pair(self, first: dict[str, Any], second: dict[str, Any], size: int) -> list[dict[str, Any]]:
        """Two groups into the same hosts, from two sources."""
        to = self.hosts[5:10]
        groups = [self.post(self.hosts[0], to, size, **first), self.post(self.hosts[-1], to, size, **second)]
        fractions = [0.0, 0.0]
        while True:
            records = [self.rest("GET", f"/groups/{group}") for group in groups]
            if any(record["state"] in FINAL for record in records):
                break
            fractions = [record["fraction"] for record in records]
            time.sleep(0.05)
        ended = self.wait(groups)
        return [
            {"fraction": part, "finish_s": ended[group]["report"]["finish_s"]}
            for part, group in zip(fractions, groups, strict=True)
        ]

    def weights(self) -> dict[str, Any]:
        light, heavy = self.pair({"weight": 100}, {"weight": 300}, 48 << 20)
        return {"light": light, "heavy": heavy, "ratio": round(heavy["fraction"] / max(light["fraction"], 1e-9), 2)}

    def background(self) -> dict[str, Any]:
        to, size = self.hosts[5:10], 48 << 20
        alone = next(iter(self.wait([self.post(self.hosts[0], to, size)]).values()))["report"]["finish_s"]
        beside = self.pair({}, {"priority": "background"}, size)[0]["finish_s"]
        return {"alone_s": round(alone, 2), "beside_s": round(beside, 2), "costs": round(beside / alone - 1, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="+", choices=[*MANY, "weights", "background"])
    parser.add_argument("--name", default="groups")
    parser.add_argument("--mbit", type=int, default=50)
    parser.add_argument("--topology", default="bcube:4,1")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rest-port", type=int, default=7780)
    parser.add_argument("--fabric-port", type=int, default=7701)
    parser.add_argument("--no-realtime", action="store_true")
    args = parser.parse_args()
    options = LabOptions(
        topology=args.topology, rate_bps=args.mbit * 1_000_000, rest_port=args.rest_port, fabric_port=args.fabric_port,
        room=2 << 30, realtime=not args.no_realtime,
    )  # fmt: skip
    well = True
    with Lab(options, args.name) as lab:
        lab.up()
        for what in args.what:
            bench = Bench(lab, args.seed)
            figures = bench.many(*MANY[what]) if what in MANY else getattr(bench, what)()
            well &= figures.get("done") == figures.get("groups")
            print(json.dumps({"what": what, **figures}), flush=True)
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
