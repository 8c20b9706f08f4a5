"""What the fabric manager tells while faults happen."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING

from datacast.fabric_manager.api import topology
from datacast.fabric_manager.api.topology import LinkChange, NodeChange
from datacast.services.framing import FramingError

if TYPE_CHECKING:
    from datacast.lab.lab import Lab


@dataclass(frozen=True)
class Seen:
    event: NodeChange | LinkChange
    received_ns: int
    """When it arrived here."""

    @property
    def happened_ns(self) -> int:
        """As who saw it says, where it does."""
        return (self.event.t_ns if isinstance(self.event, LinkChange) else None) or self.received_ns


class FabricEvents:
    """The fabric manager's view from `start` to `stop`: `seen` holds its changes of links and nodes."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.seen: list[Seen] = []
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
                        event = topology.read(line)
                        if isinstance(event, NodeChange | LinkChange):
                            self.seen.append(Seen(event, time.time_ns()))
                        if self._end.is_set():
                            return
            except (OSError, HTTPException, FramingError):  # it may be killed in the middle of a line
                self._end.wait(0.1)
