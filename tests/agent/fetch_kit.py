"""A host that fetches from an origin, and one below it that gets what it has fetched."""

from __future__ import annotations

import json
from pathlib import Path

from agent_harness import Message, Net, make_pair, path_direct

PIECE, PER_BLOCK, BLOCK = 8000, 4, 32_000
GROUP = "g-1"


class Fetcher:
    """Host b fetches and is the root of tree 8; host a is the receiver of it."""

    def __init__(self, net: Net, allowed: Path, size: int) -> None:
        allowed.write_text("{}")
        allowed.chmod(0o600)
        self.options = ("--origins", str(allowed))
        self.net, self.allowed, self.size = make_pair(net, *self.options), allowed, size
        self.wants: list[list[int]] | None = None
        """Blocks that b wants, as [first, count]; None: all."""
        self.address = net.address("a").split(":")[0]
        self.client = net.client("b")

    def allow(self, **entry: str) -> None:
        self.allowed.write_text(json.dumps({"origins": [entry]}))
        self.allowed.chmod(0o600)

    def ask(self, op: str, part: Message | None = None, body: Message | None = None, timeout: float = 60.0) -> Message:
        members = self.net.member("b", part)
        return self.client.request(op, members, body or {}, GROUP)["b"]

    def stat(self, url: str) -> Message:
        """Size and ETag, or why not."""
        told = self.ask("stat", {"dest": str(self.net.agents["b"].folder / "got"), "urls": [url]})
        if not told["ok"]:
            return told
        [row] = told["objects"]
        return {"ok": False, **row} if isinstance(row, dict) else {"ok": True, "size": row[0], "etag": row[1]}

    def open(self, url: str, etag: str = "") -> Message:
        return self.open_all({"objects": [{"url": url, **({"etag": etag} if etag else {})}]})

    def open_alone(self, url: str, etag: str) -> Message:
        """b fetches for itself: there are no trees."""
        everyone = {"size": self.size, "piece": PIECE, "per_block": PER_BLOCK, "source": "b", "lease_ms": 20_000}
        everyone |= {"origin": {"objects": [{"url": url, "etag": etag}]}, "trees": []}  # type: ignore[dict-item]
        part: Message = {"role": "receiver", "dest": str(self.net.agents["b"].folder / "got"), "fetches": True}
        return self.ask("open", part, everyone)

    def open_all(self, origin: Message, **more: object) -> Message:
        """`origin`: as `open` has it; `more`: what else it says to all."""
        tree = {"id": 8, "rate_init_bps": 10**9, "rate_max_bps": 10**9, "delta_bps": 10**7, "interval_us": 1000}
        tree |= {"burst": 8, "credits": 32, "rto_min_ms": 10, "cache_bytes": 131072}
        everyone = {"size": self.size, "piece": PIECE, "per_block": PER_BLOCK, "source": "b", "lease_ms": 20_000}
        everyone |= {"origin": origin, **more}  # type: ignore[dict-item]
        fetcher = {"role": "receiver", "dest": str(self.net.agents["b"].folder / "got"), "roots": [8]}
        fetcher |= {} if self.wants is None else {"wants": self.wants}
        receiver = {"role": "receiver", "dest": str(self.net.agents["a"].folder / "got")}
        receiver["routes"] = {"8": path_direct().hex()}  # type: ignore[assignment]
        members = self.net.member("b", fetcher, [self.net.member("a", receiver)])
        return self.client.request("open", members, {**everyone, "trees": [tree]}, GROUP)["b"]

    def open_below(self, path: Path, url: str) -> Message:
        """b fetches, begins a tree, and gets from a, which has the file, what comes over another one."""
        trees = [{"id": tree, "rate_max_bps": 10**9, "credits": 32} for tree in (8, 9)]
        everyone = {"size": self.size, "piece": PIECE, "per_block": PER_BLOCK, "source": "a", "lease_ms": 20_000}
        everyone |= {"origin": {"objects": [{"url": url}]}, "trees": trees}  # type: ignore[dict-item]
        fetcher: Message = {"role": "receiver", "dest": str(self.net.agents["b"].folder / "got"), "fetches": True}
        fetcher |= {"routes": {"8": path_direct().hex()}, "roots": [9]}
        source = self.net.member("a", {"role": "source", "path": str(path), "roots": [8]})
        return self.client.request("open", self.net.member("b", fetcher, [source]), everyone, GROUP)["b"]

    def from_above(self, pieces: int) -> None:
        """So many over the tree from a, with the digests that a tells."""
        members = self.net.member("b", None, [self.net.member("a")])
        order = {"n": 1, "extents": [[8, 0, 0, pieces]]}
        assert all(r["ok"] for r in self.client.request("assign", members, order, GROUP).values())
        self.client.wait(lambda: len(self.told("a")) == -(-pieces // PER_BLOCK), "the digests")
        order = {"n": 2, "blocks": [[block, value] for block, value in self.told("a").items()]}
        assert all(r["ok"] for r in self.client.request("digest", members, order, GROUP).values())

    def again(self) -> None:
        """Host b's agent is started again, another master speaks with it."""
        self.net.start("b", *self.options)
        self.client = self.net.client("b")

    def fetch(self, first: int = 0, count: int | None = None) -> None:
        blocks = -(-self.size // BLOCK)
        assert self.ask("fetch", {"blocks": [[first, blocks - first if count is None else count]]})["ok"]

    def pass_on(self) -> None:
        """All blocks over the tree, with the digests that the fetcher told: done when both have the file."""
        members = self.net.member("b", None, [self.net.member("a")])
        blocks = -(-self.size // BLOCK)
        self.client.wait(lambda: len(self.told()) == blocks, "all of it")
        orders = {"assign": {"n": 1, "extents": [[8, 0, 0, -(-self.size // PIECE)]]}}
        orders["digest"] = {"n": 2, "blocks": [[block, value] for block, value in self.told().items()]}
        for op, order in orders.items():
            assert all(r["ok"] for r in self.client.request(op, members, order, GROUP).values())
        for name in "ab":
            self.client.wait(lambda name=name: self.client.event("done", name), f"{name} is done")

    def deliver(self, url: str) -> Message:
        """All of it to both. Returns what was known of it before."""
        known = self.stat(url)
        assert known["ok"], known
        assert self.open(url, known["etag"])["ok"]
        self.fetch()
        self.pass_on()
        return known

    def told(self, by: str = "b") -> dict[int, str]:
        rows = [e["blocks"] for e in self.client.events if e["event"] == "digests" and e["n"] == by]
        return {block: digest for blocks in rows for block, digest in blocks}

    def failure(self) -> Message:
        self.client.wait(lambda: self.client.event("not_fetched", "b"), "it cannot be fetched", 60)
        event = self.client.event("not_fetched", "b")
        assert event
        return event

    def everything_told(self) -> str:
        """Events, and the logs of both agents."""
        return json.dumps(self.client.events) + "".join(self.net.agents[name].text() for name in "ab")
