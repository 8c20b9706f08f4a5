"""What sources answer when they are first asked about a file, and what a group makes of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from datacast.fabric_manager.api import GroupSpec
from datacast.fabric_manager.api.reports import Adopt
from datacast.master.answers import Results, StatAnswer
from datacast.master.errors import GroupError
from datacast.master.group import Cancelled, Group
from datacast.master.holders import Holders
from datacast.master.members import Member

FILE = {"mtime_ns": 7, "inode": 3}


def told(size: int | None = 1000, **more: Any) -> StatAnswer:
    return StatAnswer(ok=True, size=size, **(FILE | more))


async def ask(answers: dict[str, StatAnswer], holders: Any = None, fetched: int | None = None, **asked: Any) -> Any:
    """The group's Transfer afterwards."""
    adopt = asked.pop("adopt", None)
    spec = GroupSpec(source="a", source_path="/f", receivers=["x"], dest_path="f", **asked)
    t: Any = SimpleNamespace(
        spec=spec, order=SimpleNamespace(adopt=adopt), path=lambda name: "/f", dest=lambda name: "f", size=None,
        bundle=False, files={}, file=answers["a"].file if "a" in answers else {},
        cut=(adopt.payload, adopt.per_block) if adopt else None,
    )  # fmt: skip
    roots = [Member(name, "source", "", sends=True) for name in answers if name in "ab"]
    asked_of: list[Any] = []

    async def first(op: Any, parts: Any) -> Results[StatAnswer]:
        asked_of.append(parts)
        return Results(answers, StatAnswer())

    async def stat() -> int | None:
        return fetched

    receivers = [Member(name, "receiver", "") for name in "xyz"]
    crew = SimpleNamespace(in_touch=lambda: [*roots, *receivers], roots=roots, receivers=receivers, first=first)
    fetching = SimpleNamespace(stat=stat, objects=SimpleNamespace(folder=False)) if fetched is not None else None
    group: Any = SimpleNamespace(transfer=t, crew=crew, _fetching=fetching, _holders=holders)
    group._check_size = lambda path, size: Group._check_size(group, path, size)
    await Group._stat(group)
    return t


async def test_a_size_and_what_tells_the_file_from_another_are_kept() -> None:
    t = await ask({"a": told(), "b": told(inode=9)})
    assert (t.size, t.bundle, t.files) == (1000, False, {"a": FILE, "b": {"mtime_ns": 7, "inode": 9}})
    assert (await ask({"a": told(bundle=3)})).bundle
    assert (await ask({}, fetched=77)).size == 77


@pytest.mark.parametrize(
    ("answers", "asked", "code", "why"),
    [
        ({"a": told(None)}, {}, "bad_answer", "a told no size of /f"),
        ({"a": told(), "b": told(7)}, {}, "sources_differ", "1000 bytes at a, 7 bytes at b"),
        ({"a": told(bundle=2)}, {"sha256": "0" * 64}, "bad_sha256", "directory"),
        ({"a": told()}, {"size": 999}, "size", "expected were 999"),
        ({}, {"fetched": 1000, "size": 999}, "size", "expected were 999"),
    ],
)
async def test_what_cannot_be_sent(answers: Any, asked: dict[str, Any], code: str, why: str) -> None:
    with pytest.raises(GroupError, match=why) as error:
        await ask(answers, **asked)
    assert error.value.code == code


@pytest.mark.parametrize(("size", "file", "same"), [(1000, FILE, True), (1000, {}, False), (999, FILE, False)])
async def test_another_master_goes_on_with_the_same_file_only(size: int, file: dict[str, int], same: bool) -> None:
    adopt = Adopt(size=size, file=file, payload=1, per_block=1, rest=[])
    if same:
        assert (await ask({"a": told()}, adopt=adopt)).size == 1000
        assert (await ask({}, fetched=1000, adopt=adopt)).size == 1000
    else:
        with pytest.raises(GroupError, match="not the file any more"):
            await ask({"a": told()}, adopt=adopt)
    if size != 1000:
        with pytest.raises(GroupError, match="not the object any more"):
            await ask({}, fetched=1000, adopt=adopt)


async def test_the_file_is_cut_as_receivers_have_kept_it_where_no_master_has_said_how() -> None:
    pieces = {"x": 1464, "y": 1024, "z": 1024}
    kept = {name: StatAnswer(ok=True, piece=piece, per_block=9) for name, piece in pieces.items()}
    assert (await ask(kept, fetched=77)).cut == (1024, 9), "as most have it"
    assert (await ask({}, fetched=77)).cut is None
    adopt = Adopt(size=77, file={}, payload=8, per_block=2, rest=[])
    assert (await ask(kept, fetched=77, adopt=adopt)).cut == (8, 2)


LEFT: dict[str, Any] = {"piece": 100, "per_block": 4, "held": [(0, 3), (5, 2)]}


def holders(**left: str) -> Holders:
    spec = GroupSpec(source="a", source_path="/f", receivers=["x"], unfinished=left)
    t: Any = SimpleNamespace(spec=spec, path=lambda name: "/f", cut=None)
    crew: Any = None
    return Holders(t, crew)


def test_what_hosts_have_left_of_a_group_is_cut_alike() -> None:
    it = holders(a="g-1", b="g-1")
    for name in "ab":
        it.told(Member(name, "source", ""), told(**LEFT))
    assert it.cut == it._t.cut == (100, 4)


@pytest.mark.parametrize(
    ("names", "answers", "code", "why"),
    [
        ({}, [told(bundle=3)], "bad_holds", "is a directory"),
        ({"a": "g-1"}, [told(**LEFT | {"piece": None})], "bad_answer", "did not tell what it has of group g-1"),
        ({"a": "g-1"}, [told(**LEFT | {"per_block": 0})], "bad_answer", "did not tell"),
        ({"a": "g-1"}, [told(**LEFT | {"held": None})], "bad_answer", "did not tell"),
        ({"a": "g-1"}, [told(**LEFT | {"held": [(5, 2), (0, 3)]})], "bad_answer", "did not tell"),
        ({"a": "g-1", "b": "g-2"}, [told(**LEFT), told(**LEFT | {"piece": 99})], "bad_holds", "cut into other blocks"),
    ],
)
def test_what_hosts_have_left_and_cannot_be_used(names: dict[str, str], answers: Any, code: str, why: str) -> None:
    it = holders(**names)
    with pytest.raises(GroupError, match=why) as error:
        for name, answer in zip("ab", answers, strict=False):
            it.told(Member(name, "source", ""), answer)
    assert error.value.code == code


@pytest.mark.parametrize(
    ("states", "end"),
    [
        (["done", "done"], "done"),
        (["done", "cancelled"], "done"),
        (["cancelled", "cancelled"], None),
        (["done", "failed"], "partial"),
        (["failed", "failed"], "failed"),
        (["failed", "cancelled"], "failed"),
    ],
)
def test_how_a_group_ends_by_how_its_receivers_did(states: Any, end: str | None) -> None:
    members = [Member(name, "receiver", "", state=state) for name, state in zip("xy", states, strict=True)]
    ended: list[tuple[str, ...]] = []
    t = SimpleNamespace(state="running", ended=lambda *what: ended.append(what))
    group: Any = SimpleNamespace(transfer=t, crew=SimpleNamespace(receivers=members))
    if end is None:
        with pytest.raises(Cancelled):
            Group._conclude(group)
    else:
        Group._conclude(group)
        assert (ended[0][0] if ended else t.state) == end


@pytest.mark.parametrize(("ready", "quorum", "adopted", "fails"), [
    (1, 2, False, True), (2, 2, False, False), (1, None, False, False), (1, 2, True, False)])  # fmt: skip
def test_a_group_begins_with_as_many_as_were_asked_for(ready: int, quorum: Any, adopted: bool, fails: bool) -> None:
    members = [Member(str(n), "receiver", "", opened=n < ready) for n in range(3)]
    order = SimpleNamespace(adopt=object() if adopted else None)
    t = SimpleNamespace(options=SimpleNamespace(quorum=quorum), order=order)
    group: Any = SimpleNamespace(transfer=t, crew=SimpleNamespace(receivers=members))
    if fails:
        with pytest.raises(GroupError, match="1 receivers are ready, the quorum is 2"):
            Group._check_quorum(group)
    else:
        Group._check_quorum(group)
