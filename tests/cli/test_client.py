"""The client commands as processes, against a real controller and fabric manager; agents play the signalling."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
from contextlib import asynccontextmanager

import pytest
import typer
from commands import command
from small import star, until

from datacast.cli.arguments import with_receivers
from datacast.cli.shards import with_holds, with_shards
from datacast.controller import group_rest
from datacast.controller.api import DEFAULT_URL, ControllerClient
from datacast.controller.app import make_app
from datacast.fabric_manager.api import FabricManagerClient, GroupSpec
from datacast.services.blocking import BlockingClient, NotConnectedError
from datacast.services.problems import Unreachable
from datacast.services.service import HttpServer, listen
from lab import lab

PATIENCE_S = 200.0
"""A command is a process that has to start, and may follow a group to its end, on a machine ten times too busy."""
COMMAND = [sys.executable, "-m", "datacast.cli.main"]


@asynccontextmanager
async def service(rates: list[float], hosts: int = 4, **settings):
    """A lab and the URL of its controller."""
    async with lab(star(hosts), rates=rates, **settings) as it, FabricManagerClient(it.manager.url) as client:
        server = HttpServer(make_app(client), listen("127.0.0.1:0"))
        await server.start()
        it.world.sizes["/srv/file"] = 3_000_000
        it.requests = lambda: server._server.server_state.total_requests
        try:
            yield it, server.url
        finally:
            await server.stop()


async def datacast(*args: str, url: str | None = None, process=None) -> tuple[int, str, str]:
    """(exit code, standard output, standard error)."""
    if process is None:
        return await asyncio.to_thread(command, *args, environment=environment(url))
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    return process.returncode, out.decode(), err.decode()


def environment(url: str | None) -> dict[str, str]:
    return {**os.environ, "COLUMNS": "200", **({"DATACAST_CONTROLLER": url} if url else {})}


async def spawn(*args: str, url: str | None = None):
    """The program, as users start it."""
    return await asyncio.create_subprocess_exec(
        *COMMAND,
        *args,
        env=environment(url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        # A job in the background has SIGINT ignored, and its children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


async def test_send_follows_to_the_end_and_says_how_it_went() -> None:
    async with service([5000.0]) as (_, url):
        told = await datacast("send", "/srv/file", "--from", "h0", "--to", "h1,h2", "--dest", "x", url=url)
        machine = await datacast(
            "send", "/srv/file", "--from", "h0", "--to", "all", "--cache", "64K", "--json", url=url
        )
        (code, out, err), (code_json, out_json, err_json) = told, machine
    assert (code, err) == (0, "") and "done" in out and "h1" in out and "started in" in out
    record = json.loads(out_json)
    assert (code_json, err_json) == (0, "") and record["state"] == "done" and len(record["receivers"]) == 3
    assert record["options"]["cache_bytes"] == 65536 and record["dest_path"] == "file"


async def test_send_to_a_set_and_without_watching() -> None:
    async with service([20_000.0]) as (it, url):
        await it.client.put_set("rack", ["h1", "h3"])
        code, out, _ = await datacast("send", "/srv/file", "--from", "h0", "--to", "@rack", "--no-watch", url=url)
        record = await it.end({"id": out.strip()})
        shown = await datacast("status", out.strip(), "--json", url=url)
        listed = await datacast("groups", "--json", url=url)
        watched = await datacast("status", out.strip(), "--watch", url=url)
    assert code == 0 and list(record["receivers"]) == ["h1", "h3"]
    assert shown[0] == 0 and json.loads(shown[1]) == record
    assert [g["id"] for g in json.loads(listed[1])] == [record["id"]]
    assert watched[0] == 0 and "done" in watched[1]


async def test_what_send_is_told_stands_in_the_group() -> None:
    digest = "ab" * 32
    told = ["--weight", "3", "--background", "--most", "40mbit", "--deadline", "600", "--label", "team=vision"]
    async with service([20_000.0]) as (it, url):
        order = ["send", "/srv/file", "--from", "h0", "--to", "h1,h2", "--no-watch", "--json"]
        sent = await datacast(*order, *told, "--size", "3MB", "--sha256", digest.upper(), url=url)
        odd = await datacast(*order, "--sha256", digest[:-1], url=url)
        other = await datacast(*order, "--size", "2MB", url=url)
        ended = [await it.end(json.loads(group[1])) for group in (sent, other)]
    group = json.loads(sent[1])
    assert sent[0] == 0 and ended[0]["id"] == group["id"]
    assert (group["weight"], group["priority"], group["most_bps"]) == (3, "background", 40_000_000)
    assert (group["deadline_s"], group["labels"], group["sha256"]) == (600, {"team": "vision"}, digest)
    assert odd[0] == 2 and "64 hexadecimal digits" in odd[2]
    assert ended[1]["state"] == "failed" and "3000000" in json.dumps(ended[1]["error"])


async def test_a_transfer_that_fails_for_one_receiver_exits_with_1_and_names_it() -> None:
    async with service([20_000.0]) as (it, url):
        it.world.agents["h2"].fail["open"] = ("disk_full", "/srv: 3 bytes free")
        code, out, _ = await datacast("send", "/srv/file", "--from", "h0", "--to", "h1,h2", url=url)
    assert code == 1 and "partial" in out and "3 bytes free" in out


async def test_a_host_joins_and_another_leaves_and_a_host_that_is_none_is_named() -> None:
    async with service([300.0], 5) as (it, url):
        it.world.agents["h1"].stall_done = it.world.agents["h2"].stall_done = True
        group = await it.start("h0", ["h1", "h2"], 3_000_000)
        await it.running(group)
        joined = await datacast("receivers", "add", group["id"], "h3:/srv/elsewhere", url=url)
        left = await datacast("receivers", "remove", group["id"], "h2", "--json", url=url)
        none = await datacast("receivers", "add", group["id"], "h9", url=url)
        gone = await datacast("receivers", "remove", group["id"], "h2", url=url)
        odd = await datacast("receivers", "add", group["id"], "h3:", url=url)
        it.world.agents["h1"].stall_done = False
        record = await it.end(group)
        late = await datacast("receivers", "add", group["id"], "h4", url=url)
        dest = [m["tree"]["b"]["dest"] for name, m in it.world.ops("open") if name == "h3"]
    assert joined[0] == 0 and joined[1].strip() == f"h3 joins {record['id']}"
    assert left[0] == 0 and json.loads(left[1])["id"] == record["id"]
    assert none[0] == 2 and "no host 'h9'" in none[2]
    assert gone[0] == 3 and "h2 is no receiver" in gone[2]
    assert odd[0] == 2 and "HOST:PATH" in odd[2]
    assert late[0] == 2 and f"group {record['id']} is done" in late[2] and "start a new group" in late[2]
    assert record["state"] == "done" and record["receivers"]["h3"]["state"] == "done"
    assert record["receivers"]["h2"]["state"] == "cancelled" and set(dest) == {"/srv/elsewhere"}


async def test_a_group_that_reached_some_is_resumed_for_the_rest() -> None:
    async with service([2000.0]) as (it, url):
        it.world.agents["h2"].fail["open"] = ("disk_full", "no room on h2")
        group = await it.end(await it.start("h0", ["h1", "h2"], 3_000_000))
        shown = await datacast("groups", "--state", "partial", url=url)
        del it.world.agents["h2"].fail["open"]
        opened = len([name for name, _ in it.world.ops("open") if name == "h1"])
        resumed = await datacast("resume", group["id"], "--json", url=url)
        again = len([name for name, _ in it.world.ops("open") if name == "h1"])
        twice = await datacast("resume", group["id"], url=url)
        again = again - opened
    assert group["state"] == "partial" and group["id"] in shown[1]
    assert resumed[0] == 0 and json.loads(resumed[1])["state"] == "done"
    assert again == 0, "who has the file is left alone"
    assert twice[0] == 2 and "is done; only one that failed or is partial can be resumed" in twice[2]


async def test_send_with_a_quorum_starts_without_those_who_are_away() -> None:
    async with service([2000.0], agents=["h0", "h1", "h2"]) as (_, url):
        few = await datacast("send", "/srv/file", "--from", "h0", "--to", "h1,h2,h3", url=url)
        many = await datacast("send", "/srv/file", "--from", "h0", "--to", "h1,h3", "--quorum", "3", url=url)
        args = ["send", "/srv/file", "--from", "h0", "--to", "h1,h2,h3", "--quorum", "2", "--no-watch", "--json"]
        started = await datacast(*args, url=url)
    assert few[0] == 2 and "host h3 has no agent" in few[2]
    assert many[0] == 2 and "a quorum of 3 of 2 receivers" in many[2]
    assert started[0] == 0 and json.loads(started[1])["state"] == "starting"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_send_that_is_told_to_end_cancels_its_group(number: signal.Signals) -> None:
    async with service([1.0]) as (it, url):
        it.world.sizes["/srv/file"] = 50_000_000  # outlasts the test
        process = await spawn("send", "/srv/file", "--from", "h0", "--to", "h1,h2", url=url)
        await until(lambda: it.world.sent_pieces, "data flows")
        process.send_signal(number)
        result = await datacast(process=process)
        (code, _, err) = result
        group = (await it.client.groups())[0]
        roles = [agent.roles for agent in it.world.agents.values()]
    assert code == 128 + number and f"{group['id']} is cancelled" in err and group["state"] == "cancelled"
    assert roles == [{}, {}, {}, {}]


async def test_ctrl_c_in_status_stops_the_watching_only() -> None:
    async with service([1.0]) as (it, url):
        group = await it.start("h0", ["h1"], 50_000_000, "/srv/long")  # outlasts the test
        await it.running(group)
        process = await spawn("status", group["id"], "--watch", url=url)
        await until(lambda: it.requests() >= 2, "the command watches")
        process.send_signal(signal.SIGINT)
        code, _, _ = await datacast(process=process)
        record = await it.client.group(group["id"])
        cancelled = await datacast("cancel", group["id"], url=url)
        state = record["state"]
    assert code == 130 and state == "running"
    assert cancelled[0] == 0 and "is cancelled" in cancelled[1]


async def test_all_groups_are_listed_however_many_pages_they_are(monkeypatch) -> None:
    """The newest come last: of a fabric that remembers a thousand, those that run would be missing."""
    monkeypatch.setattr(group_rest, "PAGE", 2)
    order = GroupSpec(source="h0", source_path="/srv/file", receivers=["h1"])
    async with service([20_000.0]) as (_, url):
        with ControllerClient(url) as client:
            made = [(await asyncio.to_thread(client.create_group, order)).id for _ in range(5)]
            await asyncio.to_thread(client.cancel_group, made[-1])
        (code, out, _), (_, shown, _) = await datacast("groups", "--json", url=url), await datacast("groups", url=url)
    assert (code, [row["id"] for row in json.loads(out)]) == (0, made)
    assert all(group in shown for group in made)


TREES = ["trees", "--topology", "torus:3,2", "--source", "00", "--receivers", "12", "--svg", "/none/x.svg"]
WRONG: list[tuple[list[str], int, str]] = [
    (TREES, 2, "cannot write /none/x.svg: No such file or directory"),
    ([*TREES, "--planner", "stable"], 2, "cannot write /none/x.svg"),
    (["certs", "renew", "none", "--within", "nan"], 2, "--within"),
    (["sim", "table1", "--delay", "nan"], 2, "--delay is nan"),
    (["sim", "table1", "--T", "inf"], 2, "--T is inf"),
    (["sim", "table1", "--rto-min", "1e30"], 2, "--rto-min is 1e+30"),
    (["send", "/srv/file", "--from", "h0", "--to", "h1,h1"], 2, "h1 is named twice"),
    (["send", "/srv/file", "--from", "h0", "--to", "h0"], 2, "the source h0 is among the receivers"),
    (["send", "/srv/file", "--from", "zz", "--to", "h1"], 2, "no host 'zz'"),
    (["send", "/srv/file", "--from", "h0", "--to", ","], 2, "names no host"),
    (["send", "/srv/file", "--from", "h0", "--to", "all,h1"], 2, "stands alone"),
    (["send", "/srv/file", "--to", "h1"], 2, "give the host that has the file"),
    (["send", "ftp://x/y", "--to", "h1"], 2, "ftp://x/y: nobody fetches that"),
    (["send", "/srv/file", "--from", "h0", "--to", "h1", "--sha256", "abc"], 2, "64 hexadecimal digits"),
    (["send", "/srv/file", "--from", "h0", "--to", "sfo/all"], 2, "knows no other sites"),
    (["send", "/srv/file", "--from", "h0", "--to", "h1", "--cache", "much"], 2, "'much' is no size"),
    (["send", "/srv/caf\udce9", "--from", "h0", "--to", "h1"], 2, "is no UTF-8: rename it"),
    (["send", "s3://b/caf\udce9", "--to", "h1"], 2, "is no UTF-8: keys of S3 are"),
    (["send", "/srv/file", "--from", "h0"], 2, "--to"),
    (["send", "/srv/none", "--from", "h0", "--to", "h1"], 1, "no such file"),
    (["status", "g-none"], 3, "there is no group 'g-none'"),
    (["cancel", "g-none"], 3, "there is no group 'g-none'"),
    (["groups", "--state", "odd"], 2, "state"),
    (["frobnicate"], 2, "frobnicate"),
]


async def test_wrong_use_has_its_exit_code_and_names_the_thing() -> None:
    few = asyncio.Semaphore(3)  # twelve at once keep each other from starting

    async def one(args: list[str], url: str) -> tuple[int, str, str]:
        async with few:
            return await datacast(*args, url=url)

    async with service([20_000.0]) as (_, url):
        found = await asyncio.gather(*(one(args, url) for args, _, _ in WRONG))
    for (args, code, text), (exit_code, out, err) in zip(WRONG, found, strict=True):
        assert exit_code == code and text in out + err and "Traceback" not in err, (args, exit_code, out, err)


@pytest.mark.parametrize(
    "args", [["groups"], ["topology"], ["status", "x"], ["send", "/f", "--from", "a", "--to", "b"]]
)
async def test_without_a_controller_the_remedy_is_told(args: list[str]) -> None:
    code, _, err = await datacast(*args, url="http://127.0.0.1:9")
    assert code == 4
    why = "no controller answers at http://127.0.0.1:9: Connection refused; "
    assert f"{why}see that datacast-controller runs there, or name another with --controller" in " ".join(err.split())


def test_a_folder_of_settings_that_cannot_be_looked_into_holds_no_token() -> None:
    """As another user's, which `setpriv` and some services leave in the environment."""
    settings = {**environment("http://127.0.0.1:9"), "XDG_CONFIG_HOME": "/" + 300 * "x"}
    code, _, err = command("groups", environment=settings)
    assert code == 4 and "no controller answers" in err, err


async def test_what_is_no_unicode_is_the_name_of_nothing() -> None:
    async with service([1.0]) as (_, url):
        *named, asked = [
            await datacast(*args, url=url)
            for args in (["status", "caf\udce9"], ["cancel", "\udce9"], ["groups", "--state", "\udce9"])
        ]
    for code, out, err in named:
        assert code == 3 and not out and "there is no group" in err and "Traceback" not in err, err
    assert asked[0] == 2 and "state" in asked[2] and "Traceback" not in asked[2], asked


@pytest.mark.parametrize(
    ("error", "url", "said"),
    [
        (ConnectionRefusedError(111, "Connection refused"), DEFAULT_URL, "Connection refused; start a lab with"),
        (TimeoutError("timed out"), "http://h:1", "timed out; see that datacast-controller runs there"),
        (NotConnectedError(-2, "Name or service not known"), "http://h:1", "Name or service not known; see that"),
        (http.client.BadStatusLine("SSH-2.0\r\n"), "http://h:1", "'SSH-2.0' is not HTTP; see that"),
        (http.client.RemoteDisconnected("closed without an answer"), "http://h:1", "closed without an answer; see"),
        (ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] x"), "https://h:1", "x; the certificate of"),
    ],
)
def test_why_nobody_answers_is_told(monkeypatch: pytest.MonkeyPatch, error: Exception, url: str, said: str) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(BlockingClient, "ask", fail)
    with pytest.raises(Unreachable) as told, ControllerClient(url) as client:
        client.groups()
    assert said in f"{told.value.message}; {told.value.remedy}"


async def test_topology_for_people_and_machines() -> None:
    async with service([1.0], agents=["h0", "h1"]) as (it, url):
        it.manager.fabric.nodes["s"].cache = False
        (code, out, _) = await datacast("topology", "--links", url=url)
        (_, machine, _) = await datacast("topology", "--json", url=url)
    assert code == 0 and "4 hosts (2 with an agent), 1 switches, 4 links (2 down)" in out
    assert "without a cache appliance: s\n" in out
    assert len(json.loads(machine)["links"]) == 4


async def test_help_imports_no_part_and_a_part_that_is_missing_breaks_only_itself(tmp_path) -> None:
    code = (
        "import sys; from datacast.cli.main import COMMANDS, main\n"
        "COMMANDS['datacast.cli.absent'] = {'absent': 'Not there.'}\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as e: print('code', e.code, [m for m in ('httpx', 'networkx') if m in sys.modules])"
    )

    async def call(*args: str):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, *args, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, err = await process.communicate()
        return out.decode(), err.decode()

    out, _ = await call("--help")
    assert "code 0 []" in out and all(name in out for name in ("lab", "send", "trees", "sim", "doctor", "absent"))
    out, err = await call("absent")
    assert "code 1" in out and "`absent` cannot be loaded" in err and "datacast doctor" in err


def test_what_the_packages_leave_out_is_said_without_a_traceback() -> None:
    code = (
        "import sys; sys.modules['datacast.simulation'] = None\n"
        "from datacast.cli.main import main; main(['sim', 'list'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert "`sim` cannot be loaded" in done.stderr and "source tree" in done.stderr


def test_receivers() -> None:
    assert with_receivers(GroupSpec(), ["02,10", " 21 "]) == GroupSpec(receivers=["02", "10", "21"])
    assert with_receivers(GroupSpec(), ["all"]) == GroupSpec(receivers="all")
    assert with_receivers(GroupSpec(), ["@rack"]) == GroupSpec(receiver_set="rack")


async def test_who_names_a_lab_and_no_controller_means_the_lab_s(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    state = {"name": "mine", "identity": "x", "slot": 0, "pid": 1, "started": 0, "rest": "http://127.0.0.1:9"}
    (folder / "state.json").write_text(json.dumps(state))
    monkeypatch.setenv("DATACAST_RUNTIME", str(tmp_path))
    monkeypatch.delenv("DATACAST_CONTROLLER", raising=False)
    monkeypatch.setenv("DATACAST_LAB", "mine")
    code, _, err = await datacast("groups")
    assert code == 4 and "no controller answers at http://127.0.0.1:9:" in err
    monkeypatch.setenv("DATACAST_LAB", "yours")
    code, _, err = await datacast("groups")
    assert code == 4 and "no lab 'yours' is up (DATACAST_LAB)" in err and "datacast lab status" in err
    code, _, err = await datacast("groups", url="http://127.0.0.1:11")
    assert code == 4 and "no controller answers at http://127.0.0.1:11:" in err


def test_what_sources_have_is_ranges_or_what_a_group_left() -> None:
    assert with_holds(GroupSpec(), [], []) == GroupSpec()
    assert with_holds(GroupSpec(), ["h1=0-9,20-", "h2=1/2", "h1=50-60"], ["h3=g-1"]) == GroupSpec(
        holds={"h1": ["0-9", "20-", "50-60"], "h2": ["1/2"]}, unfinished={"h3": "g-1"}
    )
    for odd in ("h1", "=g-1", "h1="):
        with pytest.raises(typer.BadParameter, match="HOST=GROUP"):
            with_holds(GroupSpec(), [], [odd])
        with pytest.raises(typer.BadParameter, match="HOST=FIRST-LAST"):
            with_holds(GroupSpec(), [odd], [])
    with pytest.raises(typer.BadParameter, match="name it once"):
        with_holds(GroupSpec(), [], ["h1=g-1", "h1=g-2"])


def test_shards_are_hosts_with_ranges() -> None:
    assert with_shards(GroupSpec(), True, []) == GroupSpec(scatter=True)
    assert with_shards(GroupSpec(), False, ["h1=0-9,20-", "h2=1/2", "h1=50-60"]) == GroupSpec(
        shards={"h1": ["0-9", "20-", "50-60"], "h2": ["1/2"]}
    )
    for odd in ("h1", "=0-9", "h1="):
        with pytest.raises(typer.BadParameter, match="HOST="):
            with_shards(GroupSpec(), False, [odd])
