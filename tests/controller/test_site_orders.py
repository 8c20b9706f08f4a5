"""Orders that other sites give, as far as one controller can judge them alone."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import made_records
import pytest
from pydantic import ValidationError

from datacast.controller.access import BODY_MAX
from datacast.controller.sites import agents, coordinator
from datacast.controller.sites.coordinator import Coordinator
from datacast.controller.sites.exchanges import Exchanges
from datacast.controller.sites.peers import JSON_MAX
from datacast.controller.sites.records import Failure, HostFigures, Order, Orders, Part, Progress, SiteGroup
from datacast.controller.sites.sharing import Sharing
from datacast.controller.sites.shown import row, shown
from datacast.fabric_manager.api import GroupSpec, PartSpec
from datacast.fabric_manager.api.records import GroupRecord
from datacast.fabric_manager.api.reports import Slowness
from datacast.services.problems import Problem
from datacast.services.sites_file import SiteError

ID = "s-0123456789abcdef"


class Peers:
    """Of site `syd`; what it tells others."""

    def __init__(self) -> None:
        site = SimpleNamespace(url="https://10.0.0.9:7580")
        self.directory = SimpleNamespace(name="syd", sites=site, key=lambda name: None)
        self.all = {name: SimpleNamespace(name=name, url=f"https://{name}:7580") for name in ("sfo", "oak")}
        self.told: list[tuple[str, Progress]] = []

    async def held(self, site: str, group: str, version: int) -> None:
        raise SiteError(f"{site} is away", site, "site_away")

    async def tell(self, site: str, group: str, progress: Progress) -> tuple[bool, None]:
        self.told.append((site, progress))
        return False, None


class Client:
    def __init__(self) -> None:
        self.made: list[GroupSpec] = []
        self.kept: dict[str, str] = {}

    async def create_group(self, spec: GroupSpec, by: str, key: str) -> GroupRecord:
        self.made.append(spec)
        return made_records.group(id="g-1")

    async def put_site_group(self, group: str, text: str) -> None:
        self.kept[group] = text


def site() -> Coordinator:
    return Coordinator(Client(), Peers(), SimpleNamespace(sharing={}))  # type: ignore[arg-type]


def order(path: list[str], receivers: list[str], **more: object) -> Order:
    spec = GroupSpec(receivers=receivers, dest_path="f")
    return Order.model_validate({"id": ID, "size": 1 << 20, "path": path, "spec": spec, **more})


async def given(at: Coordinator, *orders: tuple[str, Order]) -> None:
    for whose, one in orders:
        await at._parents.accept(one, whose)


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        (["ams"], "other_name", "knows as sfo calls itself ams"),
        (["syd"], "other_name", "knows as sfo calls itself syd"),  # two sites of one name
        (["syd", "sfo"], "cycle", "leads in a circle: syd > sfo > syd"),
        (["ams", "ams", "sfo"], "cycle", "leads in a circle"),
    ],
)
async def test_an_order_by_names_that_cannot_be_is_refused(path: list[str], code: str, message: str):
    at = site()
    await given(at, ("sfo", order(path, ["all"])))
    ((whose, told),) = at.peers.told  # type: ignore[attr-defined]
    assert whose == "sfo" and told.state == "failed" and told.error
    assert told.error.code == code and message in told.error.message
    assert not at.groups and not at._client.made  # type: ignore[attr-defined]


async def test_an_order_that_cannot_be_written_down_holds_up_no_other(monkeypatch: pytest.MonkeyPatch):
    """Those behind it, and what was cancelled, waited for the next answer, and that for longer each time."""
    at = site()
    bad, good, over = (f"s-{n:016x}" for n in range(3))
    orders = [order(["sfo"], ["all"]).model_copy(update={"id": name}) for name in (bad, good)]
    answers = [Orders(orders=orders, cancel=[over])]
    client, peers, done = at._client, at.peers, asyncio.Event()
    peers.all["sfo"].problem = ""

    async def put(group: str, text: str) -> None:
        if group == bad:
            raise Problem(413, "too_long", "the record is too long")
        client.kept[group] = text  # type: ignore[attr-defined]

    async def told(name: str) -> Orders:
        if not answers:
            done.set()
            await asyncio.Event().wait()
        return answers.pop()

    monkeypatch.setattr(client, "put_site_group", put)
    monkeypatch.setattr(peers, "orders", told, raising=False)
    following = asyncio.create_task(at._parents._follow("sfo"))
    async with asyncio.timeout(60):
        await done.wait()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    assert set(client.kept) == {good} and len(client.made) == 1  # type: ignore[attr-defined]
    assert [(whose, one.state) for whose, one in peers.told] == [("sfo", "cancelled")]  # type: ignore[attr-defined]


async def test_a_second_order_for_a_group_is_another_site_to_take_it_from():
    at = site()
    await given(at, ("sfo", order(["ams", "sfo"], ["all"])), ("oak", order(["ams", "oak"], ["all"])))
    assert len(at._client.made) == 1  # type: ignore[attr-defined]
    group = at.groups[ID]
    assert group.parent == "sfo" and at._exchanges.origins(group) == ["sfo", "oak"]
    assert [(whose, told.state) for whose, told in at.peers.told] == [("oak", "done")]  # type: ignore[attr-defined]
    kept = SiteGroup.model_validate_json(at._client.kept[ID])  # type: ignore[attr-defined]
    assert kept.others == ["oak"]  # also after the controller was started again


@pytest.mark.parametrize("receivers", [[], ["all"]])
async def test_a_site_that_orders_a_group_of_this_one_is_not_given_it_for_that(receivers: list[str]):
    """It could read what was never meant for it, once it knew the group's id."""
    at = site()
    spec = GroupSpec(source="h0", source_path="/f", receivers=["h1"])
    at.groups[ID] = SiteGroup(id=ID, spec=spec, size=1 << 20, local="g-1", parts={"oak": Part(receivers=["all"])})
    await given(at, ("sfo", order(["sfo"], receivers)))
    ((whose, told),) = at.peers.told  # type: ignore[attr-defined]
    assert whose == "sfo" and told.error and told.error.code == "cycle" and "begins at syd" in told.error.message
    assert at.offered(ID, "sfo") is None and at.offered(ID, "oak") is not None


async def test_a_chain_of_sites_that_is_too_long_ends_with_a_word_about_it():
    """Else the order for the next one could not be told, and none after it."""
    at, path = site(), [f"s{n}" for n in range(15)] + ["sfo"]
    await given(at, ("sfo", order(path, ["*/all"])))
    group = at.groups[ID]
    assert group.own.error and group.own.error.code == "too_deep" and "s14 > sfo > syd" in group.own.error.message
    assert not group.parts
    at = site()
    await given(at, ("sfo", order(path, ["all"])))
    assert at.groups[ID].local  # it is its last one


async def test_the_same_group_for_other_receivers_is_refused():
    at = site()
    await given(at, ("sfo", order(["ams", "sfo"], ["all"])), ("oak", order(["ams", "oak"], ["syd-1"])))
    ((_, told),) = at.peers.told  # type: ignore[attr-defined]
    assert told.error and told.error.code == "named_twice"


@pytest.mark.parametrize("text", ["1048576-", "9-3"])
@pytest.mark.parametrize("receiver", ["syd-1", "oak/o0"])
async def test_a_range_that_is_none_of_the_object_fails_that_order_alone(text: str, receiver: str):
    """Here all groups of several sites stood still for it, also after a new start."""
    at = site()
    spec = GroupSpec(receivers=[receiver], dest_path="f", shards={receiver: [text]})
    await given(at, ("sfo", Order(id=ID, size=1 << 20, path=["sfo"], spec=spec)))
    group = at.groups[ID]
    assert group.own.error and group.own.error.code == "bad_shards" and text in group.own.error.message
    assert not group.parts and not at._client.made  # type: ignore[attr-defined]
    at._exchanges.keep()
    await at._exchanges.stop()


async def test_a_site_is_given_no_more_orders_at_once_than_it_reads():
    """Else it would take none of them, for ever."""
    at, parts = site(), [PartSpec(path=f"f{n}", size=1, url=f"https://a/{n:0>1900}") for n in range(256)]
    ids = [f"s-{n:016x}" for n in range(40)]
    for one in ids:
        spec = GroupSpec(url="hf://a/b", parts=parts, receivers=None, dest_path="f")
        at.groups[one] = SiteGroup(id=one, spec=spec, size=256, parts={"sfo": Part(receivers=["all"])})
        at._book._saved[one] = ""
    peer = SimpleNamespace(asks=lambda: None, wake=asyncio.Event())
    at.peers.all["sfo"], at.peers.get = peer, lambda name: peer  # type: ignore[method-assign, assignment]
    taken: list[str] = []
    while len(taken) < len(ids):
        told = await at.orders("sfo", 0.0)
        assert told.orders and len(told.model_dump_json()) < JSON_MAX
        for one in told.orders:
            taken.append(one.id)
            at._book.part(at.groups[one.id], "sfo", Progress(state="running"))
    assert taken == ids


async def test_what_thousands_of_hosts_say_is_told_in_what_another_site_takes():
    """Else it would never hear of the end."""
    at = site()
    await given(at, ("sfo", order(["ams", "sfo"], ["all"])))
    why = Failure(code="disk_full", message="no room: " + "x" * 2000)
    hosts = {f"rack{n // 40}-host{n % 40}": HostFigures(state="failed", error=why) for n in range(8192)}
    group = at._book.put(at.groups[ID], own=Progress(state="failed", error=why, hosts=hosts))
    await at._parents.report(group)
    told = at.peers.told[-1][1]  # type: ignore[attr-defined]
    assert len(json.dumps(told.model_dump(mode="json"))) < BODY_MAX
    assert told.state == "failed" and told.error == why and told.hosts.keys() == hosts.keys()
    assert all(row.error and row.error.message.startswith("no room: x") for row in told.hosts.values())


async def test_that_a_site_is_slow_is_told_to_whoever_ordered_it_and_shown_there():
    at = site()
    await given(at, ("sfo", order(["sfo"], ["all"])))
    slow = Slowness(code="throttled", message="https://a/b: it has no time (h1)")

    async def group(name: str) -> GroupRecord:
        return made_records.group(id=name, slow=slow)

    at._client.group = group  # type: ignore[method-assign]
    looked = await at._own.look(at.groups[ID])
    await at._parents.report(looked)
    told = Progress.model_validate_json(at.peers.told[-1][1].model_dump_json())  # type: ignore[attr-defined]
    spec = GroupSpec(source="h0", source_path="/f", receivers=None)
    there = SiteGroup(id=ID, spec=spec, size=1, parts={"syd": Part(receivers=["all"], progress=told)})
    assert shown(there, "sfo").slow == row(there, "sfo").slow == slow
    over = Part(receivers=["all"], progress=told.model_copy(update={"state": "done"}))
    ended = there.model_copy(update={"parts": {"syd": over}})
    assert shown(ended, "sfo").slow is None


async def test_a_record_that_cannot_be_read_is_told_of(caplog: pytest.LogCaptureFixture):
    at = site()

    async def site_groups() -> dict[str, str]:
        return {ID: '{"id": "s-0"}'}

    at._client.site_groups = site_groups  # type: ignore[method-assign]
    await at._book.load()
    assert not at.groups and f"group {ID}: what is kept of it cannot be read: id" in caplog.text


@pytest.mark.parametrize("told", [{"rate_bps": 10**20}, {"rate_bps": -1}, {"fraction": float("nan")}])
def test_figures_that_cannot_be_are_refused(told: dict[str, float]):
    with pytest.raises(ValidationError):
        Progress.model_validate(told)


async def test_a_directory_that_an_agent_never_gets_through_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(agents, "WALK_S", 0.2)
    reader, asked = agents.Agents(SimpleNamespace(), SimpleNamespace()), []  # type: ignore[arg-type]

    async def walks(*args: object) -> None:
        asked.append(args)
        raise SiteError("it looks through it", "h0", "walking")

    monkeypatch.setattr(reader, "_read", walks)
    with pytest.raises(SiteError, match="looks through"):
        await reader.read("h0", agents.What(path="/d"), 0, 0)
    assert 1 < len(asked) < 10


async def test_of_too_many_requests_that_came_to_nothing_the_oldest_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coordinator, "TRIED_MAX", 2)
    at, tried = site(), dict[str, list[str]]()

    async def refused(spec: GroupSpec, by: str, group_id: str, request: str) -> SiteGroup:
        tried.setdefault(request.split()[-1], []).append(group_id)
        raise Problem(503, "unavailable", "the store is away")

    monkeypatch.setattr(at, "_create", refused)
    at._ready.set()
    for key in "abcbca":
        with pytest.raises(Problem):
            await at.create(GroupSpec(receivers=["sfo/all"]), "me", key)
    assert {key: len(set(made)) for key, made in tried.items()} == {"a": 2, "b": 1, "c": 1}


@pytest.mark.parametrize(
    ("group", "followed"),
    [
        ({}, True),
        ({"path": []}, False),
        ({"spec": GroupSpec(receivers=["h1"], url="https://h/f")}, False),
        ({"finished_ns": 1}, False),
        ({"size": 0}, False),
    ],
)
async def test_bytes_from_other_sites_are_followed_where_there_are_some_to_come(
    group: dict[str, object], followed: bool
) -> None:
    spec = GroupSpec(source="h0", source_path="/f", receivers=["h1"], dest_path="f")
    like = {"id": ID, "spec": spec, "size": 1 << 20, "path": ["sfo"]}
    sharing: dict[str, Sharing] = {}
    at = Exchanges(Client(), Peers(), {ID: SiteGroup.model_validate(like | group)}, sharing)  # type: ignore[arg-type]
    at.keep()
    await at.stop()
    assert (ID in sharing) is followed


async def test_a_store_that_is_away_is_asked_again_after_a_while_and_not_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at, asked = site(), []

    async def away() -> None:
        asked.append(1)
        await asyncio.sleep(0)
        raise Problem(503, "unavailable", "the store is away")

    monkeypatch.setattr(at._book, "load", away)
    running = asyncio.create_task(at._run())
    for _ in range(100):
        await asyncio.sleep(0)
    running.cancel()
    assert len(asked) == 1
