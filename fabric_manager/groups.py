"""Groups: accepted here, run by a master each, kept in the store. Also named sets of hosts, and link load by group."""

from __future__ import annotations

import asyncio
import logging
import os
import posixpath
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from datacast.core.problems import Problem

from .api import FINAL_STATES, GroupSpec, StartOrder
from .fabric import Fabric
from .masters import Masters
from .store import Store

log = logging.getLogger("datacast.fabric_manager")

TREE_IDS_PER_GROUP = 16
MASTER_SILENCE_S = 15.0
"""A master that is no child of this process and says nothing for so long is lost; its members' leases end the group."""
RESTARTS_MAX = 3
"""Masters that may die of one group."""
KEEP_GROUPS = 1000
"""Finished groups that are remembered."""


class Groups:
    """`publish` gets `group` events (a summary each) and `cancel` events."""

    def __init__(self, fabric: Fabric, store: Store, publish: Callable[[dict[str, Any]], None]) -> None:
        self.fabric = fabric
        self.store = store
        self.publish = publish
        self.masters: Masters | None = None
        self._groups: dict[str, dict[str, Any]] = {}
        self._heard: dict[str, float] = {}
        self._specs: dict[str, dict[str, Any]] = {}
        self._adopt: dict[str, dict[str, Any]] = {}
        self._restarts: dict[str, int] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        for row in store.groups():
            self._groups[row["id"]] = self._record(
                row["id"], row["state"], row["spec"], row["created_ns"], row["updated_ns"], row["progress"]
            )
            self._heard[row["id"]] = time.monotonic()
            self._specs[row["id"]] = row["spec"]
            if row["adopt"]:
                self._adopt[row["id"]] = row["adopt"]

    @property
    def unfinished(self) -> bool:
        """Some group has not ended, as far as is known."""
        return any(record["state"] not in FINAL_STATES for record in self._groups.values())

    @staticmethod
    def _record(
        group: str, state: str, spec: dict[str, Any], created_ns: int, updated_ns: int, progress: dict[str, Any]
    ) -> dict[str, Any]:
        base = {
            "size": None,
            "fraction": 0.0,
            "rate_bps": 0,
            "error": None,
            "trees": {},
            "report": None,
            "finished_ns": None,
            "reactions": [],
            "receivers": {name: {"state": "waiting"} for name in spec["receivers"]},
        }
        return {
            "id": group,
            "state": state,
            "created_ns": created_ns,
            "updated_ns": updated_ns,
            "source": spec["source"],
            "source_path": spec["source_path"],
            "dest_path": spec["dest_path"],
            "options": spec["options"],
            **base,
            **progress,
        }

    # ---- asking ----
    def get(self, group: str) -> dict[str, Any]:
        record = self._groups.get(group)
        if record is None:
            raise Problem(
                404,
                "group_not_found",
                f"there is no group {group!r}",
                what=group,
                remedy="`datacast groups` lists the groups there are",
            )
        return record

    def key(self, group: str) -> str:
        """What the group's master shows (StartOrder.key); "" when there is none."""
        return self._specs.get(group, {}).get("key", "")

    def all(self, state: str | None = None) -> list[dict[str, Any]]:
        return [self.summary(g) for g in self._groups.values() if state is None or g["state"] == state]

    @staticmethod
    def summary(record: dict[str, Any]) -> dict[str, Any]:
        """A group without its per-receiver and per-tree figures."""
        states = [r.get("state") for r in record["receivers"].values()]
        return {
            **{
                k: record[k]
                for k in (
                    "id",
                    "state",
                    "source",
                    "source_path",
                    "dest_path",
                    "created_ns",
                    "updated_ns",
                    "finished_ns",
                    "size",
                    "fraction",
                    "rate_bps",
                    "error",
                )
            },
            "receivers": len(states),
            "receivers_done": states.count("done"),
            "receivers_failed": states.count("failed"),
            "trees": len(record["trees"]),
        }

    def load(self) -> list[dict[str, Any]]:
        """Which trees of running groups a link carries: {from, to, group, tree}, one per arc and tree."""
        return [
            {"from": u, "to": v, "group": record["id"], "tree": int(tree)}
            for record in self._groups.values()
            if record["state"] not in FINAL_STATES
            for tree, figures in record["trees"].items()
            for u, v in figures.get("arcs", ())
        ]

    # ---- creating ----
    async def create(self, spec: GroupSpec, accepted_ns: int) -> dict[str, Any]:
        """Check, store, and hand over to a master. Raises Problem."""
        receivers = self._receivers(spec)
        dest = spec.dest_path or posixpath.basename(spec.source_path)
        if "\0" in spec.source_path or not spec.source_path.startswith("/") or not posixpath.basename(spec.source_path):
            raise _field(
                "bad_path",
                "source_path",
                f"{spec.source_path!r} is no absolute path of a file",
                spec.source_path,
                "give the file's absolute path at the source",
            )
        if "\0" in dest or not dest:
            raise _field("bad_path", "dest_path", f"{dest!r} is no path of a file", dest, "give a file's path")
        if self.masters is None:
            raise Problem(503, "stopping", "the fabric manager is stopping")
        group = self._new_id()
        stored = {
            "source": spec.source,
            "receivers": receivers,
            "source_path": spec.source_path,
            "dest_path": dest,
            "options": asdict(spec.options),
            "key": secrets.token_hex(16),
        }
        now = time.time_ns()
        self.store.add_group(group, stored, "starting", now)
        for old in self.store.forget_groups(KEEP_GROUPS):
            self._groups.pop(old, None)
            for kept in (self._heard, self._specs, self._adopt, self._restarts):
                kept.pop(old, None)
        record = self._groups[group] = self._record(group, "starting", stored, now, now, {})
        self._heard[group] = time.monotonic()
        self._specs[group] = stored
        order = StartOrder(
            group=group,
            spec=stored,
            tree_ids=self.store.take_tree_ids(TREE_IDS_PER_GROUP),
            version=self.fabric.version,
            accepted_ns=accepted_ns,
            load=self.load(),
            key=stored["key"],
        )
        try:
            pid = await self.masters.start(order)
        except OSError as error:
            self._finish(record, "failed", "no_master", f"no master could be started: {error}")
            raise Problem(
                503, "no_master", f"no master could be started: {error}", remedy="see the fabric manager's log"
            ) from error
        log.info(
            "group %s: %s:%s to %d receivers, master %d", group, spec.source, spec.source_path, len(receivers), pid
        )
        self.publish({"type": "group", **self.summary(record)})
        return record

    def _new_id(self) -> str:
        while True:
            group = f"g-{os.urandom(4).hex()}"
            if group not in self._groups:
                return group

    def _receivers(self, spec: GroupSpec) -> list[str]:
        self._check_host("source", spec.source)
        if (spec.receivers is None) == (spec.receiver_set is None):
            raise _field(
                "no_receivers",
                "receivers",
                "give receivers or a receiver_set, one of them",
                "",
                'a list of hosts, or "all", or the name of a set',
            )
        if spec.receivers == "all":
            names = [name for name in self.fabric.members() if name != spec.source]
        elif spec.receivers is not None:
            names = list(spec.receivers)
        else:
            sets = self.store.sets()
            if spec.receiver_set not in sets:
                raise _field(
                    "unknown_set",
                    "receiver_set",
                    f"there is no set {spec.receiver_set!r}",
                    str(spec.receiver_set),
                    "PUT /sets/{name} makes one; GET /sets lists them",
                )
            names = [name for name in sets[spec.receiver_set] if name != spec.source]
        if not names:
            raise _field("no_receivers", "receivers", "there is no receiver", "", "name at least one host")
        seen: set[str] = set()
        for name in names:
            self._check_host("receivers", name)
            if name in seen:
                raise _field(
                    "duplicate_receivers",
                    "receivers",
                    f"{name} is named twice among the receivers",
                    name,
                    "name every receiver once",
                )
            seen.add(name)
        if spec.source in seen:
            raise _field(
                "source_among_receivers",
                "receivers",
                f"the source {spec.source} is among the receivers",
                spec.source,
                "leave it out: it has the file",
            )
        quorum = spec.options.quorum
        if quorum is not None and quorum > len(names):
            raise _field("bad_quorum", "quorum", f"a quorum of {quorum} of {len(names)} receivers", str(quorum), "")
        ready = sum(self.fabric.nodes[name].registered for name in names)
        for name in (spec.source, *names):
            if not self.fabric.nodes[name].registered and not (
                quorum is not None and ready >= quorum and name != spec.source
            ):
                raise Problem(
                    409,
                    "no_agent",
                    f"host {name} has no agent: nothing has registered for it",
                    what=name,
                    remedy=f"start datacast-agent on {name}, or leave the host out",
                )
        return names

    def _check_host(self, field: str, name: str) -> None:
        node = self.fabric.nodes.get(name)
        if node is None:
            raise _field(
                "unknown_host", field, f"the topology has no host {name!r}", name, "`datacast topology` lists the hosts"
            )
        if node.kind != "host":
            raise _field("not_a_host", field, f"{name} is a {node.kind}, not a host", name, "only hosts can be members")

    # ---- running ----
    def progress(self, group: str, update: dict[str, Any]) -> dict[str, Any]:
        """From the master. Returns {state}: `cancelling` tells it to end the group. Raises Problem."""
        record = self.get(group)
        state = update.get("state", record["state"])
        if state not in (*FINAL_STATES, "starting", "running", "cancelling"):
            raise _field("bad_state", "state", f"unknown state {state!r}", str(state), "")
        lost = (record["error"] or {}).get("code") == "master_lost"
        if record["state"] in FINAL_STATES and not lost:
            return {"state": record["state"]}
        self._heard[group] = time.monotonic()
        before = record["state"]
        if before == "cancelling" and state not in FINAL_STATES:
            state = "cancelling"
        known = {
            k: v
            for k, v in update.items()
            if k in ("size", "fraction", "rate_bps", "error", "receivers", "trees", "report", "reactions")
        }
        if isinstance(update.get("adopt"), dict):
            self._keep_adopt(group, update["adopt"])
        record.update(known, state=state, updated_ns=time.time_ns())
        if state in FINAL_STATES:
            record["finished_ns"] = record["updated_ns"]
        if state != before:
            self._save(record)
            log.info("group %s: %s%s", group, state, f" ({record['error']['message']})" if record["error"] else "")
        self.publish({"type": "group", **self.summary(record)})
        return {"state": record["state"]}

    def cancel(self, group: str) -> dict[str, Any]:
        """Tell the master to end it; a finished group stays as it is."""
        record = self.get(group)
        if record["state"] in FINAL_STATES:
            return record
        if record["state"] != "cancelling":
            record["state"], record["updated_ns"] = "cancelling", time.time_ns()
            self._save(record)
            self.publish({"type": "group", **self.summary(record)})
        self.publish({"type": "cancel", "group": group})
        return record

    def pending_cancel(self, group: str) -> bool:
        record = self._groups.get(group)
        return record is None or record["state"] == "cancelling"

    def master_exited(self, group: str, code: int) -> None:
        record = self._groups.get(group)
        if record is None or record["state"] in FINAL_STATES:
            return
        if record["state"] == "cancelling":
            self._finish(record, "cancelled", "cancelled", "cancelled; its master was gone, the members' leases end it")
        elif group in self._adopt and self._restarts.get(group, 0) < RESTARTS_MAX and self.masters is not None:
            self._restarts[group] = self._restarts.get(group, 0) + 1
            log.warning("group %s: its master ended (code %d); another one takes over", group, code)
            task = asyncio.get_running_loop().create_task(self._hand_over(record))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._finish(
                record,
                "failed",
                "master_died",
                f"the group's master ended (code {code}); the members' leases end the transfer",
            )

    def _keep_adopt(self, group: str, adopt: dict[str, Any]) -> None:
        # The first one goes to the disk: after a power loss receivers tell what they have.
        if group not in self._adopt:
            self.store.save_adopt(group, adopt)
        self._adopt[group] = adopt

    async def _hand_over(self, record: dict[str, Any]) -> None:
        """Give a group to another master."""
        group = record["id"]
        order = StartOrder(
            group=group,
            spec=self._specs[group],
            tree_ids=self.store.take_tree_ids(TREE_IDS_PER_GROUP),
            version=self.fabric.version,
            accepted_ns=time.time_ns(),
            load=self.load(),
            key=self.key(group),
            adopt=self._adopt.get(group),
        )
        try:
            if self.masters is None:
                raise OSError("the fabric manager is stopping")
            await self.masters.start(order)
            self._heard[group] = time.monotonic()
        except OSError as error:
            self._finish(record, "failed", "no_master", f"no master could be started: {error}")

    async def resume(self, group: str) -> dict[str, Any]:
        """Start a group again that has failed or reached a part of its receivers. Raises Problem."""
        record = self.get(group)
        if record["state"] not in ("failed", "partial"):
            raise Problem(
                409,
                "not_resumable",
                f"group {group} is {record['state']}; only one that failed or is partial can be resumed",
                what=group,
            )
        for name in (record["source"], *self._specs[group]["receivers"]):
            if not self.fabric.nodes[name].registered:
                raise Problem(
                    409,
                    "no_agent",
                    f"host {name} has no agent: nothing has registered for it",
                    what=name,
                    remedy=f"start datacast-agent on {name}",
                )
        adopt = self._adopt.get(group)
        if adopt:  # what was sent says nothing about receivers that were started again
            self._adopt[group] = {
                **adopt,
                "rest": [[0, -(-adopt["size"] // adopt["payload"])]] if adopt["size"] else [],
            }
        record.update(state="starting", error=None, report=None, finished_ns=None, updated_ns=time.time_ns())
        self._restarts[group] = 0
        self._save(record)
        await self._hand_over(record)
        self.publish({"type": "group", **self.summary(record)})
        return record

    # ---- receivers come and go ----
    def add_receiver(self, group: str, host: str) -> dict[str, Any]:
        """Raises Problem."""
        record = self._running(group)
        self._check_host("host", host)
        if host == record["source"]:
            raise _field("source_among_receivers", "host", f"{host} is the group's source", host, "it has the file")
        if not self.fabric.nodes[host].registered:
            raise Problem(
                409, "no_agent", f"host {host} has no agent", what=host, remedy=f"start datacast-agent on {host}"
            )
        spec = self._specs[group]
        if host not in spec["receivers"]:
            spec["receivers"] = [*spec["receivers"], host]
            self.store.save_spec(group, spec)
            record["receivers"] = {**record["receivers"], host: {"state": "waiting"}}
        self.publish({"type": "join", "group": group, "host": host})
        return record

    def remove_receiver(self, group: str, host: str) -> dict[str, Any]:
        """Raises Problem."""
        record = self._running(group)
        spec = self._specs[group]
        if host not in spec["receivers"]:
            raise Problem(404, "no_receiver", f"{host} is no receiver of group {group}", what=host)
        spec["receivers"] = [name for name in spec["receivers"] if name != host]
        self.store.save_spec(group, spec)
        self.publish({"type": "leave", "group": group, "host": host})
        return record

    def _running(self, group: str) -> dict[str, Any]:
        record = self.get(group)
        if record["state"] not in ("starting", "running"):
            raise Problem(409, "ended", f"group {group} is {record['state']}", what=group)
        return record

    def sweep(self) -> None:
        """Call every few seconds: fails groups whose master (of an earlier fabric manager) says nothing any more."""
        now = time.monotonic()
        for record in self._groups.values():
            if (
                record["state"] not in FINAL_STATES
                and now - self._heard[record["id"]] > MASTER_SILENCE_S
                and (self.masters is None or self.masters.pid(record["id"]) is None)
            ):
                self._finish(
                    record,
                    "cancelled" if record["state"] == "cancelling" else "failed",
                    "master_lost",
                    f"nothing heard from the group's master for {MASTER_SILENCE_S:.0f} s",
                )

    def _finish(self, record: dict[str, Any], state: str, code: str, message: str) -> None:
        now = time.time_ns()
        record.update(state=state, error={"code": code, "message": message}, updated_ns=now, finished_ns=now)
        self._save(record)
        log.warning("group %s: %s: %s", record["id"], state, message)
        self.publish({"type": "group", **self.summary(record)})

    def _save(self, record: dict[str, Any]) -> None:
        keep = ("size", "fraction", "rate_bps", "error", "receivers", "trees", "report", "finished_ns", "reactions")
        self.store.save_group(record["id"], record["state"], {k: record[k] for k in keep}, record["updated_ns"])

    # ---- sets ----
    def put_set(self, name: str, hosts: list[str]) -> dict[str, Any]:
        if not hosts:
            raise _field("no_receivers", "hosts", "a set needs at least one host", name, "name hosts")
        for at, host in enumerate(hosts):
            self._check_host("hosts", host)
            if host in hosts[:at]:
                raise _field("duplicate_receivers", "hosts", f"{host} is named twice", host, "name every host once")
        self.store.put_set(name, hosts)
        return {"name": name, "hosts": hosts}

    def get_set(self, name: str) -> dict[str, Any]:
        sets = self.store.sets()
        if name not in sets:
            raise _no_set(name)
        return {"name": name, "hosts": sets[name]}

    def delete_set(self, name: str) -> None:
        if not self.store.delete_set(name):
            raise _no_set(name)


def _no_set(name: str) -> Problem:
    return Problem(404, "set_not_found", f"there is no set {name!r}", what=name, remedy="GET /sets lists them")


def _field(code: str, field: str, message: str, what: str, remedy: str) -> Problem:
    return Problem(422, code, message, what=what, remedy=remedy, fields=[{"field": field, "message": message}])
