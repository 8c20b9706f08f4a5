"""Groups of several sites, as their controllers carry them out between each other over HTTPS."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
from mesh import Site, mesh, play, until

from datacast.services.problems import Problem

DATA = np.random.default_rng(3).bytes((3 << 20) + 5)
TWO = {"ams": ["a0", "a1"], "sfo": ["s0", "s1"]}


def give(site: Site, data: bytes = DATA) -> None:
    next(iter(site.fabric.hosts.values())).files["/srv/f"] = data


@pytest.mark.parametrize("data", [DATA, b"", b"x"])
def test_a_file_reaches_the_hosts_that_are_named_here_and_there(tmp_path: Path, data: bytes) -> None:
    async def steps() -> None:
        async with mesh(tmp_path, TWO, {"sfo": ["ams"]}) as sites:
            give(sites["ams"], data)
            group = await sites["ams"].end(await sites["ams"].made(["a1", "sfo/s1"]))
            assert group["state"] == "done" and set(group["receivers"]) == {"a1", "sfo/s1"}, group
            assert sites["ams"].has("a1", data) and sites["sfo"].has("s1", data)
            assert "f" not in sites["sfo"].fabric.hosts["s0"].files

    play(steps)


CHAIN = {"ams": ["a0"], "sfo": ["s0", "s1"], "syd": ["y0"]}


@pytest.mark.slow
def test_a_directory_reaches_a_site_behind_another_as_one(tmp_path: Path) -> None:
    """Also from where it was received: the controllers have forgotten by then what they had read."""

    async def steps() -> None:
        async with mesh(tmp_path, CHAIN, {"sfo": ["ams"], "syd": ["sfo"]}) as sites:
            ams, sfo, syd = sites.values()
            give(ams)
            ams.fabric.hosts["a0"].folders.add("/srv/f")
            syd.fabric.hold.clear()
            group = await ams.made(["sfo/all", "sfo/syd/y0"])
            await until(lambda: sfo.has("s0", DATA) and sfo.coordinator.groups[group].own.state == "done")
            await syd.stop()
            await sfo.stop()
            sfo.fabric.hosts["s0"].folders.clear()  # somebody has put a file there
            sfo.fabric.hosts["s0"].files["f"] = bytes(len(DATA))
            await sfo.start()
            await syd.start()
            syd.fabric.hold.set()
            assert (await ams.end(group))["state"] == "done"
            assert syd.has("y0", DATA) and "f" in syd.fabric.hosts["y0"].folders
            assert any(read.get("dest") == "f" for read in sfo.fabric.hosts["s1"].reads)

    play(steps)


def test_a_digest_of_a_directory_is_refused(tmp_path: Path) -> None:
    async def steps() -> None:
        async with mesh(tmp_path, TWO, {"sfo": ["ams"]}) as sites:
            give(sites["ams"])
            sites["ams"].fabric.hosts["a0"].folders.add("/srv/f")
            answer = await sites["ams"].order(["sfo/all"], sha256="0" * 64)
            assert (answer.status_code, answer.json()["code"]) == (422, "bad_sha256")
            assert "/srv/f is a directory" in answer.json()["detail"]

    play(steps)


@pytest.mark.slow
def test_a_request_that_is_sent_again_makes_no_second_group(tmp_path: Path) -> None:
    async def steps() -> None:
        async with mesh(tmp_path, TWO, {"sfo": ["ams"]}) as sites:
            ams, key = sites["ams"], {"idempotency-key": "nightly-7"}
            give(ams)
            answers = await asyncio.gather(*(ams.order(["a1", "sfo/all"], key) for _ in range(4)))
            (group,) = {answer.json()["id"] for answer in answers}
            assert {answer.status_code for answer in answers} == {201} and len(ams.fabric.groups) == 1
            await ams.end(group)
            other = await ams.order(["sfo/s0"], key)
            assert (other.status_code, other.json()["code"]) == (422, "key_reused")
            assert await ams.made(["a1", "sfo/all"], headers={"idempotency-key": "nightly-8"}) != group
            # Also when the controller was started again.
            await ams.stop()
            await ams.start()
            assert await ams.made(["a1", "sfo/all"], headers=key) == group

    play(steps)


@pytest.mark.slow
def test_a_request_that_failed_halfway_finds_what_it_has_begun(tmp_path: Path) -> None:
    async def steps() -> None:
        async with mesh(tmp_path, TWO, {"sfo": ["ams"]}) as sites:
            ams, key = sites["ams"], {"idempotency-key": "nightly-7"}
            give(ams)
            create = ams.fabric.create_group

            async def lost(*args: object, **named: object) -> dict[str, object]:
                await create(*args, **named)  # type: ignore[arg-type]
                raise Problem(503, "unreachable", "the answer is lost")

            ams.fabric.create_group = lost  # type: ignore[assignment,method-assign]
            assert (await ams.order(["a1", "sfo/all"], key)).status_code == 503
            ams.fabric.create_group = create  # type: ignore[method-assign]
            group = await ams.end(await ams.made(["a1", "sfo/all"], headers=key))
            assert group["state"] == "done" and len(ams.fabric.groups) == 1

    play(steps)
