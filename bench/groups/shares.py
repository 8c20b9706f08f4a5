"""Groups over shared links beside their max-min ideal: `shares.py two ten forty weights background --name LAB`.

`two`, `ten`, `forty`: so many groups to five receivers each, posted at once (`two`: into the same hosts). The ideal is
a fluid: at any moment each group sends what fabric_manager/shares.py gives it over the trees that it had, until it has
sent its file. A group's ratio is its last receiver's time over the fluid's, both since the first request: `ratio`
beside the fluid in which each group begins when it did, `at_once` beside that in which none waits for its turn.
`weights`: two groups over the same links, 100 and 300; how far each is when the heavy one ends, beside what the fluid
says.
`background`: a group alone, and beside a background group. One JSON object a line. Exit code 1 when a group fails.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
from typing import Any

from datacast.lab.lab import Lab, LabOptions
from datacast.services.problems import Problem
from datacast.simulation.fluid import flow_of, fluid

MANY = {"two": (2, 32 << 20), "ten": (10, 8 << 20), "forty": (40, 3 << 20)}
FINAL = ("done", "partial", "failed", "cancelled")


class Bench:
    def __init__(self, lab: Lab, seed: int) -> None:
        self.lab, self.random = lab, random.Random(seed)
        self.hosts = [name for name, data in lab.graph.nodes(data=True) if data["kind"] == "host"]

    def rest(self, method: str, path: str, body: Any = None) -> Any:
        return self.lab.rest_json(method, path, body)

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

    @property
    def capacity(self) -> dict[tuple[str, str], float]:
        rate = float(self.lab.options.rate_bps)
        return {arc: rate for u, v in self.lab.graph.edges for arc in ((u, v), (v, u))}

    def many(self, count: int, size: int) -> dict[str, Any]:
        groups = []
        self.file(size)
        began = time.time_ns()
        for at in range(count):
            members = self.random.sample(self.hosts, 6)
            if count == 2:
                members = [self.hosts[-at], *self.hosts[5:10]]
            groups.append(self.post(members[0], members[1:], size))
        records = self.wait(groups)
        done = {name: record for name, record in records.items() if record["state"] == "done"}
        begun = {
            name: (r["created_ns"] - began) / 1e9 + r["report"]["start_ms"]["order"] / 1e3 for name, r in done.items()
        }
        flows = {name: flow_of(record) for name, record in done.items()}
        at_once = {name: flow_of(record) for name, record in done.items()}
        for name, flow in flows.items():
            flow.begins = max(0.0, begun[name])
        fluid(flows, self.capacity)
        fluid(at_once, self.capacity)
        took = {
            name: (max(r["t_done_ns"] for r in record["receivers"].values()) - began) / 1e9
            for name, record in done.items()
        }
        ratios, beside = ([took[name] / (f.ends or 1.0) for name, f in ideal.items()] for ideal in (flows, at_once))
        report = [records[name]["report"] for name in flows]
        return {
            "groups": count,
            "done": len(flows),
            "ideal_s": [round(flow.ends or 0.0, 2) for flow in flows.values()][:10],
            "ratio_max": round(max(ratios), 3),
            "ratio_p50": round(statistics.median(ratios), 3),
            "ratio_min": round(min(ratios), 3),
            "at_once_max": round(max(beside), 3),
            "at_once_p50": round(statistics.median(beside), 3),
            "ended_s": round(statistics.mean(took.values()), 2),
            "at_once_ended_s": round(statistics.mean(f.ends or 0.0 for f in at_once.values()), 2),
            "waited_s": [round(statistics.mean(begun.values()), 2), round(max(begun.values()), 2)],
            "duplicates": round(statistics.mean(r["duplicate_ratio"] for r in report), 4),
        }

    def pair_of(self, first: dict[str, Any], second: dict[str, Any], size: int) -> dict[str, Any]:
        to = self.hosts[5:10]
        groups = [self.post(self.hosts[0], to, size, **first), self.post(self.hosts[-1], to, size, **second)]
        seen: list[tuple[float, list[float], list[float]]] = []
        began = time.monotonic()
        while True:
            records = [self.rest("GET", f"/groups/{group}") for group in groups]
            if any(record["state"] in FINAL for record in records):
                break
            shares = [sum(t.get("share_bps") or 0 for t in r["trees"].values()) / 1e6 for r in records]
            seen.append((time.monotonic() - began, [record["fraction"] for record in records], shares))
            time.sleep(0.05)
        ended = self.wait(groups)
        return {"groups": groups, "seen": seen, "ended": ended}

    def weights(self) -> dict[str, Any]:
        ran = self.pair_of({"weight": 100}, {"weight": 300}, 48 << 20)
        light, heavy = ran["groups"]
        flows = {name: flow_of(ran["ended"][name]) for name in ran["groups"]}
        whole = flows[light].left
        fluid(flows, self.capacity, until=heavy)
        fractions, shares = ran["seen"][-1][1:]
        ratio = fractions[1] / max(fractions[0], 1e-9)
        ideal = 1.0 / max(1 - flows[light].left / whole, 1e-9)
        some = [(round(at, 1), *(round(part, 2) for part in parts)) for at, parts, _ in ran["seen"]]
        return {
            "ratio": round(ratio, 2),
            "ideal": round(ideal, 2),
            "over_ideal": round(ratio / ideal, 3),
            "shares_mbit": [round(share, 1) for share in shares],
            "seen": some[:: max(1, len(some) // 8)],
        }

    def background(self) -> dict[str, Any]:
        to, size = self.hosts[5:10], 48 << 20

        def alone() -> float:
            return next(iter(self.wait([self.post(self.hosts[0], to, size)]).values()))["report"]["finish_s"]

        before = alone()
        ran = self.pair_of({}, {"priority": "background"}, size)
        beside = ran["ended"][ran["groups"][0]]["report"]["finish_s"]
        return {"alone_s": round(before, 2), "beside_s": round(beside, 2), "costs": round(beside / before - 1, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", choices=[*MANY, "weights", "background"])
    parser.add_argument("--name", default="shares")
    parser.add_argument("--mbit", type=int, default=50)
    parser.add_argument("--topology", default="bcube:4,1")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rest-port", type=int, default=7880)
    parser.add_argument("--fabric-port", type=int, default=7801)
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
