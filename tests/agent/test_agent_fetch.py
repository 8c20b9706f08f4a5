"""Agents that fetch: from nginx, and from servers that lie, stall and break off."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from agent_harness import ASAN, Agent, Message, Net, digest, inside, random_file, read, run, until
from fetch_kit import BLOCK, GROUP, PER_BLOCK, PIECE, Fetcher
from liar import Liar
from paced import Paced
from web import Nginx

pytestmark = pytest.mark.root

SIZE = 40 * BLOCK + 5


@pytest.fixture
def fetcher(make_net: Callable[[Path], Net], tmp_path: Path) -> Fetcher:
    return Fetcher(make_net(ASAN), tmp_path / "origins.json", SIZE)


@pytest.fixture
def nginx(fetcher: Fetcher, tmp_path: Path) -> Iterator[Nginx]:
    enter = ("ip", "netns", "exec", fetcher.net.namespace("a"))
    with Nginx(tmp_path / "nginx", fetcher.address, 8088, enter=enter) as it:
        fetcher.allow(prefix=it.url + "/")
        yield it


def test_what_is_fetched_reaches_the_file_and_those_below_while_it_is_fetched(fetcher: Fetcher, nginx: Nginx) -> None:
    path = random_file(nginx.www / "object", SIZE)
    url = f"{nginx.url}/object"
    known = fetcher.stat(url)
    assert known["ok"] and known["size"] == SIZE and known["etag"]
    assert fetcher.open(url, known["etag"])["ok"]
    half = {"blocks": [[0, 20]]}
    assert fetcher.ask("fetch", half)["ok"] and fetcher.ask("fetch", half)["ok"], "twice is once"
    fetcher.client.wait(lambda: len(fetcher.told()) == 20, "half of it")
    members = fetcher.net.member("b", None, [fetcher.net.member("a")])
    rows = [[block, value] for block, value in fetcher.told().items()]
    order = {"n": 1, "extents": [[8, 0, 0, 20 * PER_BLOCK]]}
    assert all(r["ok"] for r in fetcher.client.request("assign", members, order, GROUP).values())
    assert fetcher.ask("fetch", {"blocks": [[20, 21]]})["ok"]
    fetcher.client.wait(lambda: len(fetcher.told()) == 41, "all of it")
    rows = [[block, value] for block, value in fetcher.told().items()]
    order = {"n": 2, "extents": [[8, 20 * PER_BLOCK, 20 * PER_BLOCK, -(-SIZE // PIECE) - 20 * PER_BLOCK]]}
    assert all(r["ok"] for r in fetcher.client.request("assign", members, order, GROUP).values())
    assert all(r["ok"] for r in fetcher.client.request("digest", members, {"n": 3, "blocks": rows}, GROUP).values())
    for name in "ab":
        fetcher.client.wait(lambda name=name: fetcher.client.event("done", name), f"{name} is done")
        assert digest(fetcher.net.agents[name].folder / "got") == digest(path)
    until(lambda: nginx.sent() >= SIZE, "what nginx has sent: it says so a moment later")
    assert nginx.sent() == SIZE, "each byte left the origin once"


@pytest.mark.parametrize("first", [20, 41], ids=["while it fetches", "when it has all"])
def test_a_host_that_fetches_alone_sends_what_it_has_when_another_joins(
    fetcher: Fetcher, nginx: Nginx, first: int
) -> None:
    path = random_file(nginx.www / "object", SIZE)
    url = f"{nginx.url}/object"
    etag = fetcher.stat(url)["etag"]
    assert (answer := fetcher.open_alone(url, etag))["ok"], answer
    fetcher.fetch(0, first)
    fetcher.client.wait(lambda: len(fetcher.told()) == first, "what was ordered")
    if first == 41:
        fetcher.client.wait(lambda: fetcher.client.event("done", "b"), "b is done")
    assert (answer := fetcher.open(url, etag))["ok"], answer
    fetcher.fetch()
    fetcher.pass_on()
    for name in "ab":
        assert digest(fetcher.net.agents[name].folder / "got") == digest(path)
    until(lambda: nginx.sent() >= SIZE, "what nginx has sent: it says so a moment later")
    assert nginx.sent() == SIZE, "each byte left the origin once"


def test_an_object_that_changes_is_no_mixture(fetcher: Fetcher, nginx: Nginx) -> None:
    random_file(nginx.www / "object", SIZE)
    url = f"{nginx.url}/object"
    assert fetcher.open(url, fetcher.stat(url)["etag"])["ok"]
    random_file(nginx.www / "new", SIZE)
    subprocess.run(["touch", "-d", "2001-01-01", nginx.www / "new"], check=True)
    (nginx.www / "new").rename(nginx.www / "object")
    assert fetcher.ask("fetch", {"blocks": [[3, 1]]})["ok"]
    assert fetcher.failure()["code"] == "changed" and not fetcher.told()


def test_what_is_not_there_and_what_is_not_allowed(fetcher: Fetcher, nginx: Nginx) -> None:
    assert fetcher.stat(f"{nginx.url}/none")["code"] == "not_found"
    assert fetcher.stat("http://192.0.2.1/x")["code"] == "denied"
    (nginx.www / "empty").touch()
    empty = fetcher.stat(f"{nginx.url}/empty")
    assert empty["ok"] and empty["size"] == 0
    fetcher.allowed.chmod(0o644)
    assert fetcher.stat(f"{nginx.url}/x")["code"] == "denied"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"accesskey": "a"}, "its entry in --origins has a name that means nothing (docs/origins.md)"),
        ({"access_key": "a"}, "its entry in --origins has `access_key`, and no `secret_key`"),
        ({"password": "p"}, "its entry in --origins has `password`, and no `user`"),
        ({"user": "a", "password": "s t"}, "`password` of its entry in --origins must be text without a blank"),
        ({"region": 7}, "`region` of its entry in --origins must be text without a blank"),
    ],
)
def test_what_is_misspelt_in_an_entry_is_told_and_not_left_out(
    fetcher: Fetcher, entry: dict[str, str], said: str
) -> None:
    fetcher.allow(prefix="https://h/", **entry)
    answer = fetcher.stat("https://h/x")
    assert answer["code"] == "bad_origin" and answer["error"] == f"https://h/x: {said}", answer


@pytest.mark.parametrize("content", ["[]", '{"origin": []}', '{"origins": {}}'])
def test_a_file_of_origins_that_is_none_is_told_so(fetcher: Fetcher, content: str) -> None:
    fetcher.allowed.write_text(content)
    answer = fetcher.stat("https://h/x")
    assert answer["code"] == "denied" and '{"origins": [{"prefix": …}, …]}' in answer["error"], answer


def test_of_a_bucket_whose_server_is_away_the_entry_s_endpoint_is_looked_at(fetcher: Fetcher) -> None:
    """The URL says nothing of where it was asked for."""
    fetcher.allow(prefix="s3://b/", endpoint="http://127.0.0.1:1", access_key="AKID", secret_key="very-hidden")
    answer = fetcher.stat("s3://b/k")
    assert answer["code"] == "origin_unreachable" and answer["error"].endswith(": look at `endpoint` of its entry")


def test_no_agent_sends_what_proves_it_to_origins(fetcher: Fetcher, tmp_path: Path) -> None:
    """It may send any file of this machine."""
    folder = tmp_path / "innocent"
    folder.mkdir()
    (folder / "file").hardlink_to(fetcher.allowed)
    for path in (fetcher.allowed, folder / "file", folder):
        answer = fetcher.ask("stat", {"path": str(path)})
        assert answer["code"] == "denied" and "this agent's file of --origins" in str(answer["error"])


@pytest.mark.parametrize(
    "part",
    [{}, {"blocks": 3}, {"blocks": [[0]]}, {"blocks": [[-1, 1]]}, {"blocks": [[0, 99]]}, {"blocks": [["0", 1]]}],
)
def test_orders_that_make_no_sense_are_refused(fetcher: Fetcher, nginx: Nginx, part: Message) -> None:
    random_file(nginx.www / "object", SIZE)
    assert fetcher.open(f"{nginx.url}/object")["ok"]
    assert fetcher.ask("fetch", part)["code"] == "bad_request"


def test_a_fetcher_leaves_what_it_has_not_asked_for_and_nothing_else(fetcher: Fetcher, nginx: Nginx) -> None:
    random_file(nginx.www / "object", SIZE)
    url = f"{nginx.url}/object"
    assert fetcher.open(url, fetcher.stat(url)["etag"])["ok"]
    with nginx.standing_still():
        assert fetcher.ask("fetch", {"blocks": [[0, 20]]})["ok"]
        answer = fetcher.ask("fetch", {"leave": [[2, 18]]})
    assert answer["ok"] and len(answer["left"]) >= 12 and set(answer["left"]) <= set(range(2, 20)), answer
    kept = set(range(20)) - set(answer["left"])
    fetcher.client.wait(lambda: set(fetcher.told()) == kept, "the others")
    assert fetcher.ask("fetch", {"leave": [[0, 20]]})["left"] == []
    assert fetcher.ask("fetch", {"blocks": [[19, 1]]})["ok"], "it may be ordered again"
    fetcher.client.wait(lambda: 19 in fetcher.told(), "the last")
    # nginx writes down what it has sent a moment later
    fetcher.client.wait(lambda: nginx.sent() >= BLOCK * (len(kept) + 1), "what nginx sent")
    assert nginx.sent() == BLOCK * (len(kept) + 1)
    for wrong in ([[0, 99]], [[-1, 1]], [3]):
        assert fetcher.ask("fetch", {"leave": wrong})["code"] == "bad_request"


def test_from_far_away_few_long_requests_fill_the_way(fetcher: Fetcher) -> None:
    """What is measured of an origin is what was asked of it: from far away that would be a block at a time for ever."""
    data = random.Random(1).randbytes(SIZE)
    with inside(fetcher.net.namespace("a"), lambda: Paced(fetcher.address, 8090, data, 50_000_000, late_s=0.3)) as far:
        fetcher.allow(prefix=far.url.removesuffix("object"))
        assert fetcher.open(far.url, fetcher.stat(far.url)["etag"])["ok"]
        fetcher.fetch()
        fetcher.pass_on()
    asked = [one for one in far.given if one.end - one.first > 1]
    assert sum(one.end - one.first for one in asked) == SIZE, "each byte once"
    assert len(asked) <= 24, [one.end - one.first for one in asked]
    assert (fetcher.net.agents["a"].folder / "got").read_bytes() == data


# ---- servers that do not do what they should ----
DATA = bytes(range(256)) * (SIZE // 256 + 1)


@pytest.fixture
def liar(fetcher: Fetcher) -> Iterator[Liar]:
    listening = inside(fetcher.net.namespace("a"), lambda: socket.create_server((fetcher.address, 8089)))
    with Liar(listening, DATA[:SIZE]) as it:
        fetcher.allow(prefix=it.place)
        yield it


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("other bytes", "bad_answer"),
        ("no range", "bad_answer"),
        ("other size", "changed"),
        ("other etag", "changed"),
        ("whole", "no_ranges"),
        ("403", "origin_denied"),
        ("404", "not_found"),
        ("410", "not_found"),
        ("412", "changed"),
        ("416", "changed"),
        ("redirects", "bad_answer"),
        ("circle", "bad_answer"),
        ("too much", "bad_answer"),
        ("500", "origin_failed"),
        ("too little", "truncated"),
        ("gzip", "bad_answer"),
        ("resets", "truncated"),
    ],
)
def test_an_answer_that_cannot_be_right_is_named_and_nothing_of_it_counts(
    fetcher: Fetcher, liar: Liar, how: str, code: str
) -> None:
    assert fetcher.open(liar.url(), '"one"')["ok"]
    liar.how = how
    assert fetcher.ask("fetch", {"blocks": [[2, 1]]})["ok"]
    event = fetcher.failure()
    assert event["code"] == code and event["block"] == 2, event
    assert not fetcher.told()


@pytest.mark.parametrize(
    "how", ["busy once", "breaks off once", "stands still once", "no time once", "complains for ever once"]
)
def test_what_goes_wrong_once_is_asked_for_again(fetcher: Fetcher, liar: Liar, how: str) -> None:
    assert fetcher.open(liar.url(), '"one"')["ok"]
    liar.how = how
    assert fetcher.ask("fetch", {"blocks": [[0, 1]]})["ok"]
    fetcher.client.wait(lambda: 0 in fetcher.told(), "the block, at last")
    assert liar.asked["x"] == 2


@pytest.mark.parametrize("how", ["chunks", "stored as gzip", "cuts"])
def test_answers_that_are_unusual_and_right_are_taken(fetcher: Fetcher, liar: Liar, how: str) -> None:
    """Without a length; of an object that is compressed where it is stored, of which a range is a range."""
    liar.how = how
    fetcher.deliver(liar.url())
    assert (fetcher.net.agents["a"].folder / "got").read_bytes() == DATA[:SIZE]


def test_what_an_origin_has_is_asked_once_where_it_says_nothing(fetcher: Fetcher, liar: Liar) -> None:
    """Whoever began the group waits for the answer, and no longer than a master does."""
    answer = fetcher.stat(liar.url("says nothing"))
    assert answer["code"] == "stalled" and liar.asked["says nothing"] == 1, answer


def test_an_answer_that_is_longer_than_what_was_asked_for_is_not_read_to_its_end(fetcher: Fetcher, liar: Liar) -> None:
    """Of the first byte, to hear what there is: an origin could send for as long as the answer is waited for."""
    answer = fetcher.stat(liar.url("too much"))
    assert answer["code"] == "bad_answer" and "more bytes than those asked for" in answer["error"], answer


def deleted(agent: Agent) -> list[str]:
    """Received files without a name that the agent has open."""
    links = list[str]()
    for fd in Path(f"/proc/{agent.process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
            links.append(os.readlink(fd))
    return [link for link in links if link.startswith(str(agent.folder)) and link.endswith("(deleted)")]


@pytest.fixture
def below(fetcher: Fetcher, liar: Liar, tmp_path: Path) -> Fetcher:
    """One that fetches a block from an origin which stands still, beside a host that has the file."""
    (tmp_path / "source").write_bytes(DATA[:SIZE])
    assert fetcher.open_below(tmp_path / "source", liar.url())["ok"]
    liar.how = "stands still"
    assert fetcher.ask("fetch", {"blocks": [[2, 1]]})["ok"]
    until(lambda: liar.asked["x"], "the origin is asked")
    return fetcher


def test_a_file_has_its_name_when_nothing_is_fetched_into_it_any_more(below: Fetcher) -> None:
    """All has come over a tree meanwhile: what an origin sends later would go over what is the user's already."""
    below.from_above(-(-SIZE // PIECE))
    below.client.wait(lambda: below.client.event("done", "b"), "it is done")
    to_origin = ("ss", "-tnH", "state", "established", "dport", "=", ":8089")
    assert run("ip", "netns", "exec", below.net.namespace("b"), *to_origin) == ""
    assert (below.net.agents["b"].folder / "got").read_bytes() == DATA[:SIZE]


def test_what_an_origin_puts_over_a_verified_block_is_found(below: Fetcher, liar: Liar) -> None:
    below.from_above(40 * PER_BLOCK)
    until(lambda: below.ask("status")["blocks_ok"] == 40, "all but the last block has come over the tree")
    liar.how = "wrong content"
    liar.released.set()
    below.client.wait(lambda: below.client.event("failed", "b"), "the group ends")
    failed = below.client.event("failed", "b")
    assert failed and failed["code"] == "changed", failed
    assert not below.net.agents["b"].leftovers()
    until(lambda: not deleted(below.net.agents["b"]), "the disk has its room again", 5.0)


def test_of_a_group_that_has_failed_nothing_is_asked_for_any_more(below: Fetcher) -> None:
    """What stands still would be asked for again for a minute, and an origin that has no time for the whole lease."""
    agent = below.net.agents["b"]
    resource.prlimit(agent.process.pid, resource.RLIMIT_FSIZE, (1, 1))
    below.from_above(40 * PER_BLOCK)
    below.client.wait(lambda: below.client.event("failed", "b"), "the group has failed")
    to_origin = ("ss", "-tnH", "state", "established", "dport", "=", ":8089")
    until(lambda: run("ip", "netns", "exec", agent.namespace, *to_origin) == "", "no request is under way", 5.0)


def test_a_group_closed_while_its_origin_stands_still_is_opened_again_soon(fetcher: Fetcher, liar: Liar) -> None:
    """What was under way would otherwise have the file for a minute: so long does a request try again."""
    assert fetcher.open(liar.url(), '"one"')["ok"]
    liar.how = "stands still"
    assert fetcher.ask("fetch", {"blocks": [[2, 1]]})["ok"]
    until(lambda: liar.asked["x"], "the origin is asked")
    assert fetcher.ask("close", body={"reason": "test", "keep": True})["ok"]
    until(lambda: fetcher.open(liar.url(), '"one"')["ok"], "nobody has the file any more", 30.0)


def begun(fetcher: Fetcher, liar: Liar, group: str, name: str) -> None:
    """One more group fetches all of it."""
    everyone = {"size": SIZE, "piece": PIECE, "per_block": PER_BLOCK, "source": "b", "lease_ms": 60_000}
    part = {"role": "receiver", "dest": str(fetcher.net.agents["b"].folder / group), "fetches": True}
    members = fetcher.net.member("b", part)
    origin = {"objects": [{"url": liar.url(name), "etag": '"one"'}]}
    assert fetcher.client.request("open", members, {**everyone, "origin": origin, "trees": []}, group)["b"]["ok"]
    members = fetcher.net.member("b", {"blocks": [[0, -(-SIZE // BLOCK)]]})
    assert fetcher.client.request("fetch", members, {}, group)["b"]["ok"]


def test_what_stands_still_keeps_nobody_else_from_an_origin(fetcher: Fetcher, liar: Liar) -> None:
    """Two groups have all their requests at it; a third one begins and ends meanwhile."""
    for group in ("g-1", "g-2"):
        begun(fetcher, liar, group, "stands still")
    until(lambda: liar.asked["stands still"] == 8, "all that two groups may ask at once")
    assert fetcher.stat(liar.url("good"))["size"] == SIZE
    begun(fetcher, liar, "g-3", "good")
    fetcher.client.wait(lambda: any(e["event"] == "done" for e in fetcher.client.events), "the third")
    assert (fetcher.net.agents["b"].folder / "g-3").read_bytes() == DATA[:SIZE]
    assert liar.asked["stands still"] == 8, "and the others are waited for yet"


def test_an_origin_that_has_no_time_holds_a_thread_of_a_group_and_no_more(fetcher: Fetcher, liar: Liar) -> None:
    """Nine groups, of which each begins with four requests, were more than an agent has threads to wait in."""
    liar.retry_after = "50"
    for group in range(9):
        begun(fetcher, liar, f"g-{group}", "no time")
    until(lambda: liar.asked["no time"] >= 9, "each has asked")
    begun(fetcher, liar, "g-good", "good")
    fetcher.client.wait(lambda: any(e["event"] == "done" for e in fetcher.client.events), "the tenth")
    assert liar.asked["no time"] <= 36, "four of each at most, and nobody has asked before it was time"


def test_when_an_origin_has_time_again_all_that_was_ordered_is_fetched(fetcher: Fetcher, liar: Liar) -> None:
    assert fetcher.open(liar.url(), '"one"')["ok"]
    liar.how = "no time 9 times"
    fetcher.fetch()
    fetcher.pass_on()
    assert (fetcher.net.agents["a"].folder / "got").read_bytes() == DATA[:SIZE]


@pytest.mark.parametrize("how", ["busy for a while", "busy until"])
def test_an_origin_that_says_when_to_come_back_is_not_asked_before(fetcher: Fetcher, liar: Liar, how: str) -> None:
    assert fetcher.open(liar.url(), '"one"')["ok"]
    liar.how = how
    assert fetcher.ask("fetch", {"blocks": [[0, 1]]})["ok"]
    fetcher.client.wait(lambda: 0 in fetcher.told(), "the block, after a while")
    assert liar.asked["x"] == 2, "of its own accord it would have asked sooner, and more often"


def test_an_origin_that_has_no_time_is_asked_for_longer_than_one_that_fails(fetcher: Fetcher, liar: Liar) -> None:
    """And the status says so meanwhile."""
    assert fetcher.open(liar.url(), '"one"')["ok"]
    liar.how = "no time 7 times"
    assert fetcher.ask("fetch", {"blocks": [[0, 1]]})["ok"]
    until(lambda: "origin" in fetcher.ask("status"), "it is told")
    assert fetcher.ask("status")["origin"] == {
        "code": "throttled",
        "error": f"{liar.url()}: the origin has no time (429)",
    }
    fetcher.client.wait(lambda: 0 in fetcher.told(), "the block, at last")
    assert liar.asked["x"] == 8 and "origin" not in fetcher.ask("status")
    assert not fetcher.client.event("not_fetched", "b")


def test_an_origin_that_has_no_time_for_longer_than_the_lease_is_not_waited_for(fetcher: Fetcher, liar: Liar) -> None:
    assert fetcher.open(liar.url(), '"one"')["ok"]
    liar.how, liar.retry_after = "no time", "Wed, 21 Oct 2099 07:28:00 GMT"
    assert fetcher.ask("fetch", {"blocks": [[0, 1]]})["ok"]
    event = fetcher.failure()
    assert event["code"] == "throttled" and liar.asked["x"] == 1, event
    assert event["error"].endswith("as it says: longer than the group's lease_ms, 20000"), event


def test_what_an_origin_has_no_time_to_say_is_asked_again_by_who_asked(fetcher: Fetcher, liar: Liar) -> None:
    liar.retry_after = "7"
    answer = fetcher.stat(liar.url("no time"))
    assert (answer["code"], answer["later_s"], liar.asked["no time"]) == ("throttled", 7, 1), answer


def test_what_came_before_an_answer_broke_off_is_not_asked_for_again(fetcher: Fetcher, liar: Liar) -> None:
    """A proxy that ends each connection after so many bytes: none of them would ever bring a whole request."""
    assert fetcher.open(liar.url(), '"one"')["ok"]
    liar.how, liar.cut = "cuts", 3000
    assert fetcher.ask("fetch", {"blocks": [[0, 2]]})["ok"]
    fetcher.client.wait(lambda: {0, 1} <= fetcher.told().keys(), "both blocks")
    until(lambda: liar.given["x"] >= 2 * BLOCK, "the origin has counted its last answer")
    assert liar.given["x"] == 2 * BLOCK
    liar.how = "good"
    fetcher.fetch()
    fetcher.pass_on()
    assert (fetcher.net.agents["a"].folder / "got").read_bytes() == DATA[:SIZE]


def test_who_fetches_its_ranges_has_holes_elsewhere_and_says_so(fetcher: Fetcher, nginx: Nginx) -> None:
    """What is not wanted is asked for nowhere, told to nobody and read by no other site."""
    path = random_file(nginx.www / "object", SIZE)
    url = f"{nginx.url}/object"
    fetcher.wants = [[2, 3], [30, 11]]
    assert fetcher.open(url, fetcher.stat(url)["etag"])["ok"]
    refused = fetcher.ask("fetch", {"blocks": [[5, 1]]})
    assert not refused["ok"] and "block 5 is not in the ranges" in refused["error"]
    data, blocks = path.read_bytes(), {2, 3, 4, *range(30, 41)}
    assert read(fetcher.net, "b", 0, 100, group=GROUP)[1] == b"", "not even before anything is there"
    assert fetcher.ask("fetch", {"blocks": [[2, 3]]})["ok"]
    fetcher.client.wait(lambda: fetcher.told().keys() == {2, 3, 4}, "its first range")
    got = read(fetcher.net, "b", 2 * BLOCK + 7, 5 * BLOCK, group=GROUP)[1]
    assert got == data[2 * BLOCK + 7 : 5 * BLOCK], "what is there, and nothing of the hole behind it"
    assert read(fetcher.net, "b", 5 * BLOCK, BLOCK, group=GROUP)[1] == b""
    again = len(fetcher.client.events)
    assert fetcher.open(url)["ok"]  # another master asks what it has
    fetcher.client.wait(lambda: any(e["event"] == "digests" for e in fetcher.client.events[again:]), "it tells again")
    assert fetcher.told().keys() == {2, 3, 4}
    assert fetcher.ask("fetch", {"blocks": [[30, 11]]})["ok"]
    fetcher.client.wait(lambda: fetcher.client.event("done", "b"), "it has what it wants")
    assert fetcher.told().keys() == blocks
    whole = b"".join(data[b * BLOCK : (b + 1) * BLOCK] if b in blocks else bytes(BLOCK) for b in range(41))
    assert (fetcher.net.agents["b"].folder / "got").read_bytes() == whole[:SIZE]


def test_an_agent_that_is_killed_asks_again_only_for_what_it_had_not_finished(fetcher: Fetcher, nginx: Nginx) -> None:
    path = random_file(nginx.www / "object", SIZE)
    url = f"{nginx.url}/object"
    etag = fetcher.stat(url)["etag"]
    assert fetcher.open(url, etag)["ok"]
    had = 30
    fetcher.fetch(0, had)
    fetcher.client.wait(lambda: len(fetcher.told()) == had, "a part of it")
    agent = fetcher.net.agents["b"]
    until(lambda: len(agent.noted(SIZE)) == had, "it is noted")
    nginx.stop()
    nginx.rates["default"] = 40_000
    nginx.start()
    fetcher.fetch(had)
    there = agent.folder / agent.leftovers()[0]
    until(lambda: there.read_bytes()[had * BLOCK :][:100].strip(b"\0"), "the next bytes")
    agent.process.kill()
    agent.process.wait()
    nginx.stop()
    del nginx.rates["default"]
    nginx.start()
    whole = sum(n for _, status, n in nginx.rows() if status == 206 and n > 1)
    fetcher.again()
    assert fetcher.open(url, etag)["ok"]
    fetcher.fetch()  # at once: what it has noted is still being hashed
    fetcher.pass_on()
    assert digest(fetcher.net.agents["a"].folder / "got") == digest(path)
    assert nginx.sent() - whole <= SIZE - had * BLOCK, "nothing that was finished is asked for again"


def test_what_is_held_from_before_is_told_and_counted_though_nobody_orders_it(fetcher: Fetcher, nginx: Nginx) -> None:
    random_file(nginx.www / "object", SIZE)
    url = f"{nginx.url}/object"
    etag = fetcher.stat(url)["etag"]
    assert fetcher.open(url, etag)["ok"]
    fetcher.fetch(0, 30)
    agent = fetcher.net.agents["b"]
    until(lambda: len(agent.noted(SIZE)) == 30, "it is noted")
    agent.process.kill()
    agent.process.wait()
    fetcher.again()
    assert fetcher.open(url, etag)["ok"]
    fetcher.client.wait(lambda: fetcher.told().keys() == set(range(30)), "all that it holds")
    status = fetcher.ask("status")
    assert (status["resuming"], status["blocks_ok"], status["bytes"]) == (0, 30, 30 * BLOCK)


def test_https_where_http_is_spoken_is_told(fetcher: Fetcher, liar: Liar) -> None:
    place = liar.place.replace("http:", "https:")
    fetcher.allow(prefix=place)
    answer = fetcher.stat(place + "x")
    assert answer["code"] == "origin_unreachable" and "does not speak TLS there: is http:// meant" in answer["error"]


@pytest.mark.parametrize(
    ("says", "code"), [(b"", "origin_unreachable"), (b"\x15\x03\x03\x00\x02\x02\x0a", "bad_answer")]
)
def test_http_where_tls_is_spoken_is_told(fetcher: Fetcher, says: bytes, code: str) -> None:
    """TLS servers end the connection, with an alert or without one."""
    place = f"http://{fetcher.address}:8090/"
    listening = inside(fetcher.net.namespace("a"), lambda: socket.create_server((fetcher.address, 8090)))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                taken, _ = listening.accept()
                with taken:
                    taken.recv(1 << 16)
                    taken.sendall(says)

    server = threading.Thread(target=serve)
    server.start()
    try:
        fetcher.allow(prefix=place)
        answer = fetcher.stat(place + "x")
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        server.join()
    assert answer["code"] == code and "is https:// meant, here and in --origins?" in answer["error"], answer


@pytest.mark.parametrize("wrong", ["name", "authority", "no file", "another file"])
def test_a_certificate_of_somebody_else_ends_it(fetcher: Fetcher, tmp_path: Path, wrong: str) -> None:
    cert, key = tmp_path / "server.pem", tmp_path / "server.key"
    place = "IP:192.0.2.9" if wrong == "name" else f"IP:{fetcher.address}"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    name = ["-subj", "/CN=x", "-addext", f"subjectAltName={place}"]
    subprocess.run([*command, *name, "-keyout", key, "-out", cert], check=True, capture_output=True)
    enter = ("ip", "netns", "exec", fetcher.net.namespace("a"))
    with Nginx(tmp_path / "tls", fetcher.address, 8443, enter=enter, tls=(cert, key)) as it:
        random_file(it.www / "object", SIZE)
        ca = {"name": str(cert), "no file": str(tmp_path / "none"), "another file": str(key)}
        fetcher.allow(prefix=it.url + "/", **({"ca": ca[wrong]} if wrong in ca else {}))
        said = "`ca` of its entry in --origins is no file of" if "file" in wrong else "name and authority"
        answer = fetcher.stat(f"{it.url}/object")
        assert answer["code"] == "certificate" and said in answer["error"], answer
        assert not it.rows(), "nothing was asked of it"


def test_an_origin_that_gives_a_credential_back_brings_it_into_no_message(fetcher: Fetcher, liar: Liar) -> None:
    fetcher.allow(prefix=liar.place, access_key="HIDDENKEY", secret_key="very-hidden", region="eu-1")
    liar.how = "gives back"
    answer = fetcher.stat(liar.url())
    assert answer["code"] == "origin_denied" and "(403)" in answer["error"], answer
    assert "HIDDENKEY" not in json.dumps(answer) + fetcher.everything_told()


def test_where_a_clock_is_wrong_it_is_not_the_entry_that_is_looked_at(fetcher: Fetcher, liar: Liar) -> None:
    fetcher.allow(prefix=liar.place, access_key="AKID", secret_key="very-hidden", region="eu-1")
    answer = fetcher.stat(liar.url("skewed"))
    assert answer["error"].endswith("the origin refuses (403 RequestTimeTooSkewed): look at this host's clock"), answer


def test_credentials_are_in_nothing_that_is_told(fetcher: Fetcher, liar: Liar) -> None:
    fetcher.allow(prefix=liar.place, access_key="AKID", secret_key="very-hidden", region="eu-1")
    liar.how = "403"
    answer = fetcher.stat(liar.url())
    assert answer["code"] == "origin_denied"
    fetcher.open(liar.url())
    fetcher.ask("fetch", {"blocks": [[0, 1]]})
    fetcher.failure()
    everything = json.dumps(answer) + fetcher.everything_told()
    assert "very-hidden" not in everything and "AKID" not in everything
