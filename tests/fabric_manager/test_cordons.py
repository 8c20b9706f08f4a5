"""Switches that no tree uses: groups move away from them, and nobody is cut off by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from small import bcube41, star, until

from datacast.services.problems import Problem
from lab import lab, rest

SIX = ["02", "10", "21", "23", "31", "33"]
SIZE = 8_000_000


def carried(topology: dict[str, Any], switch: str) -> list[Any]:
    return [entry for link in topology["links"] if switch in (link["u"], link["v"]) for entry in link["carries"]]


async def test_groups_move_away_from_a_switch_that_is_cordoned_and_come_back() -> None:
    async with lab(bcube41(), rates=[500.0]) as it, rest(it.manager.url) as http:
        group = await it.start("00", SIX, SIZE)
        await it.running(group, 30)

        async def topology() -> dict[str, Any]:
            return (await http.get("/topology")).json()

        async def over(wanted: bool) -> bool:
            return bool(carried(await topology(), "s1.0")) is wanted

        await until(lambda: over(True), "trees use it")
        answer = await http.put("/switches/s1.0/cordon", json={"reason": "new firmware"})
        assert answer.json() == {"name": "s1.0", "cordoned": "new firmware"}
        await until(lambda: over(False), "they have left it")
        told = await topology()
        assert {node["name"]: node["drained"] for node in told["nodes"] if node["drained"]} == {
            "s1.0": "new firmware"
        }
        assert all(node["alive"] for node in told["nodes"]), "it still forwards"
        assert {host["cordoned"] for host in (await http.get("/hosts")).json()} == {None}
        assert (await http.delete("/switches/s1.0/cordon")).json()["cordoned"] is None
        assert all(link["up"] for link in (await topology())["links"])
        again = await http.delete("/switches/s1.0/cordon")
        assert (again.status_code, again.json()["code"]) == (404, "not_cordoned")
        record = await it.end(group)
    assert record["state"] == "done"
    assert all(receiver["sha256_ok"] for receiver in record["receivers"].values())


async def test_a_switch_is_not_cordoned_under_a_group_that_has_no_other_and_its_hosts_get_none(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    async with lab(star(3), rates=[500.0], store=store) as it, rest(it.manager.url) as http:
        group = await it.start("h0", ["h1"], SIZE)
        await it.running(group, 1)
        busy = await http.put("/switches/s/cordon", json={})
        assert (busy.status_code, busy.json()["code"]) == (409, "busy") and group["id"] in busy.json()["detail"]
        await it.client.cancel_group(group["id"])
        await it.end(group)
        assert (await http.put("/switches/s/cordon", json={"reason": "rack"})).status_code == 200
        hosts = {host["name"]: host["cordoned"] for host in (await http.get("/hosts")).json()}
        assert set(hosts.values()) == {"cut off: no tree uses s"}
        for name, code in (("h1", "not_a_switch"), ("nobody", "unknown_switch")):
            odd = await http.put(f"/switches/{name}/cordon", json={})
            assert (odd.status_code, odd.json()["code"]) == (422, code)
    async with lab(star(3), store=store) as it:
        assert it.manager.fabric.links_down == 3, "it stays so"
        try:
            await it.start("h0", ["h1"], SIZE)
        except Problem as problem:
            assert problem.code == "cordoned" and "no tree uses s" in problem.message
        else:
            raise AssertionError(json.dumps("it was taken"))
        await it.client.uncordon_switch("s")
        assert (await it.end(await it.start("h0", ["h1"], SIZE)))["state"] == "done"


async def test_what_was_cordoned_and_is_gone_from_the_network_can_be_let_go(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    async with lab(star(3), store=store) as it, rest(it.manager.url) as http:
        assert (await http.put("/hosts/h2/cordon", json={"reason": "moved"})).status_code == 200
    async with lab(star(2), store=store) as it, rest(it.manager.url) as http:
        first = await http.delete("/hosts/h2/cordon")
        assert (first.status_code, (await http.delete("/hosts/h2/cordon")).status_code) == (200, 404)
