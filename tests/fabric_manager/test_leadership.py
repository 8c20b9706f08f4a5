"""Several fabric managers over one store: one leads, the others follow and take over."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from fake_agents import World
from plain import PlainClient
from small import star, until

from datacast.fabric_manager import main, record, replica
from datacast.fabric_manager.api import FINAL_STATES, FabricManagerClient, GroupSpec
from datacast.fabric_manager.leadership import LEASE_S, Leadership
from datacast.fabric_manager.main import FabricManager
from datacast.fabric_manager.record import Record
from datacast.master.view import View
from datacast.master.worker import Worker
from datacast.services.problems import Problem
from datacast.services.store import Entry, Lost, StoreError, open_store


def manager(store: str, addresses: str = "") -> FabricManager:
    return FabricManager(
        star(3), signalling="127.0.0.1:0", http="127.0.0.1:0", store=store, rate_bps=10**8, mtu=9000, workers=0,
        addresses=addresses,
    )  # fmt: skip


@asynccontextmanager
async def two(store: str):
    """One that leads, one that follows, and its start that has not ended."""
    leader, other = manager(store), manager(store)
    await leader.start()
    starting = asyncio.create_task(other.start())
    await until(lambda: other.leadership and other.leadership.leader == leader.url, "it follows")
    try:
        yield leader, other, starting
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        for one in (leader, other):
            if one._server:
                await one.stop()


async def test_a_follower_sends_to_the_leader_and_a_client_of_both_gets_there(tmp_path: Path) -> None:
    async with two(str(tmp_path / "d")) as (leader, other, _):
        async with httpx.AsyncClient(timeout=60.0) as http:
            answer = await http.get(f"{other.url}/groups?state=done")
        async with PlainClient(f"{other.url},{leader.url}") as client:
            groups = await client.groups()
            asked = client.url
        leads = leader.url
    assert answer.status_code == 307 and answer.headers["location"] == f"{leads}/groups?state=done"
    assert groups == [] and asked == leads


@pytest.mark.parametrize("how", ["resigns", "hangs"])
@pytest.mark.simulated
async def test_another_leads_with_the_groups_worker_and_all_and_the_first_writes_nothing_more(
    tmp_path: Path, how: str
) -> None:
    world = World([400.0])
    world.sizes["/f"] = 20_000_000
    async with two(str(tmp_path / "d")) as (leader, other, starting):
        await world.add(["h0", "h1", "h2"], leader.signalling_address)
        both = FabricManagerClient(f"{leader.url},{other.url}")
        view = View(both)
        worker = Worker(both, view, "w")
        tasks = [asyncio.create_task(view.follow()), asyncio.create_task(worker.run(1))]
        async with PlainClient(f"{leader.url},{other.url}") as client:
            group = await client.create_group({"source": "h0", "receivers": ["h1", "h2"], "source_path": "/f"})
            await until(lambda: len(world.sent_pieces.get(group["id"], ())) > 50, "data flows")
            master = worker.groups[group["id"]].group
            if how == "resigns":
                await leader.stop()
                leader._server = None
            else:  # its lease ends, and it has not noticed
                leader.leadership._renewing.cancel()
            await starting
            for agent in world.agents.values():
                await agent.register(other.signalling_address)
            if how == "hangs":
                record = leader.groups.get(group["id"])
                with pytest.raises(Lost):
                    await leader.groups.kept.put(f"groups/{record.id}", "{}", 1)
                with pytest.raises(Problem, match="another fabric manager leads"):
                    await leader.groups.cancel(group["id"])
                await leader.stop()
                leader._server = None

            async def ended():
                record = await client.group(group["id"])
                return record if record["state"] in FINAL_STATES else None

            record = await until(ended, "the group ends")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await both.close()
    await world.stop()
    state, violations = master.transfer.state, world.violations
    assert record["state"] == state == "done" and violations == []
    assert record["epoch"] == 1, "its master has not noticed anything"


@pytest.mark.simulated
async def test_who_follows_has_read_what_ended_groups_there_are_before_it_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is answered while a thousand records are read: only what has changed at the end is read then. When it has
    read them, and not before, it has its own priority: to lead it must not wait for a processor."""
    decoded: list[str] = []
    loaded: list[tuple[int, str]] = []

    def load(text: str, _: str) -> Record:
        decoded.append(text)
        return record.load(text)

    monkeypatch.setattr(replica, "load", load)

    def ended(number: int, path: str = "/f") -> Record:
        spec = GroupSpec(source="h0", source_path=path, receivers=["h1"], dest_path="f")
        return Record(id=f"g-{number:08}", spec=spec, state="done", created_ns=number, request_key=f"x me/{number}")

    leader, other = manager(str(tmp_path / "d")), manager(str(tmp_path / "d"))
    await leader.start()
    kept, revisions = leader.groups.kept, {}

    async def put(one: Record) -> None:
        revisions[one.id] = await kept.put(f"groups/{one.id}", record.dump(one), revisions.get(one.id, 0))

    for number in range(30):
        await put(ended(number))
    await kept.put("sets/a", '["h1"]', 0)
    starting = asyncio.create_task(other.start(lambda: loaded.append((len(decoded), other.signalling_address))))
    await until(lambda: loaded, "it has read them")
    await kept.delete("groups/g-00000004", revisions["g-00000004"])
    await put(ended(5, "/other"))
    await put(ended(30))
    await kept.put("sets/b", '["h2"]', 0)
    asked, listing = [], other.store.list

    async def counted(prefix: str, since: int = 0):
        asked.append(entries := await listing(prefix, since))
        return entries

    other.store.list = counted  # type: ignore[method-assign]
    await leader.stop()
    await starting
    records = {one.id: one.spec.source_path for one in other.groups.all()}
    sets = sorted(other.groups.sets.all())
    await other.groups.forget("g-00000005")  # by the revision that it has now
    await other.stop()
    most = max(map(len, asked))
    there = {ended(number).id: "/f" for number in range(31) if number != 4}
    assert records == there | {"g-00000005": "/other"} and sets == ["a", "b"]
    assert loaded == [(30, "")], "it did not lead then"
    assert len(decoded) == 32, "each record once, and what has changed once more"
    assert most < 10


@pytest.mark.parametrize("comes", [True, False])
async def test_a_leader_that_is_told_to_end_leads_on_until_another_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, comes: bool
) -> None:
    """The one before it may be starting yet. But not for ever."""
    monkeypatch.setattr(main, "SUCCESSOR_S", 100.0 if comes else 0.2)
    leader = manager(str(tmp_path / "d"), "http://127.0.0.1:1,http://127.0.0.1:2")
    told, led = asyncio.Event(), asyncio.Event()
    serving = asyncio.create_task(main.serve(leader, told, led.set))
    await led.wait()
    told.set()
    if comes:
        async with PlainClient(leader.url) as client:
            assert await client.groups() == []
            assert not serving.done()
        other = manager(str(tmp_path / "d"))
        await other.start()
        assert other.leadership.leader == other.url
        await other.stop()
    assert not await serving


@pytest.mark.parametrize("notices", ["as it renews", "as it writes"])
async def test_a_leader_that_stood_still_leads_on_where_nobody_else_has_led(tmp_path: Path, notices: str) -> None:
    one = manager(str(tmp_path / "d"))
    await one.start()
    lead = one.leadership
    if notices == "as it writes":
        lead._renewing.cancel()
    ended = lead._lease
    await one.store.revoke(ended)  # as it is when the lease is over
    if notices == "as it renews":
        await until(lambda: lead._lease != ended, "it has another lease")
    await one.groups.kept.put("sets/x", "[]", 0)
    entry = await one.store.get("leader")
    assert lead._lease != ended and entry and entry.revision == one.groups.kept.guard.revision
    lost = lead.lost.is_set()
    await one.stop()
    assert not lost


async def test_a_leader_that_stood_still_while_another_led_leads_no_more(tmp_path: Path) -> None:
    """Also when that other one is gone already: it may have written."""
    one = manager(str(tmp_path / "d"))
    await one.start()
    lead = one.leadership
    lead._renewing.cancel()
    await one.store.revoke(lead._lease)
    other = Leadership(one.store, "http://127.0.0.1:1")
    await other.campaign()
    await other.resign()
    with pytest.raises(Lost):
        await one.groups.kept.put("sets/x", "[]", 0)
    lost, there = lead.lost.is_set(), await one.store.get("sets/x")
    await one.stop()
    assert (lost, there) == (True, None)


@pytest.mark.parametrize("another", [False, True])
async def test_a_leader_that_stood_still_answers_nobody_before_it_knows_whether_it_leads(
    tmp_path: Path, another: bool
) -> None:
    """It said that hosts had no agents, which had gone to the next leader meanwhile."""
    one = manager(str(tmp_path / "d"))
    await one.start()
    lead = one.leadership
    renew, go_on = one.store.renew, asyncio.Event()

    async def later(lease: int) -> None:
        await go_on.wait()
        await renew(lease)

    one.store.renew = later
    lead._heard -= LEASE_S  # it has been stopped for so long
    async with httpx.AsyncClient(base_url=one.url, trust_env=False, timeout=60) as http:
        asked = asyncio.create_task(http.get("/hosts"))
        if another:
            await one.store.revoke(lead._lease)
            other = Leadership(one.store, "http://127.0.0.1:1")
            await other.campaign()
            await other.resign()
        await asyncio.sleep(0.1)
        waits = not asked.done()
        go_on.set()
        answer = await asked
    await one.stop()
    found = waits, answer.status_code, another and answer.json()["code"]
    assert found == (True, 503 if another else 200, another and "no_leader")


async def test_a_leader_whose_process_is_gone_is_followed_without_waiting_for_its_lease(tmp_path: Path) -> None:
    async with two(str(tmp_path / "d")) as (leader, other, starting):
        await until(lambda: leader.hub.streams == 1, "the other hears that it leads")
        leader.hub.close()
        await leader._server.stop()  # nobody listens any more; its lease is renewed all the same
        leader._server = None
        await asyncio.wait_for(starting, 60)
        await asyncio.wait_for(leader.leadership.lost.wait(), 60)
        await leader.registry.stop()
        assert (other.leadership.leader == other.url)


@pytest.mark.parametrize("boot, soon", [("this", True), ("another", False)])
async def test_a_leader_that_was_gone_before_anybody_heard_it_is_followed_at_once_on_its_own_machine(
    tmp_path: Path, boot: str, soon: bool
) -> None:
    """Elsewhere its address may be one that never led to it, and the lease is waited for."""
    store = open_store(str(tmp_path / "d"))
    first, other = (Leadership(store, f"http://127.0.0.1:{port}") for port in (1, 2))  # nobody listens there
    if boot == "another":
        first._name = f"x{first._name}"
    await first.campaign()
    following = asyncio.create_task(other.campaign())
    renewed, renew = asyncio.Event(), store.renew

    async def count(lease: int) -> None:
        await renew(lease)
        renewed.set()

    while not following.done():
        store.renew = count  # type: ignore[method-assign]
        renewed.clear()
        await asyncio.wait((following, asyncio.create_task(renewed.wait())), return_when=asyncio.FIRST_COMPLETED)
        if not soon:
            break  # the first still renews its lease, as one that lives does
    led = following.done()
    following.cancel()
    for one in (first, other):
        await one.resign()
    await store.close()
    assert led == soon


async def test_whoever_asks_a_fabric_manager_that_ends_is_not_told_that_all_links_are_down() -> None:
    world, one = World([400.0]), manager(":memory:")
    await one.start()
    await world.add(["h0", "h1", "h2"], one.signalling_address)
    told, over = [], asyncio.Event()

    async def ask() -> None:
        async with httpx.AsyncClient(timeout=60.0) as http:
            while not over.is_set():
                try:
                    answer = await http.get(f"{one.url}/topology")
                except httpx.HTTPError:
                    return
                told.append([link["up"] for link in answer.json()["links"]] if answer.status_code == 200 else None)

    asking = [asyncio.create_task(ask()) for _ in range(4)]
    await until(lambda: len(told) > 8, "it answers")
    slow = one.registry.stop

    async def stop() -> None:
        await slow()
        answered = len(told)  # its agents are gone, and its server is not yet: one of five was asked now
        await until(lambda: len(told) > answered + len(asking), "it answers while it ends")

    one.registry.stop = stop  # type: ignore[method-assign]
    await one.stop()
    over.set()
    await asyncio.gather(*asking)
    await world.stop()
    assert None in told, "it was asked while it ended"
    assert all(all(links) for links in told if links is not None)


async def test_a_request_that_waited_while_its_fabric_manager_ended_is_not_told_that_hosts_have_no_agents(
    tmp_path: Path,
) -> None:
    """It is the same as one that is being written: the store was away. Found by killing services (seed 22)."""
    one = manager(str(tmp_path / "d"))
    await one.start()
    world = World([1000.0])
    await world.add(["h0", "h1"], one.signalling_address)
    spec, away = GroupSpec(source="h0", receivers=["h1"], source_path="/f"), asyncio.Event()
    put = one.groups.kept.put

    async def later(key: str, *rest: object) -> int:
        if key.startswith("groups/"):
            await away.wait()
            raise Lost("the lease has ended")
        return await put(key, *rest)

    one.groups.kept.put = later
    asked = [asyncio.create_task(one.groups.create(spec, 1, "me", "mine")) for _ in range(2)]
    await until(lambda: one.groups.unfinished(), "the first is being written")
    await one.stop()
    assert not one.fabric.members()
    away.set()
    told = await asyncio.gather(*asked, return_exceptions=True)
    await world.stop()
    assert [(problem.status, problem.code) for problem in told] == [(503, "no_leader"), (503, "no_leader")]


@pytest.mark.parametrize("then", ["nobody else led", "its new lease ended too", "another led"])
@pytest.mark.simulated
async def test_a_leader_that_had_no_processor_asks_its_own_store_before_it_gives_up(then: str) -> None:
    """That is a part of the process, and as late as all of it: one alone on its machine ended for nothing."""
    one = manager(":memory:")
    await one.start()
    lead, store = one.leadership, one.store
    store.embedded = True
    renew, grant, late = store.renew, store.grant, [2 * LEASE_S]

    async def renewed(lease: int) -> None:
        if late:
            await asyncio.sleep(late.pop())
            if then == "another led":
                other = Leadership(store, "http://127.0.0.1:1")
                await other.campaign()
                await other.resign()
            if then == "its new lease ended too":
                store.grant = over
        await renew(lease)

    async def over(seconds: float) -> int:
        store.grant = grant
        await store.revoke(lease := await grant(seconds))
        return lease

    store.renew = renewed
    await asyncio.sleep(4 * LEASE_S)
    lost = lead.lost.is_set()
    await one.stop()
    assert (lost, bool(late), store.grant == over) == (then == "another led", False, False)


@pytest.mark.simulated
async def test_a_leader_whose_own_store_fails_leads_no_longer_than_its_lease() -> None:
    one = manager(":memory:")
    await one.start()

    async def failing(lease: int) -> None:
        raise StoreError("the disk is full")

    one.store.embedded, one.store.renew = True, failing
    began = time.monotonic()
    await one.leadership.lost.wait()
    took = time.monotonic() - began
    await one.stop()
    assert LEASE_S <= took <= 2 * LEASE_S


@pytest.mark.simulated
async def test_a_leader_to_whom_the_store_says_nothing_leads_no_longer_than_its_lease(tmp_path: Path) -> None:
    """Whoever leads next gave groups up, as their agents were held by the one before. Found by killing services."""
    one = manager(str(tmp_path / "d"))
    await one.start()
    one.leadership._lease = 1  # which SQLite has none of
    one.store.renew = lambda lease: asyncio.sleep(60)
    began = time.monotonic()
    await one.leadership.lost.wait()
    took = time.monotonic() - began
    one.leadership._lease = None
    await one.stop()
    assert took <= LEASE_S


async def test_a_follower_sends_to_the_leader_whatever_stands_in_a_path(tmp_path: Path) -> None:
    """Names of other letters, and ends of lines, which would be a header of their own."""
    async with two(str(tmp_path / "d")) as (leader, other, _):
        async with httpx.AsyncClient(timeout=60.0) as http:
            answer = await http.get(f"{other.url}/sets/a%0d%0aset-cookie:%20x%E4%B8%BB")
        async with PlainClient(f"{other.url},{leader.url}") as client:
            with pytest.raises(Problem) as told:
                await client.cordon("\u4e3b\u673a", "")
        told, leads = told.value, leader.url
    assert answer.status_code == 307 and "set-cookie" not in answer.headers
    assert answer.headers["location"] == f"{leads}/sets/a%0d%0aset-cookie:%20x%E4%B8%BB"
    assert (told.status, told.code) == (422, "unknown_host")


async def test_a_key_that_goes_before_it_is_watched_is_taken(tmp_path: Path) -> None:
    """The watch tells of what changes: nobody led any more, for as long as the last fabric manager waited for that."""
    store = open_store(str(tmp_path / "d"))
    first, other = (Leadership(store, f"http://127.0.0.1:{port}") for port in (1, 2))
    first._name = f"x{first._name}"  # of another machine
    await first.campaign()
    assert first._renewing and first._lease
    first._renewing.cancel()
    get = store.get

    async def last_seen(key: str) -> Entry | None:
        entry = await get(key)
        store.get = get  # type: ignore[method-assign]
        await store.revoke(first._lease)
        return entry

    store.get = last_seen  # type: ignore[method-assign]
    try:
        await asyncio.wait_for(other.campaign(), 30)
    finally:
        await other.resign()
        await store.close()
    assert other.leader == other.url
