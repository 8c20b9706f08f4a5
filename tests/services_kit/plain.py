"""A client of the fabric manager that sends JSON as it is and gives answers as they came: what stands on the wire."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from datacast.fabric_manager.api import FabricManagerClient
from datacast.fabric_manager.api.records import Fetched, TreeIds
from datacast.fabric_manager.api.reports import ReportAnswers


class PlainClient(FabricManagerClient):
    async def told(self, form: Any, *asked: Any, **more: Any) -> Any:
        if form in (ReportAnswers, TreeIds, Fetched):  # what a worker is answered, who reads it here
            return await super().told(form, *asked, **more)
        return await self.request(*asked, **more)

    async def create_group(
        self, spec: Any, accepted_ns: int | None = None, by: str = "", key: str | None = None
    ) -> Any:
        headers = {"x-datacast-by": by, "x-datacast-accepted-ns": str(accepted_ns or ""), "idempotency-key": key or ""}
        given = {name: text for name, text in headers.items() if text}
        return await self.request("POST", "/groups", spec, headers=given)

    async def add_node(self, name: str, spec: Any) -> Any:
        return await self.request("PUT", f"/topology/nodes/{name}", spec)

    async def events(self, topics: list[str], group: str | None = None, since: str | None = None) -> AsyncIterator[Any]:
        async for text in super().events(topics, group, since):
            yield json.loads(text)
