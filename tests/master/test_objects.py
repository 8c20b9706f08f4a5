"""What fetchers are asked about the objects of a group, and what their answers mean."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from datacast.fabric_manager.api import GroupSpec, PartSpec
from datacast.master import busy
from datacast.master.answers import Results, StatAnswer
from datacast.master.errors import GroupError
from datacast.master.objects import AT_ONCE, Objects
from datacast.master.requests import STAT


def of_files(sizes: list[int], fetchers: list[str], **more: Any) -> Objects:
    parts = [PartSpec(path=f"f{n:03}", size=size, url=f"https://o/{n}") for n, size in enumerate(sizes)]
    return Objects(GroupSpec(source=fetchers[0], other_sources=fetchers[1:], url="oci://x", parts=parts, **more))


def of_one(fetchers: list[str], url: str = "https://o/x") -> Objects:
    return Objects(GroupSpec(source=fetchers[0], other_sources=fetchers[1:], url=url))


class Origin:
    """Answers as agents do: `told[host]` in place of what it would say, `rows[url]` in place of a size and an ETag."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.sizes, self.told, self.rows = sizes, dict[str, Any](), dict[str, Any]()
        self.asked: list[dict[str, list[str]]] = []
        self.gone: list[tuple[str, str]] = []
        self.waits: list[dict[str, str]] = []

    async def ask(self, asked: dict[str, tuple[str, ...]]) -> Results[StatAnswer]:
        self.asked.append({name: list(urls) for name, urls in asked.items()})
        answers = {}
        for name, urls in asked.items():
            rows = [self.rows.get(url, [self.sizes[url], f"e-{url}"]) for url in urls]
            answers[name] = self.told.get(name, {"ok": True, "objects": rows})
        told = {name: answer for name, answer in answers.items() if answer is not None}
        return STAT.answers.read(msgspec.Raw(msgspec.json.encode(told)))

    def stat(self, objects: Objects, fetchers: list[str]) -> None:
        def refused(name: str, error: GroupError) -> list[str]:
            self.gone.append((name, error.code))
            fetchers.remove(name)
            if not fetchers:
                raise error
            return list(fetchers)

        asyncio.run(objects.stat(self.ask, refused, self.waits.append))


def test_of_one_object_every_fetcher_must_have_seen_the_same() -> None:
    hosts, objects, origin = ["a", "b", "c"], of_one(["a", "b", "c"]), Origin({"https://o/x": 77})
    origin.stat(objects, hosts)
    assert {name for round in origin.asked for name in round} == {"a", "b", "c"}
    assert objects.size == 77 and objects.all[0].etag == "e-https://o/x" and not objects.folder


def test_one_that_sees_another_object_ends_the_group() -> None:
    objects, origin = of_one(["a", "b"]), Origin({"https://o/x": 77})
    origin.told["b"] = {"ok": True, "objects": [[77, "of another day"]]}
    with pytest.raises(GroupError, match="not the same object") as ended:
        origin.stat(objects, ["a", "b"])
    assert ended.value.code == "changed" and ended.value.what == "https://o/x"


def test_files_are_shared_out_so_many_at_a_time_and_each_is_asked_for_once() -> None:
    hosts, sizes = ["a", "b"], list(range(1, 101))
    objects, origin = of_files(sizes, hosts), Origin({f"https://o/{n}": size for n, size in enumerate(sizes)})
    origin.stat(objects, hosts)
    assert [sorted(map(len, round.values())) for round in origin.asked] == [[AT_ONCE, AT_ONCE], [18, 18]]
    asked = [url for round in origin.asked for urls in round.values() for url in urls]
    assert sorted(asked) == sorted(origin.sizes)
    assert all(one.seen and one.etag == f"e-{one.url}" for one in objects.all)
    assert objects.size == len(objects.manifest) + sum(sizes)


def test_more_fetchers_than_files_are_all_tried() -> None:
    hosts = ["a", "b", "c", "d"]
    objects, origin = of_files([5, 6], hosts), Origin({"https://o/0": 5, "https://o/1": 6})
    origin.stat(objects, hosts)
    assert {name for round in origin.asked for name in round} == set("abcd")


def test_empty_files_and_those_that_came_with_the_request_are_not_asked_for() -> None:
    parts = [
        PartSpec(path="empty", size=0, url="https://o/empty"),
        PartSpec(path="here", size=3, data="YWJj"),
        PartSpec(path="far", size=9, url="https://o/9"),
    ]
    objects = Objects(GroupSpec(source="a", url="oci://x", parts=parts))
    origin = Origin({"https://o/9": 9})
    origin.stat(objects, ["a"])
    assert origin.asked == [{"a": ["https://o/9"]}] and [one.data for one in objects.all] == ["", "YWJj"]
    nothing = Objects(GroupSpec(source="a", url="oci://x", parts=parts[1:2]))
    origin.stat(nothing, ["a"])
    assert len(origin.asked) == 1, "a folder of what is at hand asks nobody"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (None, "unreachable"),
        ({"ok": False, "code": "denied", "error": "no credentials"}, "denied"),
        ({"ok": True, "objects": [[1, "e"]] * 9}, "error"),
        ({"ok": True}, "error"),
        ({"ok": True, "objects": "all"}, "malformed"),
        ({"ok": True, "objects": [["1", "e"], [2, "e"]]}, "malformed"),
        ({"ok": True, "objects": [{"code": "timeout"}, [2, "e"]]}, "timeout"),
    ],
)
def test_what_one_cannot_say_the_others_are_asked(answer: Any, code: str) -> None:
    hosts, sizes = ["a", "b"], [1, 2, 3, 4]
    objects, origin = of_files(sizes, hosts), Origin({f"https://o/{n}": size for n, size in enumerate(sizes)})
    origin.told["a"] = answer
    origin.stat(objects, hosts)
    assert origin.gone == [("a", code)] and all(one.seen for one in objects.all)
    of_b = [url for round in origin.asked for url in round.get("b", [])]
    assert sorted(of_b) == sorted(origin.sizes), "each of its own, and what the other was to say"


@pytest.mark.parametrize("code", ["changed", "bad_answer", "no_ranges", "not_found"])
def test_what_the_origin_says_of_a_file_ends_the_group_whoever_asked(code: str) -> None:
    objects, origin = of_files([1, 2], ["a", "b"]), Origin({"https://o/0": 1, "https://o/1": 2})
    origin.rows["https://o/1"] = {"code": code, "error": "of this file"}
    with pytest.raises(GroupError, match="of this file") as ended:
        origin.stat(objects, ["a", "b"])
    assert ended.value.code == code and origin.gone == []


def test_of_one_object_the_same_is_a_fetcher_s_affair() -> None:
    objects, origin = of_one(["a", "b"]), Origin({"https://o/x": 7})
    origin.told["a"] = {"ok": True, "objects": [{"code": "not_found", "error": "not for me"}]}
    origin.stat(objects, ["a", "b"])
    assert origin.gone == [("a", "not_found")] and objects.size == 7


def test_a_file_of_another_length_than_the_list_says_ends_the_group() -> None:
    objects, origin = of_files([1, 2], ["a"]), Origin({"https://o/0": 1, "https://o/1": 3})
    with pytest.raises(GroupError, match="has 3 bytes, expected were 2") as ended:
        origin.stat(objects, ["a"])
    assert ended.value.code == "changed"


NO_TIME = {"ok": True, "objects": [{"code": "throttled", "error": "https://o/x: no time", "later_s": 0}]}


def test_an_origin_that_has_no_time_is_asked_again_and_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy, "AGAIN_S", 0.01)
    objects, origin, asked = of_one(["a"]), Origin({"https://o/x": 77}), 0

    def told(name: str, otherwise: Any) -> Any:
        nonlocal asked
        asked += 1
        return NO_TIME if asked < 4 else otherwise

    monkeypatch.setattr(origin, "told", SimpleNamespace(get=told))
    origin.stat(objects, ["a"])
    assert objects.size == 77 and len(origin.asked) == 4 and not origin.gone
    assert origin.waits == [{"a": "https://o/x: no time"}] * 3 + [{}, {}]


def test_nobody_waits_for_one_that_has_no_time_where_others_have_said_everything() -> None:
    objects, origin = of_one(["a", "b"]), Origin({"https://o/x": 77})
    origin.told["b"] = NO_TIME
    origin.stat(objects, ["a", "b"])
    assert objects.size == 77 and not origin.gone, "b fetches, too, when it can"


@pytest.mark.parametrize(("later_s", "said"), [(0, "no time:"), (3600, "no time, for 3600 s as it says:")])
def test_who_has_no_time_for_longer_than_the_lease_is_given_up(
    later_s: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busy, "AGAIN_S", 0.2)
    objects = of_one(["a"])
    objects._lease_s = 0.5
    origin = Origin({"https://o/x": 77})
    origin.told["a"] = {"ok": True, "objects": [{"code": "throttled", "error": "no time", "later_s": later_s}]}
    with pytest.raises(GroupError, match=f"^{said} longer than the group's lease_ms, 500$") as ended:
        origin.stat(objects, ["a"])
    assert ended.value.code == "throttled" and (len(origin.asked) == 1) == bool(later_s)
