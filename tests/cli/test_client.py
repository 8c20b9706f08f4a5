"""The client commands as processes, against a real controller and fabric manager; agents play the signalling."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import asynccontextmanager

import pytest
import typer
from lab import lab
from small import run, star, until

from datacast.cli.client import parse_rate, parse_receivers, parse_size
from datacast.controller.app import make_app
from datacast.core.service import HttpServer, listen
from datacast.fabric_manager.api import FabricManagerClient

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
        process = await spawn(*args, url=url)
    out, err = await asyncio.wait_for(process.communicate(), 30)
    return process.returncode, out.decode(), err.decode()


async def spawn(*args: str, url: str | None = None):
    environment = {**os.environ, "COLUMNS": "200", **({"DATACAST_CONTROLLER": url} if url else {})}
    return await asyncio.create_subprocess_exec(
        *COMMAND,
        *args,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        # A job in the background has SIGINT ignored, and its children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def test_send_follows_to_the_end_and_says_how_it_went() -> None:
    async def scenario():
        async with service([5000.0]) as (_, url):
            told = await datacast("send", "/srv/file", "--from", "h0", "--to", "h1,h2", "--dest", "x", url=url)
            machine = await datacast(
                "send", "/srv/file", "--from", "h0", "--to", "all", "--cache", "64K", "--json", url=url
            )
            return told, machine

    (code, out, err), (code_json, out_json, err_json) = run(scenario(), 60)
    assert (code, err) == (0, "") and "done" in out and "h1" in out and "started in" in out
    record = json.loads(out_json)
    assert (code_json, err_json) == (0, "") and record["state"] == "done" and len(record["receivers"]) == 3
    assert record["options"]["cache_bytes"] == 65536 and record["dest_path"] == "file"


def test_send_to_a_set_and_without_watching() -> None:
    async def scenario():
        async with service([20_000.0]) as (it, url):
            await it.client.put_set("rack", ["h1", "h3"])
            code, out, _ = await datacast("send", "/srv/file", "--from", "h0", "--to", "@rack", "--no-watch", url=url)
            record = await it.end({"id": out.strip()})
            shown = await datacast("status", out.strip(), "--json", url=url)
            listed = await datacast("groups", "--json", url=url)
            watched = await datacast("status", out.strip(), "--watch", url=url)
            return code, record, shown, listed, watched

    code, record, shown, listed, watched = run(scenario(), 60)
    assert code == 0 and list(record["receivers"]) == ["h1", "h3"]
    assert shown[0] == 0 and json.loads(shown[1]) == record
    assert [g["id"] for g in json.loads(listed[1])] == [record["id"]]
    assert watched[0] == 0 and "done" in watched[1]


def test_a_transfer_that_fails_for_one_receiver_exits_with_1_and_names_it() -> None:
    async def scenario():
        async with service([20_000.0]) as (it, url):
            it.world.agents["h2"].fail["open"] = ("disk_full", "/srv: 3 bytes free")
            return await datacast("send", "/srv/file", "--from", "h0", "--to", "h1,h2", url=url)

    code, out, _ = run(scenario(), 60)
    assert code == 1 and "partial" in out and "3 bytes free" in out


def test_ctrl_c_cancels_the_group() -> None:
    async def scenario():
        async with service([50.0]) as (it, url):
            process = await spawn("send", "/srv/file", "--from", "h0", "--to", "h1,h2", url=url)
            await until(lambda: it.world.sent_pieces, "data flows")
            process.send_signal(signal.SIGINT)
            result = await datacast(process=process)
            return result, (await it.client.groups())[0], [agent.roles for agent in it.world.agents.values()]

    (code, _, err), group, roles = run(scenario(), 60)
    assert code == 130 and f"{group['id']} is cancelled" in err and group["state"] == "cancelled"
    assert roles == [{}, {}, {}, {}]


def test_ctrl_c_in_status_stops_the_watching_only() -> None:
    async def scenario():
        async with service([50.0]) as (it, url):
            group = await it.start("h0", ["h1"], 3_000_000)
            await it.running(group)
            process = await spawn("status", group["id"], "--watch", url=url)
            await until(lambda: it.requests() >= 2, "the command watches")
            process.send_signal(signal.SIGINT)
            code, _, _ = await datacast(process=process)
            record = await it.client.group(group["id"])
            cancelled = await datacast("cancel", group["id"], url=url)
            return code, record["state"], cancelled

    code, state, cancelled = run(scenario(), 60)
    assert code == 130 and state == "running"
    assert cancelled[0] == 0 and "is cancelled" in cancelled[1]


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        (["send", "/srv/file", "--from", "h0", "--to", "h1,h1"], 2, "h1 is named twice"),
        (["send", "/srv/file", "--from", "h0", "--to", "h0"], 2, "the source h0 is among the receivers"),
        (["send", "/srv/file", "--from", "zz", "--to", "h1"], 2, "no host 'zz'"),
        (["send", "/srv/file", "--from", "h0", "--to", ","], 2, "names no host"),
        (["send", "/srv/file", "--from", "h0", "--to", "all,h1"], 2, "stands alone"),
        (["send", "/srv/file", "--from", "h0", "--to", "h1", "--cache", "much"], 2, "'much' is no size"),
        (["send", "/srv/file", "--from", "h0"], 2, "--to"),
        (["send", "/srv/none", "--from", "h0", "--to", "h1"], 1, "no such file"),
        (["status", "g-none"], 3, "there is no group 'g-none'"),
        (["cancel", "g-none"], 3, "there is no group 'g-none'"),
        (["groups", "--state", "odd"], 2, "state"),
        (["frobnicate"], 2, "frobnicate"),
    ],
)
def test_wrong_use_has_its_exit_code_and_names_the_thing(args: list[str], code: int, text: str) -> None:
    async def scenario():
        async with service([20_000.0]) as (_, url):
            return await datacast(*args, url=url)

    exit_code, out, err = run(scenario(), 60)
    assert exit_code == code and text in out + err and "Traceback" not in err


@pytest.mark.parametrize(
    "args", [["groups"], ["topology"], ["status", "x"], ["send", "/f", "--from", "a", "--to", "b"]]
)
def test_without_a_controller_the_remedy_is_told(args: list[str]) -> None:
    code, _, err = run(datacast(*args, url="http://127.0.0.1:9"))
    assert code == 4
    assert "no controller at http://127.0.0.1:9; start a lab with `datacast lab up` or set --controller" in err


def test_topology_for_people_and_machines() -> None:
    async def scenario():
        async with service([1.0], agents=["h0", "h1"]) as (_, url):
            return await datacast("topology", "--links", url=url), await datacast("topology", "--json", url=url)

    (code, out, _), (_, machine, _) = run(scenario(), 60)
    assert code == 0 and "4 hosts (2 with an agent), 1 switches, 4 links (2 down)" in out
    assert len(json.loads(machine)["links"]) == 4


def test_help_imports_no_part_and_a_part_that_is_missing_breaks_only_itself(tmp_path) -> None:
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

    out, _ = run(call("--help"))
    assert "code 0 []" in out and all(name in out for name in ("lab", "send", "trees", "sim", "doctor", "absent"))
    out, err = run(call("absent"))
    assert "code 1" in out and "`absent` cannot be loaded" in err and "datacast doctor" in err


@pytest.mark.parametrize(
    ("text", "size"), [("128K", 131072), ("1M", 1 << 20), ("1.5KiB", 1536), ("7", 7), ("2gb", 2 << 30)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "K", "-1", "1 apple", "1KK"])
def test_sizes_and_rates_that_are_none(text: str) -> None:
    for parse in (parse_size, parse_rate):
        with pytest.raises(typer.BadParameter):
            parse(text)


def test_receivers() -> None:
    assert parse_receivers(["02,10", " 21 "]) == {"receivers": ["02", "10", "21"]}
    assert parse_receivers(["all"]) == {"receivers": "all"}
    assert parse_receivers(["@rack"]) == {"receiver_set": "rack"}
