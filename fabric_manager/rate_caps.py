"""What all groups together may send at most: in the fabric, and over the links of a host. Kept in the store."""

from __future__ import annotations

from collections.abc import Callable

from datacast.services.problems import Problem
from datacast.services.store import Entry, StoreError

from .api.records import Caps
from .fabric import Fabric
from .keys import CAPS, Kept, under, unwritten
from .requests import check_host

WHOLE = "fabric"
_HOST = "host/"


class RateCaps:
    """`changed(whole, hosts)` is called when one is another than before."""

    def __init__(self, fabric: Fabric, kept: Kept, changed: Callable[[int | None, dict[str, int]], None]) -> None:
        self.fabric, self.kept, self._changed = fabric, kept, changed
        self._caps: dict[str, tuple[int, int]] = {}
        """Bit/s and the revision, by what stands behind CAPS in its key."""

    def begin(self, entries: list[Entry]) -> None:
        """With what the store holds."""
        self._caps = {entry.key: (int(entry.value), entry.revision) for entry in under(CAPS, entries)}
        self._changed(self.whole, self.hosts)

    @property
    def whole(self) -> int | None:
        """Of what all sources send together."""
        known = self._caps.get(WHOLE)
        return known[0] if known else None

    @property
    def hosts(self) -> dict[str, int]:
        """Of what a host sends over all its links together, and of what it receives."""
        return {key[len(_HOST) :]: bps for key, (bps, _) in self._caps.items() if key.startswith(_HOST)}

    def told(self) -> Caps:
        return Caps(fabric_bps=self.whole, hosts=dict(sorted(self.hosts.items())))

    async def put(self, host: str | None, most_bps: int) -> None:
        """None: the fabric's. Raises Problem."""
        if host is not None:
            check_host(self.fabric, "host", host)
        key = WHOLE if host is None else _HOST + host
        _, revision = self._caps.get(key, (0, 0))
        try:
            self._caps[key] = most_bps, await self.kept.overwrite(CAPS + key, str(most_bps), revision)
        except StoreError as error:
            raise unwritten(error, host or WHOLE) from error
        self._changed(self.whole, self.hosts)

    async def delete(self, host: str | None) -> None:
        """Raises Problem."""
        key = WHOLE if host is None else _HOST + host
        if key not in self._caps:
            what = "the fabric" if host is None else f"host {host}"
            raise Problem(404, "no_cap", f"{what} has no cap", what=host or WHOLE, remedy="`datacast caps` shows them")
        try:
            await self.kept.remove(CAPS + key, self._caps[key][1])
        except StoreError as error:
            raise unwritten(error, host or WHOLE) from error
        self._caps.pop(key, None)
        self._changed(self.whole, self.hosts)
