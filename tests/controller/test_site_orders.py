"""Orders that other sites give, as far as one controller can judge them alone."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import made_records
import pytest

from datacast.controller.sites.coordinator import Coordinator
from datacast.controller.sites.records import Order, Progress, SiteGroup
from datacast.fabric_manager.api import GroupSpec
from datacast.fabric_manager.api.records import GroupRecord
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

    async def tell(self, site: str, group: str, progress: Progress) -> bool:
        self.told.append((site, progress))
        return False


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


def given(at: Coordinator, *orders: tuple[str, Order]) -> None:
    async def run() -> None:
        for whose, one in orders:
            await at._parents.accept(one, whose)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        (["ams"], "other_name", "knows as sfo calls itself ams"),
        (["syd"], "other_name", "knows as sfo calls itself syd"),  # two sites of one name
        (["syd", "sfo"], "cycle", "leads in a circle: syd > sfo > syd"),
        (["ams", "ams", "sfo"], "cycle", "leads in a circle"),
    ],
)
def test_an_order_by_names_that_cannot_be_is_refused(path: list[str], code: str, message: str):
    at = site()
    given(at, ("sfo", order(path, ["all"])))
    ((whose, told),) = at.peers.told  # type: ignore[attr-defined]
    assert whose == "sfo" and told.state == "failed" and told.error
    assert told.error.code == code and message in told.error.message
    assert not at.groups and not at._client.made  # type: ignore[attr-defined]


def test_a_second_order_for_a_group_is_another_site_to_take_it_from():
    at = site()
    given(at, ("sfo", order(["ams", "sfo"], ["all"])), ("oak", order(["ams", "oak"], ["all"])))
    assert len(at._client.made) == 1  # type: ignore[attr-defined]
    group = at.groups[ID]
    assert group.parent == "sfo" and at._exchanges.origins(group) == ["sfo", "oak"]
    assert [(whose, told.state) for whose, told in at.peers.told] == [("oak", "done")]  # type: ignore[attr-defined]
    kept = SiteGroup.model_validate_json(at._client.kept[ID])  # type: ignore[attr-defined]
    assert kept.others == ["oak"]  # also after the controller was started again


def test_a_chain_of_sites_that_is_too_long_ends_with_a_word_about_it():
    """Else the order for the next one could not be told, and none after it."""
    at, path = site(), [f"s{n}" for n in range(15)] + ["sfo"]
    given(at, ("sfo", order(path, ["*/all"])))
    group = at.groups[ID]
    assert group.own.error and group.own.error.code == "too_deep" and "s14 > sfo > syd" in group.own.error.message
    assert not group.parts
    at = site()
    given(at, ("sfo", order(path, ["all"])))
    assert at.groups[ID].local  # it is its last one


def test_the_same_group_for_other_receivers_is_refused():
    at = site()
    given(at, ("sfo", order(["ams", "sfo"], ["all"])), ("oak", order(["ams", "oak"], ["syd-1"])))
    ((_, told),) = at.peers.told  # type: ignore[attr-defined]
    assert told.error and told.error.code == "named_twice"


@pytest.mark.parametrize("text", ["1048576-", "9-3"])
@pytest.mark.parametrize("receiver", ["syd-1", "oak/o0"])
def test_a_range_that_is_none_of_the_object_fails_that_order_alone(text: str, receiver: str):
    """Here all groups of several sites stood still for it, also after a new start."""
    at = site()
    spec = GroupSpec(receivers=[receiver], dest_path="f", shards={receiver: [text]})
    given(at, ("sfo", Order(id=ID, size=1 << 20, path=["sfo"], spec=spec)))
    group = at.groups[ID]
    assert group.own.error and group.own.error.code == "bad_shards" and text in group.own.error.message
    assert not group.parts and not at._client.made  # type: ignore[attr-defined]

    async def keep() -> None:
        at._exchanges.keep()
        await at._exchanges.stop()

    asyncio.run(keep())
