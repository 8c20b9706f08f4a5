"""Which ports must not flood, so that ordinary Ethernet meets no loop.

Switches that bridge form a graph of their links; a spanning tree of it stays open, every other link between two
bridging switches is blocked at both ends. Hosts are leaves and always open. (Datacast's own frames carry their route
and use all links.)
"""

from __future__ import annotations

from collections.abc import Iterable

End = tuple[str, int]
"""(switch, Datacast port)."""
Link = tuple[End, End]


def blocked_ends(links: Iterable[Link]) -> set[tuple[str, int]]:
    """The ends to block, the same for the same links in any order. O(links log links)."""
    root: dict[str, str] = {}

    def find(name: str) -> str:
        while root.setdefault(name, name) != name:
            root[name] = root[root[name]]
            name = root[name]
        return name

    blocked: set[tuple[str, int]] = set()
    for a, b in sorted(tuple(sorted(link)) for link in links):
        ra, rb = find(a[0]), find(b[0])
        if ra == rb:
            blocked |= {a, b}
        else:
            root[max(ra, rb)] = min(ra, rb)
    return blocked
