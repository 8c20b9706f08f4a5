"""Who sends what was fetched, and what requests for a URL must be like. Whole fetches are in tests/lab."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from types import SimpleNamespace

import pytest
import typer
from fake_agents import FakeAgent
from small import star

from datacast.cli.origin import parse_origin
from datacast.fabric_manager.api import GroupSpec
from datacast.fabric_manager.requests import check_url
from datacast.master.collective import Collective
from datacast.master.feeding import Feeding
from datacast.master.schedule import Scheduler
from datacast.master.tree_queue import Extent
from datacast.origins.dealing import Dealing
from datacast.origins.ranges import Range
from datacast.services.problems import Problem
from lab import lab

pytestmark = pytest.mark.simulated


def collective() -> Collective:
    return Collective({name: Scheduler(40, 4, [tree], 100.0, pool=[]) for tree, name in ((1, "a"), (2, "b"))})


def test_a_block_goes_over_the_trees_of_who_has_it_and_over_no_others() -> None:
    it = collective()
    assert it.assign(0.0) == []
    it.offer(3, "b")
    it.offer(9, "a")
    extents = it.assign(0.0)
    assert sorted((e.tree, e.first, e.count) for e in extents) == [(1, 36, 4), (2, 12, 4)]
    assert it.assign(0.1) == []


def test_a_block_is_sent_again_by_who_sent_it_or_by_its_new_home() -> None:
    it = collective()
    it.offer(3, "b")
    it.assign(0.0)
    assert it.again(3) and not it.again(5), "nobody has that one"
    assert [e.tree for e in it.assign(1.0)] == [2]
    it.drop("b")
    assert it.again(3) and it.homeless == {3}, "who sent it is gone"
    it.offer(3, "a")
    assert not it.homeless
    assert [e.tree for e in it.assign(2.0)] == [1]


def test_a_root_that_goes_leaves_no_block_behind() -> None:
    """What it had fetched waits in its pool where it fetches faster than its trees carry."""
    it = collective()
    for block in range(7):
        it.offer(block, "b")
    it.assign(0.0)
    for block in range(7, 10):
        it.offer(block, "b")
    assert it.assign(0.0) == [], "its tree has enough to do"
    it.drop("b")
    assert it.homeless == {7, 8, 9} and it.assign(9.0) == []
    it.drop("nobody")


def test_what_is_told_of_a_tree_that_no_root_has_any_more_changes_nothing() -> None:
    """Answers and events of trees that a plan has replaced are on their way for a while."""
    it = collective()
    it.offer(3, "b")
    before = {number: asdict(queue) for number, queue in it.trees.items()}
    it.sent(9, 5, 0.0)
    it.status(9, 5, 1.0, 0.0)
    it.bound(9, 1.0, 0.0)
    it.slow_down(9, 1.0)
    it.lose(9)
    it.revive(9, 0.0)
    assert it.release(9, 0.0) is None and not it.cutting
    it.cut_done(0.0)
    assert {number: asdict(queue) for number, queue in it.trees.items()} == before
    assert [e.tree for e in it.assign(0.0)] == [2]


def test_a_lone_host_sends_to_nobody() -> None:
    """What it has fetched it has; nobody asks it for more."""
    it = Collective({})
    it.offer(3, "a")
    assert (it.home, it.rest(), it.rate("a"), it.assign(0.0)) == ({3: "a"}, [], 0.0, [])
    assert not it.again(3)
    it.drop("a")
    assert it.home == {3: ""}


def test_blocks_side_by_side_are_one_extent() -> None:
    """A receiver keeps 256 extents of a tree that it has not received: one for each block would be few megabytes."""
    it = collective()
    for block in range(3, 7):
        it.offer(block, "b")
    assert [(e.first, e.count) for e in it.assign(0.0)] == [(12, 16)]


def test_cuts_are_one_at_a_time_for_the_whole_group() -> None:
    it = collective()
    for block in range(10):
        it.offer(block, "a" if block % 2 else "b")
    it.assign(0.0)
    cut = it.release(1, 0.0)
    assert cut is not None and it.cutting and it.release(2, 0.0) is None
    it.cut_done(0.1)
    assert not it.cutting and it.release(2, 0.0) is not None


def test_every_root_s_quick_tree_takes_over_from_its_slow_one_after_the_other() -> None:
    trees = {"a": [1, 2], "b": [3, 4]}
    it = Collective({name: Scheduler(160, 10, numbers, 100.0, pool=[]) for name, numbers in trees.items()})
    for block in range(16):
        it.offer(block, "a" if block < 8 else "b")
    assert sum(extent.count for extent in it.assign(0.0)) == 160
    for slow in (2, 4):
        it.bound(slow, 1.0, 0.2)
    cuts = []
    for now in (0.2, 0.3, 0.4):
        cuts.append(it.steal(now))
        assert it.cutting is (cuts[-1] is not None) and it.steal(now) is None
        it.cut_done(now)
    assert [cut and cut.tree for cut in cuts] == [2, 4, None]


@pytest.mark.parametrize("finale", [False, True])
def test_what_a_root_that_is_gone_had_sent_is_had_by_all_unless_others_came_since(finale: bool) -> None:
    """In the finale those come who were not there: the shortest extent, a file's last piece, is asked for, too."""
    there = [
        SimpleNamespace(name=name, final=False, aside=False, low=lambda tree, n=n: n)
        for name, n in (("r", 5), ("q", 1))
    ]
    transfer = SimpleNamespace(scheduler=collective(), finale=finale, block=4, root_of={1: "a"})
    crew = SimpleNamespace(receivers=there, tell=lambda cut: None)
    feeding = Feeding(transfer, crew, None, None)  # type: ignore[arg-type]
    feeding._given[1] = [Extent(1, 0, 36, 1), Extent(1, 1, 0, 4)]
    assert feeding.end([1]) == (({0, 9}, set()) if finale else ({0}, {9}))


def test_what_was_fetched_and_is_lost_is_fetched_by_somebody_again() -> None:
    dealing = Dealing(4, ["a", "b"], run=4)
    got = [(name, dealing.take(name)) for name in "ab" for _ in range(4)]
    for name, one in got:
        if one:
            dealing.fetched(name, one, 1.0)
    dealing.gone("a")
    assert dealing.take("b") is None
    dealing.lost([Range(1, 1)])
    assert dealing.take("b") == Range(1, 1)
    dealing.fetched("b", Range(1, 1), 1.0)
    dealing.gone("b")
    dealing.lost([Range(2, 1)])
    dealing.joins("c")
    assert dealing.take("c") == Range(2, 1)


PART = {"path": "a", "size": 3, "url": "https://h/a"}


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"url": "ftp://h/x"}, "bad_url"),
        ({"url": "https:///x"}, "bad_url"),
        ({"url": "https://h"}, "bad_url"),
        ({"url": "https://h/a b"}, "bad_url"),
        ({"url": "https://h/a#b"}, "bad_url"),
        ({"url": "https://h/\u00e9"}, "bad_url"),
        *[({"url": f"s3://{rest}"}, "bad_url") for rest in ("b", "b/", "/k", "b?/k", "b c/k", "\u00fc/k", "b/a\nb")],
        *[({"url": f"s3://b/{key}"}, "bad_url") for key in ("\x7f", "\x85", 1200 * "\u00e9")],
        ({"url": "s3://b/dir/"}, "bad_path"),
        ({"url": "https://u:p@h/x"}, "secret_in_url"),
        ({"url": "https://h/x?X-Amz-Signature=1f"}, "secret_in_url"),
        ({"url": "https://h/a b?y=1&access_token=1f#c"}, "secret_in_url"),
        ({"url": "oci://u:p@h/x:1", "parts": [PART]}, "secret_in_url"),
        ({"url": "https://h/x", "source": "h0"}, "two_sources"),
        ({"url": "https://h/x", "fetchers": ["h0"]}, "bad_fetcher"),
        ({"url": "https://h/x", "options": {"delivery": "stable"}}, "several_sources"),
        ({"source": "h0", "source_path": "/x", "fetchers": 2}, "no_url"),
        ({"url": "oci://h/x:1"}, "bad_url"),
        ({"url": "https://h/x", "parts": [PART]}, "bad_url"),
        ({"url": "oci://h/x:1", "parts": [PART], "sha256": 64 * "0"}, "bad_sha256"),
        ({"url": "oci://h/x:1", "parts": [PART, PART]}, "bad_part"),
        ({"url": "oci://h/x:1", "parts": [{**PART, "path": "../a"}]}, "bad_part"),
        ({"url": "oci://h/x:1", "parts": [{**PART, "path": "/a"}]}, "bad_part"),
        ({"url": "oci://h/x:1", "parts": [PART, {**PART, "path": "a/b"}]}, "bad_part"),
        ({"url": "oci://h/x:1", "parts": [{**PART, "url": ""}]}, "bad_part"),
        ({"url": "oci://h/x:1", "parts": [{"path": "a", "size": 3, "data": "YWI="}]}, "bad_part"),
        ({"url": "oci://h/x:1", "parts": [{**PART, "url": "https://u:p@h/x"}]}, "secret_in_url"),
    ],
)
async def test_requests_for_a_url_that_make_no_sense_are_refused(spec, code: str) -> None:
    with pytest.raises(Problem) as told:
        async with lab(star(4)) as it:
            await it.client.create_group({"receivers": ["h1", "h2", "h3"], **spec})
    assert told.value.code == code


async def test_an_origin_that_takes_its_time_to_say_what_it_has_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    own, acknowledge = FakeAgent._own, FakeAgent._acknowledge

    def asked(self, message, part):
        return {"ok": True, "objects": [[0, "e"]]} if "urls" in part else own(self, message, part)

    async def late(self, writer, message, results, waiting) -> None:
        if "objects" in results[self.name]:
            await asyncio.sleep(15.0)
        await acknowledge(self, writer, message, results, waiting)

    monkeypatch.setattr(FakeAgent, "_own", asked)
    monkeypatch.setattr(FakeAgent, "_acknowledge", late)
    async with lab(star(3)) as it:
        group = await it.client.create_group({"url": "https://h/x", "fetchers": ["h1"], "receivers": ["h1", "h2"]})
        record = await it.end(group)
    assert record["state"] == "done", record["error"]


async def test_an_object_that_has_not_the_size_that_was_expected_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    own = FakeAgent._own

    def asked(self, message, part):
        return {"ok": True, "objects": [[7, "e"]]} if "urls" in part else own(self, message, part)

    monkeypatch.setattr(FakeAgent, "_own", asked)
    async with lab(star(3)) as it:
        group = {"url": "https://h/x", "fetchers": ["h1"], "receivers": ["h1", "h2"], "size": 5}
        record = await it.end(await it.client.create_group(group))
    assert record["state"] == "failed" and record["error"]["code"] == "size", record
    assert record["error"]["message"] == "https://h/x has 7 bytes, expected were 5"


@pytest.mark.parametrize(
    ("url", "said", "remedy"),
    [
        ("https://h/a b", "'https://h/a b' has ' ' in it", "write it as %20"),
        ("https://h/\u00e9", "has '\u00e9' in it", "write it as %C3%A9"),
        ("https://h/a#b", "has '#' in it", "leave out what is behind it, or write %23"),
    ],
)
def test_what_a_url_must_not_have_is_told_with_what_to_write(url: str, said: str, remedy: str) -> None:
    with pytest.raises(Problem, match=said) as told:
        check_url(GroupSpec(url=url))
    assert told.value.remedy == remedy


def test_a_bucket_without_a_key_is_told_so() -> None:
    for url in ("s3://b", "s3://b/"):
        with pytest.raises(Problem, match="names no key"):
            check_url(GroupSpec(url=url))


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("s3://b/my dir/a b?c#d \u00e9%20.bin", "a b?c#d \u00e9%20.bin"),
        ("s3://b/5.00\u202fPM.png", "5.00\u202fPM.png"),
        ("https://h/dir/x.bin?version=/3", "x.bin"),
    ],
)
def test_a_key_is_taken_as_the_store_shows_it_and_names_the_file(url: str, name: str) -> None:
    check_url(spec := GroupSpec(url=url))
    assert spec.name == name


def test_the_command_tells_a_url_from_a_file() -> None:
    assert parse_origin("/x", ["a,b"], None, None) == GroupSpec(source="a", other_sources=["b"], source_path="/x")
    assert parse_origin("s3://b/k", [], "3", "mob") == GroupSpec(url="s3://b/k", fetchers=3, origin_policy="mob")
    assert parse_origin("https://h/x", [], "a,b", None) == GroupSpec(url="https://h/x", fetchers=["a", "b"])
    assert parse_origin("https://h/x", [], "all", None).fetchers == "all"
    for bad in (
        ("https://h/x", ["a"], None, None),
        ("/x", ["a"], "3", None),
        ("/x", [], None, None),
        ("", ["a"], None, None),
        *[("https://h/x", [], fetchers, None) for fetchers in ("", ",", "-1", "1.5")],
    ):
        with pytest.raises(typer.BadParameter):
            parse_origin(*bad)
    for typed, meant in (("s3:/b/k", "s3://b/k"), ("s3:b/k", "s3://b/k"), ("https:/h/x", "https://h/x")):
        with pytest.raises(typer.BadParameter, match=f"is {meant} meant"):
            parse_origin(typed, [], None, None)
    assert parse_origin("s3:b", ["a"], None, None).source_path.endswith("/s3:b"), "a file may be called so"


def test_who_joins_again_gets_of_each_root_what_that_one_sends() -> None:
    """Blocks that nobody else wants are given up when it goes; a root has only those that it was offered."""
    wants = {"a": [(0, 40)], "b": [(40, 60)]}
    parts = {
        root: Scheduler(100, 10, [tree], 1000.0, pool=[], reach={tree: frozenset("ab")}, wants=wants)
        for tree, root in enumerate(("r0", "r1"))
    }
    several = Collective(parts)
    for block, root in ((0, "r0"), (5, "r0"), (6, "r1"), (7, "r1")):
        several.offer(block, root)
    several.gone(frozenset("b"))
    assert [part.pooled for part in parts.values()] == [10, 0]
    several.come(frozenset("b"))
    assert [part.pooled for part in parts.values()] == [20, 20]
    several.offer(9, "r0")
    assert parts["r0"].pooled == 30
