"""Every switch of the fabric: events in, effects out. Pure: no socket, no thread, no clock.

Times: `now` in seconds of any monotonic clock, `t_ns` Unix nanoseconds. A switch is told what to do by the difference
between what it has and what it shall have, so the same few lines serve the first contact, a reconnect, a restarted
controller, a port that appears and a loop that opens.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from msgspec import structs

from datacast.controller.api.records import (
    Appliance,
    Discovered,
    End,
    Note,
    PortCounters,
    PortDetail,
    Program,
    Rule,
    Switch,
    SwitchDetail,
)
from datacast.controller.southbound import lldp
from datacast.controller.southbound.cables import Cables
from datacast.controller.southbound.config import Southbound
from datacast.controller.southbound.desired import Desired, desired
from datacast.controller.southbound.errors import SwitchError
from datacast.controller.southbound.state import Close, Effect, Log, PortInfo, Report, Send, Session
from datacast.controller.southbound.told import LinkReport, PortTold, Registration
from datacast.core.constants import REPLICATE_PORTS

log = logging.getLogger("datacast.controller.switches")

LLDP_INTERVAL_S = 2.0
LLDP_LIFE_S = 3 * LLDP_INTERVAL_S
PROBE_INTERVAL_S = 0.4
"""Between two probes of a cache appliance."""
PASSING = ("arbitration", "openflow_error", "p4runtime", "pipeline", "role", "too_many_rules", "unreachable", "wedged",
           "write")
"""Problems of a switch that were those of its last session once it has all its rules."""
PROBES_MISSED = 3
"""So many without an answer and it is taken to be absent."""
STRANGERS_MAX, STRANGERS_NS = 20, 60_000_000_000
"""Told in so long, of those that were turned away. Notes are the last 256: who connects again and again, or looks for
open ports, would leave none of the switches', and fill the log."""


class Language(Protocol):
    """How one kind of switch is spoken to. `have` is the language's own form of what a switch has."""

    def read(self) -> list[Any]:
        """Messages that ask what is installed."""

    def changes(self, wanted: Desired, session: Session) -> tuple[list[Any], Any]:
        """Messages that lead from session.have to `wanted`, and what the switch has afterwards."""

    def packet_out(self, number: int, data: bytes) -> Any:
        """A frame out of a port."""

    def probe(self, number: int, data: bytes) -> tuple[list[Any], bool]:
        """Messages that send a frame out of a port, and whether the switch then says so (Manager.programmed)."""

    def rules(self, wanted: Desired, session: Session) -> list[Rule]:
        """For people: what is installed, with counters."""


class Manager:
    """The switches of a configuration. `languages`: by Switch.kind."""

    def __init__(self, config: Southbound, languages: Mapping[str, Language], key: bytes | None = None) -> None:
        self.config = config
        self.languages = languages
        self.sessions = {switch.name: Session(switch) for switch in config.switches}
        self.cables = Cables(self.sessions)
        self._key, self._instance = key or os.urandom(32), os.urandom(16).hex()
        self.log = Log()
        self._strangers_ns, self._strangers = 0, 0
        """Since when, and how many of them."""
        self._dpids = {s.openflow.dpid: s.name for s in config.switches if s.openflow}
        self._next_lldp = 0.0
        self._next_probe = 0.0

    # ---- who ----
    def switch_of_dpid(self, dpid: int) -> str:
        """The switch with this datapath id. Raises SwitchError."""
        try:
            return self._dpids[dpid]
        except KeyError:
            raise SwitchError("unknown_dpid", f"no switch with datapath id {dpid:016x} is configured",
                              what=f"{dpid:016x}") from None

    def note(self, t_ns: int, level: str, code: str, switch: str, text: str) -> None:
        """Keep something for the operator and write it to the log."""
        self.log.add(Note(t_ns=t_ns, level=level, code=code, switch=switch, text=text))
        log.log(getattr(logging, level.upper()), "%s%s", f"{switch}: " if switch else "", text)

    def _turned_away(self, t_ns: int, code: str, switch: str, text: str) -> None:
        """A note of somebody who is not one of the switches."""
        if not 0 <= t_ns - self._strangers_ns < STRANGERS_NS:
            self._strangers_ns, self._strangers = t_ns, 0
        self._strangers += 1
        if self._strangers < STRANGERS_MAX:
            self.note(t_ns, "error", code, switch, text)
        elif self._strangers == STRANGERS_MAX:
            more = f"; whoever else is turned away within {STRANGERS_NS // 1_000_000_000} s is only counted"
            self.note(t_ns, "error", code, switch, text + more)
        else:
            self.log.count(code)

    # ---- connections ----
    def claimed_twice(self, t_ns: int, name: str, connection: object, peer: str, first: str) -> list[Effect]:
        """The newcomer goes."""
        text = (f"claimed twice: {peer or 'another switch'} says it is {name}, which is connected from "
                f"{first or 'elsewhere'}; the newcomer is refused")
        self._turned_away(t_ns, "claimed_twice", name, text)
        return [Close(connection)]

    def connected(self, now: float, t_ns: int, name: str, connection: object, ports: Iterable[PortInfo], *,
                  peer: str = "", pipeline: Program | None = None) -> list[Effect]:
        """A switch is there. A second one under the same name is refused while the first one lives."""
        session = self.sessions[name]
        if session.connected and session.connection is not connection:
            return self.claimed_twice(t_ns, name, connection, peer, session.peer)
        session.connection, session.peer, session.connected_s = connection, peer, now
        session.connections += 1
        session.programmed_s, session.have, session.wanted = None, None, None
        session.pipeline = pipeline or Program()
        session.ports = {p.number: p for p in ports}
        session.unsee()
        concerned = self.cables.touched(name)
        # Taken to answer until it fails to: a controller that starts again disturbs no group.
        session.unanswered, session.probing = 0, False
        session.silent = session.silent or not session.appliance_linked
        self._check_ports(t_ns, session)
        self.note(t_ns, "info", "connected", name, f"connected from {peer or 'unknown'}, {len(session.ports)} ports")
        return [*(Send(name, m) for m in self._language(session).read()), *self._program_those(concerned)]

    def disconnected(self, t_ns: int, name: str, connection: object) -> list[Effect]:
        """The control connection is gone. The switch goes on forwarding; its links are taken to be as last seen."""
        session = self.sessions[name]
        if session.connection is not connection:
            return []
        session.connection, session.programmed_s, session.have = None, None, None
        session.unsee()
        self.note(t_ns, "warning", "disconnected", name, "control connection lost; it goes on forwarding as programmed")
        return self._program_those(self.cables.touched(name))

    def refused(self, t_ns: int, code: str, text: str, switch: str = "") -> None:
        """A shim turned somebody away (wrong version, unknown id, arbitration lost, wrong pipeline …)."""
        if switch not in self.sessions:
            self._turned_away(t_ns, code, switch, text)
            return
        self.note(t_ns, "error", code, switch, text)
        self.sessions[switch].problems[code] = text

    def accepted(self, switch: str) -> None:
        """The fabric manager takes what is said of it."""
        if switch in self.sessions:
            self.sessions[switch].problems.pop("fabric_manager", None)

    def followed(self, name: str) -> None:
        """Another controller leads this switch, and speaks for it: what was last seen of it here holds no more."""
        self.sessions[name].registered = False

    # ---- programming ----
    def installed(self, now: float, name: str, have: Any) -> list[Effect]:
        """The answer to Language.read: what the switch has. It is then told what is missing."""
        session = self.sessions[name]
        if not session.connected or session.have is not None:
            return []
        session.have = have
        self._next_lldp, self._next_probe = min(self._next_lldp, now), min(self._next_probe, now)
        return self._program(session, force=True)

    def programmed(self, now: float, t_ns: int, name: str) -> list[Effect]:
        """The switch did all it was told: the fabric manager may count on it."""
        session = self.sessions[name]
        if session.probing:
            session.probing, session.unanswered = False, session.unanswered + 1
        if not session.connected or session.programmed_s is not None:
            return []
        session.programmed_s = now
        for code in PASSING:
            session.problems.pop(code, None)
        took = (now - session.connected_s) * 1000 if session.connected_s is not None else 0.0
        self.note(t_ns, "info", "programmed", name, f"programmed {took:.0f} ms after it connected")
        session.registered = True
        return [Report(self._registration(session))]

    def _program(self, session: Session, force: bool = False) -> list[Effect]:
        if session.have is None:
            return []
        macs = {n: p.mac for n, p in session.ports.items()}
        blocked = {session.numbers[port] for port in self.cables.blocked(session.config.name)}
        wanted = desired(session.config, macs, session.ports, blocked, session.appliance_present)
        if wanted == session.wanted and not force:
            return []
        session.wanted = wanted
        messages, session.have = self._language(session).changes(wanted, session)
        return [Send(session.config.name, m) for m in messages]

    def _program_those(self, names: set[str]) -> list[Effect]:
        """In the configuration's order."""
        if not names:
            return []
        return [effect for name in self.sessions if name in names for effect in self._program(self.sessions[name])]

    # ---- ports ----
    def port_changed(self, now: float, t_ns: int, name: str, info: PortInfo, *, gone: bool = False) -> list[Effect]:
        """PORT_STATUS, or what comes closest. The fabric manager hears of it first."""
        session = self.sessions[name]
        before = session.ports.get(info.number)
        if gone:
            session.ports.pop(info.number, None)
        else:
            session.ports[info.number] = info
        effects: list[Effect] = []
        port = session.config.port_of(info.number)
        up, was = info.up and not gone, before is not None and before.up
        turned: tuple[int, ...] = ()
        if port is not None and up != was:
            turned = (port,)
            session.report = max(session.report + 1, t_ns // 1_000_000)
            if not up:
                session.unsee((port,))
            self.note(t_ns, "warning", "link", name, f"port {port} is {'up' if up else 'down'}")
            if session.registered:
                effects.append(Report(LinkReport(node=name, port=port, up=up, t_ns=t_ns, n=session.report)))
        self._check_ports(t_ns, session)
        if up and not was:
            self._next_lldp = self._next_probe = now
        appliance = session.config.appliance
        if appliance is not None and appliance.number == info.number and was and not up:
            effects += self._appliance(now, t_ns, session, silent=True)
        concerned = {name} if turned or before is None or gone or before.mac != info.mac else set()
        return effects + self._program_those(concerned | self.cables.touched(name, turned))

    # ---- the cache appliance ----
    def _appliance(self, now: float, t_ns: int, session: Session, *, silent: bool) -> list[Effect]:
        """It answers, or it does not any more: the switch and the fabric manager are told."""
        session.unanswered = 0
        if session.silent == silent:
            return []
        session.silent = silent
        self.note(t_ns, "warning", "appliance", session.config.name,
                  f"its cache appliance {'is absent' if silent else 'is there'}")
        self._check_ports(t_ns, session)
        effects = self._program(session)
        if session.registered:
            effects.append(Report(self._registration(session)))
        return effects

    def _probe(self, now: float, t_ns: int) -> list[Effect]:
        """A carrier says that a cable is there, not that a program is: appliances send our probes back."""
        effects: list[Effect] = []
        for name, session in self.sessions.items():
            appliance = session.config.appliance if session.appliance_linked else None
            if appliance is None or session.have is None:
                continue
            if session.unanswered >= PROBES_MISSED:
                effects += self._appliance(now, t_ns, session, silent=True)
            copies = REPLICATE_PORTS if session.wanted is not None and session.wanted.copies else 0
            frame = lldp.encode(name, lldp.APPLIANCE, session.ports[appliance.number].mac, self._key, now, copies)
            messages, acknowledged = self._language(session).probe(appliance.number, frame)
            # What the switch itself did not send is not held against the appliance.
            session.probing, session.unanswered = acknowledged, session.unanswered + (not acknowledged)
            effects += [Send(name, message) for message in messages]
        return effects

    def _check_ports(self, t_ns: int, session: Session) -> None:
        missing = [p for p in session.config.ports if p.number not in session.ports]
        text = "; ".join(f"port {p.port} should be its port {p.number}, which it does not have" for p in missing)
        self._standing(t_ns, session, "missing_port", text)
        appliance = session.config.appliance
        text = ""
        if appliance is not None and not session.appliance_present:
            what = "does not answer" if session.appliance_linked else "is not connected"
            text = (f"the cache appliance at port {appliance.number} {what}: this switch only forwards, "
                    "groups cost the source more traffic")
        self._standing(t_ns, session, "no_appliance", text)

    def _standing(self, t_ns: int, session: Session, code: str, text: str) -> None:
        if text and session.problems.get(code) != text:
            self.note(t_ns, "warning", code, session.config.name, text)
            session.problems[code] = text
        elif not text:
            session.problems.pop(code, None)

    # ---- discovery ----
    def packet_in(self, now: float, t_ns: int, name: str, number: int, frame: bytes) -> list[Effect]:
        """A frame from a switch: discovery, or nothing we want."""
        session = self.sessions[name]
        far, port = lldp.decode(frame, self._key, now), session.config.port_of(number)
        appliance = session.config.appliance
        if appliance is not None and number == appliance.number and far == (name, lldp.APPLIANCE):
            return self._appliance(now, t_ns, session, silent=False)
        if far is None or port is None:
            return []
        if self._to_host(session, port):
            session.astray[port] = now
            self._standing(t_ns, session, f"cabling_{port}",
                           f"port {port} leads to a host, as the topology says, and a discovery frame from port "
                           f"{far[1]} of {far[0]} came in by it: a cable is elsewhere, or somebody carries frames")
            return []
        before = session.seen.get(port)
        session.seen[port] = (*far, now)
        if before is not None and before[:2] == far:
            return []
        p = next(q for q in session.config.ports if q.port == port)
        if p.neighbour is not None and (p.neighbour.node, p.neighbour.port) != far:
            self._standing(t_ns, session, f"cabling_{port}",
                           f"port {port} leads to port {far[1]} of {far[0]}, not to port {p.neighbour.port} of "
                           f"{p.neighbour.node} as the topology says")
        else:
            session.problems.pop(f"cabling_{port}", None)
        return self._program_those(self.cables.touched(name, (port,)))

    def _to_host(self, session: Session, port: int) -> bool:
        neighbour = session.neighbours.get(port)
        return neighbour is not None and neighbour[0] not in self.sessions

    def tick(self, now: float, t_ns: int) -> list[Effect]:
        """Probes and discovery frames are due, old findings expire. Call it a few times a second."""
        effects: list[Effect] = []
        if now >= self._next_probe:
            self._next_probe = now + PROBE_INTERVAL_S
            effects += self._probe(now, t_ns)
        if now < self._next_lldp:
            return effects
        self._next_lldp = now + LLDP_INTERVAL_S
        concerned: set[str] = set()
        for name, session in self.sessions.items():
            lost = [p for p, (*_, seen) in session.seen.items() if now - seen > LLDP_LIFE_S]
            session.unsee([*lost, *(p for p, came in session.astray.items() if now - came > LLDP_LIFE_S)])
            concerned |= self.cables.touched(name, lost)
            if session.connected and session.have is not None:
                effects += [Send(name, self._language(session).packet_out(
                    p.number, lldp.encode(name, p.port, session.ports[p.number].mac, self._key, now)))
                    for p in session.config.ports if p.number in session.ports and session.ports[p.number].up
                    and not self._to_host(session, p.port)]
        return effects + self._program_those(concerned)

    # ---- the fabric manager ----
    def _registration(self, session: Session) -> Registration:
        config = session.config
        return Registration(
            node=config.name, kind="switch", pid=os.getpid(), instance=self._instance, proxy=True,
            cache=session.appliance_present or config.serves, msd=config.msd,
            ports=[PortTold(p.port, session.port_up(p.port)) for p in config.ports],
            control=(config.appliance.control or None) if config.appliance else None)

    def registrations(self) -> list[Registration]:
        """What to tell a fabric manager that knows nothing yet."""
        return [self._registration(s) for s in self.sessions.values() if s.registered]

    def _language(self, session: Session) -> Language:
        return self.languages[session.config.kind]

    # ---- counters ----
    def counted(self, name: str, *, ports: Mapping[int, PortCounters] | None = None,
                rules: Mapping[Any, Mapping[str, int]] | None = None, drops: Mapping[str, int] | None = None,
                node: Mapping[str, int] | None = None) -> None:
        """Counters as they were read. `node`: of the node in the switch's own pipeline."""
        session = self.sessions[name]
        if ports is not None:
            session.port_counters = dict(ports)
        if rules is not None:
            session.rule_counters = {k: dict(c) for k, c in rules.items()}
        if drops is not None:
            session.drops = dict(drops)
        if node is not None:
            session.node_counters = dict(node)

    # ---- views ----
    def summary(self, name: str) -> Switch:
        """One line of GET /switches. Raises SwitchError for an unknown name."""
        session = self._session(name)
        rules = self._language(session).rules(session.wanted, session) if session.wanted else []
        config = session.config
        return Switch(
            name=name, kind=config.kind,
            id=f"{config.openflow.dpid:016x}" if config.openflow else
               f"{config.p4runtime.address}#{config.p4runtime.device_id}" if config.p4runtime else "",
            connected=session.connected, peer=session.peer, connections=session.connections,
            programmed=session.programmed_s is not None,
            programmed_ms=None if session.programmed_s is None or session.connected_s is None else
            round((session.programmed_s - session.connected_s) * 1000, 1),
            ports=len(config.ports), ports_up=sum(session.port_up(p.port) for p in config.ports),
            rules=len(rules), rules_bound=config.rules_bound, msd=config.msd,
            appliance=None if config.appliance is None else
            Appliance(number=config.appliance.number, present=session.appliance_present,
                      control=config.appliance.control),
            problems=sorted(session.problems.values()))

    def detail(self, name: str, stations: Mapping[str, int] = MappingProxyType({})) -> SwitchDetail:
        """GET /switches/{id}. Raises SwitchError for an unknown name."""
        session = self._session(name)
        wanted = session.wanted
        ports = []
        for p in session.config.ports:
            info, far = session.ports.get(p.number), session.seen.get(p.port)
            ports.append(PortDetail(
                port=p.port, number=p.number, name=info.name if info else None,
                mac=info.mac if info else None, up=session.port_up(p.port),
                floods=wanted is not None and p.number in wanted.flood,
                neighbour=None if p.neighbour is None else End(node=p.neighbour.node, port=p.neighbour.port),
                discovered=None if far is None else End(node=far[0], port=far[1]),
                counters=session.port_counters.get(p.number, PortCounters())))
        return SwitchDetail(
            **structs.asdict(self.summary(name)), port_list=ports, drops=session.drops, node=session.node_counters,
            pipeline=session.pipeline, stations=dict(stations),
            rule_list=self._language(session).rules(wanted, session) if wanted else [])

    def discovered(self) -> list[Discovered]:
        """Links that discovery found, each once."""
        found = {tuple(sorted(((name, port), far[:2]))) for name, session in self.sessions.items()
                 for port, far in session.seen.items()}
        return [Discovered(u=a[0], u_port=a[1], v=b[0], v_port=b[1]) for a, b in sorted(found)]

    def notes(self) -> list[Note]:
        return list(self.log.notes)

    def _session(self, name: str) -> Session:
        self.config.switch(name)
        return self.sessions[name]
