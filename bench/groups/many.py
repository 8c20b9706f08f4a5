"""Many groups at once in one lab: BCube(4,1), 2 MB each to five receivers drawn by a seed, all posted together.

Time counts from the first request to the last group's end; the bound is the busiest link's bytes over its rate, of the
trees that the groups were given. Prints one JSON object a run.

    bench/groups/many.py --groups 10,60 --link 50000000
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from datacast.lab.counters import cpu_sample, cpu_use
from datacast.lab.lab import Lab, LabOptions
from datacast.lab.state import marked
from datacast.services.priority import go_realtime

FINAL = ("done", "partial", "failed", "cancelled")
RECEIVERS = 5
WAIT_S = 300.0


def bound_s(records: list[dict[str, Any]], rate: int) -> float:
    """The busiest arc's bytes over its rate."""
    load: Counter[tuple[str, str]] = Counter()
    for record in records:
        for tree in record["trees"].values():
            for u, v in tree["arcs"]:
                load[u, v] += tree["new_packets"] * (record["report"] or {}).get("payload", 0)
    return max(load.values(), default=0) * 8 / rate


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def one_run(lab: Lab, count: int, size: int, seed: int) -> dict[str, Any]:
    draw = random.Random(seed)
    hosts = list(lab.plan.hosts)
    path = lab.work / f"content-{seed}-{count}"
    path.write_bytes(draw.randbytes(size))
    path.chmod(0o644)
    specs = []
    for i in range(count):
        source, *receivers = draw.sample(hosts, 1 + RECEIVERS)
        specs.append(
            {
                "source": source,
                "receivers": receivers,
                "source_path": str(path),
                "dest_path": f"many-{seed}-{count}-{i}",
            }
        )
    asked: list[float] = []
    over = threading.Event()

    def probe() -> None:
        """What an operator's question takes meanwhile."""
        while not over.is_set():
            began = time.monotonic()
            lab.rest_json("GET", "/healthz", timeout_s=60)
            asked.append(time.monotonic() - began)
            time.sleep(0.05)

    prober = threading.Thread(target=probe)
    prober.start()
    before = cpu_sample(marked(lab.identity))
    began = time.monotonic()
    with ThreadPoolExecutor(16) as pool:
        posted = list(pool.map(lambda spec: lab.rest_json("POST", "/groups", spec, timeout_s=60), specs))
    accepted = time.monotonic() - began
    names = {group["id"] for group in posted}
    while time.monotonic() - began < WAIT_S:
        states = {one["id"]: one["state"] for one in lab.rest_json("GET", "/groups?fields=state", timeout_s=60)}
        if all(states.get(name, "done") in FINAL for name in names):
            break
        time.sleep(0.25)
    used = cpu_use(before, cpu_sample(marked(lab.identity)), lab.options.realtime)
    records = [lab.rest_json("GET", f"/groups/{name}", timeout_s=60) for name in names]
    over.set()
    prober.join()
    first = min(record["created_ns"] for record in records)
    took = (max(record["finished_ns"] or time.time_ns() for record in records) - first) / 1e9
    starts = [r["report"]["start_s"] for r in records if r["report"] and r["report"]["start_s"]]
    bound = bound_s(records, lab.options.rate_bps)
    steps = [r["report"]["start_ms"] for r in records if r["report"]]
    return {
        "groups": count,
        "states": dict(Counter(record["state"] for record in records)),
        "posted_s": round(accepted, 3),
        "took_s": round(took, 3),
        "bound_s": round(bound, 3),
        "over_bound": round(took / bound, 2) if bound else None,
        "first_data_ms_p50": round(1000 * statistics.median(starts), 1) if starts else None,
        "start_ms_p50": {
            name: round(statistics.median(s[name] for s in steps if name in s), 1)
            for name in (steps[0] if steps else ())
        },
        "cpu_s": used.seconds,
        "rest_ms_p99": round(1000 * percentile(asked, 0.99), 1),
        "errors": [r["error"] for r in records if r["error"]][:3],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", default="1,1,1,1,1,10,60", help="how many at once, run after run")
    parser.add_argument("--topology", default="bcube:4,1")
    parser.add_argument("--link", type=int, default=50_000_000, help="bit/s")
    parser.add_argument("--size", type=int, default=2_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-realtime", action="store_true")
    parser.add_argument("--name", default="many")
    parser.add_argument("--rest-port", type=int, default=7580)
    parser.add_argument("--fabric-port", type=int, default=7501)
    args = parser.parse_args()
    options = LabOptions(
        topology=args.topology,
        rate_bps=args.link,
        realtime=not args.no_realtime,
        room=64 << 20,
        rest_port=args.rest_port,
        fabric_port=args.fabric_port,
    )
    with Lab(options, args.name) as lab:
        lab.up()
        go_realtime(lab.control_priority)  # who asks stands for a machine of his own, too
        for at, count in enumerate(int(part) for part in args.groups.split(",")):
            print(json.dumps(one_run(lab, count, args.size, args.seed + at)), flush=True)


if __name__ == "__main__":
    main()
