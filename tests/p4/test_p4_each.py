"""What the controller says to P4Runtime switches and makes of what they say, value by value, without a switch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from p4_switch import ACTIONS, COUNTERS, DIGEST, TABLES, compiled, program

from datacast.controller.api.records import PortCounters
from datacast.controller.p4runtime import entries, shim
from datacast.controller.p4runtime.entries import Copies, Entry, Installed, PacketOut, ReadCounters, Write
from datacast.controller.p4runtime.language import P4RuntimeLanguage
from datacast.controller.p4runtime.stations import LIFE_S, STATIONS_MAX, Stations
from datacast.controller.southbound.config import Southbound, parse
from datacast.controller.southbound.desired import Adjacency, Desired
from datacast.controller.southbound.errors import SwitchError
from datacast.core.constants import LABEL_ADJ, LABEL_LOCAL

import grpc  # isort: skip

p4 = shim.p4runtime_pb2
NEIGHBOUR, OWN = "02:00:00:00:0a:0b", "02:00:00:00:0c:0d"
ELECTION = 4711
DEVICE = 5


def two_ports(**rest: Any) -> Desired:
    cables = Adjacency(0, 7, NEIGHBOUR, OWN), Adjacency(300, 300, OWN, NEIGHBOUR)
    return Desired(cables, flood=frozenset({7, 255, 256}), **{"appliance": None, **rest})


def node() -> Any:
    row = {"name": "s0", "p4runtime": {"address": "x:1"}, "ports": [], "cache": "p4",
           "node": {"retx_ms": 1.5, "bytes_per_tree": 4096}}
    pipeline = {"json": "a", "p4info": "b"}
    return parse({"switches": [row], "pipeline": pipeline, "node_pipeline": pipeline}).switches[0].node


ALWAYS = [
    Entry("segment", "label", LABEL_ADJ, "forward", (("port", 7),)),
    Entry("link", "port", 7, "address", (("dst", 0x020000000A0B), ("src", 0x020000000C0D))),
    Entry("segment", "label", LABEL_ADJ + 300, "forward", (("port", 300),)),
    Entry("link", "port", 300, "address", (("dst", 0x020000000C0D), ("src", 0x020000000A0B))),
    Entry("bridging", "group", 0, "bridge", (("low", 1 << 7 | 1 << 255), ("high", 1))),
]
SERVE = (("low", 1), ("high", 1 << 44), ("retx_min", 1500), ("capacity", 4096))
FLOOD = Copies(1, frozenset({(7, 1), (255, 1), (256, 1)}))


@pytest.mark.parametrize(("wanted", "more", "sets"), [
    (two_ports(), [], [FLOOD]),
    (two_ports(appliance=9), [Entry("segment", "label", LABEL_LOCAL, "appliance", (("port", 9),))],
     [FLOOD, Copies(2, frozenset())]),
    (two_ports(appliance=9, replicate=True),
     [Entry("segment", "label", LABEL_LOCAL, "appliance", (("port", 9),)),
      Entry("replicate_from", "port", 9, "replicate")],
     [FLOOD, Copies(2, frozenset({(7, 1)}))]),
    (two_ports(node=node()), [Entry("service", "label", LABEL_LOCAL, "serve", SERVE)], None),
], ids=["alone", "an appliance", "one it copies for", "a node"])
def test_each_entry_and_each_set_of_copies(wanted: Desired, more: list[Entry], sets: list[Copies] | None) -> None:
    assert list(entries.entries(wanted).values()) == [*ALWAYS, *more]
    if sets is not None:
        assert list(entries.copies(wanted).values()) == sets


def test_a_node_has_a_group_for_each_number_of_children_and_one_session() -> None:
    """The copies go around by four ports in turn, numbered from 1."""
    sets = entries.copies(two_ports(node=node()))
    assert [one.key for one in sets.values()] == [(False, 1), *((False, 16 + k) for k in range(1, 33)), (True, 1)]
    assert sets[False, 18].replicas == {(500, 1), (501, 2)}
    assert sets[False, 22].replicas == {(500, 1), (501, 2), (502, 3), (503, 4), (500, 5), (501, 6)}
    assert len(sets[False, 48].replicas) == 32
    assert sets[True, 1].replicas == {(500, 1)}


def test_what_a_lease_says() -> None:
    assert entries.lease(9, [4, 2]) == Copies(3, frozenset({(2, 9)}))
    assert entries.lease(9, []) == Copies(3, frozenset({(0, 9)}))
    assert [entries.leased(one) for one in (None, Copies(3, frozenset()), entries.lease(9, [2]))] == [None, None, 9]
    assert entries.leased(Copies(3, frozenset({(2, 9), (4, 5)}))) == 9
    assert entries.LEASE_MAX == 0xFFFF, "the number of a copy has 16 bits in v1model"


def test_what_the_manager_asks_of_the_language() -> None:
    language = P4RuntimeLanguage()
    assert language.read() == [], "the session reads by itself as it begins"
    assert language.packet_out(3, b"frame") == PacketOut(3, b"frame")
    assert language.probe(3, b"frame") == ([PacketOut(3, b"frame")], False)
    wanted = two_ports(appliance=9)
    counted = {("link", 7): {"packets": 5, "bytes": 600}}
    session: Any = SimpleNamespace(have=Installed(), rule_counters=counted)
    messages, after = language.changes(wanted, session)
    assert after == Installed(entries.entries(wanted), entries.copies(wanted))
    assert messages == [Write("insert", what) for what in (*after.copies.values(), *after.entries.values())]
    told = language.rules(wanted, session)
    assert [(rule.purpose, rule.packets, rule.bytes) for rule in told] == [
        (f"segment {LABEL_ADJ}", None, None), ("link 7", 5, 600), (f"segment {LABEL_ADJ + 300}", None, None),
        ("link 300", None, None), ("bridging 0", None, None), (f"segment {LABEL_LOCAL}", None, None)]
    first = told[1]
    assert (first.table, first.match, first.action) == ("link", {"port": 7}, "address")
    assert first.params == {"dst": 0x020000000A0B, "src": 0x020000000C0D}


# ---- learned addresses ----
def test_each_entry_of_an_address_that_is_learned() -> None:
    stations = Stations()
    written = [write.what for write in stations.learned(0x02000000000A, 3)]
    assert written == [Entry("source", "address", 0x02000000000A, "lives_at", (("port", 3),)),
                       Entry("destination", "address", 0x02000000000A, "to", (("port", 3),))]
    assert [one.life_s for one in written] == [LIFE_S, 0.0], "one of the two ages"
    again = Stations(written)
    assert again.view() == {"02:00:00:00:00:0a": 3} and again.learned(0x02000000000A, 3) == []


def test_an_address_that_moves_takes_no_more_room() -> None:
    stations = Stations()
    for address in range(STATIONS_MAX):
        assert [write.kind for write in stations.learned(address << 1, 1)] == ["insert"] * 2
    assert [write.kind for write in stations.learned(0, 2)] == ["modify"] * 2
    assert [write.kind for write in stations.learned(STATIONS_MAX << 1, 1)] == ["delete"] * 2 + ["insert"] * 2


# ---- on the wire ----
@pytest.fixture
def settings(tmp_path: Path) -> Southbound:
    pipeline = compiled(tmp_path, program())
    row: dict[str, Any] = {"name": "s0", "p4runtime": {"address": "127.0.0.1:1", "device_id": DEVICE},
                           "ports": [{"port": p, "number": p} for p in (4, 2)], "appliance": {"number": 9}}
    return parse({"switches": [row], "pipeline": pipeline, "node_pipeline": pipeline})


class Stub:
    """Takes all that it is asked, and answers what it was given."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any, float]] = []
        self.answers: list[Any] = []
        """Of what is read, an entity each."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def ask(request: Any, timeout: float) -> Any:
            self.asked.append((name, request, timeout))
            return iter([p4.ReadResponse(entities=self.answers)])

        return ask


class Told:
    """What the controller is told."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *what: self.seen.append((name, *what))


@pytest.fixture
def connection(settings: Southbound) -> Any:
    assert settings.pipeline is not None
    one: Any = shim.Connection(settings.switches[0], shim.Info(settings.pipeline), Told(), ELECTION)  # type: ignore[arg-type]
    one.stub = Stub()
    yield one
    one.close()


def said(connection: Any) -> list[Any]:
    """Over the stream."""
    found = []
    while not connection._out.empty():
        found.append(connection._out.get())
    return found


def table(name: str) -> int:
    return 101 + list(TABLES).index(name)


def action(name: str) -> int:
    return 201 + list(ACTIONS).index(name)


def row(name: str, key: bytes, what: str, *params: bytes, life_ns: int = 0) -> Any:
    entry = p4.TableEntry(table_id=table(name), idle_timeout_ns=life_ns)
    entry.match.add(field_id=1).exact.value = key
    entry.action.action.action_id = action(what)
    for at, value in enumerate(params, 1):
        entry.action.action.params.add(param_id=at, value=value)
    return p4.Entity(table_entry=entry)


def engine(number: int, *replicas: tuple[int, int], clones: bool = False) -> Any:
    entity = p4.Entity()
    its = entity.packet_replication_engine_entry
    if clones:
        its.clone_session_entry.session_id = number
    else:
        its.multicast_group_entry.multicast_group_id = number
    one = its.clone_session_entry if clones else its.multicast_group_entry
    for port, instance in replicas:
        one.replicas.add(egress_port=port, instance=instance)
    return entity


WIRE = [
    (Entry("segment", "label", 1024, "forward", (("port", 0),)), row("segment", b"\4\0", "forward", b"\0")),
    (Entry("link", "port", 256, "address", (("dst", 255), ("src", 256))),
     row("link", b"\1\0", "address", b"\xff", b"\1\0")),
    (Entry("source", "address", 10, "lives_at", (("port", 3),), 60.0),
     row("source", b"\n", "lives_at", b"\3", life_ns=60_000_000_000)),
    (Entry("replicate_from", "port", 9, "replicate"), row("replicate_from", b"\t", "replicate")),
]


@pytest.mark.parametrize(("entry", "wire"), WIRE, ids=lambda one: getattr(one, "table", ""))
def test_an_entry_as_it_stands_on_the_wire(connection: Any, entry: Entry, wire: Any) -> None:
    assert connection.info.to_wire(entry) == wire.table_entry
    assert connection.info.from_wire(wire.table_entry) == entry


def test_what_is_no_entry_of_ours_is_left_out(connection: Any) -> None:
    unknown, default, wide = (row("segment", b"\1", "forward", b"\0").table_entry for _ in range(3))
    unknown.table_id = 99
    default.is_default_action = True
    wide.match.add(field_id=2).exact.value = b"\1"
    assert [connection.info.from_wire(one) for one in (unknown, default, wide)] == [None] * 3


def test_writes_are_one_request_and_what_else_there_is_goes_over_the_stream(connection: Any) -> None:
    connection.send([Write("insert", WIRE[0][0]), PacketOut(258, b"frame"),
                     Write("modify", Copies(1, frozenset({(4, 2), (2, 1)}))),
                     Write("delete", Copies(1, frozenset({(500, 1)}), clones=True))])
    request = p4.WriteRequest(device_id=DEVICE, election_id=p4.Uint128(low=ELECTION))
    for kind, entity in ((p4.Update.INSERT, WIRE[0][1]), (p4.Update.MODIFY, engine(1, (2, 1), (4, 2))),
                         (p4.Update.DELETE, engine(1, (500, 1), clones=True))):
        request.updates.add(type=kind, entity=entity)
    assert connection.stub.asked == [("Write", request, shim.RPC_S)]
    packet = p4.PacketOut(payload=b"frame")
    packet.metadata.add(metadata_id=1, value=b"\1\2")
    assert said(connection) == [p4.StreamMessageRequest(packet=packet)]
    connection.send([PacketOut(0, b"")])
    assert len(connection.stub.asked) == 1, "no write where there is none"


def test_a_lease_is_made_once_renewed_and_begins_again_at_its_end(connection: Any) -> None:
    kinds = []
    for before in (None, 1, entries.LEASE_MAX - 1, entries.LEASE_MAX):
        connection.leased = before
        connection.renew()
        (update,) = connection.stub.asked[-1][1].updates
        kinds.append((p4.Update.Type.Name(update.type), connection.leased))
        assert update.entity == engine(3, (2, connection.leased))
    assert kinds == [("INSERT", 1), ("MODIFY", 2), ("MODIFY", entries.LEASE_MAX), ("MODIFY", 1)]


def test_who_ends_a_session_ends_its_stream_and_its_channel(connection: Any) -> None:
    ended = []
    channel, connection.channel = connection.channel, SimpleNamespace(close=lambda: ended.append(1))
    for _ in range(shim.WAITING_MAX):
        connection._say(p4.StreamMessageRequest())
    connection.close()
    assert ended == [1], "be the queue full or not"
    said(connection)
    connection.close()
    assert ended == [1, 1] and said(connection) == [None]
    connection.channel = channel


def test_how_addresses_are_asked_for(connection: Any) -> None:
    connection.subscribe()
    ((_, request, _),) = connection.stub.asked
    (update,) = request.updates
    told = update.entity.digest_entry
    assert (request.device_id, request.election_id.low) == (DEVICE, ELECTION)
    assert (update.type, told.digest_id) == (p4.Update.INSERT, DIGEST)
    config = told.config
    assert (config.max_timeout_ns, config.max_list_size, config.ack_timeout_ns) == (5_000_000, 64, 1_000_000_000)


def test_what_a_switch_has_by_its_kind(connection: Any) -> None:
    """The lease is none of what it shall have; addresses that it learned stand by themselves."""
    sets = {False: [engine(1, (2, 1), (4, 1)), engine(3, (2, 17))], True: [engine(1, (500, 1), clones=True)]}

    def read(request: Any, timeout: float) -> Any:
        assert (request.device_id, timeout) == (DEVICE, shim.RPC_S)
        asked = request.entities[0]
        if asked.HasField("table_entry"):
            assert [e.table_entry.table_id for e in request.entities] == [table(name) for name in TABLES]
            yield p4.ReadResponse(entities=[wire for _, wire in WIRE])
        else:
            clones = asked.packet_replication_engine_entry.HasField("clone_session_entry")
            yield p4.ReadResponse(entities=sets[clones])

    connection.stub = SimpleNamespace(Read=read)
    segment, link, source, replicate = (entry for entry, _ in WIRE)
    have, learned = connection.installed()
    assert have == Installed(
        {one.key: one for one in (segment, link, replicate)},
        {(False, 1): Copies(1, frozenset({(2, 1), (4, 1)})), (True, 1): Copies(1, frozenset({(500, 1)}), clones=True)})
    assert learned == [source] and connection.leased == 17 == connection.lease()
    sets[False].pop()
    assert connection.lease() is None


@pytest.mark.parametrize(("many", "bound"), [(3, 3), (4, 3)])
def test_so_many_entries_are_read_and_not_one_more(
    connection: Any, many: int, bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shim, "ENTITIES_MAX", bound)

    class Answers(list[Any]):
        ended = 0

        def cancel(self) -> None:
            self.ended += 1

    answers = Answers(p4.ReadResponse(entities=[WIRE[0][1]]) for _ in range(many))
    connection.stub = SimpleNamespace(Read=lambda request, timeout: answers)
    if many <= bound:
        assert len(list(connection._read(p4.Entity()))) == many and not answers.ended
    else:
        with pytest.raises(SwitchError, match=f"more than {bound} entries"):
            list(connection._read(p4.Entity()))
        assert answers.ended == 1


def test_each_counter_is_asked_for_and_told_by_what_it_counts(connection: Any) -> None:
    def counter(name: str, index: int, packets: int, octets: int = 0) -> Any:
        entity = p4.Entity()
        entity.counter_entry.counter_id = 301 + COUNTERS.index(name)
        entity.counter_entry.index.index = index
        entity.counter_entry.data.packet_count, entity.counter_entry.data.byte_count = packets, octets
        return entity

    asked = []

    def read(request: Any, timeout: float) -> Any:
        asked.append(request)
        if len(asked) == 1:
            counted = row("segment", b"\4\0", "forward", b"\0")
            counted.table_entry.counter_data.packet_count, counted.table_entry.counter_data.byte_count = 3, 4
            return iter([p4.ReadResponse(entities=[counted])])
        return iter([p4.ReadResponse(entities=[
            counter("port_rx", 4, 10, 11), counter("port_tx", 4, 12, 13), counter("port_rx", 9, 14, 15),
            counter("drop_reason", 2, 16), counter("node_events", 1, 17), counter("node_data_events", 1, 18),
            counter("node_data_events", 3, 19)])])

    connection.stub = SimpleNamespace(Read=read)
    connection.send([ReadCounters()])
    assert [(e.table_entry.table_id, e.table_entry.HasField("counter_data")) for e in asked[0].entities] == [
        (table(name), True) for name in TABLES]
    names = {301 + at: name for at, name in enumerate(COUNTERS)}
    told = [(names[e.counter_entry.counter_id], e.counter_entry.index.index) for e in asked[1].entities]
    assert told == [*(("port_rx", n) for n in (4, 2, 9)), *(("port_tx", n) for n in (4, 2, 9)),
                    *((name, n) for name in ("drop_reason", "node_events", "node_data_events") for n in range(4))]
    assert connection.events.seen == [(
        "p4_counters", "s0",
        {4: PortCounters(rx_frames=10, rx_bytes=11, tx_frames=12, tx_bytes=13),
         9: PortCounters(rx_frames=14, rx_bytes=15)},
        {("segment", 1024): {"packets": 3, "bytes": 4}}, {2: 16}, {1: 35, 3: 19})]


# ---- what a switch tells ----
def arbitration(code: int, message: str = "", highest: int = 0) -> Any:
    answer = p4.StreamMessageResponse()
    answer.arbitration.status.code, answer.arbitration.status.message = code, message
    answer.arbitration.election_id.low = highest
    return answer


def packet(port: bytes | None) -> Any:
    told = p4.StreamMessageResponse(packet=p4.PacketIn(payload=b"frame"))
    if port is not None:
        told.packet.metadata.add(metadata_id=1, value=port)
    return told


def aged() -> Any:
    told = p4.StreamMessageResponse()
    for address in (b"\1\2", b"\5"):
        told.idle_timeout_notification.table_entry.add().match.add(field_id=1).exact.value = address
    return told


@pytest.mark.parametrize(("messages", "primary", "told"), [
    ([arbitration(0, highest=8)], [None, "closed by the switch"], []),
    ([arbitration(6, "another one")], ["another one", "closed by the switch"], []),
    ([arbitration(6)], ["status 6", "closed by the switch"], []),
    ([arbitration(6), arbitration(0)], ["status 6", None, "closed by the switch"], []),
    ([arbitration(0), arbitration(6, "of late"), packet(b"\1")], [None, "closed by the switch"],
     [("p4_refused", "arbitration", "arbitration lost: of late", "s0")]),
    ([arbitration(0), arbitration(6)], [None, "closed by the switch"],
     [("p4_refused", "arbitration", "arbitration lost: another controller took over", "s0")]),
    ([packet(b"\1\2")], ["closed by the switch"], [("p4_packet", "s0", 258, b"frame")]),
    ([packet(None)], ["closed by the switch"], [("p4_packet", "s0", -1, b"frame")]),
    ([aged()], ["closed by the switch"], [("p4_aged", "s0", 258), ("p4_aged", "s0", 5)]),
])
def test_what_each_message_of_a_switch_means(
    connection: Any, messages: list[Any], primary: list[str | None], told: list[tuple[Any, ...]]
) -> None:
    connection._stream = messages
    connection._listen()
    found = []
    while not connection._primary.empty():
        found.append(connection._primary.get())
    assert found == primary
    assert connection.events.seen == [*told, ("p4_disconnected", "s0", connection)]
    assert connection.highest == next((m.arbitration.election_id.low for m in messages if m.HasField("arbitration")), 0)
    assert said(connection)[-1] is None, "who sends ends"


def test_what_cannot_be_read_is_told_and_ends_the_session(connection: Any) -> None:
    told = p4.StreamMessageResponse()
    told.idle_timeout_notification.table_entry.add()
    connection._stream = [told, packet(b"\1")]
    connection._listen()
    (refused, ended) = connection.events.seen
    assert refused[:2] == ("p4_refused", "p4runtime") and refused[2].startswith("it tells what cannot be read: ")
    assert refused[3] == "s0" and ended == ("p4_disconnected", "s0", connection)
    assert connection._primary.get_nowait() == refused[2]


class Failed(grpc.RpcError):
    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        self._code, self._details = code, details

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details


@pytest.mark.parametrize(("error", "says"), [
    (SwitchError("wedged", "it takes nothing", what="s0"), ("wedged", "it takes nothing")),
    (grpc.FutureTimeoutError(), ("unreachable", "no P4Runtime server at x:1")),
    (Failed(grpc.StatusCode.PERMISSION_DENIED, "not primary"), ("arbitration", "arbitration lost: not primary")),
    (Failed(grpc.StatusCode.DEADLINE_EXCEEDED, "late"), ("unreachable", "the switch at x:1 does not answer")),
    (Failed(grpc.StatusCode.UNKNOWN, "no such table"), ("p4runtime", "x:1: no such table")),
    (KeyError(7), ("p4runtime", "x:1 answers what cannot be read: KeyError(7)")),
    (ValueError("closed"), ("p4runtime", "x:1: closed")),
], ids=lambda one: type(one).__name__)
def test_why_there_is_no_session(error: Exception, says: tuple[str, str]) -> None:
    assert shim._explain(error, "x:1") == says


def test_why_a_stream_ended(connection: Any) -> None:
    def fails(details: str) -> Any:
        raise Failed(grpc.StatusCode.UNAVAILABLE, details)
        yield

    for details, says in (("gone", "gone"), ("", "StatusCode.UNAVAILABLE")):
        connection._stream = fails(details)
        connection._listen()
        assert connection._primary.get_nowait() == says


@pytest.mark.parametrize("has", ["this program", "another", "none", "no answer"])
def test_a_switch_is_given_the_program_unless_it_has_it(
    connection: Any, has: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited, info = [], connection.info
    monkeypatch.setattr(shim.grpc, "channel_ready_future",
                        lambda channel: SimpleNamespace(result=lambda timeout: waited.append((channel, timeout))))

    def program_of(request: Any, timeout: float) -> Any:
        assert request == p4.GetForwardingPipelineConfigRequest(device_id=DEVICE, response_type="COOKIE_ONLY")
        if has in ("none", "no answer"):
            codes = grpc.StatusCode
            raise Failed(codes.FAILED_PRECONDITION if has == "none" else codes.DEADLINE_EXCEEDED, has)
        answer = p4.GetForwardingPipelineConfigResponse()
        answer.config.cookie.cookie = info.cookie + (has == "another")
        return answer

    pushed = []
    connection.stub = SimpleNamespace(
        StreamChannel=lambda requests: [arbitration(0)], GetForwardingPipelineConfig=program_of,
        SetForwardingPipelineConfig=lambda request, timeout: pushed.append((request, timeout)))
    channel = connection.channel
    if has == "no answer":
        with pytest.raises(Failed):
            connection.open()
    else:
        assert connection.open() == (has != "this program")
    assert waited == [(channel, shim.ARBITRATION_S)]
    begins = p4.StreamMessageRequest()
    begins.arbitration.device_id, begins.arbitration.election_id.low = DEVICE, ELECTION
    assert said(connection)[0] == begins
    push = p4.SetForwardingPipelineConfigRequest(
        device_id=DEVICE, election_id=p4.Uint128(low=ELECTION), action="VERIFY_AND_COMMIT")
    push.config.p4info.CopyFrom(info.p4info)
    push.config.p4_device_config, push.config.cookie.cookie = b"{}", info.cookie
    assert pushed == ([(push, 4 * shim.RPC_S)] if has in ("another", "none") else [])


# ---- another controller that leads ----
def test_who_leads_may_be_late_twice() -> None:
    assert 3 * shim.RENEW_S < shim.LEASE_S


def test_a_lease_that_stands_still_for_its_time_is_outdone_and_only_then(
    settings: Southbound, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings.pipeline is not None
    told = Told()
    client = shim.P4RuntimeClient(settings.switches[0], shim.Info(settings.pipeline), told)  # type: ignore[arg-type]
    assert client._thread.daemon, "no service waits for a switch as it ends"
    client._election = before = 100
    monkeypatch.setattr(shim, "new_election", lambda: 150)

    def seen(at: float, says: int | None, highest: int = 120) -> int:
        monkeypatch.setattr(shim.time, "monotonic", lambda: at)
        client._look_after(SimpleNamespace(leased=says, highest=highest))  # type: ignore[arg-type]
        return client._election

    assert [seen(0.0, 1), seen(3.0, 2), seen(7.0, 2)] == [before] * 3, "it was renewed at 3"
    assert [seen(7.1, None), seen(20.0, None), seen(20.1, 3), seen(24.1, 3)] == [before] * 4, "there is none to outdo"
    assert told.seen == []
    assert seen(24.2, 3) == 150
    text = "the controller that leads this switch renews nothing any more: this one follows"
    assert told.seen == [("p4_refused", "arbitration", text, "s0")]
    assert [seen(30.0, 3), seen(34.1, 3, highest=500)] == [150, 501], "whose number is higher all the same"
