"""The switches of a running controller: the manager under a lock, the shims around it, the fabric manager told.

What the manager returns for a switch goes into that switch's outbox while the lock is held, so that it hears things in
the order in which they were decided. Nothing is sent under the lock: a switch that stands still holds up neither the
others nor REST.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import TYPE_CHECKING, Any

from datacast.controller.api.records import Discovered, Note, PortCounters, Program, SwitchDetail
from datacast.controller.api.records import Switches as Listing
from datacast.controller.openflow import language as openflow
from datacast.controller.openflow.messages import ReadPorts, ReadRules
from datacast.controller.openflow.roles import Roles
from datacast.controller.p4runtime.entries import Entry, ReadCounters
from datacast.controller.p4runtime.language import P4RuntimeLanguage
from datacast.controller.p4runtime.stations import Stations
from datacast.controller.southbound.config import Southbound
from datacast.controller.southbound.errors import SwitchError
from datacast.controller.southbound.manager import Manager
from datacast.controller.southbound.outbox import Outbox
from datacast.controller.southbound.reporter import Reporter
from datacast.controller.southbound.state import Close, Effect, PortInfo, Report, Send
from datacast.controller.southbound.told import Registration
from datacast.core.wire import drop_name

if TYPE_CHECKING:
    from datacast.controller.p4runtime.shim import P4RuntimeClient

log = logging.getLogger("datacast.controller.switches")

TICK_S = 0.1
RESIGN_S = 0.5
"""So long a controller that stops waits until its switches have heard that another may lead them."""
COUNTERS_S = 1.0
"""How long a reader waits for fresh counters."""
NODE_EVENTS = ("interests", "hits", "misses", "aggregated", "retx_forwarded", "data", "dup_data", "stored", "trees")
"""p4src/node/interest.p4, the EVENT_ constants."""


class Switches:
    """`start()`, then views from any thread, then `stop()`. os-ken allows one per process."""

    def __init__(self, config: Southbound) -> None:
        self.manager = Manager(config, {"openflow": openflow.OpenFlowLanguage(), "p4runtime": P4RuntimeLanguage()})
        self.config = config
        self._lock = threading.RLock()
        self._counted = threading.Condition(self._lock)
        self._generation: dict[str, dict[str, int]] = {}
        self._stopped = threading.Event()
        self._server: Any = None
        self._roles = Roles("")
        self._waiting: dict[str, dict[int, PortInfo]] = {}
        """Ports of OpenFlow switches that this controller does not lead (yet)."""
        self._clients: dict[str, P4RuntimeClient] = {}
        self._outboxes: dict[str, tuple[object, Outbox]] = {}
        self._stations: dict[str, Stations] = {}
        self._reporter: Reporter | None = None

    # ---- life ----
    def start(self) -> None:
        """Raises SwitchError: address taken, no pipeline, a pipeline of another program."""
        if switches := [s for s in self.config.switches if s.openflow]:
            from datacast.controller.openflow.shim import OpenFlowServer

            self._server = OpenFlowServer(self.config.openflow_listen, self, switches)
            self._server.start()
            self._roles = Roles(f"{socket.gethostname()} {self.openflow_address}")
        p4 = [s for s in self.config.switches if s.p4runtime]
        if p4:
            from datacast.controller.p4runtime.shim import Info, P4RuntimeClient

            pipelines = {False: self.config.pipeline, True: self.config.node_pipeline}
            infos = {node: Info(p, node=node) for node, p in pipelines.items()
                     if p is not None and any(s.serves == node for s in p4)}
            self._clients = {s.name: P4RuntimeClient(s, infos[s.serves], self) for s in p4}
            for client in self._clients.values():
                client.start()
        if self.config.fabric_manager:
            self._reporter = Reporter(self.config.fabric_manager, self._registrations, self._report_refused,
                                      self.config.tls)
            self._reporter.start()
        threading.Thread(target=self._ticks, name="switches", daemon=True).start()

    def stop(self) -> None:
        """The switches go on forwarding."""
        self._stopped.set()
        for client in self._clients.values():
            client.stop()
        with self._lock:
            for name, messages in self._roles.resign():
                self._put(name, self._roles.seats[name].connection, messages)
            outboxes = [outbox for _, outbox in self._outboxes.values()]
        end = time.monotonic() + RESIGN_S
        for outbox in outboxes:
            outbox.flush(max(0.0, end - time.monotonic()))
            outbox.close()
        if self._server:
            self._server.stop()
        if self._reporter:
            self._reporter.stop()

    @property
    def openflow_address(self) -> str:
        return self._server.address if self._server else ""

    def _ticks(self) -> None:
        while not self._stopped.wait(TICK_S):
            for work in (self._tick_manager, self._tick_roles):
                try:
                    work()
                except Exception:  # without this thread nobody would renew a lease
                    log.exception("a look at the switches failed")

    def _tick_manager(self) -> None:
        self._do(lambda: self.manager.tick(time.monotonic(), time.time_ns()))

    def _tick_roles(self) -> None:
        with self._lock:
            if self._stopped.is_set():  # and the leases were given back meanwhile
                return
            for name, messages in self._roles.tick(time.monotonic()):
                self._put(name, self._roles.seats[name].connection, messages)

    # ---- effects ----
    def _do(self, event: Callable[[], Iterable[Effect]]) -> None:
        with self._lock:
            self._carry_out(event())

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        for key, group in groupby(effects, key=lambda e: e.switch if isinstance(e, Send) else None):
            if key is not None:
                self._send(key, [e.message for e in group if isinstance(e, Send)])
                continue
            for effect in group:
                if isinstance(effect, Report) and self._reporter:
                    self._reporter.send(effect.message)
                elif isinstance(effect, Close):
                    effect.connection.close()

    def _send(self, name: str, messages: list[Any]) -> None:
        connection = self.manager.sessions[name].connection
        if connection is not None:
            self._put(name, connection, messages)

    def _put(self, name: str, connection: Any, messages: list[Any]) -> None:
        outbox = self._outboxes.get(name)
        if outbox is None or outbox[0] is not connection:
            if outbox is not None:
                outbox[1].close()
            outbox = self._outboxes[name] = (connection, self._outbox(name, connection))
        if not outbox[1].put(messages):
            self._wedged(name, connection)

    def _outbox(self, name: str, connection: Any) -> Outbox:
        server = self._server if self.config.switch(name).openflow else None

        def send(messages: list[Any]) -> None:
            if server is None:
                connection.send(messages)
                return
            for message in messages:
                server.send(connection, message)

        def failed(error: Exception) -> None:
            # A write refused, or the session gone: begin again from what the switch then has.
            text = getattr(error, "details", lambda: "")() or str(error)
            with self._lock:
                self.manager.refused(time.time_ns(), "write", f"the switch refuses a write: {text}", name)
            connection.close()

        return Outbox(name, send, failed)

    def _wedged(self, name: str, connection: Any) -> None:
        text = "the switch takes nothing any more: its connection is closed, so that it begins anew"
        self.manager.refused(time.time_ns(), "wedged", text, name)
        if name in self._outboxes:
            self._outboxes.pop(name)[1].close()
        threading.Thread(target=connection.close, daemon=True).start()  # closing may wait as well

    def _registrations(self) -> list[Registration]:
        with self._lock:
            return self.manager.registrations()

    def _report_refused(self, node: str, text: str) -> None:
        with self._lock:
            if text:
                self.manager.refused(time.time_ns(), "fabric_manager", f"the fabric manager says: {text}", node)
            else:
                self.manager.accepted(node)

    # ---- openflow.shim.Events ----
    def _named(self, dpid: int) -> str | None:
        try:
            return self.manager.switch_of_dpid(dpid)
        except SwitchError:
            return None

    def openflow_connected(self, dpid: int, connection: Any, ports: list[PortInfo], peer: str) -> bool:
        try:
            name = self.manager.switch_of_dpid(dpid)
        except SwitchError as error:
            with self._lock:
                self.manager.refused(time.time_ns(), error.code, f"{peer}: {error.message}; it is turned away")
            connection.close()
            return False
        with self._lock:
            if name in self._roles.seats:  # claimed twice: the first one stays
                first = "{}:{}".format(*self._roles.seats[name].connection.address)
                self._carry_out(self.manager.claimed_twice(time.time_ns(), name, connection, peer, first))
                return False
            self._waiting[name] = {port.number: port for port in ports}
            self._put(name, connection, self._roles.connected(time.monotonic(), name, connection))
        return True

    def openflow_role(self, dpid: int, master: bool, generation: int) -> None:
        name = self._named(dpid)
        with self._lock:
            if name is None or name not in self._roles.seats:
                return
            connection = self._roles.seats[name].connection
            lease = self._roles.told(time.monotonic(), name, master, generation)
            if not lease:
                return
            self._put(name, connection, list(lease))
            peer = "{}:{}".format(*connection.address)
            ports = self._waiting.pop(name).values()
            self._carry_out(self.manager.connected(time.monotonic(), time.time_ns(), name, connection, ports, peer=peer,
                                                   pipeline=Program(openflow="1.3", tables=2)))

    def openflow_demoted(self, dpid: int) -> None:
        """Another controller leads this switch: as if it were not connected here."""
        name = self._named(dpid)
        with self._lock:
            if name is None or not self._roles.refused(time.monotonic(), name):
                return
            session = self.manager.sessions[name]
            self._waiting[name] = dict(session.ports)
            self.manager.refused(time.time_ns(), "role", "another controller leads this switch now", name)
            self._carry_out(self.manager.disconnected(time.time_ns(), name, session.connection))
            self.manager.followed(name)

    def openflow_disconnected(self, dpid: int, connection: Any) -> None:
        if name := self._named(dpid):
            self._disconnected(name, connection)

    def _disconnected(self, name: str, connection: Any) -> None:
        with self._lock:
            self._roles.disconnected(name, connection)
            if name in self._outboxes and self._outboxes[name][0] is connection:
                self._outboxes.pop(name)[1].close()
            self._carry_out(self.manager.disconnected(time.time_ns(), name, connection))

    def openflow_rules(self, dpid: int, counters: dict[int, dict[str, int]]) -> None:
        if name := self._named(dpid):
            with self._lock:
                if not self._roles.leads(name):
                    if messages := self._roles.rules(time.monotonic(), time.time_ns(), name, counters):
                        self._put(name, self._roles.seats[name].connection, list(messages))
                    if self._roles.waits(name):
                        self.manager.followed(name)
                    return
                self._carry_out(self.manager.installed(time.monotonic(), name, set(counters)))
                wanted = self.manager.sessions[name].wanted
                self.manager.counted(name, rules=counters, drops=openflow.drops(wanted, counters) if wanted else None)
                self._fresh(name, "rules")

    def openflow_ports(self, dpid: int, counters: dict[int, PortCounters]) -> None:
        if name := self._named(dpid):
            with self._lock:
                self.manager.counted(name, ports=counters)
                self._fresh(name, "ports")

    def openflow_port(self, dpid: int, info: PortInfo, gone: bool) -> None:
        t_ns = time.time_ns()
        if not (name := self._named(dpid)):
            return
        with self._lock:
            if self._roles.leads(name):
                self._carry_out(self.manager.port_changed(time.monotonic(), t_ns, name, info, gone=gone))
            elif gone:
                self._waiting.get(name, {}).pop(info.number, None)
            elif name in self._waiting:
                self._waiting[name][info.number] = info

    def openflow_packet(self, dpid: int, number: int, frame: bytes) -> None:
        if (name := self._named(dpid)) and self._roles.leads(name):
            self._do(lambda: self.manager.packet_in(time.monotonic(), time.time_ns(), name, number, frame))

    def openflow_done(self, dpid: int) -> None:
        if name := self._named(dpid):
            self._do(lambda: self.manager.programmed(time.monotonic(), time.time_ns(), name))

    def openflow_refused(self, code: str, text: str, dpid: int | None) -> None:
        name = (self._named(dpid) if dpid is not None else None) or ""
        with self._lock:
            self.manager.refused(time.time_ns(), code, text, name)
            if code == "write" and name in self._roles.seats:  # begin again from what the switch then has
                connection = self._roles.seats[name].connection
                connection.taken = False  # what it has said behind that, as that all is done, counts no more
                connection.close()

    # ---- p4runtime.shim.Events ----
    def p4_connected(self, name: str, connection: Any, ports: list[PortInfo], peer: str, pipeline: Program,
                     have: Any, learned: list[Entry]) -> None:
        with self._lock:
            self._stations[name] = Stations(learned)
            self._carry_out(self.manager.connected(time.monotonic(), time.time_ns(), name, connection, ports, peer=peer,
                                                   pipeline=pipeline))
            self._carry_out(self.manager.installed(time.monotonic(), name, have))
            if self.manager.sessions[name].connection is connection:
                self._send(name, [])  # there may have been nothing to say
                self._outboxes[name][1].put(lambda: self._p4_programmed(name, connection))

    def _p4_programmed(self, name: str, connection: Any) -> None:
        with self._lock:
            if self.manager.sessions[name].connection is connection:
                self._carry_out(self.manager.programmed(time.monotonic(), time.time_ns(), name))

    def p4_disconnected(self, name: str, connection: Any) -> None:
        self._disconnected(name, connection)
        self._clients[name].lost(connection)

    def p4_packet(self, name: str, number: int, frame: bytes) -> None:
        self._do(lambda: self.manager.packet_in(time.monotonic(), time.time_ns(), name, number, frame))

    def p4_learned(self, name: str, address: int, number: int) -> None:
        with self._lock:
            # What it sees before its tables were read is told again, or read with them; so is what it sees too often.
            stations, outbox = self._stations.get(name), self._outboxes.get(name)
            if outbox and outbox[1].crowded:
                return
            if stations and (writes := stations.learned(address, number)):
                self._send(name, list(writes))

    def p4_aged(self, name: str, address: int) -> None:
        with self._lock:
            # What it sees before its tables were read is told again, or read with them.
            stations = self._stations.get(name)
            if stations and (writes := stations.aged(address)):
                self._send(name, list(writes))

    def p4_counters(self, name: str, ports: dict[int, PortCounters], rules: dict[Any, dict[str, int]],
                    drops: dict[int, int], node: dict[int, int]) -> None:
        with self._lock:
            self.manager.counted(name, ports=ports, rules=rules, drops={drop_name(i): n for i, n in drops.items() if n},
                                 node={NODE_EVENTS[i]: n for i, n in node.items() if i < len(NODE_EVENTS)})
            self._fresh(name, "rules")
            self._fresh(name, "ports")

    def p4_refused(self, code: str, text: str, name: str) -> None:
        with self._lock:
            self.manager.refused(time.time_ns(), code, text, name)
            if code == "arbitration":
                self.manager.followed(name)

    # ---- views, for REST ----
    def _fresh(self, name: str, what: str) -> None:
        counts = self._generation.setdefault(name, {"rules": 0, "ports": 0})
        counts[what] += 1
        self._counted.notify_all()

    def refresh(self, name: str) -> None:
        """Read a switch's counters; returns after COUNTERS_S at the latest. Raises SwitchError for an unknown name."""
        self.config.switch(name)
        with self._lock:
            session = self.manager.sessions[name]
            if not session.connected:
                return
            before = dict(self._generation.setdefault(name, {"rules": 0, "ports": 0}))
            ask = [ReadRules(), ReadPorts()] if session.config.openflow else [ReadCounters()]
            self._send(name, ask)
            self._counted.wait_for(lambda: all(self._generation[name][k] > before[k] for k in before), COUNTERS_S)

    def listing(self) -> Listing:
        """GET /switches."""
        with self._lock:
            return Listing(switches=[self.manager.summary(s.name) for s in self.config.switches],
                           discovered=self.manager.discovered(), notes=self.manager.notes())

    def switch(self, name: str) -> SwitchDetail:
        """GET /switches/{id}, with fresh counters. Raises SwitchError for an unknown name."""
        self.refresh(name)
        with self._lock:
            stations = self._stations.get(name)
            return self.manager.detail(name, stations.view() if stations else {})

    def discovered(self) -> list[Discovered]:
        """Links found by discovery, for GET /topology."""
        with self._lock:
            return self.manager.discovered()

    def notes(self) -> list[Note]:
        """What the operator should know, oldest first."""
        with self._lock:
            return self.manager.notes()
