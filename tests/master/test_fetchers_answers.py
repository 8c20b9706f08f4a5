"""What fetchers answer, hold and leave: who fetches what then, and how a fetch ends that cannot go on."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
from test_offers import BLOCKS, Hosts

from datacast.master import fetching as module
from datacast.master.answers import FetchAnswer, Results
from datacast.master.errors import GroupError
from datacast.master.fetching import Fetching, Run
from datacast.origins.ranges import Range

URL = "https://origin/file"


class Trees:
    """Of what is fetched: which block goes over whose trees."""

    def __init__(self) -> None:
        self.homeless: set[int] = set()
        self.offered: list[tuple[int, str]] = []

    def offer(self, block: int, root: str) -> None:
        self.offered.append((block, root))
        self.homeless.discard(block)

    def drop(self, root: str) -> None:
        pass


@pytest.fixture(autouse=True)
def trees(monkeypatch: pytest.MonkeyPatch) -> Trees:
    one = Trees()
    monkeypatch.setattr(Fetching, "_scheduler", one)
    return one


def ordered(it: Hosts) -> dict[str, set[int]]:
    found: dict[str, set[int]] = defaultdict(set)
    for name, block in it.ordered:
        found[name].add(block)
    return found


async def test_one_that_cannot_fetch_any_more_leaves_it_to_the_others() -> None:
    it = Hosts(URL)
    await it.deal()
    first = ordered(it)
    it.fetching.not_fetched(it.members["a"], "denied", "403")
    assert it.fetching.dealing and it.fetching.dealing.fetchers == ["b"] and not it.fetching.needs("a")
    it.fetching.not_fetched(it.members["a"], "denied", "403")  # said twice
    it.has("b", range(BLOCKS // 2, BLOCKS))
    await it.deal()
    assert first["a"] & ordered(it)["b"], "what it had begun"
    it.fetching.not_fetched(it.members["b"], "origin_failed", "500")
    with pytest.raises(GroupError, match=r"nobody can fetch : 403 \(a\); 500 \(b\)") as error:
        await it.deal()
    assert error.value.code == "origin_failed"


async def test_what_no_other_fetcher_could_do_better_ends_the_group() -> None:
    it = Hosts(URL)
    await it.deal()
    it.fetching.not_fetched(it.members["a"], "changed", "another object is there now")
    with pytest.raises(GroupError, match="another object is there now"):
        await it.deal()
    assert not it.fetching.needs("a") and not it.fetching.needs("b")


async def test_two_that_have_different_bytes_of_a_block_end_the_group() -> None:
    it = Hosts(URL)
    await it.deal()
    assert it.fetching.held_by(it.members["a"], [(0, "0" * 64)]) == [(0, "0" * 64)]
    assert it.fetching.held_by(it.members["b"], [(0, "0" * 64)]) == [], "that is known"
    assert it.fetching.held_by(it.members["b"], [(0, "1" * 64)]) == []
    with pytest.raises(GroupError, match="changed while it was fetched"):
        await it.deal()


@pytest.mark.parametrize(("code", "fetchers"), [("unreachable", ["a", "b"]), ("denied", [])])
async def test_an_order_that_is_refused_is_no_answer_that_is_missing(code: str, fetchers: list[str]) -> None:
    it = Hosts(URL)
    it.refuses_by = code
    await it.deal()
    assert it.fetching.dealing and it.fetching.dealing.fetchers == fetchers
    asked = len(it.ordered)
    await it.fetching._order_run(it.members["a"], Run(Range(0, 1), set(), 0.0))
    assert len(it.ordered) == asked, "there is nothing to order"


async def test_where_each_fetches_all_of_it_what_others_have_is_ordered_too() -> None:
    it = Hosts(URL)
    it.transfer.spec = SimpleNamespace(url=URL, origin_policy="flat", source_path=URL)
    it.fetching.begin(["a", "b"])
    it.has("a", range(BLOCKS))
    await it.deal()
    assert 0 in ordered(it)["b"] and not ordered(it)["a"], "a has it"


def stuck(it: Hosts, left: list[int], is_stuck: bool, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`a` is asked to leave what it has not begun, and answers."""
    monkeypatch.setattr(it.fetching, "_is_stuck", lambda *_: is_stuck)

    async def request(op: Any, members: Any, common: Any, parts: Any, wait: float) -> Results[FetchAnswer]:
        if next(iter(parts.values())).leave:
            return Results({"a": FetchAnswer(ok=True, left=left)}, FetchAnswer())
        return await it._request(op, members, common, parts, wait)

    monkeypatch.setattr(it.fetching._crew, "request", request)
    return it.fetching._relieve_of(it.members["a"], "b")


async def test_what_a_late_one_has_not_begun_is_anothers(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Hosts(URL)
    await it.deal()
    blocks = sorted(ordered(it)["a"])
    before = it.fetching._missing("a")
    await stuck(it, [blocks[-1], BLOCKS + 9], False, monkeypatch)
    assert it.fetching._missing("a") == before - 1 and not it.fetching._stuck["a"]
    it.has("b", range(BLOCKS // 2, BLOCKS))
    await it.deal()
    assert blocks[-1] in ordered(it)["b"] and blocks[0] not in ordered(it)["b"]


async def test_of_one_that_is_stuck_others_fetch_what_it_has_begun_and_whose_comes_first_counts(
    monkeypatch: pytest.MonkeyPatch, trees: Trees
) -> None:
    it = Hosts(URL)
    await it.deal()
    blocks = ordered(it)["a"]
    await stuck(it, [], True, monkeypatch)
    assert it.fetching._missing("a") == 0 and it.fetching._stuck["a"] == blocks and it.fetching._blocked("a")
    it.has("b", range(BLOCKS // 2, BLOCKS))
    await it.deal()
    both = blocks & ordered(it)["b"]
    assert both and it.fetching.refetched_bytes
    one = min(both)
    it.fetching.held_by(it.members["a"], [(one, f"{one:064x}")])
    assert one not in it.fetching._stuck["a"] and (one, "a") in trees.offered
    assert all(one not in run.missing for run in it.fetching._runs["b"])
    it.fetching.held_by(it.members["b"], [(one, f"{one:064x}")])
    assert (one, "b") not in trees.offered


@pytest.mark.parametrize("gone", ["a", "b"])
async def test_who_is_out_of_touch_by_then_is_neither_relieved_nor_given_more(
    monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    it = Hosts(URL)
    await it.deal()
    before = it.fetching._missing("a")
    it.members[gone].suspect = True
    await stuck(it, sorted(ordered(it)["a"]), True, monkeypatch)
    assert it.fetching._missing("a") == before and not it.fetching._stuck["a"]


async def test_what_nobody_sends_any_more_is_sent_by_who_has_it_or_fetched_again(
    monkeypatch: pytest.MonkeyPatch, trees: Trees
) -> None:
    """And while somebody who may have it says nothing, that one is waited for."""
    monkeypatch.setattr(module, "SETTLE_S", 0.0)
    it = Hosts(URL)
    await it.deal()
    it.has("a", range(3))
    reopened: list[int] = []
    looks = iter([False, True, True])

    async def reopen() -> None:
        reopened.append(1)
        if len(reopened) == 1:
            trees.homeless.add(2)
        raise GroupError("unreachable", "source a: it is gone", "a")

    class Roots(list[Any]):
        def __iter__(self) -> Any:
            it.members["b"].suspect = not next(looks, True)
            return super().__iter__()

    crew: Any = it.fetching._crew
    crew.reopen, crew.rewire, crew.roots = reopen, lambda: reopened.append(0), Roots(it.members.values())
    lost: list[Range] = []
    monkeypatch.setattr(it.fetching.dealing, "lost", lost.extend)
    trees.homeless |= {1, BLOCKS - 1}
    await it.fetching._rehome()
    assert trees.homeless == set() and (1, "a") in trees.offered and lost == [Range(BLOCKS - 1, 1)]
    assert reopened.count(1) >= 1 and reopened.count(0) == reopened.count(1), "all tell it at the next look"
