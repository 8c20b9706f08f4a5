"""The trees over which a group's requests travel: which members are asked by one message, and what it looks like."""

from __future__ import annotations

from collections.abc import Container, Mapping

import msgspec

from datacast.core.trees import fan_out, nearest
from datacast.services import framing

from .members import Member
from .requests import Form
from .signalling import tree_message
from .view import View

FAN_OUT = 16
"""Most children of a member in the signalling tree."""
MEMBERS_MAX, CHILDREN_MAX = 512, 128
"""Members that one message is for, and children of the source in all trees together: an agent keeps no more."""
PART_BYTES = 2 << 20
"""Of the members' own parts in one message: half a frame."""
PART_HEAD = 256
"""A member's name and address, beside its own part."""

Parts = Mapping[str, Form | None]


def members_max(parts: Parts) -> int:
    """Members that one message can be for, by the longest of their own parts."""
    if len(parts) <= 16:
        return MEMBERS_MAX
    longest = max(len(framing.text(part)) for part in parts.values())
    return max(16, min(MEMBERS_MAX, PART_BYTES // (longest + PART_HEAD)))


class Branches:
    """Of one group, whose `members` come and go."""

    def __init__(self, view: View, members: Mapping[str, Member]) -> None:
        self._view, self._members = view, members
        self._near: list[str] = []
        self._last: tuple[tuple[str, ...], list[msgspec.Raw]] = (), []
        """Of the last message to so many members, as it is written."""

    def to(self, lead: Member, members: list[Member], parts: Parts | None) -> list[msgspec.Raw]:
        """As messages hold them. Most go to the same members as the one before, with no part for each."""
        addresses = {m.name: m.addr for m in (lead, *members)}
        key = (*addresses, *addresses.values())
        if parts is None and self._last[0] == key:
            return self._last[1]
        most = MEMBERS_MAX if parts is None else members_max(parts)
        trees = [
            msgspec.Raw(framing.text(tree_message(tree, lead.name, addresses, parts)))
            for tree in self._trees(lead.name, addresses, most)
        ]
        if parts is None:
            self._last = key, trees
        return trees

    def _trees(self, lead: str, names: Container[str], most: int) -> list[dict[str, list[str]]]:
        """To some members, at most `most` in each. Their order by distance is kept: a search of the whole topology
        would hold up every change of routes."""
        if len(self._near) != len(self._members) or self._near[0] != lead:
            assert self._view.network
            self._near = [lead, *nearest(self._view.network, lead, self._members)]
        found = [name for name in self._near[1:] if name in names]
        chunks = [found[at : at + most] for at in range(0, len(found), most)] or [[]]
        children = max(2, min(FAN_OUT, CHILDREN_MAX // len(chunks)))
        return [fan_out(lead, chunk, children) for chunk in chunks]
