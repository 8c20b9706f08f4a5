"""/groups, /plan and /hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from annotated_types import Ge, Le, MaxLen, MinLen
from fastapi import APIRouter, Body, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse

from datacast.fabric_manager.api import FabricManagerClient, GroupSpec, GroupState, Name
from datacast.fabric_manager.api import Path as FilePath
from datacast.fabric_manager.api.records import Caps, Cordon, Host, Plan
from datacast.fabric_manager.api.records import GroupRecord as FabricGroupRecord
from datacast.fabric_manager.api.records import GroupSummary as FabricGroupSummary
from datacast.services.described import part_of
from datacast.services.problems import Problem
from datacast.services.service import answer

from .api.records import GroupRecord, GroupSummary
from .asked import ASKED
from .responses import problems
from .sites.shown import row, shown

if TYPE_CHECKING:
    from .sites.coordinator import Coordinator
    from .sites.records import SiteGroup

GroupId = Annotated[str, Path(description="as POST /groups returned it", examples=["g-1f3a5b7c"], max_length=64)]
SwitchName = Annotated[str, Path(description="the switch's name in the topology", max_length=64)]
HostName = Annotated[str, Path(description="a host's name", max_length=128)]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="your own name for this request: sent again with the same one it is carried out once",
        pattern=r"^[!-~]{1,128}$",
    ),
]
Bps = Annotated[int, Ge(1000), Le(10**15), Body(embed=True, description="bit/s of whole frames", examples=[10**9])]
Label = Annotated[str, MinLen(3), MaxLen(321)]
PAGE, PAGE_MAX = 1000, 1000
GroupRow: Any = part_of(GroupSummary, "GroupRow", "id")
"""A GroupSummary, or the part of it that `fields` names."""

EXAMPLE = {
    "source": "00",
    "receivers": ["02", "10", "21", "23", "31", "33"],
    "source_path": "/srv/image.raw",
    "dest_path": "image.raw",
    "labels": {"job": "nightly"},
    "options": {"trees": 2, "cache_bytes": 131072},
}
Spec = Annotated[GroupSpec, Body(examples=[EXAMPLE])]


def _age(group: SiteGroup) -> tuple[int, str]:
    return group.created_ns, group.id


def router(
    client: FabricManagerClient,
    sites: Coordinator | None = None,
) -> APIRouter:
    routes = APIRouter(tags=["groups"], default_response_class=JSONResponse, dependencies=ASKED)

    def created(group: FabricGroupRecord) -> Response:
        return answer(group, 201, {"location": f"/groups/{group.id}"})

    @routes.post(
        "/groups",
        status_code=201,
        responses={201: {"model": GroupRecord}, **problems(409, 422, 503)},
        summary="Start a group: deliver a file from one host to many",
    )
    async def create(request: Request, spec: Spec, idempotency_key: Key = None) -> Response:
        who = request.scope.get("datacast.who", "")
        if (spec.url or "").startswith("site:"):
            raise Problem(
                422, "bad_url", "site: is for controllers", what="url", remedy="name SITE/HOST among the receivers"
            )
        if sites is not None and sites.concerns(spec):
            return created(shown(await sites.create(spec, who, idempotency_key), sites.name))
        if sites is None and isinstance(spec.receivers, list) and any("/" in name for name in spec.receivers):
            raise Problem(
                422, "unknown_site", "this controller knows no other sites", what="receivers",
                remedy="`datacast sites init` and `datacast sites add`, and --sites of the controller",
            )  # fmt: skip
        return created(await client.create_group(spec, request.state.accepted_ns, who, idempotency_key))

    @routes.post(
        "/plan",
        responses={200: {"model": Plan}, **problems(409, 422, 503)},
        summary="What a group would get if it began now: trees, shares, time; nothing is started",
    )
    async def plan(
        spec: Spec,
        size: Annotated[int | None, Query(ge=0, le=1 << 53, description="of the file, for the time it takes")] = None,
    ) -> Response:
        return answer(await client.plan(spec, size))

    @routes.get(
        "/groups",
        responses={200: {"model": list[GroupRow]}, **problems(404, 422, 503)},
        summary="Groups, oldest first, those of several sites before the others, without their per-receiver figures; "
        "Link: rel=next leads to the next page",
    )
    async def listing(
        request: Request,
        state: Annotated[GroupState | None, Query(description="only groups in this state")] = None,
        source: Annotated[str | None, Query(description="only those from this host", max_length=128)] = None,
        requested_by: Annotated[str | None, Query(description="only this token's, by name", max_length=256)] = None,
        label: Annotated[
            list[Label], Query(description="only those with this label, as NAME=VALUE; all of them", max_length=32)
        ] = [],  # noqa: B006 - FastAPI's own form
        after: Annotated[str | None, Query(description="the last group of the page before", max_length=64)] = None,
        limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = PAGE,
        fields: Annotated[str | None, Query(description="only these keys of each, by comma", max_length=512)] = None,
    ) -> Response:
        rows: list[FabricGroupSummary] = []
        last = await of_sites(after) if after is not None else None
        if sites is not None and (after is None or last is not None):
            await sites.ready()
            labels = [text.partition("=")[::2] for text in label]
            every = sorted(sites.groups.values(), key=_age)
            rows += [
                one
                for one in (row(group, sites.name) for group in every if last is None or _age(group) > _age(last))
                if state in (None, one.state) and source in (None, one.source)
                and requested_by in (None, one.requested_by)
                and all(one.labels.get(name) == value for name, value in labels)
            ][:limit]  # fmt: skip
        if len(rows) < limit:
            rows += await client.groups(
                state, source=source, requested_by=requested_by, label=label or None,
                after=None if last is not None else after, limit=limit - len(rows),
            )  # fmt: skip
        headers = {}
        if len(rows) == limit:
            headers["link"] = f'<{request.url.include_query_params(after=rows[-1].id)}>; rel="next"'
        if not fields:
            return answer(rows, headers=headers)
        wanted = {name.strip() for name in fields.split(",")} | {"id"}
        if unknown := sorted(wanted - set(GroupSummary.__struct_fields__)):
            raise Problem(422, "invalid", f"fields: a group has no {unknown[0]!r}", what="fields")
        parts = [{key: value for key, value in msgspec.to_builtins(one).items() if key in wanted} for one in rows]
        return answer(parts, headers=headers)

    async def of_sites(group: str) -> SiteGroup | None:
        if sites is None or not group.startswith("s-"):
            return None
        await sites.ready()
        return sites.groups.get(group)

    async def of_one_site(group: str) -> str:
        """Raises Problem: it is there, and this cannot be done with it."""
        if await of_sites(group) is not None:
            raise Problem(
                409, "several_sites", f"group {group} reaches several sites: such are not resumed, joined or left",
                what=group, remedy="start a new group",
            )  # fmt: skip
        return group

    @routes.get(
        "/groups/{group}",
        responses={200: {"model": GroupRecord}, **problems(404, 422, 503)},
        summary="One group: progress, rate, duplicates, retransmissions and state per receiver and per tree",
    )
    async def one(group: GroupId) -> Response:
        if sites is not None and (found := await of_sites(group)) is not None:
            return answer(shown(found, sites.name))
        return answer(await client.group(group))

    @routes.post(
        "/groups/{group}/cancel",
        status_code=202,
        responses={202: {"model": GroupRecord}, **problems(404, 422, 503)},
        summary="End a group; one that has ended stays as it is",
    )
    async def cancel(group: GroupId) -> Response:
        if sites is not None and (found := await of_sites(group)) is not None:
            return answer(shown(await sites.cancel(found), sites.name), 202)
        return answer(await client.cancel_group(group), 202)

    @routes.delete(
        "/groups/{group}",
        responses={200: {"model": GroupRecord}, **problems(404, 409, 422, 503)},
        summary="Forget a group that has ended; answers what it was",
    )
    async def forget(group: GroupId) -> Response:
        if sites is not None and (found := await of_sites(group)) is not None:
            await sites.forget(found)
            return answer(shown(found, sites.name))
        return answer(await client.forget_group(group))

    @routes.post(
        "/groups/{group}/resume",
        status_code=202,
        responses={202: {"model": GroupRecord}, **problems(404, 409, 422, 503)},
        summary="Start a group again that has failed or reached some receivers; they go on from what they have",
    )
    async def resume(group: GroupId) -> Response:
        return answer(await client.resume_group(await of_one_site(group)), 202)

    @routes.post(
        "/groups/{group}/receivers",
        status_code=202,
        responses={202: {"model": GroupRecord}, **problems(404, 409, 422, 503)},
        summary="One receiver more; it is served when the others are done",
    )
    async def add_receiver(
        group: GroupId,
        host: Annotated[Name, Body(examples=["32"])],
        dest_path: Annotated[FilePath | None, Body(description="where this one wants it; else as the others")] = None,
    ) -> Response:
        return answer(await client.add_receiver(await of_one_site(group), host, dest_path), 202)

    @routes.delete(
        "/groups/{group}/receivers/{host}",
        status_code=202,
        responses={202: {"model": GroupRecord}, **problems(404, 409, 422, 503)},
        summary="One receiver less; what it has is dropped",
    )
    async def remove_receiver(group: GroupId, host: HostName) -> Response:
        return answer(await client.remove_receiver(await of_one_site(group), host), 202)

    @routes.get(
        "/hosts",
        tags=["fabric"],
        responses={200: {"model": list[Host]}, **problems(503)},
        summary="Hosts: who is there, who is cordoned, which groups run on them",
    )
    async def hosts() -> Response:
        return answer(await client.hosts())

    @routes.put(
        "/hosts/{host}/cordon",
        tags=["fabric"],
        responses={200: {"model": Cordon}, **problems(422, 503)},
        summary="Have a host take part in no new group; those that run go on",
    )
    async def cordon(host: HostName, reason: Annotated[str, MaxLen(256), Body(embed=True)] = "") -> Response:
        return answer(await client.cordon(host, reason))

    @routes.delete(
        "/hosts/{host}/cordon",
        tags=["fabric"],
        responses={200: {"model": Cordon}, **problems(404, 422, 503)},
        summary="Have it take part again",
    )
    async def uncordon(host: HostName) -> Response:
        return answer(await client.uncordon(host))

    @routes.put(
        "/switches/{switch}/cordon",
        tags=["fabric"],
        responses={200: {"model": Cordon}, **problems(409, 422, 503)},
        summary="Have no tree use a switch; groups that run move away from it",
    )
    async def cordon_switch(switch: SwitchName, reason: Annotated[str, MaxLen(256), Body(embed=True)] = "") -> Response:
        return answer(await client.cordon_switch(switch, reason))

    @routes.delete(
        "/switches/{switch}/cordon",
        tags=["fabric"],
        responses={200: {"model": Cordon}, **problems(404, 422, 503)},
        summary="Have trees use it again",
    )
    async def uncordon_switch(switch: SwitchName) -> Response:
        return answer(await client.uncordon_switch(switch))

    @routes.get(
        "/caps",
        tags=["fabric"],
        responses={200: {"model": Caps}, **problems(503)},
        summary="What all groups together may send: in the fabric, and over the links of hosts",
    )
    async def caps() -> Response:
        return answer(await client.caps())

    @routes.put(
        "/caps/fabric",
        tags=["fabric"],
        responses={200: {"model": Caps}, **problems(422, 503)},
        summary="What all sources together may send",
    )
    async def cap_fabric(most_bps: Bps) -> Response:
        return answer(await client.cap(None, most_bps))

    @routes.delete(
        "/caps/fabric",
        tags=["fabric"],
        responses={200: {"model": Caps}, **problems(404, 503)},
        summary="They may send what the links carry",
    )
    async def uncap_fabric() -> Response:
        return answer(await client.uncap(None))

    @routes.put(
        "/caps/hosts/{host}",
        tags=["fabric"],
        responses={200: {"model": Caps}, **problems(422, 503)},
        summary="What all groups together may send over a host's links, and as much towards it",
    )
    async def cap_host(host: HostName, most_bps: Bps) -> Response:
        return answer(await client.cap(host, most_bps))

    @routes.delete(
        "/caps/hosts/{host}",
        tags=["fabric"],
        responses={200: {"model": Caps}, **problems(404, 422, 503)},
        summary="Its links carry what they can",
    )
    async def uncap_host(host: HostName) -> Response:
        return answer(await client.uncap(host))

    return routes
