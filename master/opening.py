"""What members are told with `open`."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any

from .members import Member
from .transfer import Transfer

if TYPE_CHECKING:
    from .objects import Objects


def for_all(t: Transfer, objects: Objects | None) -> dict[str, Any]:
    """What is the same for all members. `objects`: what is fetched."""
    assert t.plan
    expected = t.spec.sha256
    if objects is not None and objects.manifest:
        expected = hashlib.sha256(objects.manifest).hexdigest()
    return {
        "size": t.size,
        "piece": t.plan.payload,
        "per_block": t.block,
        "source": t.spec.source,
        "lease_ms": t.options["lease_ms"],
        "trees": [planned.transport.to_json(tree) for tree, planned in zip(t.tree_ids, t.plan.trees, strict=True)],
        **({"bundle": True} if t.bundle else {}),
        **({"sha256": expected} if expected else {}),
        **({"stamp": stamp} if (stamp := stamp_of(t.size, t.file)) else {}),
        **({"origin": _origin(objects)} if objects is not None else {}),
    }


def stamp_of(size: int | None, file: dict[str, int]) -> str:
    """Names the source's file as it is: another one where that has changed; empty where it is not known."""
    if file.keys() != {"mtime_ns", "inode"}:
        return ""
    return f"{size}-{file['inode']}-{file['mtime_ns']}"


def _origin(objects: Objects) -> dict[str, Any]:
    rows = []
    for one in objects.all:
        rows.append({"data": one.data} if one.data else {"url": one.url, **({"etag": one.etag} if one.etag else {})})
    return {
        "objects": rows,
        **({"manifest": base64.b64encode(objects.manifest).decode()} if objects.manifest else {}),
    }


def for_one(t: Transfer, member: Member) -> dict[str, Any]:
    """A member's own part."""
    assert t.plan
    roots = t.roots_trees(member.name)
    part: dict[str, Any]
    if member.role == "source":
        part = {"role": "source", "path": t.path(member.name), "roots": roots, **t.files[member.name]}
        if member.name in t.spec.unfinished:  # its table says what it has
            return part | {"unfinished": t.spec.unfinished[member.name]}
        if t.held:
            return part | {"wants": t.held[member.name]}
        return part | ({"wants": t.shards.anybodys(t.everybody)} if t.shards else {})
    pairs = zip(t.tree_ids, t.plan.trees, strict=True)
    routes = {str(tree): p.routes[member.name].hex() for tree, p in pairs if member.name in p.routes}
    part = {"role": "receiver", "dest": t.dest(member.name), "routes": routes}
    if t.shards and member.name in t.shards.rows:
        part |= {"wants": t.shards.rows[member.name]}
    if roots:
        part |= {"roots": roots}
    elif t.spec.url is not None and len(t.order.receivers) == 1:
        part |= {"fetches": True}  # alone, it sends to nobody
    return part
