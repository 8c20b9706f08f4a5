"""What members are told with `open`."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

from msgspec.structs import replace

from .members import Member
from .requests import Fetched, Opening, Origin, ReceiverPart, SourcePart
from .transfer import Transfer

if TYPE_CHECKING:
    from .objects import Objects


def for_all(t: Transfer, objects: Objects | None) -> Opening:
    """What is the same for all members. `objects`: what is fetched."""
    assert t.plan and t.size is not None
    expected = t.spec.sha256
    if objects is not None and objects.manifest:
        expected = hashlib.sha256(objects.manifest).hexdigest()
    return Opening(
        size=t.size,
        piece=t.plan.payload,
        per_block=t.block,
        source=t.spec.source,
        lease_ms=t.options.lease_ms,
        trees=tuple([planned.transport.of(tree) for tree, planned in zip(t.tree_ids, t.plan.trees, strict=True)]),
        bundle=t.bundle,
        sha256=expected or "",
        stamp=stamp_of(t.size, t.file),
        origin=None if objects is None else _origin(objects),
    )


def stamp_of(size: int | None, file: dict[str, int]) -> str:
    """Names the source's file as it is: another one where that has changed; empty where it is not known."""
    if file.keys() != {"mtime_ns", "inode"}:
        return ""
    return f"{size}-{file['inode']}-{file['mtime_ns']}"


def _origin(objects: Objects) -> Origin:
    rows = [Fetched(data=one.data) if one.data else Fetched(url=one.url, etag=one.etag) for one in objects.all]
    return Origin(tuple(rows), base64.b64encode(objects.manifest).decode())


def for_one(t: Transfer, member: Member) -> SourcePart | ReceiverPart:
    """A member's own part."""
    assert t.plan
    roots = t.roots_trees(member.name)
    if member.role == "source":
        file = t.files[member.name]
        part = SourcePart(t.path(member.name), roots, file.get("mtime_ns"), file.get("inode"))
        if member.name in t.spec.unfinished:  # its table says what it has
            return replace(part, unfinished=t.spec.unfinished[member.name])
        if t.held:
            return replace(part, wants=t.held[member.name])
        return replace(part, wants=t.shards.anybodys(t.everybody)) if t.shards else part
    pairs = zip(t.tree_ids, t.plan.trees, strict=True)
    return ReceiverPart(
        dest=t.dest(member.name),
        routes={str(tree): p.routes[member.name].hex() for tree, p in pairs if member.name in p.routes},
        wants=t.shards.rows.get(member.name) if t.shards else None,
        roots=roots,
        fetches=not roots and t.spec.url is not None and member.sends,  # alone, to nobody
    )
