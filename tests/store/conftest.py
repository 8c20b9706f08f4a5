"""The stores that the tests run on: each by a factory that opens it once more, as another process would."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from etcd import Etcd

from datacast.services.store import Store, open_store


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with Etcd(tmp_path_factory.mktemp("etcd")) as member:
        yield member


@pytest.fixture(params=["sqlite", "etcd"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    if request.param == "sqlite":
        return lambda: open_store(str(tmp_path / "deep" / "d.sqlite"))
    member: Etcd = request.getfixturevalue("etcd")
    member.empty()
    return lambda: open_store(member.url)


class Forgetful:
    """Between a store and its etcd: `lose` is how many answers to writes are lost from now on, though they are carried
    out. What SQLite writes it answers in the same process: there is none to lose."""

    def __init__(self, opened: Callable[[str], Store], member: Etcd | None) -> None:
        self._opened, self._member = opened, member
        self.lose = self.lost = 0

    @contextlib.asynccontextmanager
    async def store(self) -> AsyncIterator[Store]:
        if self._member is None:
            store = self._opened("")
            yield store
        else:
            server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
            store = self._opened(f"etcd://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            yield store
            server.close()
        await store.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self._member is not None
        there, up = await asyncio.open_connection("127.0.0.1", self._member.clients[0])
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                asked, told = await self._message(reader), b""
                up.write(asked)
                told = await self._message(there)
                if self.lose and asked.startswith(b"POST /v3/kv/txn "):
                    self.lose -= 1
                    self.lost += 1
                    break
                writer.write(told)
        writer.close()
        up.close()

    @staticmethod
    async def _message(reader: asyncio.StreamReader) -> bytes:
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        assert length, head
        return head + await reader.readexactly(int(length[1]))


@pytest.fixture(params=["sqlite", "etcd"])
def forgetful(request: pytest.FixtureRequest, tmp_path: Path) -> Forgetful:
    if request.param == "sqlite":
        return Forgetful(lambda _: open_store(str(tmp_path / "d.sqlite")), None)
    member: Etcd = request.getfixturevalue("etcd")
    member.empty()
    return Forgetful(open_store, member)
