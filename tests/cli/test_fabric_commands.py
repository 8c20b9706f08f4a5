"""plan, hosts, cordon, drain, sets, events, forget: what they print, and their exit codes."""

from __future__ import annotations

import json

from small import run
from test_client import datacast, service


def test_hosts_are_cordoned_drained_and_take_part_again() -> None:
    async def scenario():
        async with service([20_000.0]) as (_, url):
            return [
                await datacast(*words.split(), url=url)
                for words in (
                    "cordon h1 --reason disk", "hosts --json", "send /srv/file --from h0 --to h1", "drain h1",
                    "uncordon h1", "uncordon h1", "hosts",
                )
            ]  # fmt: skip

    cordon, hosts, send, drain, uncordon, again, table = run(scenario(), 100)
    assert cordon[0] == 0 and {h["name"]: h["cordoned"] for h in json.loads(hosts[1])}["h1"] == "disk"
    assert send[0] == 2 and "disk" in send[2]
    assert drain[0] == 0 and "no group runs on h1" in drain[1]
    assert uncordon[0] == 0 and again[0] == 3 and "not cordoned" in again[2]
    assert table[0] == 0 and "h1" in table[1]


def test_a_plan_and_sets_and_what_is_forgotten() -> None:
    async def scenario():
        async with service([20_000.0]) as (_, url):
            done = [
                await datacast(*words.split(), url=url)
                for words in (
                    "sets put rack h1,h2", "sets list", "plan --from h0 --to @rack --size 1M --json",
                    "plan --from h0 --to @rack --planner fpfr", "plan --from h0 --to @rack --planner fastest",
                    "send /srv/file --from h0 --to @rack --label job=night --json",
                )
            ]  # fmt: skip
            group = json.loads(done[-1][1])["id"]
            return [*done, await datacast("forget", group, url=url), await datacast("forget", group, url=url)]

    put, listed, plan, told, unknown, sent, forgot, again = run(scenario(), 100)
    assert put[0] == 0 and "rack  h1,h2" in listed[1]
    assert json.loads(plan[1])["receivers"] == ["h1", "h2"] and json.loads(plan[1])["expected_s"] > 0
    assert (
        json.loads(plan[1])["gap"] == {"part": 0.0, "receiver": None} and "no gap" in told[1] and "the cut" in told[1]
    )
    assert told[0] == 0 and unknown[0] != 0 and "planner" in unknown[2]
    assert sent[0] == 0 and json.loads(sent[1])["labels"] == {"job": "night"}
    assert forgot[0] == 0 and again[0] == 3


def test_a_label_without_a_value_is_named() -> None:
    async def scenario():
        return await datacast("send", "/f", "--from", "h0", "--to", "h1", "--label", "job", url="http://127.0.0.1:9")

    code, _, err = run(scenario(), 100)
    assert code == 2 and "NAME=VALUE" in err


def test_where_a_controller_does_not_answer_the_next_is_asked() -> None:
    async def scenario():
        async with service([20_000.0]) as (_, url):
            both = f"http://127.0.0.1:1,{url}"
            return [
                await datacast("hosts", "--json", url=both),
                await datacast("send", "/srv/file", "--from", "h0", "--to", "h1", url=both),
                await datacast("hosts", url="http://127.0.0.1:1,http://127.0.0.1:2"),
            ]

    hosts, sent, none = run(scenario(), 100)
    assert hosts[0] == 0 and len(json.loads(hosts[1])) > 1
    assert sent[0] == 0, sent
    assert none[0] == 4 and "no controller at" in none[2]


def test_a_host_joins_the_fabric_and_leaves_it_by_command() -> None:
    async def scenario():
        async with service([20_000.0]) as (_, url):
            return [
                await datacast(*words.split(), url=url)
                for words in (
                    "nodes add h9 --link s --rate 10gbit", "nodes add h9 --link s", "topology", "nodes remove h9",
                    "nodes remove h9", "nodes add h8 --link nowhere",
                )
            ]  # fmt: skip

    added, again, shown, removed, gone, odd = run(scenario(), 100)
    assert added[0] == 0, added
    assert again[0] != 0 and "part of the fabric already" in again[2], again
    assert shown[0] == 0 and "h9" in shown[1] and removed[0] == 0
    assert gone[0] != 0 and "no node 'h9'" in gone[2]
    assert odd[0] != 0 and "nowhere" in odd[2]


def test_caps_are_set_shown_and_cleared() -> None:
    async def scenario():
        async with service([20_000.0]) as (_, url):
            return [
                await datacast(*words.split(), url=url)
                for words in (
                    "caps", "caps set 2gbit", "caps set 500mbit --host h1 --json", "caps", "caps clear --host h1",
                    "caps clear --host h1", "caps set fast",
                )
            ]  # fmt: skip

    none, whole, host, both, one, again, odd = run(scenario(), 100)
    assert none[:2] == (0, "fabric  no cap\n") and "fabric  2000.0 Mbit/s" in whole[1]
    assert json.loads(host[1]) == {"fabric_bps": 2_000_000_000, "hosts": {"h1": 500_000_000}}
    assert both[1] == "fabric  2000.0 Mbit/s\nh1  500.0 Mbit/s\n" and one[1] == "fabric  2000.0 Mbit/s\n"
    assert again[0] == 3 and "has no cap" in again[2]
    assert odd[0] == 2 and "is no rate" in odd[2]


def test_switches_are_drained_too() -> None:
    async def scenario():
        async with service([20_000.0]) as (_, url):
            return [
                await datacast(*words.split(), url=url)
                for words in ("drain s", "hosts --json", "uncordon s", "uncordon s", "cordon s --json")
            ]

    drain, hosts, uncordon, again, cordon = run(scenario(), 100)
    assert drain[0] == 0 and "no group runs on s" in drain[1]
    assert {host["cordoned"] for host in json.loads(hosts[1])} == {"cut off: no tree uses s"}
    assert uncordon[0] == 0 and "s takes part again" in uncordon[1] and again[0] == 3
    assert json.loads(cordon[1]) == {"name": "s", "cordoned": ""}
