"""Masters that die, hang, or were left by an earlier fabric manager: another one takes each group over."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from .api import FINAL_STATES

if TYPE_CHECKING:
    from .groups import Groups

log = logging.getLogger("datacast.fabric_manager")

MASTER_SILENCE_S = 30.0
"""A master that says nothing for so long hangs: it is killed, and another one takes over."""
DEATHS_MAX, DEATHS_WINDOW_S = 5, 60.0
"""A group whose masters die so many times within this time has something that kills them."""
AGENTS_WAIT_S = 8.0
"""After a loss of power: how long the members' agents are waited for."""


class Succession:
    """A part of Groups. `left`: by group, the masters that an earlier fabric manager had started."""

    def __init__(self, groups: Groups, left: dict[str, dict[str, Any]]) -> None:
        self.groups = groups
        self._left = left
        self._heard: dict[str, float] = {}
        self._deaths: dict[str, deque[float]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    def heard(self, group: str) -> None:
        """Its master lives."""
        self._heard[group] = time.monotonic()

    def pardon(self, group: str) -> None:
        """Deaths so far count no more."""
        self._deaths.pop(group, None)

    def forget(self, group: str) -> None:
        for kept in (self._heard, self._deaths, self._left):
            kept.pop(group, None)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- deaths ----
    def exited(self, group: str, code: int | None) -> None:
        """`code`: as subprocess.returncode; None where it is not known."""
        record = self.groups.find(group)
        if record is None or record["state"] in FINAL_STATES:
            return
        how = "" if code is None else f" ({_signal(code)})" if code < 0 else f" (code {code})"
        finish = self.groups.finish
        if record["state"] == "cancelling":
            finish(record, "cancelled", "cancelled", "cancelled; its master was gone, the members' leases end it")
        elif self.groups.masters is None:
            what = f"the group's master ended{how} while the fabric manager was stopping"
            finish(record, "failed", "master_died", what)
        elif self._died_too_often(group):
            finish(
                record,
                "failed",
                "master_died",
                f"the group's master ended {DEATHS_MAX} times within {DEATHS_WINDOW_S:.0f} s, the last time{how}; "
                "the members' leases end the transfer. Resume the group when the reason is gone",
            )
        else:
            log.warning("group %s: its master ended%s; another one takes over", group, how)
            self._spawn(self.hand_over(record))

    def _died_too_often(self, group: str) -> bool:
        now, deaths = time.monotonic(), self._deaths.setdefault(group, deque())
        deaths.append(now)
        while now - deaths[0] > DEATHS_WINDOW_S:
            deaths.popleft()
        return len(deaths) >= DEATHS_MAX

    async def hand_over(self, record: dict[str, Any]) -> None:
        """Give a group to another master."""
        try:
            await self.groups.start_master(record, time.time_ns(), again=True)
        except OSError as error:
            self.groups.finish(record, "failed", "no_master", f"no master could be started: {error}")

    def sweep(self) -> None:
        """Call every few seconds: a master that says nothing any more hangs, and is killed."""
        now, masters = time.monotonic(), self.groups.masters
        for record in self.groups.unfinished():
            group = record["id"]
            if now - self._heard.setdefault(group, now) <= MASTER_SILENCE_S:
                continue
            log.warning("group %s: nothing heard from its master for %.0f s", group, MASTER_SILENCE_S)
            self._heard[group] = now
            if masters is None or not masters.kill(group):
                self.exited(group, None)

    # ---- after a restart ----
    def pick_up(self) -> None:
        """With the masters there: go on with the groups of an earlier fabric manager. Their masters live, and are
        watched, or are gone, and others take over."""
        masters = self.groups.masters
        assert masters is not None
        for record in self.groups.unfinished():
            group = record["id"]
            if group in self._left and masters.watch(group, self._left[group]):
                log.info("group %s: its master lives", group)
            elif record["state"] == "cancelling":
                self.exited(group, None)
            else:
                self._spawn(self._revive(record))

    async def _revive(self, record: dict[str, Any]) -> None:
        """Master and fabric manager were gone, perhaps everything: wait for the agents, then go on."""
        group, nodes = record["id"], self.groups.fabric.nodes
        members = (record["source"], *self.groups.receivers(group))
        end = time.monotonic() + AGENTS_WAIT_S
        while record["state"] not in FINAL_STATES and time.monotonic() < end:
            if all(nodes[name].registered for name in members):
                break
            self.heard(group)
            await asyncio.sleep(0.05)
        if record["state"] in FINAL_STATES:
            return
        if record["state"] == "cancelling":
            self.exited(group, None)
        elif not nodes[record["source"]].registered:
            self.groups.finish(
                record,
                "failed",
                "interrupted",
                f"the transfer was interrupted, and the source {record['source']} has no agent; start it and resume "
                "the group: receivers go on from what they have",
            )
        else:
            log.warning("group %s: its master is gone; another one takes over", group)
            await self.hand_over(record)


def _signal(code: int) -> str:
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
