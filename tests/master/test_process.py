"""Masters as the fabric manager starts them: real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from small import bcube41, run, star, until

from datacast.fabric_manager.api import FINAL_STATES
from lab import lab

SIX = ["02", "10", "21", "23", "31", "33"]


async def warm(it, than: int | None = None, spares: int = 1) -> list[int]:
    """Wait for spare masters that follow the topology already, the first not being `than`; their pids."""

    def there():
        pids = it.masters.spare_pids
        return (
            pids if len(pids) == spares and pids[0] != than and len(it.manager.hub._subscriptions) >= spares else None
        )

    return await until(there, "the spares follow the topology")


def test_a_warm_spare_takes_the_order_and_tells_its_steps() -> None:
    async def scenario():
        async with lab(bcube41(), rates=[1388.0], processes=True, spares=1) as it:
            records, spares, used = [], [], []
            for _ in range(3):
                spares += await warm(it, spares[-1] if spares else None)
                group = await it.start("00", SIX, 1_000_000)
                used.append(it.masters.pid(group["id"]))
                records.append(await it.end(group))
            return records, spares, used

    records, spares, used = run(scenario(), 60)
    assert [r["state"] for r in records] == ["done"] * 3 and len(set(spares)) == 3 and used == spares
    steps = records[0]["report"]["start_ms"]
    assert set(steps) == {"order", "topology", "stat", "trees", "open", "assign", "first_packet"}


def test_two_groups_at_once_find_a_spare_each() -> None:
    async def scenario():
        async with lab(star(4), rates=[20_000.0], processes=True, spares=2) as it:
            pids = await warm(it, spares=2)
            groups = [await it.start("h0", ["h1"], 100_000), await it.start("h2", ["h3"], 100_000)]
            used = [it.masters.pid(group["id"]) for group in groups]
            return pids, used, [(await it.end(group))["state"] for group in groups]

    pids, used, states = run(scenario(), 60)
    assert used == pids and states == ["done", "done"]


def test_a_group_right_after_the_start_does_not_need_the_spare_to_be_ready() -> None:
    async def scenario():
        async with lab(star(3), rates=[20_000.0], processes=True, spares=1) as it:
            return [await it.end(await it.start("h0", ["h1", "h2"], 100_000)) for _ in range(2)]

    assert [r["state"] for r in run(scenario(), 60)] == ["done", "done"]


def test_masters_that_are_killed_again_and_again_leave_no_transfer_and_no_process() -> None:
    async def scenario():
        async with lab(bcube41(), rates=[200.0], processes=True, spares=1) as it:
            group = await it.start("00", SIX, 50_000_000, lease_ms=1000)
            await it.running(group)
            killed = set()
            while (await it.client.group(group["id"]))["state"] not in FINAL_STATES:
                pid = it.masters.pid(group["id"])
                if pid is not None and pid not in killed:
                    killed.add(pid)
                    os.kill(pid, signal.SIGKILL)
                await asyncio.sleep(0.01)
            record = await it.end(group, 5)
            await until(lambda: all(not agent.roles for agent in it.world.agents.values()), "every lease has ended", 5)
            return record

    record = run(scenario(), 60)
    assert record["state"] == "failed" and record["error"]["code"] == "master_died"


def test_a_master_that_hangs_is_killed_and_another_one_takes_over(monkeypatch) -> None:
    monkeypatch.setattr("datacast.fabric_manager.succession.MASTER_SILENCE_S", 5.0)
    monkeypatch.setattr("datacast.fabric_manager.main.SWEEP_S", 0.2)

    async def scenario():
        async with lab(bcube41(), rates=[400.0], processes=True, spares=1) as it:
            await warm(it)
            group = await it.start("00", SIX, 12_000_000)
            await it.running(group, 100)
            await until(lambda: it.manager.groups._adopt.get(group["id"]), "what another needs is kept")
            pid = it.masters.pid(group["id"])
            os.kill(pid, signal.SIGSTOP)
            await until(lambda: it.masters.pid(group["id"]) not in (pid, None), "another master", 30)
            return await it.end(group, 40), Path(f"/proc/{pid}").exists()

    record, there = run(scenario(), 100)
    assert record["state"] == "done", record["error"]
    assert not there


def test_a_master_told_to_stop_closes_the_group_at_all_members() -> None:
    async def scenario():
        async with lab(bcube41(), rates=[200.0], processes=True, spares=1) as it:
            group = await it.start("00", SIX, 50_000_000)
            await it.running(group)
            os.kill(it.masters.pid(group["id"]), signal.SIGTERM)
            return await it.end(group, 5), it.world.ops("close")

    record, closed = run(scenario(), 60)
    assert record["state"] == "cancelled" and "told to stop" in record["error"]["message"]
    assert sorted(name for name, _ in closed) == sorted(["00", *SIX])


def test_a_spare_ends_with_its_fabric_manager() -> None:
    async def scenario():
        async with lab(star(2), processes=True, spares=1) as it:
            return await warm(it)

    (pid,) = run(scenario(), 60)
    assert not Path(f"/proc/{pid}").exists()


def test_a_spare_that_died_is_no_obstacle() -> None:
    async def scenario():
        async with lab(star(3), rates=[20_000.0], processes=True, spares=1) as it:
            (pid,) = await warm(it)
            os.kill(pid, signal.SIGKILL)
            await until(lambda: not it.masters.spare_pids, "its end is noticed")
            return await it.end(await it.start("h0", ["h1", "h2"], 100_000))

    assert run(scenario(), 60)["state"] == "done"


@pytest.mark.parametrize(
    ("args", "order", "code", "text"),
    [
        (["--fabric-manager", "http://127.0.0.1:9"], "", 0, ""),
        (["--fabric-manager", "http://127.0.0.1:9"], "{\n", 1, "the order on the standard input cannot be read"),
        (["--fabric-manager", "http://127.0.0.1:9"], '{"group": 1}\n', 1, "missing 4 required"),
        (["--fabric-manager", "nonsense"], "", 1, "'nonsense' is no address of a fabric manager"),
        (["--gruop"], "", 2, "--gruop"),
    ],
)
def test_a_master_by_hand(args: list[str], order: str, code: int, text: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "datacast.master.main", *args], input=order, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == code and text in done.stderr and "Traceback" not in done.stderr
