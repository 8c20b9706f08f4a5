"""What very many groups cost the services: `thousand.py [--groups 1000] [--receivers 64] [--topology bcube:8,3]`.

The real fabric manager, its workers and the controller; agents simulated in one process of their own (agents.py), whose
cost is not counted. Groups are posted over REST; when all run their cost is measured: memory (PSS) and processor of the
services together. Then links fail and come back one by one: from the report of the link to the masters concerned. One
JSON object at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
from memory import pss_mb, status_mb

from datacast import topologies

HERE = Path(__file__).parent
TICK = os.sysconf("SC_CLK_TCK")
REGISTERED_S = 15.0
"""That all have registered is news to the workers, which they take in first."""


def children(pid: int) -> list[int]:
    found = [int(name) for name in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return found + [below for child in found for below in children(child)]


def busy_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"{process.args} did not start")
    return line


def percentile(values: list[float], share: float) -> float | None:
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 2) if ordered else None


class Services:
    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[str]] = []

    def begin(self, args: argparse.Namespace, folder: str) -> None:
        self.manager = self.start(
            "datacast.fabric_manager.main", "--topology", args.topology, "--signalling", "127.0.0.1:0",
            "--http", "127.0.0.1:0", "--store", f"{folder}/store", "--workers", str(args.workers),
            "--link-rate", f"{args.link}mbit", "--mtu", "9000", "--groups", str(args.groups + 1),
        )  # fmt: skip
        said = first_line(self.manager)
        self.signalling, self.url = re.search(r"register at (\S+), HTTP at (\S+)", said).groups()  # type: ignore[union-attr]
        self.controller = self.start(
            "datacast.controller.main", "--listen", "127.0.0.1:0", "--fabric-manager", self.url
        )  # fmt: skip
        self.rest = re.search(r"https?://[\w.:\[\]]+", first_line(self.controller))[0]  # type: ignore[index]

    def start(self, module: str, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", module, *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def pids(self) -> dict[str, int]:
        workers = {f"worker {at}": pid for at, pid in enumerate(children(self.manager.pid))}
        return {"fabric manager": self.manager.pid, **workers, "controller": self.controller.pid}

    def end(self) -> None:
        workers = [pid for one in self.processes if one.poll() is None for pid in children(one.pid)]
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        for pid in workers:
            if Path(f"/proc/{pid}").exists():
                os.kill(pid, 9)


class Agents:
    def __init__(self, args: argparse.Namespace, signalling: str) -> None:
        command = [sys.executable, str(HERE / "agents.py"), signalling, args.topology, "--mbit", str(args.mbit)]
        self.process = subprocess.Popen(
            [*command, "--size", str(args.size)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if first_line(self.process) != "ready\n":
            raise SystemExit("no agents")

    def ask(self, line: str) -> Any:
        assert self.process.stdin
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return json.loads(first_line(self.process))

    def end(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(10)


def wait_for(groups: int, http: httpx.Client, limit_s: float) -> Counter[str]:
    end = time.monotonic() + limit_s
    while True:
        states = Counter(row["state"] for row in pages(http, "state"))
        if states["running"] >= groups or states["failed"] or time.monotonic() > end:
            return states
        time.sleep(1.0)


def pages(http: httpx.Client, fields: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    url: str | None = f"/groups?limit=500&fields=id,{fields}"
    while url:
        answer = http.get(url)
        rows += answer.json()
        url = (answer.links.get("next") or {}).get("url")
    return rows


def reach_ms(http: httpx.Client, agents: Agents, arcs: list[tuple[str, str]]) -> tuple[list[float], list[float]]:
    """From the report of a link to each master that its trees concern, and until that has mended them."""
    told: set[tuple[str, int]] = set()
    took: list[float] = []
    mended: list[float] = []
    for u, v in arcs:
        for state in ("down", "up"):
            at = agents.ask(f"link {u} {v} {state}")
            time.sleep(0.5)
            told.add((f"{u}-{v}", at))
    time.sleep(10.0)
    times = {at for _, at in told}
    for row in pages(http, "state"):
        for reaction in http.get(f"/groups/{row['id']}").json()["reactions"]:
            if reaction.get("reported_ns") in times:
                took.append((reaction["received_ns"] - reaction["reported_ns"]) / 1e6)
                mended.append((reaction["recomputed_ns"] - reaction["reported_ns"]) / 1e6)
    return took, mended


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--receivers", type=int, default=64)
    parser.add_argument("--topology", default="bcube:8,3")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--link", type=int, default=1000, help="rate of the links, Mbit/s")
    parser.add_argument("--mbit", type=float, default=1000.0, help="most that a simulated tree sends")
    parser.add_argument("--size", type=int, default=64 << 30)
    parser.add_argument("--measure", type=float, default=20.0, help="seconds")
    parser.add_argument("--settle", type=float, default=15.0, help="seconds between the last start and the measurement")
    parser.add_argument("--links", type=int, default=20, help="how many fail")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--profile", action="store_true", help="say the processes' ids before the first post")
    args = parser.parse_args()
    draw = random.Random(args.seed)
    graph = topologies.parse(args.topology)
    hosts = [name for name, data in graph.nodes(data=True) if data["kind"] == "host"]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:  # the disk is other jobs', too
        services, agents = Services(), None
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            services.begin(args, folder)
            agents = Agents(args, services.signalling)
            time.sleep(REGISTERED_S)
            with httpx.Client(base_url=services.rest, timeout=60) as http:
                asked: list[float] = []

                def post(members: list[str]) -> None:
                    spec = {"source": members[0], "receivers": members[1:], "source_path": "/srv/f"}
                    began = time.monotonic()
                    http.post("/groups", json=spec).raise_for_status()
                    asked.append(1000 * (time.monotonic() - began))

                if args.profile:
                    print(json.dumps(services.pids()), file=sys.stderr, flush=True)
                drawn = [draw.sample(hosts, 1 + args.receivers) for _ in range(args.groups)]
                began = time.monotonic()
                pool = ThreadPoolExecutor(4)
                try:
                    list(pool.map(post, drawn))
                finally:
                    pool.shutdown(cancel_futures=True)
                posted = time.monotonic() - began
                states = wait_for(args.groups, http, 180)
                running = time.monotonic() - began
                time.sleep(args.settle)
                pids = services.pids()
                before, requests = {name: busy_s(pid) for name, pid in pids.items()}, agents.ask("figures")
                time.sleep(args.measure)
                share = {name: round((busy_s(pid) - before[name]) / args.measure, 3) for name, pid in pids.items()}
                memory = {name: round(pss_mb(pid), 1) for name, pid in pids.items()}
                most = {name: round(status_mb("HWM", pid), 1) for name, pid in pids.items()}
                after = agents.ask("figures")
                answers = []
                for _ in range(50):
                    at = time.monotonic()
                    http.get("/healthz")
                    answers.append(1000 * (time.monotonic() - at))
                arcs = [(u, v) for u, v in graph.edges if graph.nodes[u]["kind"] == "host"]
                reached, mended = reach_ms(http, agents, draw.sample(arcs, args.links))
                rows = pages(http, "state,error")
                states = Counter(row["state"] for row in rows)
                errors = Counter(row["error"]["message"][:200] for row in rows if row["error"])
                per_s = {
                    op: round((count - requests["requests"].get(op, 0)) / args.measure, 1)
                    for op, count in after["requests"].items()
                }
                print(
                    json.dumps(
                        {
                            "topology": args.topology, "groups": args.groups, "receivers": args.receivers,
                            "states": states, "errors": errors.most_common(5),
                            "posted_s": round(posted, 1), "post_ms_p50": percentile(asked, 0.5),
                            "post_ms_p99": percentile(asked, 0.99), "all_running_s": round(running, 1),
                            "core": round(sum(share.values()), 3), "core_each": share,
                            "mb": round(sum(memory.values()), 1), "mb_each": memory, "most_mb_each": most,
                            "requests_s": per_s, "rates_told": after["requests"].get("rates", 0),
                            "answers_mb_s": round((after["bytes_out"] - requests["bytes_out"]) / args.measure / 1e6, 2),
                            "longest_frame": after["longest"], "healthz_ms_p99": percentile(answers, 0.99),
                            "links": args.links, "reached": len(reached), "reached_ms_p50": percentile(reached, 0.5),
                            "reached_ms_p99": percentile(reached, 0.99),
                            "mended_ms_p50": percentile(mended, 0.5), "mended_ms_p99": percentile(mended, 0.99),
                        }
                    ),
                    flush=True,
                )  # fmt: skip
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # this is what it asks for
            services.end()
            if agents:
                agents.end()


if __name__ == "__main__":
    main()
