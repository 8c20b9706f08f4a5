"""From what a switch shall do to OpenFlow rules, and from the rules it has to what must change. Pure.

Table POP looks at the kind of frame: it keeps the top label in a register, pops it, and table OUT sends the frame where
that label said, with one rule per port. A port that would close a loop of ordinary Ethernet costs one more, which
refuses what comes in there; the switch floods out of it all the same, and the other end refuses. A REPLICATE label
from the cache appliance leads through a chain of tables, one for each port with a bit in it: two rules more per port.
So there are at most two rules per port and 12 more, with REPLICATE four and 16, none per group or tree. (Popping by
label takes two rules per port by itself, because what lies under the bottom label has another EtherType; then nothing
would be left for loops.)

A rule's cookie says whose it is and what it says: the upper half is ours (COOKIE), the lower a checksum of the rule's
whole text. So after a reconnect or a restart of the controller, rules that are right are known by their cookie and stay
untouched, with their counters and without a gap; what carries our mark and is not wanted is removed; what is not ours
stays.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from datacast.controller.openflow.messages import LABEL_REGISTER, Action, FlowAdd, FlowDelete, Match, Message
from datacast.controller.southbound.desired import Adjacency, Desired
from datacast.core.constants import (
    ETHERTYPE_DATACAST,
    ETHERTYPE_HELLO,
    ETHERTYPE_MPLS,
    LABEL_ADJ,
    LABEL_LOCAL,
    LABEL_REPLICATE,
)

ETHERTYPE_LLDP = 0x88CC
COOKIE = 0xDA7ACA57
"""Upper 32 bits of the cookies of our rules."""
POP, OUT, COPY = 0, 1, 2
"""Tables; COPY is the first of as many as there are ports to copy to."""
LOCAL, LABELS, STACKS, PORTS, REST = 400, 300, 250, 200, 0
"""Priorities."""
BELOW_ADJ = (0, (1 << 20) - LABEL_ADJ)
"""Value and mask of the labels under LABEL_ADJ, which is a power of two."""


@dataclass(frozen=True)
class Rule:
    """One entry. `purpose` names it for people and counters; it is no part of what the switch gets."""

    table: int
    priority: int
    match: Match
    actions: tuple[Action, ...]
    purpose: str

    @property
    def cookie(self) -> int:
        text = repr((self.table, self.priority, self.match, self.actions)).encode()
        return COOKIE << 32 | zlib.crc32(text)


def is_ours(cookie: int) -> bool:
    return cookie >> 32 == COOKIE


def _local(bottom: int) -> Match:
    return (("eth_type", ETHERTYPE_MPLS), ("mpls_label", LABEL_LOCAL), ("mpls_bos", bottom))


def _pop(bottom: int, below: int) -> Rule:
    return Rule(POP, LABELS, (("eth_type", ETHERTYPE_MPLS), ("mpls_bos", bottom)),
                (("keep_label",), ("pop_mpls", below), ("goto", OUT)), f"pop{' bottom' if bottom else ''}")


def _send(a: Adjacency) -> tuple[Action, ...]:
    return (("set_field", "eth_dst", a.dst), ("set_field", "eth_src", a.src), ("output", a.number))


def _adjacency(a: Adjacency) -> Rule:
    return Rule(OUT, LABELS, ((LABEL_REGISTER, LABEL_ADJ + a.port),), _send(a), f"adj {a.port}")


def _copies(ports: tuple[Adjacency, ...], appliance: int) -> list[Rule]:
    """REPLICATE: from table to table, one per port: when its bit is set, a copy leaves by it."""
    marked = (LABEL_REGISTER, (LABEL_REPLICATE, LABEL_REPLICATE))
    found = [Rule(OUT, LABELS, (("in_port", appliance), marked), (("goto", COPY),), "replicate"),
             Rule(OUT, STACKS, (marked,), (), "drop label")]
    for table, a in enumerate(ports, COPY):
        on = (("goto", table + 1),) if a is not ports[-1] else ()
        bit = (LABEL_REGISTER, (1 << a.port, 1 << a.port))
        found += [Rule(table, LABELS, (bit,), (*_send(a), *on), f"copy {a.port}"),
                  Rule(table, REST, (), on, f"no copy {a.port}")]
    return found


def rules(desired: Desired) -> list[Rule]:
    """Every rule of a switch."""
    found = [_pop(0, ETHERTYPE_MPLS), _pop(1, ETHERTYPE_DATACAST), *(_adjacency(a) for a in desired.adjacencies)]
    if desired.appliance is not None:
        found.append(Rule(POP, LOCAL, _local(1),
                          (("pop_mpls", ETHERTYPE_DATACAST), ("output", desired.appliance)), "local"))
        # Only what it sends under a label goes anywhere: its machine's own chatter stays out of the network.
        found.append(Rule(POP, PORTS, (("in_port", desired.appliance),), (), "drop ethertype"))
        if desired.copies:
            found += _copies(desired.copies, desired.appliance)
    else:
        found.append(Rule(POP, LOCAL, _local(1), (), "drop no_endpoint"))
    # A port that closes a loop: its other end refuses what is flooded there, as this end does.
    found += [Rule(POP, PORTS, (("in_port", a.number),), (), "drop ethertype") for a in desired.adjacencies
              if a.number not in desired.flood]
    return [*found,
            Rule(POP, LOCAL, _local(0), (), "drop stack"),
            Rule(POP, STACKS, (("eth_type", ETHERTYPE_MPLS),), (), "drop truncated"),
            Rule(POP, LABELS, (("eth_type", ETHERTYPE_DATACAST),), (), "drop no_endpoint"),
            Rule(POP, LABELS, (("eth_type", ETHERTYPE_HELLO),), (), "drop ethertype"),
            Rule(POP, LABELS, (("eth_type", ETHERTYPE_LLDP),), (("controller",),), "discovery"),
            Rule(POP, REST, (), (("normal",),), "ethernet"),
            Rule(OUT, PORTS, ((LABEL_REGISTER, BELOW_ADJ),), (), "drop label"),
            Rule(OUT, REST, (), (), "drop port")]


def changes(wanted: Desired, have: Iterable[int]) -> list[Message]:
    """Messages that make a switch what it shall be.

    `have`: cookies of the rules it has. New rules first, so that one which replaces another with the same match does so
    without a gap; of these, those that refuse before those that let pass; then what is left over of ours goes.
    """
    want = {rule.cookie: rule for rule in rules(wanted)}
    have = set(have)
    new = sorted((r for cookie, r in want.items() if cookie not in have), key=lambda r: bool(r.actions))
    messages: list[Message] = [FlowAdd(r.table, r.priority, r.match, r.actions, r.cookie) for r in new]
    return messages + [FlowDelete(cookie) for cookie in sorted(have) if is_ours(cookie) and cookie not in want]
