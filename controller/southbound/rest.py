"""GET /switches and what belongs to it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from datacast.controller.api.records import SwitchDetail
from datacast.controller.api.records import Switches as Shown
from datacast.controller.asked import ASKED
from datacast.controller.responses import problems
from datacast.controller.southbound.errors import SwitchError
from datacast.controller.southbound.service import Switches
from datacast.services.problems import Problem
from datacast.services.service import answer

SwitchName = Annotated[str, Path(description="the switch's name in the topology", max_length=64)]


def router(switches: Switches | None) -> APIRouter:
    """Routes for the switches of this controller; None: it drives none."""
    routes = APIRouter(tags=["fabric"], dependencies=ASKED)

    @routes.get("/switches", responses={200: {"model": Shown}, **problems()}, response_class=JSONResponse,
                summary="Switches this controller programs, links found by discovery, notes for the operator")
    async def listing() -> Response:
        if switches is None:
            return answer(Shown(switches=[], discovered=[], notes=[]))
        return answer(await run_in_threadpool(switches.listing))

    @routes.get("/switches/{switch}", responses={200: {"model": SwitchDetail}, **problems(404, 422)},
                response_class=JSONResponse,
                summary="One switch: ports, counters, rules, pipeline, appliance")
    async def one(switch: SwitchName) -> Response:
        try:
            if switches is None:
                raise SwitchError("unknown_switch", f"no switch {switch!r}: this controller drives none", what=switch)
            return answer(await run_in_threadpool(switches.switch, switch))
        except SwitchError as error:
            raise Problem(404, error.code, error.message, what=error.what,
                          remedy="`datacast switches` lists those of the file given as --switches"
                          ) from error

    return routes
