"""Addresses of ordinary Ethernet that a P4 switch has seen: a digest in, entries out, ageing by idle timeouts. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from datacast.controller.p4runtime.entries import Entry, Write

LIFE_S = 60.0
STATIONS_MAX = 1000
"""The tables hold 1,024; the address learned first gives way."""


class Stations:
    """What one switch knows: where each address lives."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._ports = {e.value: dict(e.params)["port"] for e in entries if e.table == "source"}

    def _entries(self, address: int, port: int) -> tuple[Entry, Entry]:
        where = (("port", port),)
        return (
            Entry("source", "address", address, "lives_at", where, LIFE_S),
            Entry("destination", "address", address, "to", where),
        )

    def view(self) -> dict[str, int]:
        """Addresses and where they live, for people."""
        return {address.to_bytes(6, "big").hex(":"): port for address, port in self._ports.items()}

    def learned(self, address: int, port: int) -> list[Write]:
        """The switch saw an address at a port where it does not know it."""
        if address >> 40 & 1 or self._ports.get(address) == port:
            return []  # a group's, or told twice before our answer was there
        writes = []
        kind = "modify" if address in self._ports else "insert"
        if kind == "insert" and len(self._ports) >= STATIONS_MAX:
            writes += self.aged(next(iter(self._ports)))
        self._ports[address] = port
        return writes + [Write(kind, entry) for entry in self._entries(address, port)]

    def aged(self, address: int) -> list[Write]:
        """It was not heard of for LIFE_S."""
        port = self._ports.pop(address, None)
        return [] if port is None else [Write("delete", entry) for entry in self._entries(address, port)]
