"""Groups: accepted here, run by a master each, kept in the store. Also link load by group."""

from __future__ import annotations

import logging
import os
import posixpath
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from datacast.services.problems import Problem

from .api import FINAL_STATES, GroupSpec, StartOrder
from .fabric import Fabric
from .masters import Masters
from .records import KEPT, done_receivers, record_of, summary
from .requests import check_dest_path, check_host, check_source_path, no_agent, problem, receivers_of
from .store import Store
from .succession import Succession

log = logging.getLogger("datacast.fabric_manager")

TREE_IDS_PER_GROUP = 16
KEEP_GROUPS = 1000
"""Finished groups that are remembered."""
GROUPS_MAX = 256
"""Groups that run at once; each has a process of its own."""


class Groups:
    """`publish` gets `group` events (a summary each) and what masters are told: `cancel`, `join`, `leave`."""

    def __init__(self, fabric: Fabric, store: Store, publish: Callable[[dict[str, Any]], None]) -> None:
        self.fabric = fabric
        self.store = store
        self.publish = publish
        self.masters: Masters | None = None
        self._groups: dict[str, dict[str, Any]] = {}
        self._specs: dict[str, dict[str, Any]] = {}
        self._adopt: dict[str, dict[str, Any]] = {}
        left: dict[str, dict[str, Any]] = {}
        for row in store.groups():
            self._groups[row["id"]] = record_of(
                row["id"], row["state"], row["spec"], row["created_ns"], row["updated_ns"], row["progress"]
            )
            self._specs[row["id"]] = row["spec"]
            if row["adopt"]:
                self._adopt[row["id"]] = row["adopt"]
            if row["master"]:
                left[row["id"]] = row["master"]
        self.succession = Succession(self, left)

    # ---- asking ----
    def unfinished(self) -> list[dict[str, Any]]:
        """Groups that have not ended, as far as is known."""
        return [record for record in self._groups.values() if record["state"] not in FINAL_STATES]

    def find(self, group: str) -> dict[str, Any] | None:
        return self._groups.get(group)

    def receivers(self, group: str) -> list[str]:
        """Those there should be."""
        return self._specs[group]["receivers"]

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
        return [summary(g) for g in self._groups.values() if state is None or g["state"] == state]

    def load(self) -> list[dict[str, Any]]:
        """Which trees of running groups a link carries: {from, to, group, tree}, one per arc and tree."""
        return [
            {"from": u, "to": v, "group": record["id"], "tree": int(tree)}
            for record in self.unfinished()
            for tree, figures in record["trees"].items()
            for u, v in figures.get("arcs", ())
        ]

    # ---- creating ----
    async def create(self, spec: GroupSpec, accepted_ns: int) -> dict[str, Any]:
        """Check, store, and hand over to a master. Raises Problem."""
        receivers = receivers_of(self.fabric, self.store.sets(), spec)
        check_source_path(spec.source_path)
        dest = check_dest_path(spec.dest_path or posixpath.basename(spec.source_path))
        if self.masters is None:
            raise Problem(503, "stopping", "the fabric manager is stopping")
        self._check_room()
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
            for kept in (self._specs, self._adopt):
                kept.pop(old, None)
            self.succession.forget(old)
        record = self._groups[group] = record_of(group, "starting", stored, now, now, {})
        self._specs[group] = stored
        try:
            await self.start_master(record, accepted_ns)
        except OSError as error:
            self.finish(record, "failed", "no_master", f"no master could be started: {error}")
            raise Problem(
                503, "no_master", f"no master could be started: {error}", remedy="see the fabric manager's log"
            ) from error
        log.info("group %s: %s:%s to %d receivers", group, spec.source, spec.source_path, len(receivers))
        self.publish({"type": "group", **summary(record)})
        return record

    def _check_room(self) -> None:
        if sum(record["state"] not in FINAL_STATES for record in self._groups.values()) >= GROUPS_MAX:
            text = f"{GROUPS_MAX} groups run, that is the most"
            raise Problem(429, "too_many_groups", text, remedy="wait until some have ended")

    def _new_id(self) -> str:
        while True:
            group = f"g-{os.urandom(4).hex()}"
            if group not in self._groups:
                return group

    async def start_master(self, record: dict[str, Any], accepted_ns: int, again: bool = False) -> None:
        """Raises OSError. again: another master had the group before."""
        group = record["id"]
        if self.masters is None:
            raise OSError("the fabric manager is stopping")
        order = StartOrder(
            group=group,
            spec=self._specs[group],
            tree_ids=self.store.take_tree_ids(TREE_IDS_PER_GROUP),
            version=self.fabric.version,
            accepted_ns=accepted_ns,
            load=self.load(),
            key=self.key(group),
            adopt=self._adopt.get(group) if again else None,
            again=again,
            done=done_receivers(record) if again else {},
        )
        self.succession.heard(group)
        await self.masters.start(order)
        self.store.save_master(group, self.masters.identity(group))

    # ---- running ----
    def progress(self, group: str, update: dict[str, Any]) -> dict[str, Any]:
        """From the master. Returns {state}: `cancelling` tells it to end the group. Raises Problem."""
        record = self.get(group)
        state = update.get("state", record["state"])
        if state not in (*FINAL_STATES, "starting", "running", "cancelling"):
            raise problem("bad_state", "state", f"unknown state {state!r}", str(state), "")
        if record["state"] in FINAL_STATES:
            return {"state": record["state"]}
        self.succession.heard(group)
        before, done = record["state"], done_receivers(record)
        if before == "cancelling" and state not in FINAL_STATES:
            state = "cancelling"
        known = {k: v for k, v in update.items() if k in KEPT and k != "finished_ns"}
        if isinstance(update.get("adopt"), dict):
            self._keep_adopt(group, update["adopt"])
        record.update(known, state=state, updated_ns=time.time_ns())
        if state in FINAL_STATES:
            record["finished_ns"] = record["updated_ns"]
        if state != before or done_receivers(record).keys() != done.keys():
            self._save(record)
        if state != before:
            log.info("group %s: %s%s", group, state, f" ({record['error']['message']})" if record["error"] else "")
        self.publish({"type": "group", **summary(record)})
        return {"state": record["state"]}

    def _keep_adopt(self, group: str, adopt: dict[str, Any]) -> None:
        # The first one goes to the disk, and when data began: after a power loss receivers tell what they have.
        known = self._adopt.get(group)
        if known is None or (adopt.get("first_ns") and not known.get("first_ns")):
            self.store.save_adopt(group, adopt)
        self._adopt[group] = adopt

    def cancel(self, group: str) -> dict[str, Any]:
        """Tell the master to end it; a finished group stays as it is."""
        record = self.get(group)
        if record["state"] in FINAL_STATES:
            return record
        if record["state"] != "cancelling":
            record["state"], record["updated_ns"] = "cancelling", time.time_ns()
            self._save(record)
            self.publish({"type": "group", **summary(record)})
        self.publish({"type": "cancel", "group": group})
        return record

    def standing(self, group: str) -> list[dict[str, Any]]:
        """What a master that begins to listen must know: it may have missed something."""
        record = self._groups.get(group)
        if record is None or record["state"] == "cancelling":
            return [{"type": "cancel", "group": group}]
        return [{"type": "members", "group": group, "receivers": self._specs[group]["receivers"]}]

    # ---- going on ----
    async def resume(self, group: str) -> dict[str, Any]:
        """Start a group again that has failed or reached a part of its receivers. Raises Problem."""
        record, spec = self.get(group), self._specs[group]
        if record["state"] not in ("failed", "partial"):
            raise Problem(
                409,
                "not_resumable",
                f"group {group} is {record['state']}; only one that failed or is partial can be resumed",
                what=group,
                remedy="a group that runs goes on by itself; for one that is done or cancelled start a new one",
            )
        self._check_room()
        done = done_receivers(record)
        missing = [name for name in spec["receivers"] if name not in done]
        if not self.fabric.nodes[spec["source"]].registered:
            raise no_agent(spec["source"])
        if not any(self.fabric.nodes[name].registered for name in missing):
            raise no_agent(missing[0] if missing else spec["source"])
        adopt = self._adopt.get(group)
        if adopt:  # what was sent says nothing about receivers that were started again
            pieces = -(-adopt["size"] // adopt["payload"])
            self._adopt[group] = {**adopt, "rest": [[0, pieces]] if pieces else []}
        receivers = {name: r for name, r in record["receivers"].items() if name in done}
        record.update(
            state="starting",
            error=None,
            report=None,
            finished_ns=None,
            updated_ns=time.time_ns(),
            receivers={name: receivers.get(name, {"state": "waiting"}) for name in spec["receivers"]},
        )
        self.succession.pardon(group)
        self._save(record)
        await self.succession.hand_over(record)
        self.publish({"type": "group", **summary(record)})
        return record

    # ---- receivers come and go ----
    def add_receiver(self, group: str, host: str, dest_path: str | None = None) -> dict[str, Any]:
        """`dest_path`: where this one wants it, if elsewhere than the others. Raises Problem."""
        record = self._running(group)
        check_host(self.fabric, "host", host)
        if host == record["source"]:
            raise problem("source_among_receivers", "host", f"{host} is the group's source", host, "it has the file")
        if not self.fabric.nodes[host].registered:
            raise no_agent(host)
        spec = self._specs[group]
        if dest_path is not None:
            spec["dest_paths"] = {**spec.get("dest_paths", {}), host: check_dest_path(dest_path)}
        if host not in spec["receivers"]:
            spec["receivers"] = [*spec["receivers"], host]
            record["receivers"] = {**record["receivers"], host: {"state": "waiting"}}
        self.store.save_spec(group, spec)
        event = {"type": "join", "group": group, "host": host}
        self.publish(event if dest_path is None else {**event, "dest_path": dest_path})
        return record

    def remove_receiver(self, group: str, host: str) -> dict[str, Any]:
        """Raises Problem."""
        record = self._running(group)
        spec = self._specs[group]
        if host not in spec["receivers"]:
            raise Problem(
                404,
                "no_receiver",
                f"{host} is no receiver of group {group}",
                what=host,
                remedy=f"its receivers are {', '.join(spec['receivers'][:16])}",
            )
        spec["receivers"] = [name for name in spec["receivers"] if name != host]
        self.store.save_spec(group, spec)
        self.publish({"type": "leave", "group": group, "host": host})
        return record

    def _running(self, group: str) -> dict[str, Any]:
        record = self.get(group)
        if record["state"] not in ("starting", "running"):
            raise Problem(
                409,
                "ended",
                f"group {group} is {record['state']}: receivers join and leave one that runs",
                what=group,
                remedy="start a new group for them",
            )
        return record

    # ---- ends ----
    def finish(self, record: dict[str, Any], state: str, code: str, message: str) -> None:
        now = time.time_ns()
        record.update(state=state, error={"code": code, "message": message}, updated_ns=now, finished_ns=now)
        self._save(record)
        log.warning("group %s: %s: %s", record["id"], state, message)
        self.publish({"type": "group", **summary(record)})

    def _save(self, record: dict[str, Any]) -> None:
        progress = {key: record[key] for key in KEPT}
        self.store.save_group(record["id"], record["state"], progress, record["updated_ns"])
