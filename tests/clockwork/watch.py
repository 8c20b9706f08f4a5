"""The checkers beside the cluster. What they find is in `violations`; each says what must never happen."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from datacast.fabric_manager.api import FINAL_STATES
from datacast.fabric_manager.keys import GROUPS, LEADER
from datacast.fabric_manager.record import Record, load

from .virtual import PROCESS, Process, VirtualLoop

if TYPE_CHECKING:
    from .agents import Agent, Host

VIOLATIONS_MAX = 20
OVER = 1.01
HEARD_S = 4.0
"""In peace a source knows within so long what its trees may send: some looks, and a request that is given up."""


@dataclass
class Told:
    """What the store has of a group."""

    record: Record
    ended: int = 0
    resumed: int = 0


class Watch:
    def __init__(self, loop: VirtualLoop, hosts: dict[str, Host]) -> None:
        self.loop, self.hosts = loop, hosts
        self.note = loop.network.note
        self.violations: list[str] = []
        self.groups: dict[str, Told] = {}
        self.resumes: dict[str, int] = defaultdict(int)
        """How often somebody asked for it."""
        self.acknowledged: dict[str, str] = {}
        """The caller was told that there is such a group, by the caller's key."""
        self.dropping: set[str] = set()
        """Groups whose receivers may be told to forget: they were cancelled, or somebody was to leave."""
        self.late_cuts = 0
        self.refused = 0
        self._speaks: dict[tuple[str, int], str] = {}
        self._parted: set[tuple[str, str, int]] = set()
        """By member, group and epoch: it was told to close a group that had ended."""
        self._leader: Process | None = None
        self._verified: dict[tuple[str, str], int] = defaultdict(int)
        self._named: dict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
        self._tree_of: dict[int, str] = {}
        self.peace = False
        """There are no more faults."""
        self._unheard: dict[tuple[str, int, int | None, float | None], float] = {}
        """By group, tree, bound as told and as its source has it: since when."""

    def say(self, text: str) -> None:
        if len(self.violations) < VIOLATIONS_MAX:
            self.violations.append(f"{self.loop.now:.3f} s: {text}")

    # ---- the store ----
    def wrote(self, key: str, value: str | None, process: Process) -> None:
        if key == LEADER:
            self._leader = process
        if not key.startswith(GROUPS):
            return
        if process is not self._leader:
            self.say(f"{process.name} writes {key}, and {self._leader and self._leader.name} leads")
        group = key[len(GROUPS) :]
        if value is None:
            self._deleted(group)
            return
        record = load(value)
        self.note(process.name, "keeps", group, record.state, record.epoch, record.owner, list(record.done))
        if not record.receivers:
            self.say(f"{group} is {record.state}, and has no receiver")
        before = self.groups.get(group)
        if before is None:
            self.groups[group] = Told(record)
            return
        self._followed(before, record)
        before.record = record

    def _deleted(self, group: str) -> None:
        self.groups.pop(group, None)
        if group in self.acknowledged.values():
            self.say(f"group {group} was answered as made, and is deleted")

    def _followed(self, told: Told, now: Record) -> None:
        was, group = told.record, now.id
        if now.epoch < was.epoch:
            self.say(f"{group}: epoch {was.epoch} is followed by {now.epoch}")
        if now.lease is not None and now.lease != was.lease and now.epoch != was.epoch + 1:
            self.say(f"{group}: another owner, epoch {was.epoch} -> {now.epoch}")
        ended, over = was.state in FINAL_STATES, now.state in FINAL_STATES
        if ended and over and (was.state, was.epoch) != (now.state, now.epoch):
            self.say(f"{group} ends twice: {was.state}, then {now.state}")
        elif ended and not over:
            told.resumed += 1
            if now.state != "queued" or told.resumed > self.resumes[group]:
                self.say(f"{group} was {was.state}, and is {now.state} though nobody resumed it")
        if was.state == "cancelling" and now.state not in ("cancelling", *FINAL_STATES):
            self.say(f"{group} was to be cancelled, and is {now.state}")
        if was.state == "running" and now.state == "starting":
            self.say(f"{group} ran, and is starting: another master goes on from what was told")
        for name in was.done:
            if name not in now.done and name in now.receivers:
                self.say(f"{group}: {name} was done, and is not")
        for name in now.done:
            if name not in was.done:
                self._has(group, name, now)
        if over and not ended:
            told.ended += 1
            error = now.progress.error
            if error is not None and error.code in ("internal", "error"):
                self.say(f"{group} is {now.state}: {error.code}: {error.message}")
            for name in now.receivers if now.state == "done" else ():
                self._has(group, name, now)

    def answers(self, manager: str, records: Iterable[Record]) -> None:
        """What a fabric manager would tell who asks: the store has it."""
        for record in records:
            told = self.groups.get(record.id)
            for name in record.done if told is not None else ():
                if name not in told.record.done:
                    self.say(f"{record.id}: {manager} tells that {name} is done, and the store does not have it")

    def ordered(self, manager: str, epoch: int, record: Record) -> None:
        """A worker is told to run a group that stands so at who tells it."""
        if record.state in FINAL_STATES:
            self.say(f"{record.id}: {manager} orders it to be run, and it is {record.state}")
        elif record.epoch != epoch:
            self.say(f"{record.id}: {manager} orders it to be run in epoch {epoch}, and it is in {record.epoch}")

    def _has(self, group: str, name: str, record: Record) -> None:
        if self.hosts[name].files.get(group) != record.progress.size:
            self.say(f"{group}: {name} is told to be done, and has no such file")

    # ---- agents ----
    def asked(self, agent: str, group: str, epoch: int, op: str, writer: Any, taken: bool) -> None:
        """An operation that names a group has come to a member."""
        if not taken:
            self.refused += 1
            return
        speaker = writer.transport.peer.process
        if speaker.name.startswith("worker"):
            other = self._speaks.setdefault((group, epoch), speaker.name)
            if other != speaker.name:
                self.say(f"{group}: {other} and {speaker.name} both speak in epoch {epoch} ({op} to {agent})")

    def told_of_its_end(self, agent: str, group: str, epoch: int) -> None:
        told = self.groups.get(group)
        if told is not None and told.record.state in FINAL_STATES and told.record.epoch == epoch:
            self._parted.add((agent, group, epoch))

    def begun(self, agent: str, group: str, epoch: int, what: str) -> None:
        """The group begins at a member."""
        if (agent, group, epoch) in self._parted:
            self.say(f"{group}: {agent} {what} again in epoch {epoch}, in which the group has ended")

    def opened(self, group: str, trees: Any) -> None:
        for tree in trees:
            other = self._tree_of.setdefault(tree, group)
            if other != group:
                self.say(f"tree {tree} is of {other} and of {group}")

    def named(self, tree: int, seq: int, piece: int, count: int) -> None:
        """A number of a tree names one piece, for ever. Who comes late is told fewer, where a cut took the rest."""
        known = self._named[tree].setdefault(seq, (piece, count))
        if known[0] != piece:
            self.say(f"tree {tree}: number {seq} is piece {known[0]} ({known[1]}) and {piece} ({count})")

    def late_cut(self, group: str, tree: int, sent: int, seq: int) -> None:
        """The source had got further than its cut: that costs duplicates."""
        self.late_cuts += 1

    def fetched(self, group: str, host: str, pieces: int) -> None:
        again = self._verified[group, host] & pieces
        if again:
            self.say(f"{group}: {host} gets {again.bit_count()} pieces once more that it had verified")
            self._verified[group, host] &= ~again

    def verified(self, group: str, host: str, pieces: int) -> None:
        self._verified[group, host] |= pieces

    def dropped(self, group: str, host: str, why: str) -> None:
        """What it had verified is gone. Of a file that is another one now nobody wants it any more."""
        told = self.groups.get(group)
        error = told.record.progress.error if told is not None else None
        if group not in self.dropping and (error is None or error.code != "changed"):
            self.say(f"{group}: {host} drops what it has verified: {why}")
        self._verified.pop((group, host), None)

    def unheard(self, group: str, host: str) -> None:
        """It drops what it has verified of a group that nobody has spoken of for so long. One that could not be told of
        the end of its group may: nobody waits for it."""
        told = self.groups.get(group)
        if told is not None and told.record.state in FINAL_STATES:
            self._verified.pop((group, host), None)
        else:
            self.dropped(group, host, "nothing was heard of the group")

    # ---- shares ----
    def shares(self, groups: Any) -> None:
        """Of a fabric manager that leads: what it gives out fits into the links."""
        divider = groups.divider
        if divider._pending:  # what has just changed is computed within milliseconds
            return
        used: dict[tuple[str, str], float] = defaultdict(float)
        for group, known in divider._groups.items():
            rates = divider.share_of(group)
            for tree, use in known.ask.trees.items():
                for arc in use.arcs:
                    used[tuple(arc)] += rates.get(tree, 0.0)
        for (u, v), bps in used.items():
            data = groups.fabric.graph.edges[u, v]
            carries = data.get("rate_bps") or groups.fabric.defaults.rate_bps
            if bps > OVER * carries:
                self.say(f"shares of {u}-{v} add up to {bps / 1e6:.2f} of {carries / 1e6:.2f} Mbit/s")

    def bounds(self, groups: Any, agents: Mapping[str, Agent]) -> None:
        """Likewise: in peace sources send at what was told."""
        unheard = {}
        for group, known in groups.divider._groups.items() if self.peace else ():
            spec = groups.get(group).spec
            whole = sum(bound or 0 for bound in known.told.values())
            for name in spec.roots:
                root = agents.get(name)
                role = root.roles.get(group) if root is not None else None
                for tree, sending in role.sending.items() if role is not None else ():
                    told = known.told.get(str(tree))
                    if told and spec.url is not None:  # what one root leaves another may use
                        told = whole
                    if tree in known.ask.trees and sending.bound != told:
                        key = group, tree, told, sending.bound
                        unheard[key] = since = self._unheard.get(key, self.loop.now)
                        if self.loop.now - since > HEARD_S:
                            self.say(f"{group}: tree {tree} may send {told}, {name} has heard {sending.bound}")
                            unheard[key] = float("inf")  # once is enough
        self._unheard = unheard

    # ---- the end ----
    def settled(self) -> bool:
        return all(told.record.state in FINAL_STATES for told in self.groups.values())

    def finish(self, must_be_done: set[str]) -> None:
        """`must_be_done`: groups that nothing has happened to which could excuse a failure."""
        for key, group in self.acknowledged.items():
            told = self.groups.get(group)
            if told is None:
                self.say(f"group {group} ({key}) was answered as made, and is lost")
            elif told.record.state not in FINAL_STATES:
                self.say(f"group {group} does not end: {told.record.state}, owner {told.record.owner}")
            elif group in must_be_done and told.record.state != "done":
                error = told.record.progress.error
                self.say(f"group {group} is {told.record.state} for nothing: {error and error.message}")
        keys = [told.record.request_key for told in self.groups.values() if told.record.request_key]
        for key in sorted({key for key in keys if keys.count(key) > 1}):
            self.say(f"the request {key} was carried out {keys.count(key)} times")


CONFLICT = "another fabric manager has changed it"
"""What keys.unwritten says; there is none that could: only the leader writes."""


class Listening(logging.Handler):
    """An exception that a service logs is one that nobody thought of."""

    def __init__(self, watch: Watch, chatty: bool) -> None:
        super().__init__(logging.DEBUG)
        self.watch, self.chatty = watch, chatty

    def emit(self, record: logging.LogRecord) -> None:
        process = PROCESS.get()
        if process is not None and not process.alive:
            return
        text = record.getMessage()
        if self.chatty:
            print(f"{self.watch.loop.now:.6f} [{process.name if process else '-'}] {record.levelname} {text}")
        if record.levelno >= logging.WARNING and CONFLICT in text:
            self.watch.say(f"{process.name if process else '-'} is told of a conflict with itself: {text}")
        if record.levelno >= logging.ERROR and record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            self.watch.say(f"{process.name if process else '-'} logs {type(error).__name__}: {error} ({text})")


def told_of(value: str) -> dict[str, Any]:
    return json.loads(value)
