"""The fabric manager over its two servers: signalling and HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import struct
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import command
from plain import PlainClient
from ports import free_ports
from small import bcube41, star, until

from datacast.fabric_manager import groups, sets
from datacast.fabric_manager.api.reports import Progress
from datacast.fabric_manager.fabric import Fabric
from datacast.fabric_manager.main import FabricManager
from datacast.fabric_manager.record import dump
from datacast.fabric_manager.registry import Registry
from datacast.services import framing
from datacast.services.problems import Problem, Unreachable
from datacast.services.service import ListenError, listen
from lab import lab


async def connect(address: str):
    host, _, port = address.rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def ask(address: str, *frames: bytes) -> list[dict[str, Any]]:
    """Send frames; everything that comes back until the server closes or has answered each."""
    reader, writer = await connect(address)
    writer.write(b"".join(frames))
    answers = []
    with contextlib.suppress(OSError):
        while len(answers) < len(frames) and (answer := await framing.read(reader)) is not None:
            answers.append(answer)
    writer.close()
    return answers


REGISTER = {"type": "register", "node": "h0", "kind": "host", "addr": "10.0.0.1:7600", "pid": 1, "ports": []}


async def test_register_heartbeat_and_link_reports() -> None:
    async with lab(star(2), agents=[], spec="star") as it:
        link = {"type": "link", "port": 0, "up": False, "t_ns": 5, "n": 12}
        reader, writer = await connect(it.manager.signalling_address)
        for message in (REGISTER, *7 * [{"type": "heartbeat"}], link, link):
            writer.write(framing.encode(message))
        answers = [await framing.read(reader) for _ in range(5)]
        topology = await it.client.topology()
        health = await it.client.health()
        writer.close()
        await until(lambda: not it.manager.fabric.nodes["h0"].registered, "h0 is lost when its connection ends")
    assert answers == [
        {"type": "registered", "node": "h0", "heartbeat_ms": 1000, "silence_beats": 7},
        {"type": "heard"},
        {"type": "heard"},
        {"type": "ok", "n": 12},
        {"type": "ok", "n": 12},
    ]
    (link,) = [link for link in topology["links"] if "h0" in (link["u"], link["v"])]
    assert link["up"] is False
    assert {key: told for key, told in health.items() if key not in ("version", "workers", "streams")} == {
        "status": "ok", "topology": "star", "hosts": 2, "agents": 1, "switches": 1, "switches_registered": 0,
        "links_down": 2, "certificate_until": None,
        "reports": {"register": 1, "heartbeat": 7, "link": 2, "refused": 0, "bad_frame": 0, "silent": 0},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (struct.pack("!I", 5 << 20), "bad_frame"),
        (struct.pack("!I", 3) + b"{x}", "bad_frame"),
        (struct.pack("!I", 2) + b"[]", "bad_frame"),
        (struct.pack("!I", 2) + b"{}", "bad_frame"),
        (struct.pack("!I", 4) + b"\xff\xfe\x00\x01", "bad_frame"),
        (framing.encode({"type": "dance"}), "bad_request"),
        (framing.encode({"type": "register", "node": "nobody", "kind": "host"}), "unknown_node"),
        (framing.encode({"type": "link", "port": 0, "up": True, "n": 1}), "bad_request"),
    ],
)
async def test_bad_frames_get_an_error_and_harm_nobody(frame: bytes, code: str) -> None:
    async with lab(star(2)) as it:
        answers = await ask(it.manager.signalling_address, frame)
        health = await it.client.health()
    assert [a["type"] for a in answers] == ["error"] and answers[0]["code"] == code
    assert health["agents"] == 2


async def test_a_second_process_for_the_same_host_is_told_so() -> None:
    async with lab(star(2)) as it:
        (answer,) = await ask(it.manager.signalling_address, framing.encode(REGISTER))
    assert answer["code"] == "duplicate" and "h0 is registered already" in answer["error"]


@pytest.mark.simulated
async def test_an_agent_that_falls_silent_is_lost() -> None:
    async with lab(star(2), heartbeat_ms=300) as it:
        assert it.manager.fabric.members() == ["h0", "h1"]
        it.world.agents["h1"].pause()
        await until(lambda: it.manager.fabric.members() == ["h0"], "h1 is lost")
        assert (await it.client.health())["reports"]["silent"] == 1


async def test_a_switch_goes_to_the_controller_that_speaks_for_it_last_and_the_one_before_hears_it() -> None:
    """That one may hang: what it says of the switch when it goes on counts for nothing, until it has it again."""
    register = {"type": "register", "node": "s", "kind": "switch", "proxy": True, "ports": []}
    report = {"type": "link", "node": "s", "port": 0, "up": False, "n": 1}
    async with lab(star(2)) as it:
        said = []
        (first, to_first), (second, to_second) = [await connect(it.manager.signalling_address) for _ in range(2)]
        for reader, writer in ((first, to_first), (second, to_second)):
            writer.write(framing.encode(register))
            said.append(await framing.read(reader))
        said.append(await framing.read(first))
        to_first.write(framing.encode(report))
        said.append(await framing.read(first))
        to_second.write(framing.encode(report))
        said.append(await framing.read(second))
        to_first.close()
        to_second.write(framing.encode(register))
        said.append(await framing.read(second))
        to_second.close()
        one, other, followed, refused, taken, again = said
    assert one["type"] == other["type"] == again["type"] == "registered"
    assert (followed["code"], followed["node"]) == ("followed", "s")
    assert refused["code"] == "bad_request" and "not registered here" in refused["error"]
    assert taken == {"type": "ok", "n": 1}


async def test_who_reads_no_answers_is_silent() -> None:
    """It hangs, and what it had said before is still being answered."""
    sock = listen("127.0.0.1:0")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    registry = Registry(Fabric(star(2)), lambda change: None, heartbeat_ms=100)
    await registry.start(sock)
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(sock.getsockname())
        deaf.setblocking(False)
        await asyncio.get_running_loop().sock_sendall(deaf, framing.encode({"type": 100_000 * "x"}) * 4)
        await until(lambda: registry.reports["silent"] == 1, "its end")
    await registry.stop()


async def test_agents_that_a_fabric_manager_did_not_hear_because_it_stood_still_are_not_lost() -> None:
    async with lab(star(2), heartbeat_ms=300) as it:
        time.sleep(2 * it.manager.registry.silence_s)
        await asyncio.sleep(it.manager.registry.silence_s / 2)
        assert (it.manager.fabric.members(), it.manager.registry.reports["silent"]) == (["h0", "h1"], 0)


async def test_the_event_stream_starts_with_a_snapshot_and_goes_on_with_changes() -> None:
    async with lab(star(3)) as it:
        events = []

        async def follow():
            async for event in it.client.events(["topology"]):
                events.append(event)

        following = asyncio.create_task(follow())
        await until(lambda: any(e["type"] == "topology" for e in events), "the snapshot")
        it.world.agents["h1"].tell_manager({"type": "link", "port": 0, "up": False, "n": 1, "t_ns": 77})
        await until(lambda: events[-1]["type"] == "link", "the link change")
        await it.world.agents["h2"].die()
        await until(lambda: events[-1].get("u") == "h2" or events[-1].get("v") == "h2", "the lost agent's link")
        following.cancel()
    assert [e["type"] for e in events] == ["hello", "topology", "link", "node", "link"]
    assert events[2]["up"] is False and events[2]["t_ns"] == 77
    assert events[3]["name"] == "h2" and events[3]["alive"] is False
    versions = [e["version"] for e in events[1:]]
    assert versions == list(range(versions[0], versions[0] + 4))


async def test_link_load_by_group_while_it_runs() -> None:
    async with lab(bcube41(), rates=[300.0]) as it:
        group = await it.start("00", ["33"], 200_000_000)  # runs until it is cancelled

        async def loaded():
            links = (await it.client.topology())["links"]
            return [c for link in links for c in link["carries"]]

        async def agreeing():  # the master may tell of other trees between the two questions
            carries, record = await loaded(), await it.client.group(group["id"])
            told = {(c["from"], c["to"], str(c["tree"])) for c in carries}
            arcs = {(u, v, tree) for tree, t in record["trees"].items() for u, v in t["arcs"]}
            return carries if carries and told == arcs else None

        carries = await until(agreeing, "links carry the group's trees")
        await it.client.cancel_group(group["id"])
        await it.end(group)
        after = await loaded()
    assert {c["group"] for c in carries} == {group["id"]} and after == []


async def test_sets_are_kept_and_used() -> None:
    async with lab(star(4), rates=[20_000.0]) as it:
        await it.client.put_set("rack", ["h0", "h1", "h3"])
        it.world.sizes["/f"] = 1000
        group = await it.client.create_group({"source": "h0", "receiver_set": "rack", "source_path": "/f"})
        record = await it.end(group)
        listed = await it.client.sets()
        await it.client.delete_set("rack")
        with pytest.raises(Problem) as gone:
            await it.client.get_set("rack")
        gone = gone.value
    assert record["state"] == "done" and list(record["receivers"]) == ["h1", "h3"]
    assert listed == {"rack": ["h0", "h1", "h3"]} and gone.code == "set_not_found"


async def test_there_are_so_many_sets_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sets, "SETS_MAX", 2)
    async with lab(star(3)) as it:
        asked = (it.client.put_set(name, ["h1"]) for name in ("a", "b", "c"))
        answers = await asyncio.gather(*asked, return_exceptions=True)
        await it.client.put_set("a", ["h2"])  # there is one of this name
        await it.client.delete_set("b")
        await it.client.put_set("c", ["h1"])
        listed = await it.client.sets()
    (refused,) = [answer for answer in answers if isinstance(answer, Problem)]
    assert (refused.status, refused.code) == (429, "too_many_sets") and "sets delete" in refused.remedy
    assert listed == {"a": ["h2"], "c": ["h1"]}


async def test_what_two_ask_for_at_the_same_moment_is_no_conflict() -> None:
    async with lab(star(4)) as it:
        racks = [["h0"], ["h1"], ["h2", "h3"]]
        await asyncio.gather(*(it.client.put_set("rack", hosts) for hosts in racks))
        await asyncio.gather(*(it.client.cap("h1", bps) for bps in (10**6, 2 * 10**6)))
        await asyncio.gather(*(it.client.cordon("h2", why) for why in ("fans", "disks")))
        told = await it.client.get_set("rack"), await it.client.caps()
        entries = {entry.key: entry.value for entry in await it.manager.store.list("")}
        gone = await asyncio.gather(*(it.client.delete_set("rack") for _ in range(2)), return_exceptions=True)
        (rack, caps), sets = told, await it.client.sets()
    assert rack["hosts"] in racks and json.loads(entries["sets/rack"]) == rack["hosts"]
    assert caps["hosts"]["h1"] == int(entries["caps/host/h1"])
    assert sets == {} and all(error is None or error.code == "set_not_found" for error in gone)


async def test_more_groups_than_may_wait_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "LIVE_MAX", 3)
    async with lab(star(3), rates=[1000.0]) as it:
        it.world.sizes["/f"] = 50_000_000
        order = {"source": "h0", "receivers": ["h1"], "source_path": "/f"}
        made = [await it.client.create_group(order) for _ in range(3)]
        with pytest.raises(Problem) as refused:
            await it.client.create_group(order)
        await it.client.cancel_group(made[0]["id"])
        await it.end(made[0])
        refused, after = refused.value, await it.client.create_group(order)
    assert (refused.status, refused.code) == (429, "too_many_groups") and after["state"] in ("queued", "starting")


async def kill_one(it: Any, like: dict[str, Any]) -> str:
    """In the store, a group that was running when the power went; its source's path."""
    record = it.manager.groups.get(like["id"])
    dead = replace(
        record, id="g-dead", state="running", owner="w-gone", lease="0" * 32, created_ns=1, finished_ns=None,
        progress=Progress(),
    )  # fmt: skip
    await it.manager.groups.kept.put("groups/g-dead", dump(dead), 0)
    return record.spec.source_path


@pytest.mark.parametrize("there", [True, False])
async def test_after_a_loss_of_power_a_group_goes_on_or_says_what_is_missing(tmp_path: Path, there: bool) -> None:
    database = str(tmp_path / "fm.sqlite")
    async with lab(star(3), rates=[20_000.0], store=database) as it:
        done = await it.end(await it.start("h0", ["h1"], 1000))
        # One that was running when the power went: in the database, with no master anywhere.
        path = await kill_one(it, done)
    async with lab(star(3), rates=[20_000.0], store=database) as it:
        if there:
            it.world.sizes[path] = 1000
        first = await it.client.groups()
        went_on, again = await it.end({"id": "g-dead"}), await it.client.group(first[1]["id"])
    assert {g["id"]: g["state"] for g in first} == {done["id"]: "done", "g-dead": "running"}
    assert again == done
    if there:
        assert went_on["state"] == "done"
    else:
        assert went_on["state"] == "failed" and went_on["error"]["code"] == "not_found"


async def test_after_a_loss_of_power_a_source_that_stays_away_is_named_and_the_group_can_be_resumed(
    tmp_path: Path, monkeypatch
) -> None:
    database = str(tmp_path / "fm.sqlite")
    async with lab(star(3), rates=[20_000.0], store=database) as it:
        path = await kill_one(it, await it.end(await it.start("h0", ["h1", "h2"], 1000)))
    monkeypatch.setattr("datacast.fabric_manager.placing.AGENTS_WAIT_S", 0.3)
    async with lab(star(3), rates=[20_000.0], store=database, agents=["h1", "h2"]) as it:
        lost = await it.end({"id": "g-dead"})
        with pytest.raises(Problem) as early:
            await it.client.resume_group("g-dead")
        it.world.sizes[path] = 1000
        await it.world.add(["h0"], it.manager.signalling_address)
        await it.client.resume_group("g-dead")
        resumed = await it.end({"id": "g-dead"})
    assert lost["state"] == "failed" and lost["error"]["code"] == "interrupted"
    assert "the source h0 has no agent" in lost["error"]["message"]
    assert early.value.code == "no_agent" and early.value.what == "h0"
    assert resumed["state"] == "done"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("master", "how"),
    [
        ("lives", signal.SIGKILL),
        ("lives", signal.SIGTERM),
        ("dies before", signal.SIGKILL),
        ("dies afterwards", signal.SIGTERM),
    ],
)
async def test_a_group_survives_a_fabric_manager_that_ends_and_is_started_again(
    tmp_path: Path, master: str, how: signal.Signals
) -> None:
    topology = tmp_path / "star.json"
    topology.write_text(json.dumps(_node_link(star(3))))
    from fake_agents import World

    world = World([100.0])  # a minute: a busy machine looks late
    world.sizes["/f"] = 60_000_000
    keeps = master == "lives"
    lease_s = 4.0 if how == signal.SIGKILL else 60.0  # its end is waited for, or it is given back
    manager, addresses = await start_process(tmp_path, topology, lease_s=lease_s, keeps=keeps)
    client = PlainClient(addresses["http"])
    second = None
    try:
        await world.add(["h0", "h1", "h2"], addresses["signalling"])
        world.agents["h1"].stall_done = True  # it outlasts all that follows
        group = await client.create_group({"source": "h0", "receivers": "all", "source_path": "/f"})
        await until(lambda: world.sent_pieces.get(group["id"]), "data flows")
        flows = time.monotonic()
        pid = (await client.request("GET", f"/groups/{group['id']}/master"))["pid"]
        assert pid

        async def told():
            return any(r["bytes"] for r in (await client.group(group["id"]))["receivers"].values())

        await until(told, "its master has told of it: what nobody heard of begins anew")
        manager.send_signal(how)
        await manager.wait()
        if master == "dies before":
            os.kill(pid, signal.SIGKILL)
        sent = len(world.sent_pieces[group["id"]])
        await until(lambda: len(world.sent_pieces[group["id"]]) > sent + 50, "data flows without it")
        second, _ = await start_process(tmp_path, topology, addresses, keeps=keeps)
        for agent in world.agents.values():
            await agent.register(addresses["signalling"])
        if master != "dies before":

            async def same():
                return (await client.request("GET", f"/groups/{group['id']}/master"))["pid"] == pid

            await until(same, "its worker is back, and has it still")
        if master == "dies afterwards":
            os.kill(pid, signal.SIGKILL)
        if master != "lives":

            async def other():
                return (await client.request("GET", f"/groups/{group['id']}/master"))["pid"] not in (pid, None)

            await until(other, "another worker has it")
        world.agents["h1"].stall_done = False
        world.rates = [20_000.0]

        async def ended():
            record = await client.group(group["id"])
            return record if record["state"] not in ("starting", "running") else None

        record = await until(ended, "the group ends")
        took, violations = time.monotonic() - flows, world.violations
    finally:
        await client.close()
        await world.stop()
        for process in (manager, second):
            if process and process.returncode is None:
                process.terminate()
            if process:
                await process.wait()
                process._transport.close()
    assert record["state"] == "done", record["error"]
    assert record["report"]["finish_s"] > took / 2 and violations == [], "since the first data, whoever leads now"


PATIENT = """
from datacast.fabric_manager import leadership, main, registry, workers

leadership.LEASE_S, made = {lease_s}, registry.Registry.__init__
if {keeps}:
    workers.SILENCE_S = workers.BACK_S = workers.RETURN_S = 60.0


def patient(self, *args, **options):
    made(self, *args, **options)
    self.silence_s = 60.0


registry.Registry.__init__ = patient
main.main()
"""
"""It does not end, nor lose the agents that a test plays, when a busy machine lets it stand still. `keeps`: nor does it
give the group of a worker that a busy machine lets stand still to another one."""


async def start_process(
    folder: Path,
    topology: Path,
    addresses: dict[str, str] | None = None,
    *,
    lease_s: float = 60.0,
    keeps: bool = False,
):
    """`datacast-fabric-manager` as a process; it and its two addresses. One that is killed leaves its lease behind: the
    next one waits for its end."""
    signalling, http = free_ports(2)  # another may be started there
    args = addresses or {"signalling": f"127.0.0.1:{signalling}", "http": f"127.0.0.1:{http}"}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PATIENT.format(lease_s=lease_s, keeps=keeps),
        "--topology",
        str(topology),
        "--store",
        str(folder / "fm.sqlite"),
        "--signalling",
        args["signalling"],
        "--http",
        args["http"].removeprefix("http://"),
        "--link-rate",
        "100mbit",
        "--mtu",
        "9000",
        stdout=asyncio.subprocess.PIPE,
    )
    line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
    words = line.replace(",", "").split()
    return process, {"signalling": words[words.index("at") + 1], "http": words[-1]}


def _node_link(graph: Any) -> dict[str, Any]:
    from datacast.topologies import to_json

    document = to_json(graph)
    return json.loads(document) if isinstance(document, str) else document


@pytest.mark.slow
async def test_ctrl_c_leaves_no_process_and_no_socket(tmp_path: Path) -> None:
    socket_path = tmp_path / "fm.sock"
    topology = tmp_path / "star.json"
    topology.write_text(json.dumps(_node_link(star(2))))
    process, addresses = await start_process(
        tmp_path, topology, {"signalling": "127.0.0.1:0", "http": f"unix:{socket_path}"}
    )
    async with PlainClient(addresses["http"]) as client:

        async def workers():
            return [worker["pid"] for worker in (await client.health())["workers"]]

        (pid, *_) = await until(workers, "a worker")
    process.send_signal(signal.SIGINT)
    code = await asyncio.wait_for(process.wait(), 60)
    process._transport.close()
    assert code == 0 and not socket_path.exists()
    await until(lambda: not Path(f"/proc/{pid}").exists(), "a worker with nothing to do ends as well")


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["--topology", "nonsense:1"], "nonsense"),
        (["--topology", "bcube:4,1", "--link-rate", "fast"], "'fast' is no rate"),
        (["--topology", "bcube:4,1", "--mtu", "10"], "--mtu 10"),
        (["--topology", "bcube:4,1", "--realtime", "100"], "--realtime 100: must be between 0 and 99"),
        (["--topology", "bcube:4,1", "--http", "nowhere"], "'nowhere' is no address"),
        (["--topology", "bcube:4,1", "--store", "/proc/none/d"], "/proc/none/d"),
    ],
)
def test_bad_options_say_what_is_wrong(args: list[str], text: str, tmp_path: Path) -> None:
    code, _, told = command("--store", tmp_path / "d", *args, module="fabric_manager")
    assert code in (1, 2) and text in told


async def test_an_address_in_use_is_named() -> None:
    sock = listen("127.0.0.1:0")
    address = f"127.0.0.1:{sock.getsockname()[1]}"
    manager = FabricManager(star(2), signalling=address, http="127.0.0.1:0")
    with pytest.raises(ListenError, match=f"cannot listen on {address}.*another process listens there"):
        await manager.start()
    await manager.store.close()
    sock.close()


async def test_nobody_there() -> None:
    async with PlainClient("http://127.0.0.1:9") as client:
        with pytest.raises(Unreachable, match=r"no fabric manager at http://127\.0\.0\.1:9"):
            await client.health()
