"""The only file that imports os-ken: events in, messages out, nothing decided here.

os-ken runs on plain threads (its `native` hub, the default) and is embedded: its application manager is given two
applications, its own handshake and ours, and each connection that this module accepts. (osken-manager is gone since
4.0.)
"""

from __future__ import annotations

import contextlib
import functools
import logging
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from os_ken import cfg
from os_ken.base.app_manager import AppManager, OSKenApp
from os_ken.controller import controller as osken_controller
from os_ken.controller import ofp_event
from os_ken.controller.handler import (
    CONFIG_DISPATCHER,
    DEAD_DISPATCHER,
    MAIN_DISPATCHER,
    set_ev_cls,
)
from os_ken.controller.ofp_handler import OFPHandler
from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as ofp_parser

from datacast.controller.api.records import PortCounters
from datacast.controller.openflow.messages import (
    LABEL_REGISTER,
    Action,
    AskRole,
    Barrier,
    FlowAdd,
    FlowDelete,
    Message,
    PacketOut,
    ReadPorts,
    ReadRules,
)
from datacast.controller.openflow.roles import LEASE
from datacast.controller.openflow.rules import COOKIE
from datacast.controller.southbound.config import Switch
from datacast.controller.southbound.errors import SwitchError
from datacast.controller.southbound.state import PortInfo
from datacast.services.address import host_and_port

log = logging.getLogger("datacast.controller.openflow")

ALL_COOKIE_BITS = (1 << 64) - 1
ECHO_S = 2.0
ECHOES_MISSED = 3
DEMOTED = {(ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_IS_SLAVE), (ofp.OFPET_ROLE_REQUEST_FAILED, ofp.OFPRRFC_STALE)}
"""What a switch answers to who is not its master."""
RULES_MAX = 65_536
"""Of a switch, that carry our mark: we give it four per port. Those of others, however many, are nothing to us."""
CONNECTIONS_SPARE = 64
"""At once, beside two of each switch: nobody else's connection costs more than its handshake."""
ACCEPT_S = 0.1
"""After an accept that failed: most likely there are no file descriptors left."""
QUIET_S = 1.0
"""At most one note in so long about connections turned away."""
UNREADY = ofp.OFPPS_LINK_DOWN | ofp.OFPPS_BLOCKED


class Events(Protocol):
    """What the shim tells. Calls come from os-ken's threads."""

    def openflow_connected(self, dpid: int, connection: Any, ports: list[PortInfo], peer: str) -> bool:
        """Whether it is taken: what another connection says under this id is not the switch's."""

    def openflow_disconnected(self, dpid: int, connection: Any) -> None: ...
    def openflow_rules(self, dpid: int, counters: dict[int, dict[str, int]]) -> None: ...
    def openflow_ports(self, dpid: int, counters: dict[int, PortCounters]) -> None: ...
    def openflow_port(self, dpid: int, info: PortInfo, gone: bool) -> None: ...
    def openflow_packet(self, dpid: int, number: int, frame: bytes) -> None: ...
    def openflow_done(self, dpid: int) -> None: ...
    def openflow_role(self, dpid: int, master: bool, generation: int) -> None: ...
    def openflow_demoted(self, dpid: int) -> None: ...
    def openflow_refused(self, code: str, text: str, dpid: int | None) -> None: ...


def port_info(port: Any) -> PortInfo:
    """A port as os-ken describes it."""
    name = port.name.decode(errors="replace") if isinstance(port.name, bytes) else str(port.name)
    up = not port.config & ofp.OFPPC_PORT_DOWN and not port.state & UNREADY
    return PortInfo(port.port_no, port.hw_addr, up, name)


def _action(action: Action) -> Any:
    kind, *values = action
    if kind == "pop_mpls":
        return ofp_parser.OFPActionPopMpls(values[0])
    if kind == "set_field":
        return ofp_parser.OFPActionSetField(**{str(values[0]): values[1]})
    if kind == "output":
        return ofp_parser.OFPActionOutput(values[0])
    if kind == "keep_label":
        return ofp_parser.NXActionRegMove(src_field="mpls_label", dst_field=LABEL_REGISTER, n_bits=20)
    if kind == "controller":
        return ofp_parser.OFPActionOutput(ofp.OFPP_CONTROLLER, ofp.OFPCML_NO_BUFFER)
    if kind == "normal":
        return ofp_parser.OFPActionOutput(ofp.OFPP_NORMAL)
    raise ValueError(f"unknown action {kind!r}")


def encode(datapath: Any, message: Message) -> list[Any]:
    """os-ken's form of a message."""
    if isinstance(message, FlowAdd):
        actions = [_action(a) for a in message.actions if a[0] != "goto"]
        instructions = [ofp_parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, actions)] if actions else []
        instructions += [ofp_parser.OFPInstructionGotoTable(a[1]) for a in message.actions if a[0] == "goto"]
        return [ofp_parser.OFPFlowMod(datapath, cookie=message.cookie, table_id=message.table, command=ofp.OFPFC_ADD,
                                      priority=message.priority, match=ofp_parser.OFPMatch(**dict(message.match)),
                                      hard_timeout=message.ends_s,
                                      instructions=instructions)]
    if isinstance(message, FlowDelete):
        return [ofp_parser.OFPFlowMod(datapath, cookie=message.cookie, cookie_mask=ALL_COOKIE_BITS,
                                      table_id=ofp.OFPTT_ALL, command=ofp.OFPFC_DELETE, out_port=ofp.OFPP_ANY,
                                      out_group=ofp.OFPG_ANY, match=ofp_parser.OFPMatch())]
    if isinstance(message, PacketOut):
        return [ofp_parser.OFPPacketOut(datapath, buffer_id=ofp.OFP_NO_BUFFER, in_port=ofp.OFPP_CONTROLLER,
                                        actions=[ofp_parser.OFPActionOutput(message.number)], data=message.data)]
    if isinstance(message, ReadRules):
        return [ofp_parser.OFPFlowStatsRequest(datapath)]
    if isinstance(message, ReadPorts):
        return [ofp_parser.OFPPortStatsRequest(datapath, 0, ofp.OFPP_ANY)]
    if isinstance(message, AskRole):
        role = ofp.OFPCR_ROLE_MASTER if message.master else ofp.OFPCR_ROLE_NOCHANGE
        return [ofp_parser.OFPRoleRequest(datapath, role, message.generation)]
    if isinstance(message, Barrier):
        return [ofp_parser.OFPBarrierRequest(datapath)]
    raise TypeError(f"no OpenFlow form of {message!r}")


def on(event: Any, states: Any) -> Callable[[Callable[[Any, Any], None]], Callable[[Any, Any], None]]:
    """set_ev_cls for a handler that never raises: under the native hub os-ken would silently stop handling events. What
    a connection says that is not taken for its switch does not come to it."""

    def decorate(handler: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        @functools.wraps(handler)
        def guarded(self: Any, ev: Any) -> None:
            said = getattr(ev, "msg", None)  # of a change of state there is none
            if said is not None and not said.datapath.taken:
                return
            try:
                handler(self, ev)
            except Exception:
                log.exception("%s failed", handler.__name__)

        return set_ev_cls(event, states)(guarded)

    return decorate


class Handshake(OFPHandler):  # type: ignore[misc]
    """os-ken's handshake, without its own listener, and with an ear for refusals."""

    def start(self) -> None:
        OSKenApp.start(self)

    def _hello_failed(self, datapath: Any, error_desc: str) -> None:
        peer = f"{datapath.address[0]}:{datapath.address[1]}"
        text = f"{peer} speaks another OpenFlow version ({error_desc}); set the switch's protocols to OpenFlow13"
        App.sink.openflow_refused("wrong_version", text, None)
        super()._hello_failed(datapath, error_desc)


class App(OSKenApp):  # type: ignore[misc]
    """Our application: hands everything on."""

    OFP_VERSIONS = [ofp.OFP_VERSION]  # noqa: RUF012 - os-ken's own form
    sink: Events
    numbers: frozenset[int]
    """Ports that some switch has by the configuration. A bridge may have thousands of others."""

    @on(ofp_event.EventOFPStateChange, [MAIN_DISPATCHER, DEAD_DISPATCHER])
    def _state(self, ev: Any) -> None:
        datapath = ev.datapath
        if datapath.id is None:
            return
        if ev.state == MAIN_DISPATCHER:
            ports = [port_info(p) for p in datapath.ports.values()]
            peer = f"{datapath.address[0]}:{datapath.address[1]}"
            datapath.taken = self.sink.openflow_connected(datapath.id, datapath, ports, peer)
        else:
            self.sink.openflow_disconnected(datapath.id, datapath)

    @on(ofp_event.EventOFPPortStatus, MAIN_DISPATCHER)
    def _port_status(self, ev: Any) -> None:
        msg = ev.msg
        if msg.desc.port_no in self.numbers:
            self.sink.openflow_port(msg.datapath.id, port_info(msg.desc), msg.reason == ofp.OFPPR_DELETE)

    @on(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def _packet_in(self, ev: Any) -> None:
        self.sink.openflow_packet(ev.msg.datapath.id, ev.msg.match["in_port"], bytes(ev.msg.data))

    @on(ofp_event.EventOFPFlowStatsReply, MAIN_DISPATCHER)
    def _flow_stats(self, ev: Any) -> None:
        datapath = ev.msg.datapath
        rules = datapath.__dict__.setdefault("datacast_rules", {})  # a long answer comes in parts
        for e in ev.msg.body:
            if e.cookie >> 32 in (COOKIE, LEASE) and (len(rules) < RULES_MAX or e.cookie in rules):
                rules[e.cookie] = {"packets": e.packet_count, "bytes": e.byte_count}
        if not ev.msg.flags & ofp.OFPMPF_REPLY_MORE:
            del datapath.__dict__["datacast_rules"]
            if len(rules) == RULES_MAX:
                text = f"it tells of {RULES_MAX} rules that carry our mark, or more: what it has beyond is not seen"
                self.sink.openflow_refused("too_many_rules", text, datapath.id)
            self.sink.openflow_rules(datapath.id, rules)

    @on(ofp_event.EventOFPPortStatsReply, MAIN_DISPATCHER)
    def _port_stats(self, ev: Any) -> None:
        datapath = ev.msg.datapath
        ports = datapath.__dict__.setdefault("datacast_ports", {})  # likewise
        ports.update({
            e.port_no: PortCounters(rx_frames=e.rx_packets, rx_bytes=e.rx_bytes, tx_frames=e.tx_packets,
                                    tx_bytes=e.tx_bytes, rx_dropped=e.rx_dropped, tx_dropped=e.tx_dropped)
            for e in ev.msg.body if e.port_no in self.numbers})
        if not ev.msg.flags & ofp.OFPMPF_REPLY_MORE:
            del datapath.__dict__["datacast_ports"]
            self.sink.openflow_ports(datapath.id, ports)

    @on(ofp_event.EventOFPBarrierReply, MAIN_DISPATCHER)
    def _barrier(self, ev: Any) -> None:
        self.sink.openflow_done(ev.msg.datapath.id)

    @on(ofp_event.EventOFPRoleReply, MAIN_DISPATCHER)
    def _role(self, ev: Any) -> None:
        master = ev.msg.role == ofp.OFPCR_ROLE_MASTER
        self.sink.openflow_role(ev.msg.datapath.id, master, ev.msg.generation_id)

    @on(ofp_event.EventOFPErrorMsg, [CONFIG_DISPATCHER, MAIN_DISPATCHER])
    def _error(self, ev: Any) -> None:
        msg = ev.msg
        if (msg.type, msg.code) in DEMOTED:
            self.sink.openflow_demoted(msg.datapath.id)
            return
        rule = msg.type == ofp.OFPET_FLOW_MOD_FAILED or bytes(msg.data or b"")[1:2] == bytes([ofp.OFPT_FLOW_MOD])
        self.sink.openflow_refused(
            "write" if rule else "openflow_error",
            f"the switch refuses a {'rule' if rule else 'message'}: {ofp.ofp_error_type_to_str(msg.type)}, "
            f"{ofp.ofp_error_code_to_str(msg.type, msg.code)}", msg.datapath.id)


class Ports(dict[int, Any]):
    """What os-ken keeps of a switch's ports: those that are ours."""

    def __setitem__(self, number: int, port: Any) -> None:
        if number in App.numbers:
            super().__setitem__(number, port)


class Connection(osken_controller.Datapath):  # type: ignore[misc]
    """Its end is told when it ends. os-ken waits for its own threads first, up to an echo's interval; a switch that
    connects again in between would be taken for a second one under the same id."""

    taken = False
    """It is the switch that its id says."""

    @property
    def ports(self) -> Ports:
        return self._ports

    @ports.setter
    def ports(self, _: object) -> None:
        """os-ken begins with none."""
        self._ports = Ports()

    def close(self) -> None:
        """At once, also where the switch hangs: its machine would keep its end of the connection open. Its own thread
        tells of it: whoever tells waits for room among the events, also the one who takes them out."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def _recv_loop(self) -> None:
        try:
            super()._recv_loop()
        finally:
            self.set_state(DEAD_DISPATCHER)
            # Who sends waits for something to send, and this thread waits for that one.
            with contextlib.suppress(AttributeError):  # os-ken's: it has just ended
                self.send(b"", close_socket=True)


class OpenFlowServer:
    """Listens for switches; one per process (os-ken's applications are)."""

    def __init__(self, listen: str, events: Events, switches: Sequence[Switch]) -> None:
        """`switches`: that may connect."""
        self._switches, self._serving = switches, set[threading.Thread]()
        self._address = host_and_port(listen)
        self._events = events
        self._socket: socket.socket | None = None

    def start(self) -> None:
        """Raises SwitchError when the address is taken."""
        try:
            self._socket = socket.create_server(self._address, backlog=256, reuse_port=False)
        except OSError as error:
            raise SwitchError("listen", f"cannot listen for switches on {self._address[0]}:{self._address[1]}: "
                              f"{error.strerror or error}", what=f"{self._address[0]}:{self._address[1]}") from error
        cfg.CONF(args=[], project="os_ken", default_config_files=[])
        cfg.CONF.set_override("echo_request_interval", ECHO_S)
        cfg.CONF.set_override("maximum_unreplied_echo_requests", ECHOES_MISSED)
        App.sink = self._events
        App.numbers = frozenset(number for switch in self._switches for number in switch.numbers)
        # os-ken's threads inherit this flag from the one that starts them.
        threading.Thread(target=self._run, name="openflow", daemon=True).start()

    def _run(self) -> None:
        apps = AppManager.get_instance()
        for name in list(apps.applications):
            apps.uninstantiate(name)
        for cls in (Handshake, App):
            apps.instantiate(cls).start()
        server, said, turned = self._socket, False, -QUIET_S
        while server is not None and self._socket is not None:
            try:
                sock, address = server.accept()
            except OSError as error:
                if self._socket is not None and not said:
                    log.warning("cannot accept a switch's connection: %s", error.strerror)
                said = True
                time.sleep(ACCEPT_S)
                continue
            said = False
            if len(self._serving) >= 2 * len(self._switches) + CONNECTIONS_SPARE:
                sock.close()
                if time.monotonic() - turned > QUIET_S:
                    turned = time.monotonic()
                    text = f"{len(self._serving)} connections of switches: one from {address[0]} is turned away"
                    self._events.openflow_refused("too_many", text, None)
                continue
            thread = threading.Thread(target=self._serve, args=(sock, address), name=f"switch {address}", daemon=True)
            self._serving.add(thread)
            thread.start()

    def _serve(self, sock: socket.socket, address: Any) -> None:
        try:
            with contextlib.closing(Connection(sock, address)) as connection:
                connection.serve()
        except Exception as error:
            # os-ken's parser raises whatever it likes on a peer that is no switch.
            text = f"{address[0]}:{address[1]}: {type(error).__name__}: {error}"
            self._events.openflow_refused("not_openflow", text, None)
        finally:
            self._serving.discard(threading.current_thread())

    @property
    def address(self) -> str:
        assert self._socket is not None
        name = self._socket.getsockname()
        return f"{name[0]}:{name[1]}"

    @staticmethod
    def send(connection: Any, message: Message) -> None:
        for part in encode(connection, message):
            connection.send_msg(part)

    def stop(self) -> None:
        if self._socket is not None:
            sock, self._socket = self._socket, None
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
