"""plan, hosts, cordon, drain, sets, events, forget: what they print, and their exit codes."""

from __future__ import annotations

import json
import signal

import pytest
from small import star
from test_client import datacast, service, spawn

from datacast.controller.app import make_app
from datacast.fabric_manager.api import FabricManagerClient
from datacast.services.service import HttpServer, listen
from lab import lab


async def test_hosts_are_cordoned_drained_and_take_part_again() -> None:
    async with service([20_000.0]) as (_, url):
        cordon, hosts, send, drain, uncordon, again, table = [
            await datacast(*words.split(), url=url)
            for words in (
                "cordon h1 --reason disk", "hosts --json", "send /srv/file --from h0 --to h1", "drain h1",
                "uncordon h1", "uncordon h1", "hosts",
            )
        ]
    assert cordon[0] == 0 and {h["name"]: h["cordoned"] for h in json.loads(hosts[1])}["h1"] == "disk"
    assert send[0] == 2 and "disk" in send[2]
    assert drain[0] == 0 and "no group runs on h1" in drain[1]
    assert uncordon[0] == 0 and again[0] == 3 and "not cordoned" in again[2]
    assert table[0] == 0 and "h1" in table[1]


async def test_a_plan_and_sets_and_what_is_forgotten() -> None:
    async with service([20_000.0]) as (_, url):
        done = [
            await datacast(*words.split(), url=url)
            for words in (
                "sets list", "sets put rack h1,h2", "sets list", "plan --from h0 --to @rack --size 1M --json",
                "plan --from h0 --to @rack --planner fpfr --most 1mbit",
                "plan --from h0 --to @rack --planner fastest",
                "send /srv/file --from h0 --to @rack --label job=night --json",
            )
        ]  # fmt: skip
        group = json.loads(done[-1][1])["id"]
        none, put, listed, plan, told, unknown, sent, forgot, again = (
            [*done, await datacast("forget", group, url=url), await datacast("forget", group, url=url)]
        )
    assert none[0] == 0 and none[1] == "no sets\n"
    assert put[0] == 0 and "rack  h1,h2" in listed[1]
    assert json.loads(plan[1])["receivers"] == ["h1", "h2"] and json.loads(plan[1])["expected_s"] > 0
    assert (
        json.loads(plan[1])["gap"] == {"part": 0.0, "receiver": None} and "no gap" in told[1] and "the cut" in told[1]
    )
    assert told[0] == 0 and "receivers, 1.0 Mbit/s" in told[1] and unknown[0] != 0 and "planner" in unknown[2]
    assert sent[0] == 0 and json.loads(sent[1])["labels"] == {"job": "night"}
    assert forgot[0] == 0 and again[0] == 3


async def test_a_label_without_a_value_is_named() -> None:
    code, _, err = (
        await datacast("send", "/f", "--from", "h0", "--to", "h1", "--label", "job", url="http://127.0.0.1:9")
    )
    assert code == 2 and "NAME=VALUE" in err


async def test_where_a_controller_does_not_answer_the_next_is_asked() -> None:
    async with service([20_000.0]) as (_, url):
        both = f"http://127.0.0.1:1,{url}"
        hosts, sent, none = [
            await datacast("hosts", "--json", url=both),
            await datacast("send", "/srv/file", "--from", "h0", "--to", "h1", url=both),
            await datacast("hosts", url="http://127.0.0.1:1,http://127.0.0.1:2"),
        ]
    assert hosts[0] == 0 and len(json.loads(hosts[1])) > 1
    assert sent[0] == 0, sent
    assert none[0] == 4 and "no controller answers at" in none[2]


async def test_a_host_joins_the_fabric_and_leaves_it_by_command() -> None:
    async with service([20_000.0]) as (_, url):
        added, again, shown, removed, gone, odd = [
            await datacast(*words.split(), url=url)
            for words in (
                "nodes add h9 --link s --rate 10gbit", "nodes add h9 --link s", "topology", "nodes remove h9",
                "nodes remove h9", "nodes add h8 --link nowhere",
            )
        ]
    assert added[0] == 0, added
    assert again[0] != 0 and "part of the fabric already" in again[2], again
    assert shown[0] == 0 and "h9" in shown[1] and removed[0] == 0
    assert gone[0] != 0 and "no node 'h9'" in gone[2]
    assert odd[0] != 0 and "nowhere" in odd[2]


async def test_caps_are_set_shown_and_cleared() -> None:
    async with service([20_000.0]) as (_, url):
        none, whole, host, both, one, again, odd = [
            await datacast(*words.split(), url=url)
            for words in (
                "caps", "caps set 2gbit", "caps set 500mbit --host h1 --json", "caps", "caps clear --host h1",
                "caps clear --host h1", "caps set fast",
            )
        ]
    assert none[:2] == (0, "fabric  no cap\n") and "fabric  2000.0 Mbit/s" in whole[1]
    assert json.loads(host[1]) == {"fabric_bps": 2_000_000_000, "hosts": {"h1": 500_000_000}}
    assert both[1] == "fabric  2000.0 Mbit/s\nh1  500.0 Mbit/s\n" and one[1] == "fabric  2000.0 Mbit/s\n"
    assert again[0] == 3 and "has no cap" in again[2]
    assert odd[0] == 2 and "is no rate" in odd[2]


async def test_switches_are_drained_too() -> None:
    async with service([20_000.0]) as (_, url):
        drain, hosts, uncordon, again, cordon = [
            await datacast(*words.split(), url=url)
            for words in ("drain s", "hosts --json", "uncordon s", "uncordon s", "cordon s --json")
        ]
    assert drain[0] == 0 and "no group runs on s" in drain[1]
    assert {host["cordoned"] for host in json.loads(hosts[1])} == {"cut off: no tree uses s"}
    assert uncordon[0] == 0 and "s takes part again" in uncordon[1] and again[0] == 3
    assert json.loads(cordon[1]) == {"name": "s", "cordoned": ""}


async def test_a_host_is_drained_when_its_groups_have_ended_and_not_before() -> None:
    async with service([40.0]) as (it, url):
        group = await it.start("h0", ["h1"], 3_000_000)
        await it.running(group)
        still = await datacast("drain", "h1", "--timeout", "0.5", url=url)  # beside news of a group that runs
        asked = await datacast("drain", "h1", "--timeout", "0.5", "--json", url=url)
        waits = await spawn("drain", "h1", "--timeout", "60", url=url)
        shown = await datacast("hosts", url=url)
        over = waits.returncode is not None
        await it.client.cancel_group(group["id"])
        name, waited = group["id"], await datacast(process=waits)
    assert asked[0] == 1 and json.loads(asked[1]) == {"name": "h1", "cordoned": "drained", "groups": [name]}
    assert still == (1, f"still on h1: {name}\n", "")
    assert any("h1" in line and "drained" in line and name in line for line in shown[1].splitlines()), shown
    assert not over and waited == (0, "no group runs on h1\n", "")


async def test_a_set_is_forgotten_and_unknown_then() -> None:
    async with service([20_000.0]) as (_, url):
        put, deleted, left, again, sent = [
            await datacast(*words.split(), url=url)
            for words in (
                "sets put rack h1 h2 --json", "sets delete rack", "sets list --json", "sets delete rack",
                "send /srv/file --from h0 --to @rack",
            )
        ]
    assert json.loads(put[1])["hosts"] == ["h1", "h2"] and deleted[:2] == (0, "rack is forgotten\n")
    assert json.loads(left[1]) == {} and again[0] == 3 and "rack" in again[2]
    assert sent[0] != 0 and "rack" in sent[2]


async def test_events_tell_of_a_group_from_its_start_to_its_end() -> None:
    async with service([400.0]) as (it, url):
        watch = await spawn("events", url=url)
        plain = await spawn("events", "--json", url=url)
        lines = [await watch.stdout.readline() for _ in range(2)]
        await plain.stdout.readline()
        group = await it.end(await it.start("h0", ["h1"], 3_000_000))
        while b"done" not in lines[-1]:
            lines.append(await watch.stdout.readline())
        events = [json.loads(await plain.stdout.readline())]
        while events[-1].get("state") != "done":
            events.append(json.loads(await plain.stdout.readline()))
        for process in (watch, plain):
            process.kill()
            await process.wait()
        name, lines = group["id"], [line.decode() for line in lines]
    assert "0 groups\n" in lines[:2] and any(line.endswith(", 0 links down\n") for line in lines[:2]), lines
    assert any(line.startswith(f"group {name} running") for line in lines), lines
    assert lines[-1].startswith(f"group {name} done 100%")
    assert {event["id"] for event in events if event["type"] == "group"} == {name}


async def test_events_go_on_when_the_controller_is_started_again(capfd: pytest.CaptureFixture[str]) -> None:
    async with lab(star(3), rates=[4000.0]) as it, FabricManagerClient(it.manager.url) as client:
        server = HttpServer(make_app(client), listen("127.0.0.1:0"))
        await server.start()
        watch = await spawn("events", url=server.url)
        lines = [await watch.stdout.readline() for _ in range(2)]
        client.end_streams()
        await server.stop()
        missed = await it.end(await it.start("h0", ["h1"], 3_000_000))
        async with FabricManagerClient(it.manager.url) as other:
            server = HttpServer(make_app(other), listen(server.address))
            await server.start()
            while b"done" not in lines[-1]:
                lines.append(await watch.stdout.readline())
            watch.send_signal(signal.SIGINT)
            _, err = await watch.communicate()
            other.end_streams()
            await server.stop()
        name, err, code = missed["id"], err.decode(), watch.returncode
    assert lines[-1].decode().startswith(f"group {name} done") and not any(b"groups\n" in line for line in lines[2:])
    assert err.count("trying again") == 1 and "has ended the stream" in err and code == 130
    assert "Traceback" not in capfd.readouterr().err, "its streams were ended, not waited for and broken off"


async def test_events_of_a_group_that_there_is_not_are_not_waited_for() -> None:
    async with service([20_000.0]) as (_, url):
        code, _, err = await datacast("events", "--group", "g-nope", url=url)
    assert code == 3 and "no group 'g-nope'" in err


async def test_an_empty_name_is_wrong_usage() -> None:
    """As of a script's variable that is not set: no other address is asked in its place."""
    async with service([20_000.0]) as (_, url):
        words = ["status", "cancel", "forget", "resume", "cordon", "uncordon", "events --group", "sets delete"]
        found = [(word, await datacast(*word.split(), "", url=url)) for word in words]
    for word, (code, _, err) in found:
        assert code == 2 and "empty" in err, (word, code, err)


async def test_a_name_with_a_slash_is_told_as_one_that_there_is_not() -> None:
    """A host of another site: REST said that it had no such address."""
    async with service([20_000.0]) as (_, url):
        words = ["status", "resume", "cordon", "caps set 1gbit --host", "caps clear --host", "nodes remove", "switches"]
        found = [(word, await datacast(*word.split(), "sfo/00", url=url)) for word in words]
    for word, (code, _, err) in found:
        assert code == 2 and "'sfo/00' has a slash" in err and "its own controller" in err, (word, code, err)


async def test_a_fabric_without_programmed_switches_shows_none() -> None:
    async with service([20_000.0]) as (_, url):
        found, table, one = (
            [await datacast(*words.split(), url=url) for words in ("switches --json", "switches", "switches s")]
        )
    assert json.loads(found[1])["switches"] == [] and table[1] == "this controller programs no switches\n"
    assert one[0] == 3 and "no switch 's'" in one[2]
