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

    cordon, hosts, send, drain, uncordon, again, table = run(scenario(), 60)
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
                    "send /srv/file --from h0 --to @rack --label job=night --json",
                )
            ]  # fmt: skip
            group = json.loads(done[-1][1])["id"]
            return [*done, await datacast("forget", group, url=url), await datacast("forget", group, url=url)]

    put, listed, plan, sent, forgot, again = run(scenario(), 60)
    assert put[0] == 0 and "rack  h1,h2" in listed[1]
    assert json.loads(plan[1])["receivers"] == ["h1", "h2"] and json.loads(plan[1])["expected_s"] > 0
    assert sent[0] == 0 and json.loads(sent[1])["labels"] == {"job": "night"}
    assert forgot[0] == 0 and again[0] == 3


def test_a_label_without_a_value_is_named() -> None:
    async def scenario():
        return await datacast("send", "/f", "--from", "h0", "--to", "h1", "--label", "job", url="http://127.0.0.1:9")

    code, _, err = run(scenario(), 30)
    assert code == 2 and "NAME=VALUE" in err
