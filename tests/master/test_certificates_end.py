"""Certificates that end while a group runs: what stands goes on, and who must connect anew says why that cannot be."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from authority import Authority
from small import star, until

from datacast.master.signalling import Connection, SignallingError
from datacast.master.visits import VISIT_S
from datacast.services.tls import Identity, Security
from lab import Lab, lab

LIVES_S = (4.0, 12.0, 36.0)
"""A machine that has much to do takes longer until all of a group have connected."""


@asynccontextmanager
async def begun(
    folder: Path, name: str, life_s: float, **options: Any
) -> AsyncIterator[tuple[Lab, dict[str, Any], float]]:
    """A group from h0 to h1 and h2, and when the certificate of `name` ends (s since 1970)."""
    authority = Authority(folder)
    async with lab(star(3), rates=[400.0], authority=authority, agents=[]) as it:
        others = it.world.security
        ends = time.time() + life_s
        pair = authority.issue(f"agent/{name}", days=(-1, life_s / 86400))  # type: ignore[arg-type]
        own = Security(Identity(str(authority.ca), *pair, "agent"))
        it.world.security = lambda identity: own if identity == f"agent/{name}" else others(identity)
        await it.world.add(["h0", "h1", "h2"], it.manager.signalling_address)
        for receiver in ("h1", "h2"):  # they go on until then, however fast the rest is
            it.world.agents[receiver].stall_done = True
        group = await it.start("h0", ["h1", "h2"], 4_000_000, **options)
        await it.running(group)
        yield it, group, ends


@asynccontextmanager
async def short_lived(folder: Path, name: str, **options: Any) -> AsyncIterator[tuple[Lab, dict[str, Any]]]:
    """A group that runs, and all of it, when the certificate of `name` has ended."""
    for life_s in LIVES_S:
        (root := folder / f"{life_s:g}").mkdir()
        async with AsyncExitStack() as stack:
            try:
                it, group, ends = await stack.enter_async_context(begun(root, name, life_s, **options))
            except AssertionError:  # it ended before all were there
                if life_s == LIVES_S[-1]:
                    raise
                continue
            if all(group["id"] in agent.roles for agent in it.world.agents.values()) and time.time() < ends - 1:
                await asyncio.sleep(max(0.0, ends + 1.5 - time.time()))
                yield it, group
                return
    raise AssertionError(f"the group did not run before its certificate ended, {LIVES_S[-1]:g} s")


@pytest.mark.parametrize("name", ["h0", "h1"], ids=["source", "receiver"])
async def test_a_group_goes_on_when_a_certificate_of_it_has_ended(tmp_path: Path, name: str) -> None:
    async with short_lived(tmp_path, name) as (it, group):
        for receiver in ("h1", "h2"):
            it.world.agents[receiver].stall_done = False
        group = await it.end(group)
    assert group["state"] == "done", group["error"]


@pytest.mark.parametrize("name", ["h0", "h1"], ids=["source", "receiver"])
async def test_who_can_connect_no_more_as_a_certificate_has_ended_says_so(tmp_path: Path, name: str) -> None:
    async with short_lived(tmp_path, name, member_timeout_ms=3000, aside_ms=0) as (it, group):
        agent = it.world.agents[name]
        for writer in tuple(agent._writers):
            writer.close()
        it.world.agents["h2"].stall_done = False
        group = await it.end(group)
    assert group["state"] == ("failed" if name == "h0" else "partial")
    error = group["error"] if name == "h0" else group["receivers"]["h1"]["error"]
    assert error["code"] == "unreachable" and "its certificate has expired" in error["message"], error


async def test_a_reason_once_heard_is_told_though_nothing_is_heard_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    """Since it is silent: a busy machine may be late before, too."""
    connect = Connection.connect
    silence: list[socket.socket] = []

    try:
        async with short_lived(tmp_path, "h1", member_timeout_ms=8000, aside_ms=0) as (it, group):
            agent = it.world.agents["h1"]

            async def listened(self: Connection, timeout: float) -> None:
                try:
                    await connect(self, timeout)
                except SignallingError as error:
                    if silence:
                        heard.append(error.message)
                    elif timeout == VISIT_S and "its certificate has expired" in error.message:
                        # Of a visit, whose reasons are told: the connection for all groups may hear it before. At once:
                        # a connection that waits to be accepted would be reset, which is a reason again.
                        assert agent._server
                        agent._server.close()
                        host, port = agent.addr.split(":")
                        silence.append(socket.create_server((host, int(port))))
                    raise

            monkeypatch.setattr(Connection, "connect", listened)
            for writer in tuple(agent._writers):
                writer.close()
            await until(lambda: any("no answer within" in reason for reason in heard), "a visit hears nothing")
            it.world.agents["h2"].stall_done = False
            error = (await it.end(group))["receivers"]["h1"]["error"]
    finally:
        for one in silence:
            one.close()
    assert error["code"] == "unreachable" and "its certificate has expired" in error["message"], error
