"""The only file that speaks gRPC to switches: a thread per switch keeps its session; nothing is decided here."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import queue
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

# The modules of the `p4runtime` package were generated long ago: only protobuf's Python implementation takes them.
os.environ.setdefault("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")

import grpc
from google.protobuf.message import DecodeError
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

from datacast.controller.api.records import PortCounters, Program
from datacast.controller.p4runtime.entries import (
    LEARNED,
    LEASE,
    LEASE_MAX,
    Copies,
    Entry,
    Installed,
    Message,
    PacketOut,
    ReadCounters,
    Write,
    lease,
    leased,
)
from datacast.controller.southbound.config import Pipeline, Switch
from datacast.controller.southbound.errors import SwitchError
from datacast.controller.southbound.state import PortInfo

log = logging.getLogger("datacast.controller.p4runtime")

RETRY_S = 0.5
RPC_S = 5.0
ARBITRATION_S = 3.0
RENEW_S, LEASE_S = 1.0, 4.0
"""A controller that leads renews its lease, and by that hears that the switch is there. Another one that sees it stand
still for so long follows it."""
WAITING_MAX = 4096
"""Frames and answers on their way to one switch."""
OK = 0
ENTITIES_MAX = 65_536
"""Of one answer. A program's tables, the learned addresses among them, hold some thousands."""

DIGEST_NS, DIGEST_ACK_NS, DIGEST_LIST = 5_000_000, 1_000_000_000, 64
"""Addresses seen are told after at most so long, so many at once; the same one again when it was not confirmed."""


@dataclass(frozen=True)
class Needed:
    """Of a program, by name: tables with their fields, actions with their parameters, counters."""

    tables: dict[str, set[str]]
    actions: dict[str, set[str]]
    counters: set[str]


NEEDED = Needed({"segment": {"label"}, "link": {"port"}, "bridging": {"group"}, "source": {"address"},
                 "destination": {"address"}},
                {"forward": {"port"}, "address": {"dst", "src"}, "bridge": {"low", "high"}, "lives_at": {"port"},
                 "to": {"port"}},
                {"port_rx", "port_tx", "drop_reason"})
"""What this controller uses of any pipeline; p4info must have it."""
NEEDED_BESIDE_AN_APPLIANCE = Needed({"replicate_from": {"port"}}, {"appliance": {"port"}, "replicate": set()}, set())
NEEDED_OF_A_NODE = Needed({"service": {"label"}}, {"serve": {"low", "high", "retx_min", "capacity"}},
                          {"node_events", "node_data_events"})


class Events(Protocol):
    """What the shim tells. Calls come from the switches' threads."""

    def p4_connected(self, name: str, connection: Any, ports: list[PortInfo], peer: str, pipeline: Program,
                     have: Any, learned: list[Entry]) -> None: ...
    def p4_disconnected(self, name: str, connection: Any) -> None: ...
    def p4_packet(self, name: str, number: int, frame: bytes) -> None: ...
    def p4_learned(self, name: str, address: int, number: int) -> None: ...
    def p4_aged(self, name: str, address: int) -> None: ...
    def p4_counters(self, name: str, ports: dict[int, PortCounters], rules: dict[Any, dict[str, int]],
                    drops: dict[int, int], node: dict[int, int]) -> None: ...
    def p4_refused(self, code: str, text: str, name: str) -> None: ...


class Info:
    """A pipeline's names and numbers, from p4info. Raises SwitchError when it is not our program's."""

    def __init__(self, pipeline: Pipeline, *, node: bool = False) -> None:
        """`node`: of p4src/node.p4."""
        try:
            self.device_config = Path(pipeline.json_file).read_bytes()
            binary = Path(pipeline.p4info).read_bytes()
        except OSError as error:
            raise SwitchError("pipeline", f"cannot read the pipeline {error.filename}: {error.strerror}; compile it "
                              "with `make p4`", what=str(error.filename)) from error
        self.p4info = p4info_pb2.P4Info()
        try:
            self.p4info.ParseFromString(binary)
        except DecodeError as error:
            text = f"{pipeline.p4info} is no p4info in binary form: {error}; make it with `make p4`"
            raise SwitchError("pipeline", text, what=pipeline.p4info) from error
        self.cookie = int.from_bytes(hashlib.sha256(self.device_config + binary).digest()[:8], "big") >> 1
        self.tables = {t.preamble.alias: t for t in self.p4info.tables}
        self.actions = {a.preamble.alias: a for a in self.p4info.actions}
        self.counters = {c.preamble.alias: c for c in self.p4info.counters}
        self._check(pipeline.p4info, NEEDED)
        self._check(pipeline.p4info, NEEDED_OF_A_NODE if node else NEEDED_BESIDE_AN_APPLIANCE)
        packets = {p.preamble.alias: {m.name: m.id for m in p.metadata}
                   for p in self.p4info.controller_packet_metadata}
        try:
            self.packet_in_port = packets["packet_in"]["ingress_port"]
            self.packet_out_ids = packets["packet_out"]
            self.packet_out_port = self.packet_out_ids["egress_port"]
        except KeyError as error:
            raise SwitchError("pipeline", f"{pipeline.p4info} does not match this controller: its packets from and to "
                              f"the controller have no {error}; compile again with `make p4`",
                              what=pipeline.p4info) from error
        self.digests = [d.preamble.id for d in self.p4info.digests]
        self.table_names = {t.preamble.id: name for name, t in self.tables.items()}
        self.action_names = {a.preamble.id: name for name, a in self.actions.items()}
        self.counter_names = {c.preamble.id: name for name, c in self.counters.items()}

    def _check(self, where: str, needed: Needed) -> None:
        missing = [f"table {t}" for t, fields in needed.tables.items()
                   if t not in self.tables or {f.name for f in self.tables[t].match_fields} != fields]
        missing += [f"action {a}" for a, params in needed.actions.items()
                    if a not in self.actions or {p.name for p in self.actions[a].params} != params]
        missing += [f"counter {c}" for c in sorted(needed.counters) if c not in self.counters]
        if missing:
            raise SwitchError("pipeline", f"{where} does not match this controller: it lacks {', '.join(missing)} as "
                              "p4src/ has them; compile again with `make p4`", what=where)

    # ---- our values and theirs ----
    def to_wire(self, entry: Entry) -> Any:
        out = p4runtime_pb2.TableEntry(table_id=self.tables[entry.table].preamble.id)
        match = out.match.add(field_id=next(f.id for f in self.tables[entry.table].match_fields
                                            if f.name == entry.field))
        match.exact.value = _bytes(entry.value)
        action = self.actions[entry.action]
        out.action.action.action_id = action.preamble.id
        ids = {p.name: p.id for p in action.params}
        for name, value in entry.params:
            out.action.action.params.add(param_id=ids[name], value=_bytes(value))
        out.idle_timeout_ns = int(entry.life_s * 1e9)
        return out

    def from_wire(self, entry: Any) -> Entry | None:
        table = self.table_names.get(entry.table_id)
        if table is None or entry.is_default_action or len(entry.match) != 1:
            return None
        action = self.actions[self.action_names[entry.action.action.action_id]]
        values = {p.param_id: int.from_bytes(p.value, "big") for p in entry.action.action.params}
        return Entry(table, self.tables[table].match_fields[0].name,
                     int.from_bytes(entry.match[0].exact.value, "big"), action.preamble.alias,
                     tuple((p.name, values[p.id]) for p in action.params))


def _bytes(value: int) -> bytes:
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def new_election() -> int:
    """An election id: of two controllers the later one wins."""
    return time.time_ns() // 1000


class Connection:
    """One live session with one switch. `election`: see P4RuntimeClient."""

    def __init__(self, switch: Switch, info: Info, events: Events, election: int) -> None:
        assert switch.p4runtime is not None
        self.switch = switch
        self.info = info
        self.events = events
        self.device = switch.p4runtime.device_id
        self.election = p4runtime_pb2.Uint128(low=election)
        self.channel = grpc.insecure_channel(switch.p4runtime.address,
                                             options=[("grpc.max_receive_message_length", 64 << 20),
                                                      ("grpc.enable_http_proxy", 0)])
        self.stub = p4runtime_pb2_grpc.P4RuntimeStub(self.channel)
        self._out: queue.Queue[Any] = queue.Queue(WAITING_MAX)
        self.leased: int | None = None
        """What the lease in the switch says."""
        self.highest = 0
        """The election id of who leads it."""
        self._primary: queue.Queue[str | None] = queue.Queue()

    def _say(self, request: Any) -> None:
        """Over the stream. Raises SwitchError where the switch takes nothing any more."""
        try:
            self._out.put_nowait(request)
        except queue.Full:
            raise SwitchError("wedged", "it takes nothing any more", what=self.switch.name) from None

    def _requests(self) -> Iterator[Any]:
        while (request := self._out.get()) is not None:
            yield request

    def open(self) -> bool:
        """Become primary and have the pipeline running. Returns whether it was pushed.

        Raises grpc.RpcError, grpc.FutureTimeoutError, SwitchError.
        """
        grpc.channel_ready_future(self.channel).result(timeout=ARBITRATION_S)
        request = p4runtime_pb2.StreamMessageRequest()
        request.arbitration.device_id = self.device
        request.arbitration.election_id.CopyFrom(self.election)
        self._say(request)
        self._stream = self.stub.StreamChannel(self._requests())
        threading.Thread(target=self._listen, name=f"p4runtime {self.switch.name}", daemon=True).start()
        try:
            lost = self._primary.get(timeout=ARBITRATION_S)
        except queue.Empty:
            raise SwitchError("unreachable", f"{self.switch.name} does not answer the arbitration",
                              what=self.switch.name) from None
        if lost is not None:
            self.leased = self.lease()
            raise SwitchError("arbitration", f"arbitration lost: {lost}; another controller drives this switch",
                              what=self.switch.name)
        request = p4runtime_pb2.GetForwardingPipelineConfigRequest(
            device_id=self.device, response_type=p4runtime_pb2.GetForwardingPipelineConfigRequest.COOKIE_ONLY)
        try:
            answer = self.stub.GetForwardingPipelineConfig(request, timeout=RPC_S)
            if answer.config.cookie.cookie == self.info.cookie:
                return False
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.FAILED_PRECONDITION:  # there is none yet
                raise
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest(
            device_id=self.device, election_id=self.election,
            action=p4runtime_pb2.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT)
        request.config.p4info.CopyFrom(self.info.p4info)
        request.config.p4_device_config = self.info.device_config
        request.config.cookie.cookie = self.info.cookie
        self.stub.SetForwardingPipelineConfig(request, timeout=RPC_S * 4)
        return True

    def subscribe(self) -> None:
        """Have the addresses that it sees told. Raises grpc.RpcError."""
        for digest in self.info.digests:
            for kind in (p4runtime_pb2.Update.INSERT, p4runtime_pb2.Update.MODIFY):
                request = p4runtime_pb2.WriteRequest(device_id=self.device, election_id=self.election)
                entry = request.updates.add(type=kind).entity.digest_entry
                entry.digest_id = digest
                entry.config.max_timeout_ns, entry.config.max_list_size = DIGEST_NS, DIGEST_LIST
                entry.config.ack_timeout_ns = DIGEST_ACK_NS
                try:
                    self.stub.Write(request, timeout=RPC_S)
                    break
                except grpc.RpcError:  # an earlier controller has subscribed: ours is to hold
                    if kind == p4runtime_pb2.Update.MODIFY:
                        raise

    def _listen(self) -> None:
        reason = "closed by the switch"
        primary = False
        try:
            for message in self._stream:
                if message.HasField("arbitration"):
                    status = message.arbitration.status
                    if status.code != OK and primary:
                        self.events.p4_refused("arbitration", "arbitration lost: " + (status.message or "another "
                                               "controller took over"), self.switch.name)
                        break
                    primary, self.highest = status.code == OK, message.arbitration.election_id.low
                    self._primary.put(None if primary else status.message or f"status {status.code}")
                elif message.HasField("packet"):
                    meta = {m.metadata_id: int.from_bytes(m.value, "big") for m in message.packet.metadata}
                    number = meta.get(self.info.packet_in_port, -1)
                    self.events.p4_packet(self.switch.name, number, message.packet.payload)
                elif message.HasField("digest"):
                    self._digest(message.digest)
                elif message.HasField("idle_timeout_notification"):
                    for entry in message.idle_timeout_notification.table_entry:
                        self.events.p4_aged(self.switch.name, int.from_bytes(entry.match[0].exact.value, "big"))
        except grpc.RpcError as error:
            reason = error.details() or str(error.code())
        except (LookupError, ValueError, SwitchError) as error:
            reason = f"it tells what cannot be read: {error!r}"
            self.events.p4_refused("p4runtime", reason, self.switch.name)
        self._primary.put(reason)
        self.events.p4_disconnected(self.switch.name, self)
        self.close()

    def _digest(self, told: Any) -> None:
        for data in told.data:
            address, number = (int.from_bytes(m.bitstring, "big") for m in data.struct.members)
            self.events.p4_learned(self.switch.name, address, number)
        request = p4runtime_pb2.StreamMessageRequest()
        request.digest_ack.digest_id, request.digest_ack.list_id = told.digest_id, told.list_id
        self._say(request)

    def _read(self, *entities: Any) -> Iterator[Any]:
        request = p4runtime_pb2.ReadRequest(device_id=self.device)
        for entity in entities:
            request.entities.add().CopyFrom(entity)
        told, answers = 0, self.stub.Read(request, timeout=RPC_S)
        for answer in answers:
            told += len(answer.entities)
            if told > ENTITIES_MAX:
                answers.cancel()
                raise SwitchError("p4runtime", f"it tells of more than {ENTITIES_MAX} entries", what=self.switch.name)
            yield from answer.entities

    def installed(self) -> tuple[Installed, list[Entry]]:
        """What stands in the tables and the replication engine, and the learned entries."""
        tables = [p4runtime_pb2.Entity(table_entry=p4runtime_pb2.TableEntry(table_id=t.preamble.id))
                  for t in self.info.tables.values()]
        found = [self.info.from_wire(e.table_entry) for e in self._read(*tables)]
        entries = [entry for entry in found if entry is not None]
        sets = {one.key: one for one in (*self._copies(clones=False), *self._copies(clones=True))}
        self.leased = leased(sets.pop(LEASE, None))
        return (Installed({e.key: e for e in entries if e.table not in LEARNED}, sets),
                [e for e in entries if e.table in LEARNED])

    def _copies(self, *, clones: bool) -> Iterator[Copies]:
        asked = p4runtime_pb2.Entity()
        engine = asked.packet_replication_engine_entry
        (engine.clone_session_entry if clones else engine.multicast_group_entry).SetInParent()
        for e in self._read(asked):
            engine = e.packet_replication_engine_entry
            one = engine.clone_session_entry if clones else engine.multicast_group_entry
            number = one.session_id if clones else one.multicast_group_id
            yield Copies(number, frozenset((r.egress_port, r.instance) for r in one.replicas), clones)

    def lease(self) -> int | None:
        """What it says now. Raises grpc.RpcError."""
        return leased(next((one for one in self._copies(clones=False) if one.key == LEASE), None))

    # ---- out ----
    def renew(self) -> None:
        """This controller is there; and so is the switch. Raises grpc.RpcError."""
        kind = "modify" if self.leased else "insert"
        self.leased = 1 + (self.leased or 0) % LEASE_MAX
        self.send([Write(kind, lease(self.leased, self.switch.numbers))])

    def send(self, messages: Iterable[Message]) -> None:
        """Raises grpc.RpcError when the switch refuses a write."""
        writes = [m for m in messages if isinstance(m, Write)]
        if writes:
            request = p4runtime_pb2.WriteRequest(device_id=self.device, election_id=self.election)
            for write in writes:
                update = request.updates.add(type=getattr(p4runtime_pb2.Update, write.kind.upper()))
                if isinstance(write.what, Copies):
                    engine = update.entity.packet_replication_engine_entry
                    if write.what.clones:
                        engine.clone_session_entry.session_id = write.what.group
                    else:
                        engine.multicast_group_entry.multicast_group_id = write.what.group
                    one = engine.clone_session_entry if write.what.clones else engine.multicast_group_entry
                    for port, instance in sorted(write.what.replicas):
                        one.replicas.add(egress_port=port, instance=instance)
                else:
                    update.entity.table_entry.CopyFrom(self.info.to_wire(write.what))
            self.stub.Write(request, timeout=RPC_S)
        for message in messages:
            if isinstance(message, PacketOut):
                request = p4runtime_pb2.StreamMessageRequest()
                request.packet.payload = message.data
                for i in self.info.packet_out_ids.values():
                    number = message.number if i == self.info.packet_out_port else 0
                    request.packet.metadata.add(metadata_id=i, value=_bytes(number))
                self._say(request)
            elif isinstance(message, ReadCounters):
                self._counters()

    def _counters(self) -> None:
        rules: dict[tuple[str, int], dict[str, int]] = {}
        ports: dict[int, dict[str, int]] = {}
        drops: dict[int, int] = {}
        node: dict[int, int] = {}
        direct = []
        for table in self.info.tables.values():
            entry = p4runtime_pb2.TableEntry(table_id=table.preamble.id)
            entry.counter_data.SetInParent()
            direct.append(p4runtime_pb2.Entity(table_entry=entry))
        for e in self._read(*direct):
            found = self.info.from_wire(e.table_entry)
            if found is not None:
                data = e.table_entry.counter_data
                rules[found.key] = {"packets": data.packet_count, "bytes": data.byte_count}
        wanted = [p.number for p in self.switch.ports]
        if self.switch.appliance:
            wanted.append(self.switch.appliance.number)
        indexed = [("port_rx", n) for n in wanted] + [("port_tx", n) for n in wanted]
        indexed += [(name, n) for name in ("drop_reason", "node_events", "node_data_events")
                    if name in self.info.counters for n in range(self.info.counters[name].size)]
        entities = []
        for name, index in indexed:
            entity = p4runtime_pb2.Entity()
            entity.counter_entry.counter_id = self.info.counters[name].preamble.id
            entity.counter_entry.index.index = index
            entities.append(entity)
        for e in self._read(*entities):
            name, index = self.info.counter_names[e.counter_entry.counter_id], e.counter_entry.index.index
            data = e.counter_entry.data
            if name == "drop_reason":
                drops[index] = data.packet_count
            elif name.startswith("node_"):
                node[index] = node.get(index, 0) + data.packet_count
            else:
                way = name.removeprefix("port_")
                ports.setdefault(index, {}).update({f"{way}_frames": data.packet_count,
                                                    f"{way}_bytes": data.byte_count})
        counters = {number: PortCounters(**counts) for number, counts in ports.items()}
        self.events.p4_counters(self.switch.name, counters, rules, drops, node)

    def close(self) -> None:
        with contextlib.suppress(queue.Full):  # then nobody waits for more
            self._out.put_nowait(None)
        self.channel.close()


class P4RuntimeClient:
    """Keeps a session with one switch, for ever.

    Its election id stays the same: who loses to a later controller waits until that one is gone, and does not fight.
    """

    def __init__(self, switch: Switch, info: Info, events: Events) -> None:
        self.switch = switch
        self.info = info
        self.events = events
        self._election = new_election()
        self._stopped = threading.Event()
        self._lost = threading.Event()
        self._leased: tuple[int | None, float] = None, 0.0
        """What the lease of another controller says, and since when."""
        self._connection: Connection | None = None
        self._thread = threading.Thread(target=self._run, name=f"p4runtime {switch.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def lost(self, connection: object) -> None:
        """A session ended: begin another one, unless that is done."""
        if connection is self._connection:
            self._lost.set()

    def _run(self) -> None:
        assert self.switch.p4runtime is not None
        last = ""
        while not self._stopped.is_set():
            self._connection = connection = Connection(self.switch, self.info, self.events, self._election)
            self._lost.clear()  # from here on it is this one that may be lost
            if self._stopped.is_set():  # before it was there to be closed
                connection.close()
                return
            try:
                pushed = connection.open()
                pipeline = Program(arch=self.info.p4info.pkg_info.arch, cookie=f"{self.info.cookie:016x}",
                                   pushed=pushed, tables={n: t.size for n, t in self.info.tables.items()})
                ports = [PortInfo(p.number, p.mac or "02:00:00:00:00:01", True) for p in self.switch.ports]
                if self.switch.appliance:
                    ports.append(PortInfo(self.switch.appliance.number, "02:00:00:00:00:01", True))
                have, learned = connection.installed()
                last = ""
                self.events.p4_connected(self.switch.name, connection, ports, self.switch.p4runtime.address, pipeline,
                                         have, learned)
                connection.subscribe()
                while not self._lost.wait(RENEW_S):
                    connection.renew()
            except (grpc.RpcError, grpc.FutureTimeoutError, SwitchError, ValueError, LookupError) as error:
                # ValueError is gRPC's where the session has ended meanwhile, and its channel was closed with it.
                code, text = _explain(error, self.switch.p4runtime.address)
                if text != last:
                    self.events.p4_refused(code, text, self.switch.name)
                last = text
                if code == "arbitration":
                    self._look_after(connection)
                connection.close()
            self._stopped.wait(RETRY_S)

    def _look_after(self, connection: Connection) -> None:
        """Whether who leads the switch renews its lease. One that hangs keeps its session: it is outdone."""
        now = time.monotonic()
        if connection.leased is None or connection.leased != self._leased[0]:
            self._leased = connection.leased, now
        elif now - self._leased[1] > LEASE_S:
            self._leased = None, now
            self._election = max(new_election(), connection.highest + 1)
            text = "the controller that leads this switch renews nothing any more: this one follows"
            self.events.p4_refused("arbitration", text, self.switch.name)

    def stop(self) -> None:
        self._stopped.set()
        self._lost.set()
        if self._connection is not None:
            self._connection.close()


def _explain(error: Exception, address: str) -> tuple[str, str]:
    if isinstance(error, SwitchError):
        return error.code, error.message
    if isinstance(error, grpc.FutureTimeoutError):
        return "unreachable", f"no P4Runtime server at {address}"
    if isinstance(error, grpc.RpcError) and error.code() == grpc.StatusCode.PERMISSION_DENIED:
        return "arbitration", f"arbitration lost: {error.details()}"
    if isinstance(error, grpc.RpcError) and error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
        return "unreachable", f"the switch at {address} does not answer"
    if isinstance(error, LookupError):
        return "p4runtime", f"{address} answers what cannot be read: {error!r}"
    return "p4runtime", f"{address}: {getattr(error, 'details', lambda: error)()}"
