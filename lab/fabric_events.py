"""What the fabric manager tells while faults happen."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datacast.lab.lab import Lab


class FabricEvents:
    """The fabric manager's view from `start` to `stop`: `seen` holds its `link` and `node` events, with the time when
    they arrived here."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.seen: list[dict[str, Any]] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Does not wait for a stream that is silent."""
        self._end.set()

    def _listen(self) -> None:
        url = self.lab.fabric_url + "/events?topics=topology"
        while not self._end.is_set():
            try:
                with self.lab.credentials.open("GET", url) as answer:
                    for line in answer:
                        event = json.loads(line)
                        if event["type"] in ("link", "node"):
                            self.seen.append({**event, "received_ns": time.time_ns()})
                        if self._end.is_set():
                            return
            except (OSError, ValueError):
                self._end.wait(0.1)
