"""Who answers at a site's URL must be a controller of that very site: nobody else is asked anything."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from authority import Authority
from mesh import mesh, until

from datacast.controller.sites import peers as asking
from datacast.controller.sites.directory import Directory
from datacast.controller.sites.peers import Peers
from datacast.services.sites_file import SiteError
from datacast.services.tls import Identity


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a handshake takes longer than controllers wait for one: that is another fault."""
    monkeypatch.setattr(asking, "CONNECT_S", 60.0)
    monkeypatch.setattr(asking, "HEAD_S", 60.0)


class Answering:
    """A server at sfo's URL, and all that it was told after the handshake."""

    def __init__(self) -> None:
        self.told = b""
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not self.told.endswith(b"\r\n\r\n") and (some := await reader.read(4096)):
            self.told += some
        if self.told:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
        writer.close()


@asynccontextmanager
async def answering(maker: Authority, identity: str, clients_of: Authority) -> AsyncIterator[Answering]:
    one, context = Answering(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*maker.issue(identity))
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(clients_of.ca)
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0, ssl=context)
    one.url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield one
    finally:
        server.close()
        await server.wait_closed()


def known(folder: Path, url: str, own: Authority, **others: Authority) -> Peers:
    rows = {name: {"ca": str(one.ca), **({"url": url} if name == "sfo" else {})} for name, one in others.items()}
    file = folder / "sites.yaml"
    file.write_text(yaml.safe_dump({"name": "ams", "url": "https://127.0.0.1:1", "sites": rows}))
    identity = Identity(str(own.ca), *own.issue("controller/main"), "controller")
    return Peers(Directory(file, str(own.ca)), identity)


@pytest.mark.parametrize(
    ("whose", "identity"),
    [
        ("third", "controller/main"),
        ("syd", "controller/main"),  # it is known here, and it is not sfo
        ("ams", "controller/main"),  # nor is this site itself
        ("sfo", "agent/sfo-0"),
        ("sfo", "fabric-manager/main"),
    ],
)
async def test_nobody_but_the_sites_own_controller_is_asked(tmp_path: Path, whose: str, identity: str) -> None:
    makers = {name: Authority(tmp_path / name) for name in ("ams", "sfo", "syd", "third")}
    async with answering(makers[whose], identity, makers["ams"]) as there:
        peers = known(tmp_path, there.url, makers["ams"], sfo=makers["sfo"], syd=makers["syd"])
        with pytest.raises(SiteError) as orders:
            await peers.orders("sfo")
        with pytest.raises(SiteError) as bytes_of:
            async for _ in peers.stream("sfo", "s-0123456789abcdef", 0, 99, '"x"'):
                pass
        assert {orders.value.code, bytes_of.value.code} == {"certificate"}, orders.value
        assert "site sfo at https://127.0.0.1" in orders.value.message
        assert peers.all["sfo"].problem == orders.value.message and not peers.all["sfo"].there
        assert there.told == b""
        await peers.close()


async def test_the_sites_own_controller_is_asked(tmp_path: Path) -> None:
    """What is refused above is not refused for another reason."""
    makers = {name: Authority(tmp_path / name) for name in ("ams", "sfo")}
    async with answering(makers["sfo"], "controller/main", makers["ams"]) as there:
        peers = known(tmp_path, there.url, makers["ams"], sfo=makers["sfo"])
        assert (await peers.orders("sfo")).orders == []
        assert there.told.startswith(b"GET /site/orders") and peers.all["sfo"].there
        await peers.close()


async def test_a_site_that_only_an_old_connection_leads_to_is_said_to_be_there_and_why_no_new_one_does(
    tmp_path: Path,
) -> None:
    """As when its certificate has ended, which those that are open do not notice. Groups found it out."""
    async with mesh(tmp_path, {"ams": ["a0"], "sfo": ["s0"]}, {"sfo": ["ams"]}) as sites:
        ams, sfo = sites.values()
        peer, context = sfo.coordinator.peers.all["ams"], ams.coordinator.peers._context
        assert context is not None

        async def shown() -> tuple[bool, str]:
            (row,) = (await sfo.http.get("/sites")).json()
            return row["there"], row["problem"]

        await until(lambda: peer.there and peer.opening is not None and peer.opening.done())
        assert await shown() == (True, "")
        context.load_cert_chain(*Authority(tmp_path / "other").issue("controller/main"))
        await until(lambda: peer.shut)
        there, problem = await shown()
        assert there and f"site ams at {ams.url}: " in problem, problem
        context.load_cert_chain(*ams.authority.issue("controller/main"))
        await until(lambda: not peer.shut)
        assert await shown() == (True, "")
