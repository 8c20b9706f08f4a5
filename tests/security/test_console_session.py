"""The console's cookie: what it opens, to whom, and what another site's page can do with it."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import httpx
import pytest
from small import star

from datacast.controller import console
from datacast.controller.app import make_app
from datacast.fabric_manager.api import FabricManagerClient
from datacast.services import tokens
from lab import lab

HERE = {"origin": "http://console:7580"}
ORDER = {"source": "zz", "receivers": ["h1"], "source_path": "/srv/file"}


@contextlib.asynccontextmanager
async def browser(url: str, path: Path):
    async with FabricManagerClient(url) as client:
        transport = httpx.ASGITransport(app=make_app(client, tokens=tokens.TokenFile(path)))
        async with httpx.AsyncClient(transport=transport, base_url="http://console:7580") as http:
            yield http


async def test_a_session_lives_in_a_cookie_and_ends_with_its_token(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    token, secret = tokens.create(path, "x", "operator")
    async with lab(star(2)) as it, browser(it.manager.url, path) as http:
        assert (await http.get("/topology")).status_code == 401
        wrong = await http.post("/console/session", json={"token": "dct_wrong"}, headers=HERE)
        assert wrong.status_code == 401 and "set-cookie" not in wrong.headers
        answer = await http.post("/console/session", json={"token": secret}, headers=HERE)
        assert answer.status_code == 204
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie and "samesite=strict" in cookie
        assert (await http.get("/topology")).status_code == 200
        places = (await http.get("/console/layout")).json()
        assert set(places) == {"h0", "h1", "s"} and all(0 <= x <= 1 for place in places.values() for x in place)
        assert (await http.post("/groups", json=ORDER, headers=HERE)).json()["code"] == "unknown_host"
        assert (await http.put("/sets/a", json={"hosts": ["h1"]}, headers=HERE)).status_code == 403
        tokens.revoke(path, token.id)
        assert (await http.get("/topology")).status_code == 401


@pytest.mark.parametrize(
    "origin",
    [{}, {"origin": "null"}, {"origin": "http://["}, {"origin": "http://evil"}, {"origin": "http://console:7581"}],
)
async def test_another_site_gives_no_orders_by_cookie(tmp_path: Path, origin: dict[str, str]) -> None:
    path = tmp_path / "tokens.json"
    _, secret = tokens.create(path, "x", "admin")
    async with browser("http://127.0.0.1:9", path) as http:
        http.cookies.set(console.COOKIE, secret)
        for method, where in (("POST", "/groups"), ("DELETE", "/groups/g-1"), ("PUT", "/sets/a")):
            answer = await http.request(method, where, json=ORDER, headers=origin)
            assert (answer.status_code, answer.json()["what"]) == (403, "origin")
            assert answer.json()["detail"] == f"a request by cookie from {origin.get('origin', 'nowhere')!r}"
        signing = await http.post("/console/session", json={"token": secret}, headers=origin)
        assert signing.status_code == 403


async def test_pages_are_for_everybody_with_a_strict_policy_and_nothing_else_is_opened(
    tmp_path: Path, monkeypatch
) -> None:
    path, folder = tmp_path / "tokens.json", tmp_path / "console"
    tokens.create(path, "x", "viewer")
    (folder / "pages").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html>")
    (folder / "pages" / "map.js").write_text("export {}")
    (folder / "secret.txt").write_text("no")
    monkeypatch.setenv("DATACAST_CONSOLE", str(folder))
    async with browser("http://127.0.0.1:9", path) as http:
        page = await http.get("/")
        assert page.status_code == 200 and "default-src 'self'" in page.headers["content-security-policy"]
        assert (await http.get("/console/pages/map.js")).headers["content-type"].startswith("text/javascript")
        for name in (
            "secret.txt",
            "../tokens.json",
            "%2e%2e/tokens.json",
            "pages/%2e%2e/secret.txt",
            "/etc/passwd",
            "x",
        ):
            assert (await http.get(f"/console/{name}")).status_code in (401, 404), name
        assert (await http.get("/console/layout")).status_code == 401


async def test_what_is_left_has_a_map_when_a_node_was_taken_away(tmp_path: Path) -> None:
    """A switch whose first port leads nowhere any more: the console stayed at `No connection to the controller`."""
    path = tmp_path / "tokens.json"
    _, secret = tokens.create(path, "x", "admin")
    async with lab(star(3)) as it, browser(it.manager.url, path) as http:
        http.cookies.set(console.COOKIE, secret)
        for gone in ("h0", "h1", "h2"):
            assert (await http.delete(f"/topology/nodes/{gone}", headers=HERE)).status_code == 204
            nodes = {node["name"] for node in (await http.get("/topology")).json()["nodes"]}
            answer = await http.get("/console/layout")
            assert gone not in nodes and (answer.status_code, set(answer.json())) == (200, nodes), answer.text


async def test_cookies_of_other_programs_on_the_machine_end_no_session(tmp_path: Path) -> None:
    """A browser sends those of all its ports, in whatever form they were set."""
    path = tmp_path / "tokens.json"
    _, secret = tokens.create(path, "x", "viewer")
    async with lab(star(2)) as it, browser(it.manager.url, path) as http:
        for others in ('a={"b": [1, 2]}', 'a="b', "a", "=", "\xe4=1", 'a=b c, d', "$Version"):
            cookie = f"{others}; datacast={secret}; z=1".encode("latin-1")
            answer = await http.get("/topology", headers={b"cookie": cookie})
            assert answer.status_code == 200, others


@pytest.mark.skipif(console.folder() is None, reason="the console is not built")
async def test_pages_take_nothing_from_elsewhere(tmp_path: Path) -> None:
    """A script there may order what the one who is signed in may. That of the REST API was whatever a server of others
    had, and where none was to be reached that page was empty."""
    path = tmp_path / "tokens.json"
    tokens.create(path, "x", "viewer")
    async with browser("http://127.0.0.1:9", path) as http:
        for where in ("/", "/docs"):
            page = await http.get(where)
            assert page.status_code == 200 and "default-src 'self'" in page.headers.get("content-security-policy", "")
            for address in re.findall(r'(?:src|href)="([^"]+)"', page.text):
                assert (await http.get(f"/{address}")).status_code == 200, address
        assert (await http.get("/redoc")).status_code == 401, "there is no such page"
