"""Files to the same receivers, one after another, for as long as there is something to break."""

from __future__ import annotations

import filecmp
from collections.abc import Callable
from typing import Any

from datacast.lab.content import write_random
from datacast.lab.lab import Lab

SOURCE = "00"
SIX = ["02", "10", "21", "23", "31", "33"]
FINAL = ("done", "partial", "failed", "cancelled")
SPENT = 0.9
"""A transfer that is further than this ends before the next failure."""

Ended = Callable[[str, list[dict[str, Any]]], None]


class Transfers:
    """`current()` is one with enough left for a failure. `ended(group, reactions)` is called for each."""

    def __init__(self, lab: Lab, size: int, seed: int, ended: Ended) -> None:
        self.lab, self._ended = lab, ended
        self.file = lab.work / "bench.bin"
        write_random(self.file, size, seed, lambda done: lab.signals.check())
        self.group: dict[str, Any] | None = None
        self.sent = 0
        self.undelivered: list[str] = []

    def _get(self) -> dict[str, Any]:
        assert self.group is not None
        self.group = self.lab.fabric_json(f"/groups/{self.group['id']}")
        return self.group

    def current(self) -> dict[str, Any]:
        """A running group whose trees are known and whole, with two of them."""
        while True:
            self.lab.signals.check()
            self.lab.supervisor.check()
            group = self._get() if self.group else self._start()
            done = max((r.get("fraction", 0.0) for r in group["receivers"].values()), default=0.0)
            if group["state"] in FINAL or done > SPENT:
                self.finish()
            elif len([t for t in group["trees"].values() if t.get("arcs")]) >= 2 and done > 0:
                return group
            else:
                self.lab.signals.sleep(0.05)

    def _start(self) -> dict[str, Any]:
        spec = {"source": SOURCE, "source_path": str(self.file), "receivers": SIX, "dest_path": "bench.bin"}
        self.group = self.lab.rest_json("POST", "/groups", spec)
        self.sent += 1
        return self.group

    def finish(self) -> None:
        """Wait for its end, check what arrived, and give the failures their reactions."""
        if self.group is None:
            return
        while self._get()["state"] not in FINAL:
            self.lab.signals.sleep(0.05)
            self.lab.supervisor.check()
        group, self.group = self.group, None
        for host in SIX:
            path = self.lab.host_folder(host) / "bench.bin"
            if not (path.is_file() and filecmp.cmp(path, self.file, shallow=False)):
                self.undelivered.append(f"{group['id']}:{host}")
            path.unlink(missing_ok=True)
        self._ended(group["id"], (group.get("report") or {}).get("reactions", []))
