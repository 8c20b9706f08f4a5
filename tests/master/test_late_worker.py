"""A worker that stood still finds its time over and the answers there: nobody is out of touch for that."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import threading
import time
from types import SimpleNamespace

import pytest
from small import until

from datacast.master import worker
from datacast.master.requests import STATUS
from datacast.master.signalling import Branch, Connection, SignallingError
from datacast.services.problems import Problem
from datacast.services.tls import PLAIN


def frame(message: object) -> bytes:
    body = json.dumps(message).encode()
    return len(body).to_bytes(4, "big") + body


def read(stream: socket.socket) -> dict:
    file = stream.makefile("rb")
    return json.loads(file.read(int.from_bytes(file.read(4), "big")))


class Agent:
    """Answers one request in a thread of its own, with many bytes."""

    def __init__(self, answers: bool) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listening.getsockname()[1]}"
        self.answers = answers
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self) -> None:
        stream, _ = self.listening.accept()
        with stream:
            request = read(stream)
            if self.answers:
                results = {f"h{n}": {"ok": True, "text": "x" * 100} for n in range(10_000)}
                stream.sendall(frame({"type": "ack", "id": request["id"], "results": results}))
            self.done.set()
            stream.settimeout(60)
            with contextlib.suppress(OSError):
                stream.recv(1)


async def ask(agent: Agent) -> dict:
    connection = Connection(agent.address, lambda event: None, name="h")
    await connection.connect(60.0)
    try:
        asked = asyncio.create_task(connection.ask(STATUS, "g", Branch("h", ""), timeout=0.0))
        await asyncio.sleep(0.02)  # it is written
        assert agent.done.wait(60)
        time.sleep(0.8)  # what a worker with too much to do looks like
        return (await asked).read()
    finally:
        await connection.close()


async def test_an_answer_that_came_while_the_worker_stood_still_counts() -> None:
    assert len(await ask(Agent(answers=True))) == 10_000


async def test_who_did_not_answer_is_not_waited_for() -> None:
    """Else its agent would close the connection in the end, which is another error."""
    with pytest.raises(SignallingError, match="did not acknowledge status"):
        await ask(Agent(answers=False))


class Slow:
    """A fabric manager that takes long over what is told, and hears who lives."""

    def __init__(self) -> None:
        self.security, self.lease, self.heard = PLAIN, "", 0

    async def report(self, name: str, reports: list) -> list:
        if reports:
            await asyncio.sleep(60)
        self.heard += 1
        return []


async def test_a_worker_whose_report_takes_long_keeps_its_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "RENEW_S", 0.04)
    client = Slow()
    one = worker.Worker(client, SimpleNamespace(), "w")  # type: ignore[arg-type]
    tell = asyncio.create_task(one._tell([(None, False, {})]))  # type: ignore[list-item]
    renew = asyncio.create_task(one._renew())
    began = time.monotonic()
    await until(lambda: client.heard >= 8, "it is heard of")
    assert time.monotonic() - began >= 6 * worker.RENEW_S, "not more often than its lease needs"
    for task in (tell, renew):
        task.cancel()
    await asyncio.gather(tell, renew, return_exceptions=True)


@pytest.mark.simulated
async def test_a_worker_renews_its_lease_before_another_half_of_its_time_is_over() -> None:
    renewed: list[float] = []

    class Client(Slow):
        async def report(self, name: str, reports: list) -> list:
            renewed.append(time.monotonic())
            return []

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(20.0):
            await worker.Worker(Client(), SimpleNamespace(), "w")._renew()  # type: ignore[arg-type]
    apart = [b - a for a, b in itertools.pairwise(renewed)]
    assert len(apart) >= 12 and all(worker.RENEW_S < one < 1.51 * worker.RENEW_S for one in apart)


async def test_a_worker_without_news_tells_nothing_between_two_renewals() -> None:
    client = Slow()
    await worker.Worker(client, SimpleNamespace(), "w").report()  # type: ignore[arg-type]
    assert client.heard == 0


async def test_a_worker_that_is_told_to_stop_says_so_when_its_groups_have_parted() -> None:
    """So nobody waits for it to come back. A fabric manager that is away holds it up no longer than that."""
    told: list[str] = []

    class Client:
        security, lease = PLAIN, ""

        async def leave(self, name: str) -> None:
            told.append(f"{name} leaves")
            raise Problem(503, "unreachable", "no fabric manager")

    async def parting() -> None:
        await asyncio.sleep(0.01)
        told.append("its group has parted")

    one = worker.Worker(Client(), SimpleNamespace(), "w")  # type: ignore[arg-type]
    one._parting.add(asyncio.create_task(parting()))
    await one.leave()
    assert told == ["its group has parted", "w leaves"]


async def test_news_of_a_link_are_read_between_orders_that_come_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shares of hundreds of groups: they were read in one turn of the loop, of 35 ms once."""
    done = []

    async def order(self: worker.Worker, told: object) -> None:
        done.append(told)
        end = time.thread_time() + 0.001
        while time.thread_time() < end:
            pass

    class Client:
        security, lease = PLAIN, ""

        async def orders(self, name: str, pid: int):
            for _ in range(100):
                yield '{"type":"drop","group":"g","epoch":1}'
            await asyncio.Event().wait()

    monkeypatch.setattr(worker.Worker, "_on_order", order)
    following = asyncio.create_task(worker.Worker(Client(), SimpleNamespace(), "w")._follow(1))  # type: ignore[arg-type]
    await until(lambda: done, "the first is read")
    read_by_then = len(done)
    await until(lambda: len(done) == 100, "all are")
    following.cancel()
    assert read_by_then < 50


async def test_an_idle_connection_keeps_nothing_of_what_it_has_read() -> None:
    """A worker has hundreds of connections, and a status is some tens of kilobytes."""
    agent = Agent(answers=True)
    connection = Connection(agent.address, lambda event: None, name="h")
    await connection.connect(60.0)
    await connection.ask(STATUS, "g", Branch("h", ""), timeout=60.0)
    reading = connection._reading
    assert reading is not None and connection.alive
    frame = reading.get_coro().cr_frame  # type: ignore[union-attr]
    kept = [name for name, value in frame.f_locals.items() if isinstance(value, bytes)]
    await connection.close()
    assert kept == []


async def test_a_worker_that_cannot_tell_of_its_groups_any_more_ends() -> None:
    """It would renew its lease for ever, and nobody hear of its groups."""
    client = Slow()

    async def broken() -> None:
        raise KeyError("tree")

    with pytest.raises(ExceptionGroup) as told:
        view = SimpleNamespace(at=lambda version: asyncio.Event().wait())
        one = worker.Worker(client, view, "w")  # type: ignore[arg-type]
        one.report = broken  # type: ignore[method-assign]
        async with asyncio.timeout(10):
            await one.run(1)
    assert told.group_contains(KeyError, match="tree")


async def test_a_worker_that_is_told_to_stop_leaves_all_its_groups_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds, of which each takes a moment; nor does it wait long for a fabric manager that stands still."""
    monkeypatch.setattr(worker, "LEAVE_S", 0.1)

    class Client:
        security, lease = PLAIN, ""

        async def leave(self, name: str) -> None:
            await asyncio.sleep(60)

    class Parts:
        epoch = 1

        async def drop(self) -> None:
            await asyncio.sleep(0.1)

    one = worker.Worker(Client(), SimpleNamespace(), "w")  # type: ignore[arg-type]
    for number in range(200):
        task = asyncio.create_task(asyncio.sleep(60))
        one.groups[f"g-{number}"] = worker.Running(Parts(), task)  # type: ignore[arg-type]
    began = time.monotonic()
    await one.leave()
    assert not one.groups
    assert (time.monotonic() - began) < 10
