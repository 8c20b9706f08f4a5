"""GET /switches and what belongs to it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from datacast.controller.southbound.errors import SwitchError
from datacast.controller.southbound.service import Switches
from datacast.controller.southbound.shapes import SwitchDetail
from datacast.controller.southbound.shapes import Switches as Shown
from datacast.services.problems import Problem

SwitchName = Annotated[str, Path(description="the switch's name in the topology", max_length=64)]


def router(switches: Switches | None, responses: dict[int | str, dict[str, Any]],
           everywhere: dict[int | str, dict[str, Any]]) -> APIRouter:
    """Routes for the switches of this controller; None: it drives none. `responses` describes in OpenAPI what may go
    wrong with one, `everywhere` what may with all."""
    routes = APIRouter(tags=["fabric"])

    @routes.get("/switches", responses={200: {"model": Shown}, **everywhere}, response_class=JSONResponse,
                summary="Switches this controller programs, links found by discovery, notes for the operator")
    async def listing() -> JSONResponse:
        if switches is None:
            return JSONResponse({"switches": [], "discovered": [], "notes": []})
        return JSONResponse(await run_in_threadpool(switches.listing))

    @routes.get("/switches/{switch}", responses={200: {"model": SwitchDetail}, **responses},
                response_class=JSONResponse,
                summary="One switch: ports, counters, rules, pipeline, appliance")
    async def one(switch: SwitchName) -> JSONResponse:
        try:
            if switches is None:
                raise SwitchError("unknown_switch", f"no switch {switch!r}: this controller drives none", what=switch)
            return JSONResponse(await run_in_threadpool(switches.switch, switch))
        except SwitchError as error:
            raise Problem(404, error.code, error.message, what=error.what,
                          remedy="GET /switches lists those there are; they come from the file given as --switches"
                          ) from error

    return routes
