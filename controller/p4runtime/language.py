"""P4Runtime as the manager's language: `have` is entries.Installed."""

from __future__ import annotations

from typing import Any

from datacast.controller.api.records import Rule
from datacast.controller.p4runtime import entries
from datacast.controller.p4runtime.entries import Message, PacketOut
from datacast.controller.southbound.desired import Desired
from datacast.controller.southbound.state import Session


class P4RuntimeLanguage:
    """Stateless; see manager.Language. The shim reads what is installed by itself when it connects."""

    def read(self) -> list[Message]:
        return []

    def changes(self, wanted: Desired, session: Session) -> tuple[list[Message], Any]:
        after = entries.Installed(entries.entries(wanted), entries.copies(wanted))
        return list(entries.changes(wanted, session.have)), after

    def packet_out(self, number: int, data: bytes) -> Message:
        return PacketOut(number, data)

    def probe(self, number: int, data: bytes) -> tuple[list[Message], bool]:
        return [PacketOut(number, data)], False

    def rules(self, wanted: Desired, session: Session) -> list[Rule]:
        counted = session.rule_counters
        return [Rule(purpose=f"{e.table} {e.value}", table=e.table, match={e.field: e.value}, action=e.action,
                     params=dict(e.params),
                     packets=counted.get(e.key, {}).get("packets"), bytes=counted.get(e.key, {}).get("bytes"))
                for e in entries.entries(wanted).values()]
