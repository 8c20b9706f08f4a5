"""Workers as the fabric manager starts them: real processes, killed, stopped and left alone."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from small import bcube41, star, until

from datacast.fabric_manager.api import FINAL_STATES
from datacast.fabric_manager.pool import Pool
from lab import lab

SIX = ["02", "10", "21", "23", "31", "33"]


async def workers(it, count: int, but: int | None = None) -> list[int]:
    """The process ids of so many that listen, none of them `but`."""

    def there():
        pids = [w.pid for w in it.manager.groups.placing.workers.all() if w.orders and w.pid != but]
        return pids if len(pids) == count else None

    return await until(there, f"{count} workers listen")


def pid_of(it, group) -> int | None:
    worker = it.manager.groups.placing.workers.find(it.manager.groups.get(group["id"]).lease)
    return worker.pid if worker else None


async def test_one_worker_runs_many_groups_and_tells_their_steps() -> None:
    async with lab(bcube41(), rates=[1388.0], processes=True) as it:
        (pid,) = await workers(it, 1)
        groups = [await it.start("00", SIX, 1_000_000) for _ in range(12)]
        used = {pid_of(it, group) for group in groups}
        records = [await it.end(group) for group in groups]
    assert [r["state"] for r in records] == ["done"] * 12 and used <= {pid, None}
    steps = records[0]["report"]["start_ms"]
    assert set(steps) == {"order", "topology", "stat", "trees", "open", "assign", "first_packet"}


async def test_groups_are_spread_over_the_workers() -> None:
    async with lab(star(4), rates=[200.0], processes=True, workers=2) as it:
        pids = await workers(it, 2)
        it.world.agents["h1"].stall_done = True  # none ends, and lets go of its worker, before the last has one
        groups = [await it.start("h0", ["h1"], 300_000) for _ in range(4)]
        used = [pid_of(it, group) for group in groups]
        it.world.agents["h1"].stall_done = False
        states = [(await it.end(group))["state"] for group in groups]
    assert sorted(used) == sorted(pids * 2) and states == ["done"] * 4


async def test_a_group_right_after_the_start_waits_for_a_worker(monkeypatch) -> None:
    start, held = Pool.start, []
    monkeypatch.setattr(Pool, "start", lambda pool: held.append(pool))
    async with lab(star(3), rates=[20_000.0], processes=True) as it:
        group = await it.start("h0", ["h1", "h2"], 100_000)
        (pool,) = held
        start(pool)
        record = await it.end(group)
    assert group["state"] == "queued" and record["state"] == "done"


@pytest.mark.slow
async def test_workers_that_are_killed_before_anything_comes_of_it_fail_the_group_and_leave_no_transfer(
    monkeypatch
) -> None:
    """How many of them it takes: test_machine.py. Each is a process that has to start."""
    monkeypatch.setattr("datacast.fabric_manager.machine.FRUITLESS_MAX", 6)
    async with lab(bcube41(), rates=[0.001], processes=True, workers=2) as it:
        await workers(it, 2)
        group = await it.start("00", SIX, 50_000_000, lease_ms=1000)
        killed = set()
        while (await it.client.group(group["id"]))["state"] not in FINAL_STATES:
            pid = pid_of(it, group)
            if pid is not None and pid not in killed:
                killed.add(pid)
                os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0.05)
        record = await it.end(group)
        await until(lambda: all(not agent.roles for agent in it.world.agents.values()), "every lease has ended")
        killed = len(killed)
    assert record["state"] == "failed" and record["error"]["code"] == "master_died", killed
    assert 2 <= killed <= 6, killed


@pytest.mark.slow
async def test_the_groups_of_a_killed_worker_go_on_with_another_before_it_is_missed(monkeypatch) -> None:
    """Its process is gone, and that is enough: how long it may be silent or away is longer than this test."""
    monkeypatch.setattr("datacast.fabric_manager.workers.SILENCE_S", 300.0)
    monkeypatch.setattr("datacast.fabric_manager.workers.BACK_S", 300.0)
    async with lab(bcube41(), rates=[400.0], processes=True, workers=2) as it:
        await workers(it, 2)
        it.world.agents["02"].stall_done = True  # none ends, and lets go of its worker, before it was looked at
        groups = [await it.start("00", SIX, 12_000_000) for _ in range(4)]
        for group in groups:
            await it.running(group)
        pid = pid_of(it, groups[0])
        mine = [group for group in groups if pid_of(it, group) == pid]
        os.kill(pid, signal.SIGKILL)
        for group in mine:
            await until(lambda g=group: pid_of(it, g) not in (pid, None), "another worker has it")
        it.world.agents["02"].stall_done = False
        await workers(it, 2, but=pid)
        mine, records = len(mine), [await it.end(group) for group in groups]
    assert mine == 2
    assert [r["state"] for r in records] == ["done"] * 4


async def test_a_worker_that_hangs_loses_its_groups_and_is_not_believed_when_it_wakes(monkeypatch) -> None:
    monkeypatch.setattr("datacast.fabric_manager.workers.SILENCE_S", 3.0)  # the other one may be late, too
    async with lab(bcube41(), rates=[400.0], processes=True, workers=2) as it:
        await workers(it, 2)
        group = await it.start("00", SIX, 120_000_000)
        await it.running(group)
        pid = pid_of(it, group)
        os.kill(pid, signal.SIGSTOP)
        await until(lambda: pid_of(it, group) not in (pid, None), "another worker")
        epoch = it.manager.groups.get(group["id"]).epoch
        os.kill(pid, signal.SIGCONT)
        it.world.rates = [20_000.0]
        record = await it.end(group)
        last = it.manager.groups.get(group["id"]).epoch
    assert record["state"] == "done", record["error"]
    assert epoch == last == 2, "it did not get the group back"


async def test_a_worker_told_to_stop_hands_its_groups_over(monkeypatch) -> None:
    monkeypatch.setattr("datacast.fabric_manager.workers.SILENCE_S", 300.0)  # nobody waits for that
    async with lab(bcube41(), rates=[400.0], processes=True, workers=2) as it:
        await workers(it, 2)
        group = await it.start("00", SIX, 120_000_000)
        await it.running(group)
        pid = pid_of(it, group)
        os.kill(pid, signal.SIGTERM)
        await until(lambda: pid_of(it, group) not in (pid, None), "another worker")
        it.world.rates = [20_000.0]
        record = await it.end(group)
        # Not by counting orders: one that was out of touch is told once more, or at the end its lease ends.
        await until(lambda: all(not agent.roles for agent in it.world.agents.values()), "all forget it")
        closed = it.world.ops("close")
    assert record["state"] == "done", record["error"]
    assert {message["epoch"] for _, message in closed} == {2}, "nobody was told to close before the end"


async def test_an_idle_worker_ends_with_its_fabric_manager() -> None:
    async with lab(star(2), processes=True) as it:
        pids = await workers(it, 1)
    (pid,) = pids
    await until(lambda: not Path(f"/proc/{pid}/exe").exists() or _zombie(pid), "it ends")


def _zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


async def test_a_worker_that_died_is_replaced() -> None:
    async with lab(star(3), rates=[20_000.0], processes=True) as it:
        (pid,) = await workers(it, 1)
        os.kill(pid, signal.SIGKILL)
        await workers(it, 1, but=pid)
        assert (await it.end(await it.start("h0", ["h1", "h2"], 100_000)))["state"] == "done"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        (["--fabric-manager", "http://127.0.0.1:9", "--child"], 0, ""),
        (["--fabric-manager", "nonsense"], 2, "'nonsense' is no address of a fabric manager"),
        (["--name", "no name"], 2, "--name 'no name'"),
        (["--gruop"], 2, "--gruop"),
    ],
)
def test_a_worker_by_hand(args: list[str], code: int, text: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "datacast.master.main", *args], input="", capture_output=True, text=True, timeout=90
    )
    assert done.returncode == code and text in done.stderr and "Traceback" not in done.stderr


def test_a_child_whose_input_is_no_pipe_has_no_parent() -> None:
    command = [sys.executable, "-m", "datacast.master.main", "--fabric-manager", "http://127.0.0.1:9", "--child"]
    assert subprocess.run(command, stdin=subprocess.DEVNULL, timeout=90).returncode == 0, "it was an abort of libuv's"
