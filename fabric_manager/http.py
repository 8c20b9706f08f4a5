"""The HTTP API for masters and the controller. Loopback or a Unix socket; people use the controller's REST API."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le
from fastapi import Body, FastAPI, Path, Query, Request, Response
from msgspec import structs

from datacast.services.problems import Problem
from datacast.services.service import answer, install_problem_handlers, problem_response
from datacast.services.store import StoreError

from .api import Name, NodeSpec
from .api.records import AllGroups, FabricHealth, GroupChange, GroupForgotten, GroupSummary, TreeIds, WorkerRow
from .fabric import Fabric
from .group_routes import add_group_routes
from .groups import Groups
from .hub import Hub
from .leadership import LEADING
from .record import summary
from .registry import Registry
from .rights import only
from .streams import Stream
from .worker_routes import add_worker_routes

SetName = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
NodeName = Annotated[str, Path(max_length=64)]
SiteGroupId = Annotated[str, Path(pattern=r"^s-[0-9a-f]{16}$")]

TOPICS = {
    "topology": {"topology", "link", "node"},
    "groups": {"group", "forgotten", "groups"},
}


def make_app(fabric: Fabric, groups: Groups, hub: Hub, registry: Registry) -> FastAPI:
    app = FastAPI(title="Datacast fabric manager", docs_url=None, redoc_url=None)
    install_problem_handlers(app)

    @app.exception_handler(StoreError)
    async def _store(_: Request, error: StoreError) -> Response:
        remedy = "ask again; see that the store runs and has room"
        return problem_response(Problem(503, "store", error.message, what=error.what, remedy=remedy))

    sets = groups.sets
    anybody, controller, master = [only("controller", "master")], [only("controller")], [only("master")]

    @app.get("/healthz", dependencies=anybody)
    async def healthz() -> Response:
        nodes = [node for node in fabric.nodes.values() if not node.removed]
        return answer(
            FabricHealth(
                topology=fabric.spec,
                version=fabric.version,
                hosts=sum(n.kind == "host" for n in nodes),
                agents=sum(n.kind == "host" and n.registered for n in nodes),
                switches=sum(n.kind == "switch" for n in nodes),
                switches_registered=sum(n.kind == "switch" and n.registered for n in nodes),
                links_down=fabric.links_down,
                workers=[
                    WorkerRow(name=w.name, pid=w.pid, groups=len(w.groups))
                    for w in groups.placing.workers.all()
                    if w.orders
                ],
                streams=hub.streams,
                reports=registry.reports,
                certificate_until=registry.certificate_until,
            )
        )

    @app.get(LEADING, dependencies=[only("fabric-manager")])
    async def leading() -> Stream:
        subscription = hub.follow()
        return Stream(subscription, lambda: hub.unsubscribe(subscription))

    @app.get("/totals", dependencies=controller)
    async def totals() -> Response:
        return answer(groups.totals.told(groups.records()))

    @app.get("/topology", dependencies=anybody)
    async def topology() -> Response:
        return answer(groups.carried.topology(fabric.there()))

    @app.put("/topology/nodes/{node}", dependencies=controller)
    async def add_node(node: NodeName, spec: NodeSpec) -> Response:
        return answer(await groups.wiring.put(node, spec))

    @app.delete("/topology/nodes/{node}", status_code=204, dependencies=controller)
    async def remove_node(node: NodeName) -> Response:
        await groups.wiring.delete(node)
        return Response(status_code=204)

    add_group_routes(app, fabric, groups)

    @app.post("/trees", dependencies=master)
    async def trees(count: Annotated[int, Ge(1), Le(256), Body(embed=True)]) -> Response:
        return answer(TreeIds(await groups.placing.tree_ids.take(count)))

    @app.get("/sets", dependencies=controller)
    async def all_sets() -> Response:
        return answer(sets.all())

    @app.get("/sets/{name}", dependencies=controller)
    async def get_set(name: SetName) -> Response:
        return answer(sets.get(name))

    @app.put("/sets/{name}", dependencies=controller)
    async def put_set(name: SetName, hosts: Annotated[list[Name], Body(embed=True)]) -> Response:
        return answer(await sets.put(name, hosts))

    @app.delete("/sets/{name}", status_code=204, dependencies=controller)
    async def delete_set(name: SetName) -> Response:
        await sets.delete(name)
        return Response(status_code=204)

    @app.get("/site-groups", dependencies=controller)
    async def site_groups() -> Response:
        return answer(groups.site_groups.all())

    @app.put("/site-groups/{group}", status_code=204, dependencies=controller)
    async def put_site_group(group: SiteGroupId, text: Annotated[str, Body(embed=True)]) -> Response:
        await groups.site_groups.put(group, text)
        return Response(status_code=204)

    @app.delete("/site-groups/{group}", status_code=204, dependencies=controller)
    async def delete_site_group(group: SiteGroupId) -> Response:
        await groups.site_groups.delete(group)
        return Response(status_code=204)

    @app.get("/events", dependencies=anybody)
    async def events(
        topics: Annotated[str, Query()] = "topology,groups",
        group: str | None = None,
        since: Annotated[str | None, Query(max_length=64)] = None,
    ) -> Stream:
        """`since`: the `event` of the last one that was heard. What came after it follows, or, when that is not known
        any more, everything as it stands: `topology`, and `groups`, the summaries of all."""
        names = [t for t in topics.split(",") if t]
        for name in names:
            if name not in TOPICS:
                raise Problem(
                    422, "unknown_topic", f"unknown topic {name!r}", what=name, remedy=f"topics are {', '.join(TOPICS)}"
                )
        types = set().union(*(TOPICS[name] for name in names)) if names else set()
        subscription = hub.subscribe(
            lambda e: (
                e.__struct_config__.tag in types
                and (group is None or not isinstance(e, GroupChange | GroupForgotten) or e.id == group)
            )
        )
        missed = hub.since(since) if since is not None else None
        if missed is not None:
            for event in missed:
                subscription.put(event)
        else:
            if "topology" in types:
                subscription.put(structs.replace(fabric.snapshot(), event=hub.last))
            if "groups" in types and (since is not None or group is None):
                told = [summary(record, GroupSummary) for record in groups.all() if group in (None, record.id)]
                subscription.put(AllGroups(event=hub.last, groups=told))
        return Stream(subscription, lambda: hub.unsubscribe(subscription))

    add_worker_routes(app, groups)
    return app
