"""Names of receivers beyond this site: `SITE/host`, `SITE/all` (HiMM's limited broadcast), `*/all`, all hosts here and
at every site below, and `SITE/*/all`, those of a site and all below it (its deep broadcast)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from datacast.fabric_manager.api import GroupSpec
from datacast.services.sites_file import SiteError, is_name

from .records import Part, is_fetched

EVERYWHERE = "*/all"


@dataclass
class Members:
    """`here`: of this site, "all", or none. `there`: what each other site gets to read."""

    here: list[str] | Literal["all"] | None = None
    there: dict[str, list[str]] = field(default_factory=dict)


def reaches_out(spec: GroupSpec) -> bool:
    """Whether a receiver is at another site, or is meant to be at one that is not known."""
    names = spec.receivers if isinstance(spec.receivers, list) else []
    return any(name == EVERYWHERE or ("/" in name and is_name(name.partition("/")[0])) for name in names)


def split(names: list[str] | str, own: str, known: list[str], path: list[str], others: Sequence[str] = ()) -> Members:
    """`known`: sites that may be ordered to. `path`: sites that have this group already; none of them gets it again.
    `others` have it likewise, and are left out where all are meant. Raises SiteError."""
    members = Members()
    if names == "all":
        return Members("all")
    here: list[str] = []
    for name in names:
        name = name.removeprefix(f"{own}/") if name == f"{own}/{EVERYWHERE}" else name
        if name == EVERYWHERE:
            members.here = "all"
            for site in known:
                if site not in path and site not in others:
                    members.there.setdefault(site, [EVERYWHERE])
            continue
        site, slash, rest = name.partition("/")
        if slash and is_name(site) and "" in rest.split("/"):  # the site behind it could not go on from there
            raise SiteError(
                f"{name} names no host: nothing stands behind a slash", name, "unknown_host",
                "give SITE/HOST, SITE/all or SITE/*/all",
            )  # fmt: skip
        if name == "all":
            members.here = "all"
        elif not slash or not is_name(site):
            here.append(name)
        elif site == own:
            members.here = "all" if rest == "all" else members.here
            here += [] if rest == "all" else [rest]
        elif site in path:
            raise SiteError(
                f"{name} leads back: the group came here from {' and '.join(path)}", site, "cycle",
                "name each site once",
            )  # fmt: skip
        elif site not in known:
            raise SiteError(
                f"{name}: no site {site} is known at {own}", site, "unknown_site", "`datacast sites list` tells them"
            )
        else:
            wanted = members.there.setdefault(site, [])
            if rest not in wanted:
                wanted.append(rest)
    if members.here is None and here:
        members.here = list(dict.fromkeys(here))
    return members


def for_site(spec: GroupSpec, part: Part) -> GroupSpec:
    """What another site is told of a request: nothing of this site's hosts. A URL it fetches itself."""
    fetched = is_fetched(spec)
    return replace(
        spec,
        source="",
        source_path="",
        other_sources=[],
        url=spec.url if fetched else None,
        parts=spec.parts if fetched else [],
        fetchers=spec.fetchers if fetched and not isinstance(spec.fetchers, list) else None,
        receiver_set=None,
        receivers=part.receivers,
        shards=part.shards,
        deadline_s=None,
    )
