"""What a worker keeps of its groups while it waits: it has hundreds of them."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from small import bcube41, star, until

from datacast.core.trees import fan_out
from datacast.fabric_manager.fabric import Fabric
from datacast.fabric_manager.told import Registration
from datacast.master.requests import Routes
from datacast.master.signalling import tree_message
from datacast.master.view import View
from lab import lab

pytestmark = pytest.mark.simulated

SIX = ["02", "10", "21", "23", "31", "33"]


def held() -> list[Any]:
    """What of all that waits in masters looks like many members' answers."""
    found = []
    for task in asyncio.all_tasks():
        work: Any = task.get_coro()
        while (frame := getattr(work, "cr_frame", None)) is not None:
            if frame.f_globals["__name__"].startswith("datacast.master"):
                found += [value for value in frame.f_locals.values() if isinstance(value, dict) and SIX[0] in value]
            work = work.cr_await
    return found


async def test_between_two_looks_nobody_holds_what_all_members_said() -> None:
    async with lab(bcube41(), rates=[200.0]) as it:
        group = await it.start("00", SIX, 2_000_000_000)
        await it.running(group)
        await until(lambda: len(it.world.ops("status")) > 3 * 7, "some looks are over")
        await until(lambda: not held(), "the last one's answers are forgotten", 5.0)
        assert (await it.client.group(group["id"]))["state"] == "running"


@pytest.mark.slow
def test_a_message_to_all_members_leaves_nothing_to_the_look_for_garbage() -> None:
    children = fan_out("00", SIX, 2)
    addresses, parts = dict.fromkeys(["00", *SIX], "10.0.0.1:7600"), {name: Routes({}) for name in SIX}
    for _ in range(10):
        if not gc.collect():  # what other tests have left, and what that leaves as it ends
            break
    gc.disable()
    try:
        message = tree_message(children, "00", addresses, parts)
        assert [child.n for child in message.c] == SIX[:2] and message.c[0].b == Routes({})
        del message
        assert gc.collect() == 0
    finally:
        gc.enable()


async def test_addresses_are_those_of_the_last_word_on_each_agent() -> None:
    view, fabric = View(None), Fabric(star(2), rate_bps=10**8)  # type: ignore[arg-type]
    await view._apply(fabric.snapshot())
    told = [dict(view.addresses())]
    for session, port in ((1, 7000), (2, 7001)):
        host = {"node": "h0", "kind": "host", "addr": f"10.0.0.1:{port}", "instance": f"{session:032x}"}
        for event in fabric.register(Registration.read(host), session, 1):
            await view._apply(event)
        told.append(dict(view.addresses()))
        for event in fabric.disconnect(session, 1, False):
            await view._apply(event)
    await view._apply(Fabric(star(2), rate_bps=10**8).snapshot())
    assert [*told, view.addresses()] == [{}, {"h0": "10.0.0.1:7000"}, {"h0": "10.0.0.1:7001"}, {}]
