"""A P4Runtime switch of tables alone: what a controller writes is there to be read, and no frame goes anywhere.

It refuses what P4Runtime has refused: writes of one that is not primary, an entry that is there already or is not.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"  # else it opens files in all that this process forks from then on
from datacast.controller.p4runtime import shim  # it says which protobuf the generated modules take
from datacast.core.constants import P4_GROUP_LEASE

import grpc  # isort: skip
from p4.config.v1 import p4info_pb2  # isort: skip
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc  # isort: skip

OK, TAKEN = 0, 6
TABLES = {**shim.NEEDED.tables, **shim.NEEDED_BESIDE_AN_APPLIANCE.tables, **shim.NEEDED_OF_A_NODE.tables}
ACTIONS = {**shim.NEEDED.actions, **shim.NEEDED_BESIDE_AN_APPLIANCE.actions, **shim.NEEDED_OF_A_NODE.actions}
IN_ORDER = ("low", "high", "retx_min", "capacity", "dst", "src", "port")
"""Parameters, as the actions of p4src/ have them."""
COUNTERS = sorted(shim.NEEDED.counters | shim.NEEDED_OF_A_NODE.counters)
DIGEST = 77


def program(without: str = "", packets: bool = True) -> Any:
    """The p4info of a program that has all that the controller needs, in each of its ways, but what is named."""
    info = p4info_pb2.P4Info()
    info.pkg_info.arch = "v1model"
    for number, (name, fields) in enumerate(TABLES.items(), 1):
        if name != without:
            table = info.tables.add(size=1024)
            table.preamble.id, table.preamble.alias = 100 + number, name
            for at, field in enumerate(sorted(fields), 1):
                table.match_fields.add(id=at, name=field)
    for number, (name, params) in enumerate(ACTIONS.items(), 1):
        if name != without:
            action = info.actions.add()
            action.preamble.id, action.preamble.alias = 200 + number, name
            for at, param in enumerate(sorted(params, key=IN_ORDER.index), 1):
                action.params.add(id=at, name=param)
    for number, name in enumerate(COUNTERS, 1):
        if name != without:
            counter = info.counters.add(size=4)
            counter.preamble.id, counter.preamble.alias = 300 + number, name
    info.digests.add().preamble.id = DIGEST
    if packets:
        for number, (name, field) in enumerate((("packet_in", "ingress_port"), ("packet_out", "egress_port"))):
            one = info.controller_packet_metadata.add()
            one.preamble.id, one.preamble.alias = 400 + number, name
            one.metadata.add(id=1, name=field)
    return info


def compiled(folder: Path, info: Any) -> dict[str, str]:
    """As the configuration names a pipeline."""
    (folder / "program.json").write_text("{}")
    (folder / "program.p4info.bin").write_bytes(info.SerializeToString())
    return {"json": str(folder / "program.json"), "p4info": str(folder / "program.p4info.bin")}


class P4Switch(p4runtime_pb2_grpc.P4RuntimeServicer):
    def __init__(self, port: int = 0) -> None:
        self.cookie = 0
        self.entries: dict[bytes, Any] = {}
        """Of tables, groups of ports, clone sessions and digests, by what names each. Never changed, only replaced:
        readers are other threads."""
        self.writes, self.pushed = 0, 0
        self.refuses = 0
        """So many of the next writes."""
        self.renewals = 0
        """Writes of a lease."""
        self.goes_on = threading.Event()
        """Cleared: it hangs. Its connections stay, and nobody has an answer."""
        self.goes_on.set()
        self.endless = False
        """It answers again and again what it was asked."""
        self.frames: list[tuple[int, bytes]] = []
        """That were to leave, and by which port."""
        self.heard: list[int] = []
        """Lists of addresses that the controller has confirmed."""
        self.primary: tuple[int, queue.Queue[Any]] | None = None
        self._lock = threading.Lock()
        self.server = grpc.server(ThreadPoolExecutor(32))
        p4runtime_pb2_grpc.add_P4RuntimeServicer_to_server(self, self.server)
        self.port = self.server.add_insecure_port(f"127.0.0.1:{port}")
        self.server.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def stop(self) -> None:
        self.goes_on.set()
        self.server.stop(0).wait()

    # ---- what it tells ----
    def tell(self, **what: Any) -> None:
        assert self.primary is not None
        self.primary[1].put(p4runtime_pb2.StreamMessageResponse(**what))

    def sees(self, address: int, port: int) -> None:
        """A frame from an address that it does not know there."""
        told = p4runtime_pb2.DigestList(digest_id=DIGEST, list_id=1 + len(self.heard))
        members = told.data.add().struct.members
        for value, width in ((address, 6), (port, 2)):
            members.add(bitstring=value.to_bytes(width, "big"))
        self.tell(digest=told)

    def forgets(self, address: int) -> None:
        """Nothing was heard of it for its time."""
        old = p4runtime_pb2.IdleTimeoutNotification()
        old.table_entry.add().match.add(field_id=1).exact.value = address.to_bytes(6, "big")
        self.tell(idle_timeout_notification=old)

    def brings(self, port: int, frame: bytes) -> None:
        packet = p4runtime_pb2.PacketIn(payload=frame)
        packet.metadata.add(metadata_id=1, value=port.to_bytes(2, "big"))
        self.tell(packet=packet)

    # ---- P4Runtime ----
    def StreamChannel(self, requests: Any, context: Any) -> Iterator[Any]:
        out: queue.Queue[Any] = queue.Queue()
        threading.Thread(target=self._requests, args=(requests, out), daemon=True).start()
        context.add_callback(lambda: out.put(None))
        while (message := out.get()) is not None:
            yield message

    def _requests(self, requests: Any, out: queue.Queue[Any]) -> None:
        try:
            for request in requests:
                if request.HasField("arbitration"):
                    self._arbitrate(request.arbitration.election_id.low, out)
                elif request.HasField("packet"):
                    number = int.from_bytes(request.packet.metadata[0].value, "big")
                    self.frames.append((number, request.packet.payload))
                elif request.HasField("digest_ack"):
                    self.heard.append(request.digest_ack.list_id)
        except grpc.RpcError:
            pass
        with self._lock:
            if self.primary is not None and self.primary[1] is out:
                self.primary = None
        out.put(None)

    def _arbitrate(self, election: int, out: queue.Queue[Any]) -> None:
        with self._lock:
            before, wins = self.primary, self.primary is None or election > self.primary[0]
            if wins:
                self.primary = election, out
        for told, code in ((out, OK if wins else TAKEN), *([(before[1], TAKEN)] if before and wins else [])):
            answer = p4runtime_pb2.StreamMessageResponse()
            answer.arbitration.status.code = code
            answer.arbitration.election_id.low = election if wins or before is None else before[0]
            told.put(answer)

    def _only_primary(self, request: Any, context: Any) -> None:
        if self.primary is None or request.election_id.low != self.primary[0]:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "not primary")

    def GetForwardingPipelineConfig(self, request: Any, context: Any) -> Any:
        self.goes_on.wait()
        if not self.cookie:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no pipeline")
        answer = p4runtime_pb2.GetForwardingPipelineConfigResponse()
        answer.config.cookie.cookie = self.cookie
        return answer

    def SetForwardingPipelineConfig(self, request: Any, context: Any) -> Any:
        self._only_primary(request, context)
        self.cookie = request.config.cookie.cookie
        self.entries = {}
        self.pushed += 1
        return p4runtime_pb2.SetForwardingPipelineConfigResponse()

    @staticmethod
    def _named(entity: Any) -> bytes:
        """What stays the same of an entity, whatever is written into it."""
        kind, name = entity.WhichOneof("entity"), p4runtime_pb2.Entity()
        if kind == "table_entry":
            name.table_entry.table_id = entity.table_entry.table_id
            name.table_entry.match.extend(entity.table_entry.match)
        elif kind == "digest_entry":
            name.digest_entry.digest_id = entity.digest_entry.digest_id
        else:
            one, its = entity.packet_replication_engine_entry, name.packet_replication_engine_entry
            if one.HasField("clone_session_entry"):
                its.clone_session_entry.session_id = one.clone_session_entry.session_id
            else:
                its.multicast_group_entry.multicast_group_id = one.multicast_group_entry.multicast_group_id
        return bytes(name.SerializeToString(deterministic=True))

    def Write(self, request: Any, context: Any) -> Any:
        self.goes_on.wait()
        self._only_primary(request, context)
        with self._lock:
            for update in request.updates:
                self._write(update, context)
        return p4runtime_pb2.WriteResponse()

    def _write(self, update: Any, context: Any) -> None:
        if self.refuses and update.entity.WhichOneof("entity") == "table_entry":
            self.refuses -= 1
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "the table is full")
        name = self._named(update.entity)
        if (update.type == p4runtime_pb2.Update.INSERT) == (name in self.entries):
            context.abort(grpc.StatusCode.UNKNOWN, f"{update} of what is there, or is not")
        rest = {n: e for n, e in self.entries.items() if n != name}
        self.entries = rest if update.type == p4runtime_pb2.Update.DELETE else {**rest, name: update.entity}
        group = update.entity.packet_replication_engine_entry.multicast_group_entry.multicast_group_id
        self.renewals += group == P4_GROUP_LEASE
        self.writes += update.entity.WhichOneof("entity") != "digest_entry" and group != P4_GROUP_LEASE

    def Read(self, request: Any, context: Any) -> Iterator[Any]:
        self.goes_on.wait()
        answer = p4runtime_pb2.ReadResponse()
        for asked in request.entities:
            if asked.WhichOneof("entity") == "counter_entry":
                found = answer.entities.add()
                found.CopyFrom(asked)
                number, index = asked.counter_entry.counter_id, asked.counter_entry.index.index
                found.counter_entry.data.packet_count = 1000 * (number - 300) + index
                found.counter_entry.data.byte_count = 7
                continue
            for entity in self.entries.values():
                if self._asked(asked, entity):
                    found = answer.entities.add()
                    found.CopyFrom(entity)
                    if asked.table_entry.HasField("counter_data"):
                        found.table_entry.counter_data.packet_count = 5
        yield answer
        while self.endless and context.is_active():
            yield answer

    @staticmethod
    def _asked(asked: Any, entity: Any) -> bool:
        kind = asked.WhichOneof("entity")
        if kind != entity.WhichOneof("entity"):
            return False
        if kind == "table_entry":
            return bool(asked.table_entry.table_id == entity.table_entry.table_id)
        sets = (one.packet_replication_engine_entry.WhichOneof("type") for one in (asked, entity))
        return len(set(sets)) == 1
