"""The only file that speaks gRPC to switches: a thread per switch keeps its session; nothing is decided here."""

from __future__ import annotations

import hashlib
import logging
import os
import queue
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

# The modules of the `p4runtime` package were generated long ago: only protobuf's Python implementation takes them.
os.environ.setdefault("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")

import grpc
from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

from datacast.controller.p4runtime.entries import (
    FLOOD_GROUP,
    Entry,
    FloodGroup,
    Message,
    PacketOut,
    ReadCounters,
    Write,
)
from datacast.controller.southbound.config import Pipeline, Switch
from datacast.controller.southbound.errors import SwitchError
from datacast.controller.southbound.state import PortInfo

log = logging.getLogger("datacast.controller.p4runtime")

RETRY_S = 0.5
RPC_S = 5.0
ARBITRATION_S = 3.0
OK = 0

NEEDED = {"tables": {"segment": {"label"}, "member": {"port"}},
          "actions": {"forward": {"port", "dst", "src"}, "appliance": {"port"}, "bridge": set()},
          "counters": {"port_rx", "port_tx", "drop_reason"}}
"""What this controller uses of the pipeline; p4info must have it."""


class Events(Protocol):
    """What the shim tells. Calls come from the switches' threads."""

    def p4_connected(self, name: str, connection: Any, ports: list[PortInfo], peer: str, pipeline: dict[str, Any],
                     have: Any) -> None: ...
    def p4_disconnected(self, name: str, connection: Any) -> None: ...
    def p4_packet(self, name: str, number: int, frame: bytes) -> None: ...
    def p4_counters(self, name: str, ports: dict[int, dict[str, int]], rules: dict[Any, dict[str, int]],
                    drops: dict[int, int]) -> None: ...
    def p4_refused(self, code: str, text: str, name: str) -> None: ...


class Info:
    """A pipeline's names and numbers, from p4info. Raises SwitchError when it is not our program's."""

    def __init__(self, pipeline: Pipeline) -> None:
        try:
            self.device_config = Path(pipeline.json_file).read_bytes()
            text = Path(pipeline.p4info).read_text()
        except OSError as error:
            raise SwitchError("pipeline", f"cannot read the pipeline {error.filename}: {error.strerror}; compile it "
                              "with `make p4`", what=str(error.filename)) from error
        self.p4info = p4info_pb2.P4Info()
        try:
            text_format.Parse(text, self.p4info)
        except text_format.ParseError as error:
            text = f"{pipeline.p4info} is no p4info: {error}; make it with `make p4`"
            raise SwitchError("pipeline", text, what=pipeline.p4info) from error
        self.cookie = int.from_bytes(hashlib.sha256(self.device_config + text.encode()).digest()[:8], "big") >> 1
        self.tables = {t.preamble.alias: t for t in self.p4info.tables}
        self.actions = {a.preamble.alias: a for a in self.p4info.actions}
        self.counters = {c.preamble.alias: c for c in self.p4info.counters}
        self._check(pipeline.p4info)
        self.table_names = {t.preamble.id: name for name, t in self.tables.items()}
        self.action_names = {a.preamble.id: name for name, a in self.actions.items()}
        self.counter_names = {c.preamble.id: name for name, c in self.counters.items()}

    def _check(self, where: str) -> None:
        missing = [f"table {t}" for t, fields in NEEDED["tables"].items()
                   if t not in self.tables or {f.name for f in self.tables[t].match_fields} != fields]
        missing += [f"action {a}" for a, params in NEEDED["actions"].items()
                    if a not in self.actions or {p.name for p in self.actions[a].params} != params]
        missing += [f"counter {c}" for c in NEEDED["counters"] if c not in self.counters]
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
        self._out: queue.Queue[Any] = queue.Queue()
        self._primary: queue.Queue[str | None] = queue.Queue()

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
        self._out.put(request)
        self._stream = self.stub.StreamChannel(self._requests())
        threading.Thread(target=self._listen, name=f"p4runtime {self.switch.name}", daemon=True).start()
        try:
            lost = self._primary.get(timeout=ARBITRATION_S)
        except queue.Empty:
            lost = "no answer to the arbitration"
        if lost is not None:
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
                    primary = status.code == OK
                    self._primary.put(None if primary else status.message or f"status {status.code}")
                elif message.HasField("packet"):
                    meta = {m.metadata_id: int.from_bytes(m.value, "big") for m in message.packet.metadata}
                    self.events.p4_packet(self.switch.name, meta.get(1, -1), message.packet.payload)
        except grpc.RpcError as error:
            reason = error.details() or str(error.code())
        self._primary.put(reason)
        self.events.p4_disconnected(self.switch.name, self)
        self.close()

    def _read(self, *entities: Any) -> Iterator[Any]:
        request = p4runtime_pb2.ReadRequest(device_id=self.device)
        for entity in entities:
            request.entities.add().CopyFrom(entity)
        for answer in self.stub.Read(request, timeout=RPC_S):
            yield from answer.entities

    def installed(self) -> tuple[dict[tuple[str, int], Entry], frozenset[int] | None]:
        """What stands in the tables, and the flood group."""
        tables = [p4runtime_pb2.Entity(table_entry=p4runtime_pb2.TableEntry(table_id=t.preamble.id))
                  for t in self.info.tables.values()]
        found = (self.info.from_wire(e.table_entry) for e in self._read(*tables))
        entries = {entry.key: entry for entry in found if entry is not None}
        group = None
        wanted = p4runtime_pb2.Entity()
        wanted.packet_replication_engine_entry.multicast_group_entry.multicast_group_id = FLOOD_GROUP
        try:
            for e in self._read(wanted):
                replicas = e.packet_replication_engine_entry.multicast_group_entry.replicas
                group = frozenset(r.egress_port for r in replicas)
        except grpc.RpcError as error:
            if error.code() not in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT):
                raise
        return entries, group

    # ---- out ----
    def send(self, messages: Iterable[Message]) -> None:
        """Raises grpc.RpcError when the switch refuses a write."""
        writes = [m for m in messages if isinstance(m, Write)]
        if writes:
            request = p4runtime_pb2.WriteRequest(device_id=self.device, election_id=self.election)
            for write in writes:
                update = request.updates.add(type=getattr(p4runtime_pb2.Update, write.kind.upper()))
                if isinstance(write.what, FloodGroup):
                    group = update.entity.packet_replication_engine_entry.multicast_group_entry
                    group.multicast_group_id = FLOOD_GROUP
                    for port in sorted(write.what.ports):
                        group.replicas.add(egress_port=port, instance=1)
                else:
                    update.entity.table_entry.CopyFrom(self.info.to_wire(write.what))
            self.stub.Write(request, timeout=RPC_S)
        for message in messages:
            if isinstance(message, PacketOut):
                request = p4runtime_pb2.StreamMessageRequest()
                request.packet.payload = message.data
                request.packet.metadata.add(metadata_id=1, value=_bytes(message.number))
                request.packet.metadata.add(metadata_id=2, value=b"\0")
                self._out.put(request)
            elif isinstance(message, ReadCounters):
                self._counters()

    def _counters(self) -> None:
        rules, ports, drops = {}, {}, {}
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
        indexed += [("drop_reason", n) for n in range(self.info.counters["drop_reason"].size)]
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
            else:
                way = name.removeprefix("port_")
                ports.setdefault(index, {}).update({f"{way}_frames": data.packet_count,
                                                    f"{way}_bytes": data.byte_count})
        self.events.p4_counters(self.switch.name, ports, rules, drops)

    def close(self) -> None:
        self._out.put(None)
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
        self._connection: Connection | None = None
        self._thread = threading.Thread(target=self._run, name=f"p4runtime {switch.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def lost(self) -> None:
        """The session ended: begin another."""
        self._lost.set()

    def _run(self) -> None:
        assert self.switch.p4runtime is not None
        last = ""
        while not self._stopped.is_set():
            self._lost.clear()
            connection = Connection(self.switch, self.info, self.events, self._election)
            self._connection = connection
            try:
                pushed = connection.open()
                pipeline = {"arch": self.info.p4info.pkg_info.arch, "cookie": f"{self.info.cookie:016x}",
                            "pushed": pushed, "tables": {n: t.size for n, t in self.info.tables.items()}}
                ports = [PortInfo(p.number, p.mac or "02:00:00:00:00:01", True) for p in self.switch.ports]
                if self.switch.appliance:
                    ports.append(PortInfo(self.switch.appliance.number, "02:00:00:00:00:01", True))
                have = connection.installed()
                last = ""
                self.events.p4_connected(self.switch.name, connection, ports, self.switch.p4runtime.address, pipeline,
                                         have)
                self._lost.wait()
            except (grpc.RpcError, grpc.FutureTimeoutError, SwitchError) as error:
                code, text = _explain(error, self.switch.p4runtime.address)
                if text != last:
                    self.events.p4_refused(code, text, self.switch.name)
                last = text
                connection.close()
            self._stopped.wait(RETRY_S)

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
    return "p4runtime", f"{address}: {getattr(error, 'details', lambda: error)()}"
