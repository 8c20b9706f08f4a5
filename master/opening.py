"""What members are told with `open`."""

from __future__ import annotations

from typing import Any

from .members import Member
from .transfer import Transfer


def for_all(t: Transfer) -> dict[str, Any]:
    """What is the same for all members."""
    assert t.plan
    return {
        "size": t.size,
        "piece": t.plan.payload,
        "per_block": t.block,
        "source": t.spec.source,
        "lease_ms": t.options["lease_ms"],
        "trees": [planned.transport.to_json(tree) for tree, planned in zip(t.tree_ids, t.plan.trees, strict=True)],
        **({"bundle": True} if t.bundle else {}),
        **({"sha256": t.spec.sha256} if t.spec.sha256 else {}),
    }


def for_one(t: Transfer, member: Member, etag: str) -> dict[str, Any]:
    """A member's own part. `etag`: of the object that is fetched; "": it has none."""
    assert t.plan
    roots = t.roots_trees(member.name)
    if member.role == "source":
        return {"role": "source", "path": t.spec.source_path, "roots": roots, **t.files[member.name]}
    pairs = zip(t.tree_ids, t.plan.trees, strict=True)
    routes = {str(tree): p.routes[member.name].hex() for tree, p in pairs if member.name in p.routes}
    part: dict[str, Any] = {"role": "receiver", "dest": t.dest(member.name), "routes": routes}
    if roots:
        part |= {"roots": roots, "origin": {"url": t.spec.source_path, **({"etag": etag} if etag else {})}}
    return part
