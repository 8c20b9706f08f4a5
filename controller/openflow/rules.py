"""From what a switch shall do to OpenFlow rules, and from the rules it has to what must change. Pure.

At most two rules per port (a label at the bottom of the stack or not) and EXTRA_RULES more, none per group or tree.

A rule's cookie says whose it is and what it says: the upper half is ours (COOKIE), the lower a checksum of the rule's
whole text. So after a reconnect or a restart of the controller, rules that are right are known by their cookie and stay
untouched, with their counters and without a gap; what carries our mark and is not wanted is removed; what is not ours
stays.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from datacast.controller.openflow.messages import (
    Action,
    FlowAdd,
    FlowDelete,
    Match,
    Message,
    PortFlood,
)
from datacast.controller.southbound.desired import Adjacency, Desired
from datacast.core.constants import ETHERTYPE_DATACAST, ETHERTYPE_MPLS, LABEL_ADJ, LABEL_LOCAL

ETHERTYPE_LLDP = 0x88CC
COOKIE = 0xDA7ACA57
"""Upper 32 bits of the cookies of our rules."""
EXTRA_RULES = 12
"""Bound on the rules that are not a port's."""

LABELS, REFUSALS, APPLIANCE, REST = 300, 200, 100, 0
"""Priorities."""


@dataclass(frozen=True)
class Rule:
    """One entry of table 0. `purpose` names it for people and counters; it is no part of what the switch gets."""

    priority: int
    match: Match
    actions: tuple[Action, ...]
    purpose: str

    @property
    def cookie(self) -> int:
        text = repr((self.priority, self.match, self.actions)).encode()
        return COOKIE << 32 | zlib.crc32(text)


def is_ours(cookie: int) -> bool:
    return cookie >> 32 == COOKIE


def _label(label: int, bottom: int) -> Match:
    return (("eth_type", ETHERTYPE_MPLS), ("mpls_label", label), ("mpls_bos", bottom))


def _adjacency(a: Adjacency) -> Iterable[Rule]:
    for bottom, below in ((0, ETHERTYPE_MPLS), (1, ETHERTYPE_DATACAST)):
        yield Rule(
            LABELS,
            _label(LABEL_ADJ + a.port, bottom),
            (
                ("pop_mpls", below),
                ("set_field", "eth_dst", a.dst),
                ("set_field", "eth_src", a.src),
                ("turn",),
                ("output", a.number),
            ),
            f"adj {a.port}{' bottom' if bottom else ''}",
        )


def rules(desired: Desired) -> list[Rule]:
    """Every rule of a switch."""
    found = [rule for a in desired.adjacencies for rule in _adjacency(a)]
    if desired.appliance is not None:
        found.append(
            Rule(
                LABELS,
                _label(LABEL_LOCAL, 1),
                (("pop_mpls", ETHERTYPE_DATACAST), ("turn",), ("output", desired.appliance)),
                "local",
            )
        )
        # Only what it sends under a label goes anywhere: its machine's own chatter stays out of the network.
        found.append(Rule(APPLIANCE, (("in_port", desired.appliance),), (), "drop appliance"))
    else:
        found.append(Rule(LABELS, _label(LABEL_LOCAL, 1), (), "drop no_endpoint"))
    found += [
        Rule(LABELS, _label(LABEL_LOCAL, 0), (), "drop stack"),
        Rule(REFUSALS, (("eth_type", ETHERTYPE_MPLS),), (), "drop label"),
        Rule(REFUSALS, (("eth_type", ETHERTYPE_DATACAST),), (), "drop no_endpoint"),
        Rule(REFUSALS, (("eth_type", ETHERTYPE_LLDP),), (("controller",),), "discovery"),
        Rule(REST, (), (("normal",),), "ethernet"),
    ]
    return found


@dataclass(frozen=True)
class Ports:
    """What a switch told of its ports: own address and whether it floods, by number."""

    macs: dict[int, str]
    floods: dict[int, bool]


def changes(wanted: Desired, have: Iterable[int], ports: Ports) -> list[Message]:
    """Messages that make a switch what it shall be.

    `have`: cookies of the rules it has. New rules first, so that one which replaces another with the same match does so
    without a gap; then what is left over of ours; ports that must not flood before those that may.
    """
    want = {rule.cookie: rule for rule in rules(wanted)}
    have = set(have)
    messages: list[Message] = [
        FlowAdd(r.priority, r.match, r.actions, cookie) for cookie, r in want.items() if cookie not in have
    ]
    messages += [FlowDelete(cookie) for cookie in sorted(have) if is_ours(cookie) and cookie not in want]
    flood = [
        PortFlood(number, ports.macs[number], number in wanted.flood)
        for number, floods in ports.floods.items()
        if number in ports.macs and floods != (number in wanted.flood)
    ]
    return messages + sorted(flood, key=lambda m: m.flood)
