"""A group of several sites as the REST API tells it: the shape of any group, and `sites`, how each one's part does."""

from __future__ import annotations

from msgspec import structs

from datacast.controller.api.records import GroupRecord, GroupSummary, SitePart
from datacast.core.lists import few
from datacast.fabric_manager.api.records import AnyGroup, Receiver
from datacast.fabric_manager.api.reports import Slowness

from .records import Failure, Progress, SiteGroup


def wrong_digest(group: SiteGroup, told: Progress, own: str) -> Failure | None:
    """Of one whose SHA-256 was given and is another one at some hosts: whose copy is wrong. Hosts of a site have their
    copy from one another, so one that is right there says that the site's is."""
    if not told.final:
        return None
    wrong: dict[str, set[str]] = {}
    right: set[str] = set()
    for name, host in told.hosts.items():
        site = name.rpartition("/")[0] or own
        if host.state == "done":
            right.add(site)
        elif host.error is not None and host.error.code == "digest":
            wrong.setdefault(site, set()).add(host.error.message)
    if not wrong:
        return None
    every = set[str]().union(*wrong.values())
    where, why = ", ".join(wrong), few(sorted(every), 4, "; ")
    if right:
        text = f"the copy at {where} is wrong, at {', '.join(sorted(right))} it is as expected: {why}"
    elif len(every) > 1:
        text = f"the copies at {where} are wrong, and not the same: {why}"
    else:
        origin = f"{group.spec.source} at {own}" if group.parent is None else group.path[0]
        text = f"what {group.spec.url or origin} has is not what was expected, so it is at {where}: {why}"
    return Failure.cut("digest", text)


def _common(group: SiteGroup, told: Progress, own: str) -> AnyGroup:
    spec, error = group.spec, wrong_digest(group, told, own) or told.error
    return AnyGroup(
        id=group.id,
        state="starting" if told.state == "ordered" else told.state,
        epoch=0,
        worker=None,
        source=spec.source if group.parent is None else f"{group.path[0]}/…",
        source_path=spec.url or "" if group.fetched else spec.source_path if group.parent is None else "",
        other_sources=[],
        dest_path=spec.dest_path,
        labels=spec.labels,
        priority=spec.priority,
        requested_by=group.requested_by if group.parent is None else f"site {group.parent}",
        created_ns=group.created_ns,
        updated_ns=group.created_ns,
        finished_ns=group.finished_ns,
        size=group.size,
        fraction=told.fraction,
        rate_bps=told.rate_bps,
        error=error.told() if error else None,
        slow=Slowness(code=told.slow.code, message=told.slow.message) if told.slow else None,
    )


def takes_part(group: SiteGroup) -> bool:
    """Whether hosts here were to have it."""
    return group.spec.receivers is not None or group.own.final


def row(group: SiteGroup, own: str) -> GroupSummary:
    """Without figures per receiver."""
    told = group.progress()
    states = [figures.state for figures in told.hosts.values()]
    return GroupSummary(
        **structs.asdict(_common(group, told, own)),
        receivers=len(states),
        receivers_done=states.count("done"),
        receivers_failed=states.count("failed"),
        trees=0,
        sites=sorted([*([own] if takes_part(group) else []), *group.parts]),
    )


def shown(group: SiteGroup, own: str) -> GroupRecord:
    told, spec = group.progress(), group.spec
    parts = {name: part.progress for name, part in group.parts.items()}
    if takes_part(group):
        parts[own] = group.own
    return GroupRecord(
        **structs.asdict(_common(group, told, own)),
        options=spec.options,
        sha256=spec.sha256,
        shards=spec.shards
        | {f"{site}/{name}": texts for site, part in group.parts.items() for name, texts in part.shards.items()},
        weight=spec.weight,
        most_bps=spec.most_bps,
        deadline_s=None,
        receivers={
            name: Receiver(
                state=figures.state,
                fraction=figures.fraction,
                sha256_ok=figures.sha256_ok,
                error=figures.error.told() if figures.error else None,
            )
            for name, figures in told.hosts.items()
        },
        trees={},
        report=None,
        reactions=[],
        local=group.local,
        sites={
            name: SitePart(
                state=part.state,
                fraction=part.fraction,
                rate_bps=part.rate_bps,
                error=part.error.told() if part.error else None,
            )
            for name, part in parts.items()
        },
    )
