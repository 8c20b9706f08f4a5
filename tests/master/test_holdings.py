"""Sources that have parts of a file: what a range means, who sends what, and what becomes of a part that nobody has."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from small import star

from datacast.master.grove import Agreement, Differ
from datacast.master.holdings import Holdings
from datacast.services.problems import Problem
from datacast.services.ranges import RangeProblem, within
from lab import lab

pytestmark = pytest.mark.simulated

SIZE, BLOCK = 1000, 64


# ---- ranges ----
def test_of_a_range_that_a_host_has_only_whole_blocks_count() -> None:
    assert within(["0-63"], SIZE, BLOCK) == [(0, 1)]
    assert within(["0-62"], SIZE, BLOCK) == [] and within(["1-127"], SIZE, BLOCK) == [(1, 1)]
    assert within(["0-99", "100-191"], SIZE, BLOCK) == [(0, 3)], "what follows one another is one range"
    assert within(["900-"], SIZE, BLOCK) == [(15, 1)], "the last block is short"
    assert within(["896-999"], SIZE, BLOCK) == [(14, 2)] and within(["896-998"], SIZE, BLOCK) == [(14, 1)]
    assert within(["1/2", "2/2"], SIZE, BLOCK) == [(0, 16)]
    with pytest.raises(RangeProblem):
        within(["1000-"], SIZE, BLOCK)


# ---- who sends what ----
def drained(holdings: Holdings, rates: dict[str, float]) -> dict[str, list[int]]:
    """Blocks by source when each takes the next one as soon as it has sent one."""
    at = dict.fromkeys(rates, 0.0)
    sent: dict[str, list[int]] = {name: [] for name in rates}
    while at:
        name = min(at, key=lambda one: (at[one], one))
        run_ = holdings.take(name, 1, rates)
        if run_ is None:
            del at[name]
            continue
        sent[name].append(run_[0])
        at[name] += 1 / rates[name]
    return sent


def test_each_block_is_sent_once_by_one_that_has_it_and_first_what_fewest_have() -> None:
    sent = drained(Holdings(30, {"a": [(0, 20)], "b": [(10, 20)]}), {"a": 1.0, "b": 1.0})
    assert sorted(sent["a"] + sent["b"]) == list(range(30))
    assert sent["a"][:10] == list(range(10)) and sent["b"][:10] == list(range(20, 30))
    assert len(sent["a"]) == len(sent["b"]) == 15


def test_a_fast_source_sends_more_of_what_both_have() -> None:
    sent = drained(Holdings(100, {"a": [(0, 100)], "b": [(0, 100)]}), {"a": 3.0, "b": 1.0})
    assert len(sent["a"]) == 75 and len(sent["b"]) == 25


def test_one_with_little_of_its_own_leaves_that_to_nobody_and_takes_what_others_would_need_long_for() -> None:
    """a and b share much, b and c little: b helps a."""
    sent = drained(Holdings(100, {"a": [(0, 90)], "b": [(0, 100)], "c": [(90, 10)]}), dict.fromkeys("abc", 1.0))
    assert Counter(block >= 90 for block in sent["c"]) == {True: 10}
    assert len(sent["a"]) == len(sent["b"]) == 45


def test_what_nobody_has_is_told_and_what_only_a_lost_one_had() -> None:
    holdings = Holdings(30, {"a": [(0, 20)], "b": [(10, 15)]})
    assert holdings.lacking([(0, 30)]) == [(25, 5)]
    assert holdings.holders(3) == {"a"} and holdings.holders(12) == {"a", "b"} and holdings.holders(29) == frozenset()
    assert holdings.take("a", 4, {}) == (0, 4)
    assert holdings.gone("a") == [(4, 6)], "the first four were given to it"
    assert holdings.again({0, 12}) == [(0, 1)]
    assert [holdings.left(name) for name in "ab"] == [0, 16]


def test_a_block_s_digest_counts_when_all_who_have_the_block_say_the_same() -> None:
    holdings = Holdings(3, {"a": [(0, 2)], "b": [(1, 2)]})
    agreement, both = Agreement(holdings.has), {"a", "b"}
    digest = "a" * 64
    assert agreement.told("a", [(0, digest), (1, digest)], both) == [(0, digest)]
    assert agreement.told("b", [(1, digest), (2, digest)], both) == [(1, digest), (2, digest)]
    agreement = Agreement(holdings.has)
    agreement.told("a", [(1, digest)], both)
    with pytest.raises(Differ):
        agreement.told("b", [(1, "b" * 64)], both)


# ---- whole groups ----
PATH = "/srv/file"


async def transfer(spec: dict[str, Any], size: int = 20_000_000, die: str = "", after: int = 0, **settings: Any) -> Any:
    """(record, pieces that were sent, by tree how many) of a group from h0 and h1 to h2 and h3."""
    async with lab(star(5), **settings) as it:
        it.world.sizes[PATH] = size
        asked = {"source": "h0", "other_sources": ["h1"], "receivers": ["h2", "h3"], "source_path": PATH, **spec}
        group = await it.client.create_group(asked)
        if die:
            await it.running(group, after)
            await it.world.agents[die].die()
        record = await it.end(group)
        trees = it.world.trees.get(group["id"], {}).values()
        return record, it.world.sent_pieces.get(group["id"], []), [tree.new_packets for tree in trees]


async def test_two_hosts_with_a_half_each_send_all_of_it_once() -> None:
    record, sent, packets = await transfer({"holds": {"h0": ["1/2"], "h1": ["2/2"]}}, rates=[2000.0, 1000.0])
    assert record["state"] == "done", record["error"]
    assert record["holds"] == {"h0": ["1/2"], "h1": ["2/2"]}
    assert sorted(sent) == list(range(len(sent)))
    assert abs(packets[0] - packets[1]) < 10, "nobody can send what it has not, however fast it is"


async def test_one_that_has_all_sends_what_the_other_lacks_and_shares_the_rest() -> None:
    record, sent, packets = await transfer({"holds": {"h1": ["0-9999999"]}}, rates=[1000.0])
    assert record["state"] == "done", record["error"]
    assert sorted(sent) == list(range(len(sent)))
    assert 0.8 < packets[0] / packets[1] < 1.25, "both send as long"


async def test_a_fast_source_takes_more_of_what_both_have() -> None:
    spec = {"holds": {"h0": ["0-74999999"], "h1": ["25000000-"]}}
    record, sent, packets = await transfer(spec, 100_000_000, rates=[2000.0, 1000.0])
    assert record["state"] == "done", record["error"]
    assert sorted(sent) == list(range(len(sent))) and 1.5 < packets[0] / packets[1] < 2.5


async def test_a_part_that_nobody_has_ends_the_group_before_anything_is_sent() -> None:
    record, sent, _ = await transfer({"holds": {"h0": ["0-7999999"], "h1": ["9000000-"]}})
    assert record["state"] == "failed" and record["error"]["code"] == "nobody_holds" and not sent
    message = record["error"]["message"]
    assert "(h0, h1)" in message and PATH in message and "name a host that has them too" in message
    first, last = map(int, message.split(f"{PATH}: ")[1].split(";")[0].split("-"))
    assert 7_900_000 < first <= 8_000_000 and 9_000_000 <= last < 9_100_000


@pytest.mark.parametrize(("die", "state"), [("h1", "done"), ("h0", "failed")])
async def test_when_a_source_dies_the_other_goes_on_if_it_has_what_is_missing(die: str, state: str) -> None:
    holds = {"h1": ["0-59999999"]}
    record, _, _ = await transfer({"holds": holds}, size=80_000_000, die=die, after=1000, rates=[1500.0])
    assert record["state"] == state, record["error"]
    if state == "failed":
        assert record["error"]["code"] == "nobody_holds"
        assert "no source that is left (h1) has" in record["error"]["message"]


async def test_a_range_behind_the_file_s_end_and_ranges_of_a_directory_are_told() -> None:
    record, _, _ = await transfer({"holds": {"h0": ["30000000-"]}})
    assert record["error"]["code"] == "bad_holds" and "behind the end" in record["error"]["message"]


def left(rows: list[list[int]], size: int = 20_000_000, piece: int = 8000, per_block: int = 10) -> dict[str, Any]:
    return {"size": size, "piece": piece, "per_block": per_block, "held": rows}


async def broken_off(rows: dict[str, list[list[int]]], size: int = 20_000_000) -> Any:
    """A group to h0 and h1 fails as its source dies; another sends what they have of it to h2 and h3."""

    async def refusal(it: Any, group: str, host: str) -> str:
        with pytest.raises(Problem) as told:
            await it.client.create_group(
                {"source": host, "receivers": ["h2"], "source_path": "/any/name", "unfinished": {host: group}}
            )
        assert told.value.code == "bad_holds"
        return told.value.message

    async with lab(star(5), rates=[1000.0]) as it:
        it.world.sizes[PATH] = size
        first = await it.client.create_group(
            {"source": "h4", "receivers": ["h0", "h1"], "source_path": PATH, "dest_path": "/srv/got"}
        )
        await it.running(first, 500)
        going = [await refusal(it, first["id"], "h0")]
        await it.world.agents["h4"].die()
        assert (await it.end(first))["state"] == "failed"
        going += [await refusal(it, "g-none", "h0"), await refusal(it, first["id"], "h3")]
        for name, held in rows.items():
            it.world.agents[name].left[first["id"]] = left(held, size)
        group = await it.client.create_group(
            {
                "source": "h0", "other_sources": ["h1"], "receivers": ["h2", "h3"], "source_path": "/any/name",
                "unfinished": {"h0": first["id"], "h1": first["id"]},
            }
        )  # fmt: skip
        record = await it.end(group)
        parts = {n: m["tree"]["b"] for n, m in it.world.ops("stat") if n in rows and "unfinished" in m["tree"]["b"]}
        return record, it.world.sent_pieces.get(group["id"], []), going, parts


async def test_hosts_send_what_they_had_received_of_a_group_that_broke_off() -> None:
    record, sent, going, parts = await broken_off({"h0": [[0, 100], [200, 50]], "h1": [[90, 110]]})
    assert record["state"] == "done", record["error"]
    assert sorted(sent) == list(range(2500)), "cut as it was then"
    assert "goes on" in going[0] and "there is no group" in going[1] and "was no receiver" in going[2]
    assert {part["path"] for part in parts.values()} == {"/srv/got"}, "at that group's destination"


async def test_what_none_of_them_had_received_is_told() -> None:
    record, sent, _, _ = await broken_off({"h0": [[0, 100]], "h1": [[120, 130]]})
    assert record["error"]["code"] == "nobody_holds" and "8000000-9599999" in record["error"]["message"] and not sent


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ({"holds": {"h2": ["0-9"]}}, "h2 is no source"),
        ({"holds": {"h0": ["9-0"]}}, "no range"),
        ({"unfinished": {"h2": "g-1"}}, "h2 is no source"),
        ({"holds": {"h0": ["0-9"]}, "unfinished": {"h0": "g-1"}}, "what it had received"),
        ({"holds": {"h0": ["0-9"]}, "scatter": True}, "the whole file"),
        ({"holds": {"h0": ["0-9"]}, "other_sources": [], "options": {"delivery": "stable"}}, "at one rate"),
    ],
)
async def test_requests_that_make_no_sense_are_refused(spec: dict[str, Any], what: str) -> None:
    with pytest.raises(Problem) as told:
        await transfer(spec)
    assert told.value.code == "bad_holds" and what in told.value.message
