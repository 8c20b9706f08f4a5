"""OpenFlow as the manager's language: `have` is the set of the cookies of a switch's rules."""

from __future__ import annotations

from datacast.controller.api.records import Rule
from datacast.controller.openflow import rules
from datacast.controller.openflow.messages import Barrier, Message, PacketOut, ReadRules
from datacast.controller.southbound.desired import Desired
from datacast.controller.southbound.state import Session


class OpenFlowLanguage:
    """Stateless; see manager.Language."""

    def read(self) -> list[Message]:
        return [ReadRules()]

    def changes(self, wanted: Desired, session: Session) -> tuple[list[Message], set[int]]:
        messages = rules.changes(wanted, session.have)
        foreign = {cookie for cookie in session.have if not rules.is_ours(cookie)}
        return [*messages, Barrier()], foreign | {rule.cookie for rule in rules.rules(wanted)}

    def packet_out(self, number: int, data: bytes) -> Message:
        return PacketOut(number, data)

    def probe(self, number: int, data: bytes) -> tuple[list[Message], bool]:
        return [PacketOut(number, data), Barrier()], True

    def rules(self, wanted: Desired, session: Session) -> list[Rule]:
        counted = session.rule_counters
        return [Rule(purpose=rule.purpose, table=rule.table, priority=rule.priority, match=dict(rule.match),
                     actions=list(rule.actions), cookie=f"{rule.cookie:016x}",
                     packets=counted.get(rule.cookie, {}).get("packets"),
                     bytes=counted.get(rule.cookie, {}).get("bytes"))
                for rule in rules.rules(wanted)]


def drops(wanted: Desired, counters: dict[int, dict[str, int]]) -> dict[str, int]:
    """Frames refused, by reason, from the counters of the rules that refuse them."""
    found: dict[str, int] = {}
    for rule in rules.rules(wanted):
        if rule.purpose.startswith("drop "):
            reason = rule.purpose.removeprefix("drop ")
            found[reason] = found.get(reason, 0) + counters.get(rule.cookie, {}).get("packets", 0)
    return found
