"""Which of several controllers leads an OpenFlow switch. Pure: `now` in, messages out.

A switch tells nobody that its master has gone (OpenFlow 1.3). So who leads keeps a rule in the switch that ends by
itself after LEASE_S and that matches nothing (its table is never reached): its cookie says whose it is. The others read
the rules every LOOK_S, as slaves may, and when there is no lease of another one they ask to be master, with a
generation higher than the last: of two that ask at once the later one is; the other is refused what it then says, and
waits again. One that starts again at the same address finds its own lease and goes on; one told to stop takes its lease
away.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from datacast.controller.openflow.messages import AskRole, FlowAdd, FlowDelete, Message, ReadRules

LEASE = 0xDA7ACA58
"""Upper 32 bits of a lease's cookie; the lower say whose it is."""
LEASE_TABLE = 253
LEASE_S = 3
RENEW_S, LOOK_S = 1.0, 0.5
ANSWER_S = 2.0
"""After that a question is asked again."""
NO_GENERATION = (1 << 64) - 1


@dataclass
class Seat:
    """A connection, and where this controller stands. `state`: asking, waiting, claiming, leading."""

    connection: Any
    state: str = "asking"
    generation: int = NO_GENERATION
    """The highest that the switch has told of."""
    due: float = 0.0

    @property
    def leads(self) -> bool:
        return self.state == "leading"


class Roles:
    """Of one controller, at all its switches. `me`: what tells it from the others, the same after a restart."""

    def __init__(self, me: str) -> None:
        self.cookie = LEASE << 32 | zlib.crc32(me.encode())
        self.seats: dict[str, Seat] = {}

    def leads(self, name: str) -> bool:
        seat = self.seats.get(name)
        return seat is not None and seat.leads

    def waits(self, name: str) -> bool:
        """Another one leads it."""
        seat = self.seats.get(name)
        return seat is not None and seat.state == "waiting"

    def connected(self, now: float, name: str, connection: Any) -> list[Message]:
        self.seats[name] = Seat(connection)
        return self._ask(now, self.seats[name])

    def disconnected(self, name: str, connection: Any) -> None:
        if name in self.seats and self.seats[name].connection is connection:
            del self.seats[name]

    def rules(self, now: float, t_ns: int, name: str, cookies: Iterable[int]) -> list[Message]:
        """The switch's rules, asked for by `_ask`."""
        seat = self.seats.get(name)
        if seat is None or seat.state not in ("asking", "waiting"):
            return []
        leases = {cookie for cookie in cookies if cookie >> 32 == LEASE} - {self.cookie}
        if leases:
            seat.state, seat.due = "waiting", now + LOOK_S
            return []
        seat.state, seat.due = "claiming", now + ANSWER_S
        last = 0 if seat.generation == NO_GENERATION else seat.generation
        return [AskRole(master=True, generation=max(last + 1, t_ns))]

    def told(self, now: float, name: str, master: bool, generation: int) -> list[Message]:
        """The switch's word on the role. When it leads from now on: the lease."""
        seat = self.seats.get(name)
        if seat is None:
            return []
        seat.generation = generation
        if seat.state == "claiming" and master:
            seat.state = "leading"
            return self._renew(now, seat)
        return []

    def refused(self, now: float, name: str) -> bool:
        """The switch takes nothing of a slave, or another one's generation is higher. Returns whether it led."""
        seat = self.seats.get(name)
        if seat is None or seat.state not in ("claiming", "leading"):
            return False
        led, seat.state, seat.due = seat.leads, "waiting", now + LOOK_S
        return led

    def tick(self, now: float) -> list[tuple[str, list[Message]]]:
        """What is due, by switch."""
        return [
            (name, self._renew(now, seat) if seat.leads else self._ask(now, seat))
            for name, seat in self.seats.items()
            if now >= seat.due
        ]

    def resign(self) -> list[tuple[str, list[Message]]]:
        """The others need not wait for the leases to end."""
        return [(name, [FlowDelete(self.cookie)]) for name, seat in self.seats.items() if seat.leads]

    def _ask(self, now: float, seat: Seat) -> list[Message]:
        seat.state, seat.due = "asking" if seat.state == "claiming" else seat.state, now + ANSWER_S
        return [AskRole(), ReadRules()]

    def _renew(self, now: float, seat: Seat) -> list[Message]:
        seat.due = now + RENEW_S
        return [FlowAdd(LEASE_TABLE, 1, (), (), self.cookie, ends_s=LEASE_S)]
