"""An OpenFlow switch for tests: it keeps the rules it is sent and evaluates them on frames (the idea is faucet's).

It knows what our rules use: matches on in_port, eth_type, the top label, the bottom bit and a register; popping,
setting addresses, keeping the label, sending on. As Open vSwitch it sees three labels, and drops what it should pop
under a fourth.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from datacast.controller.openflow.messages import (
    LABEL_REGISTER,
    Barrier,
    FlowAdd,
    FlowDelete,
    Message,
    PacketOut,
    ReadPorts,
    ReadRules,
)

LABELS_SEEN = 3
MPLS = 0x8847


@dataclass
class FakeSwitch:
    """`ports`: those it has. `out`: frames of PacketOut, as (port, frame)."""

    ports: set[int]
    rules: list[FlowAdd] = field(default_factory=list)
    packets: dict[int, int] = field(default_factory=dict)
    """Per cookie."""
    out: list[tuple[int, bytes]] = field(default_factory=list)
    asked: list[Message] = field(default_factory=list)

    def tell(self, message: Message) -> None:
        """What the controller says."""
        if isinstance(message, FlowAdd):
            same = [r for r in self.rules if (r.table, r.priority, dict(r.match))
                    == (message.table, message.priority, dict(message.match))]
            for rule in same:
                self.rules.remove(rule)
            self.rules.append(message)
        elif isinstance(message, FlowDelete):
            self.rules = [r for r in self.rules if r.cookie != message.cookie]
        elif isinstance(message, PacketOut):
            self.out.append((message.number, message.data))
        else:
            assert isinstance(message, ReadRules | ReadPorts | Barrier)
            self.asked.append(message)

    def cookies(self) -> set[int]:
        return {rule.cookie for rule in self.rules}

    # ---- frames ----
    def receive(self, in_port: int, frame: bytes) -> list[tuple[int | str, bytes]]:
        """What comes out: by port number, or "controller", or "normal" for ordinary forwarding."""
        state = {"in_port": in_port, LABEL_REGISTER: 0}
        sent: list[tuple[int | str, bytes]] = []
        table: int | None = 0
        while table is not None:
            frame, table = self._table(table, state, frame, sent)
        return sent

    def _table(self, table: int, state: dict[str, int], frame: bytes,
               sent: list[tuple[int | str, bytes]]) -> tuple[bytes, int | None]:
        fields = {**state, **self._fields(frame)}
        hits = [r for r in self.rules if r.table == table and self._matches(r, fields)]
        if not hits:
            return frame, None
        best = max(hits, key=lambda r: r.priority)
        rivals = [r for r in hits if r.priority == best.priority]
        assert len(rivals) == 1, f"ambiguous: {rivals}"
        self.packets[best.cookie] = self.packets.get(best.cookie, 0) + 1
        following = None
        for kind, *values in best.actions:
            if kind == "keep_label":
                state[LABEL_REGISTER] = fields["mpls_label"]
            elif kind == "pop_mpls":
                if self._depth(frame) > LABELS_SEEN:
                    return frame, None
                frame = frame[:12] + int(values[0]).to_bytes(2, "big") + frame[18:]
            elif kind == "set_field":
                address = bytes.fromhex(str(values[1]).replace(":", ""))
                frame = address + frame[6:] if values[0] == "eth_dst" else frame[:6] + address + frame[12:]
            elif kind == "goto":
                assert int(values[0]) > table, "OpenFlow goes forward only"
                following = int(values[0])
            elif kind == "output":
                if values[0] != state["in_port"] and values[0] in self.ports:
                    sent.append((int(values[0]), frame))
            elif kind in ("controller", "normal"):
                sent.append((kind, frame))
            else:
                raise AssertionError(f"unknown action {kind}")
        return frame, following

    @staticmethod
    def _depth(frame: bytes) -> int:
        count, at = 0, 14
        while at + 4 <= len(frame):
            count += 1
            if frame[at + 2] & 1:
                break
            at += 4
        return count

    @staticmethod
    def _fields(frame: bytes) -> dict[str, int]:
        fields = {"eth_type": int.from_bytes(frame[12:14], "big")}
        if fields["eth_type"] == MPLS and len(frame) >= 18:
            word = int.from_bytes(frame[14:18], "big")
            fields["mpls_label"], fields["mpls_bos"] = word >> 12, word >> 8 & 1
        return fields

    @staticmethod
    def _matches(rule: FlowAdd, fields: dict[str, int]) -> bool:
        for name, wanted in rule.match:
            value, mask = wanted if isinstance(wanted, tuple) else (wanted, -1)
            if name not in fields or fields[name] & mask != value:
                return False
        return True
