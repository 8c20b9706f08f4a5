"""The signalling of the agents: the tree inside the message, orders and their numbers, limits on groups."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest
from agent_harness import (
    ASAN,
    PATIENCE,
    PLAIN,
    Client,
    Net,
    Transfer,
    inside,
    join_pair,
    make_pair,
    path_direct,
    random_file,
    run,
    until,
)

from datacast.services.framing import Decoder, Message, encode

pytestmark = pytest.mark.root


def chain(net: Net, *names: str) -> Message:
    """A tree in which each member is the only child of the one before."""
    entry = net.member(names[-1])
    for name in reversed(names[:-1]):
        entry = net.member(name, None, [entry])
    return entry


def test_one_answer_for_the_whole_tree(line: Net) -> None:
    client = line.client("a")
    assert client.request("ping", chain(line, "a", "b", "c")) == {n: {"ok": True} for n in "abc"}
    star = line.member("b", None, [line.member("a"), line.member("c")])
    assert set(line.client("b").request("ping", star)) == set("abc")


def test_a_tree_of_three_is_signalled_nearly_as_fast_as_one_member(line: Net) -> None:
    client = line.client("a")
    tree = line.member("a", None, [line.member("b"), line.member("c")])
    client.request("ping", tree)
    alone, took = [], []
    for asked, times in [(line.member("a"), alone), (tree, took)] * 50:
        start = time.perf_counter()
        client.request("ping", asked)
        times.append(time.perf_counter() - start)
    one, three = median(alone) * 1e3, median(took) * 1e3
    print(f"one member: {one:.2f} ms; two children of it as well: {three:.2f} ms (medians)")
    assert three < 4 * one + 20, "a delayed acknowledgement of TCP takes 40 ms"


def test_dead_child_is_reported_and_its_children_are_reached(line: Net) -> None:
    line.agents["b"].stop()
    results = line.client("a").request("ping", chain(line, "a", "b", "c"))
    assert results["a"]["ok"] and results["c"]["ok"]
    assert results["b"]["code"] == "unreachable" and "198.18.0.3" in results["b"]["error"]


def test_silent_child_costs_time_but_not_its_children(line: Net) -> None:
    """Its address swallows everything, as a host does that lost its power."""
    run("ip", "-n", line.namespace("b"), "link", "set", "eth-m", "down")
    client = line.client("a")
    start = time.monotonic()
    results = client.request("ping", chain(line, "a", "b", "c"), timeout_ms=2500)
    assert results["b"]["code"] == "unreachable" and results["c"]["ok"], results
    assert time.monotonic() - start > 0.5, "it was waited for"
    run("ip", "-n", line.namespace("b"), "link", "set", "eth-m", "up")
    assert until(lambda: client.request("ping", chain(line, "a", "b", "c"))["b"]["ok"], "b to be back")


def test_children_of_a_stopped_member_are_reached_before_its_time_is_over(line: Net) -> None:
    """The grandchild listens where only the root can reach it; what the stopped one says of it later counts less."""
    run("ip", "-n", line.namespace("a"), "link", "set", "lo", "up")
    server = inside(line.namespace("a"), lambda: socket.create_server(("127.0.0.1", 0)))
    server.settimeout(PATIENCE)
    address = f"127.0.0.1:{server.getsockname()[1]}"
    client = line.client("a")
    client.request("ping", chain(line, "a", "b"))  # the connection to b stands
    line.agents["b"].process.send_signal(signal.SIGSTOP)
    try:
        tree = line.member("a", None, [line.member("b", None, [{"n": "c", "a": address}])])
        number = client.send("ping", tree, timeout_ms=60_000)
        grandchild, _ = server.accept()
        with grandchild:
            decoder, messages = Decoder(), []
            while not messages:
                messages = decoder.feed(grandchild.recv(1 << 16))
            assert messages[0]["tree"]["n"] == "c"
            grandchild.sendall(encode({"type": "ack", "id": messages[0]["id"], "results": {"c": {"ok": True}}}))
            assert not client.pump(0.2) and number not in client.acks
            line.agents["b"].process.send_signal(signal.SIGCONT)
            client.wait(lambda: number in client.acks, "the acknowledgement")
    finally:
        line.agents["b"].process.send_signal(signal.SIGCONT)
        server.close()
    assert client.acks[number]["results"] == {name: {"ok": True} for name in "abc"}


class Child:
    """In place of an agent, where only a can reach it: it reads all that comes, and answers with what it is told to."""

    def __init__(self, net: Net, results: Message | None) -> None:
        run("ip", "-n", net.namespace("a"), "link", "set", "lo", "up")
        self.results, self.taken = results, 0
        self.server = inside(net.namespace("a"), lambda: socket.create_server(("127.0.0.1", 0)))
        self.address = f"127.0.0.1:{self.server.getsockname()[1]}"
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        self.sock, _ = self.server.accept()
        decoder = Decoder()
        with self.sock:
            while data := self.sock.recv(1 << 20):
                self.taken += len(data)
                for message in decoder.feed(data) if self.results is not None else ():
                    self.sock.sendall(encode({"type": "ack", "id": message["id"], "results": self.results}))

    def member(self, name: str) -> Message:
        return {"n": name, "a": self.address}


def test_a_child_answers_for_those_below_it_alone(line: Net) -> None:
    """One that was taken over says of others, too, that they have done their part."""
    line.agents["b"].stop()
    fine = {"ok": True}
    child = Child(line, {"x": fine, "y": fine, "b": fine, "z": fine})
    below = {**child.member("x"), "c": [{"n": "y"}]}
    results = line.client("a").request("ping", line.member("a", None, [below, line.member("b")]))
    assert results["x"] == results["y"] == fine and results["b"]["code"] == "unreachable" and "z" not in results, (
        results
    )


def test_a_child_that_says_too_much_is_not_passed_on(line: Net) -> None:
    """One that was taken over would have its parent send more than a message may be, and with that lose all its groups'
    connections; numbers grow when they are written again."""
    child = Child(line, {"x": {"ok": True, "more": [0.1] * 100_000}})
    client = line.client("a")
    results = client.request("ping", line.member("a", None, [child.member("x"), line.member("c")]))
    assert results["c"]["ok"] and "its answer is too long" in results["x"]["error"], results["x"]
    client.request("open", line.member("a", {"role": "relay"}, [child.member("x")]), {"lease_ms": 60_000}, "g-9")
    for filling in (300_000, 1000):
        child.sock.sendall(encode({"type": "event", "group": "g-9", "n": "x", "event": "done", "more": "x" * filling}))
    client.wait(lambda: client.events, "an event")
    assert [len(event["more"]) for event in client.events] == [1000]


def told_by(child: Child, client: Client, group: str, *names: str) -> list[str]:
    """Of whom the child's events were passed on; the last of them is."""
    for name in names:
        child.sock.sendall(encode({"type": "event", "group": group, "n": name, "event": "done"}))
    client.wait(lambda: [e for e in client.events if e["n"] == names[-1]], f"the event of {names[-1]}")
    told = [event["n"] for event in client.events]
    client.events.clear()
    return told


def test_a_child_tells_events_of_those_below_it_alone(line: Net) -> None:
    """One that was taken over says of others, too, that they have the file: of those beside it, of those above it, of
    nobody there is, and of what is below it in another group."""
    fine = {"ok": True}
    child = Child(line, {"x": fine, "y": fine, "z": fine})
    client, below = line.client("a"), {**child.member("x"), "c": [{"n": "y"}]}
    client.epoch = 1
    relay, leases = {"role": "relay"}, {"lease_ms": 60_000}
    client.request("open", line.member("a", relay, [{**child.member("x"), "c": [{"n": "z"}]}]), leases, "g-2")
    client.request("open", line.member("a", relay, [below, line.member("b", relay)]), leases, "g-1")
    strangers = "a", "b", "z", "nobody", ""
    assert told_by(child, client, "g-1", *strangers, "y", "x") == ["y", "x"]
    assert told_by(child, client, "g-2", "y", "z") == ["z"]
    # Whose trees come to nothing but another's answer does not say who is below whom.
    other = line.client("a")
    other.epoch = 1
    other.request("status", line.member("a", None, [{**child.member("x"), "c": [{"n": "z"}]}]), None, "g-1")
    assert told_by(child, client, "g-1", "z", "x") == ["x"]
    client.request("status", line.member("a", None, [{**child.member("x"), "c": [{"n": "z"}]}]), None, "g-1")
    assert told_by(child, client, "g-1", "z") == ["z"], "what is handed to it later"
    client.epoch = 2
    client.request("status", line.member("a", None, [child.member("x")]), None, "g-1")
    assert told_by(child, client, "g-1", "y", "z", "x") == ["x"], "of what a later master hands to it"


@pytest.mark.parametrize(("most", "filling"), [(4096, 0), (8, 4_190_000)], ids=["requests", "bytes"])
def test_what_a_caller_has_under_way_is_bounded(line: Net, most: int, filling: int) -> None:
    """Its child takes every request, and answers none: each keeps its message until its time is over, also when the
    caller is gone."""
    child = Child(line, None)
    tree = line.member("a", None, [child.member("x")])

    def ask_child(client: Client, number: int) -> None:
        for _ in range(number):
            before = child.taken
            client.send("ping", tree, {"x": "x" * filling}, timeout_ms=60_000)
            if filling:  # more than 16 MiB that wait for it would end its connection
                until(lambda before=before: child.taken > before + filling, "a request at the child")

    first, second = line.client("a"), line.client("a")
    ask_child(first, most - 1)
    assert first.request("ping", line.member("a"))["a"]["ok"]
    first.close()
    ask_child(second, 1)
    for _ in range(2):
        second.send("ping", tree, {"x": "x" * filling}, timeout_ms=60_000)
    refused = second.wait(lambda: second.other[1:] and second.other, "two refusals")
    assert [(m["type"], m["code"]) for m in refused] == [("error", "limit")] * 2 and not second.acks, refused


def test_a_source_sends_no_faster_than_it_was_told(pair: Net, tmp_path: Path) -> None:
    transfer = Transfer(pair, "a", random_file(tmp_path / "f", 2_500_000), {"b": path_direct()})
    transfer.open()

    def rates(number: int, given: object) -> Message:
        return transfer.client.request("rates", pair.member("a"), {"n": number, "rates": given}, transfer.group)["a"]

    tree = str(transfer.tree)
    assert rates(5, {tree: 100_000}) == {"ok": True}
    assert rates(4, {tree: 10**9}) == {"ok": True}, "overtaken: changes nothing"
    for nonsense in ({tree: 10}, {tree: "fast"}, {"x": 10**6}, {"-1": 10**6}, [], {"4294967296": 10**6}):
        assert rates(6, nonsense)["code"] == "bad_request", nonsense
    assert rates(7, {"4294967295": 10**6}) == {"ok": True}, "a tree that has ended needs none"
    transfer.assign()

    def sent() -> Message:
        return transfer.client.request("status", pair.member("a"), None, transfer.group)["a"]["trees"][tree]

    until(lambda: sent()["new_packets"] > 0, "the first pieces")
    assert sent()["rate_bps"] == 100_000
    assert rates(8, {tree: None}) == {"ok": True}
    assert transfer.wait_ended()["b"]["event"] == "done", "at 100 kbit/s that would take more than three minutes"


def test_routes_that_were_overtaken_change_nothing(pair: Net, tmp_path: Path) -> None:
    """`open` and `reroute` have one count: who went around a member that does not answer may come before the other."""
    transfer = Transfer(pair, "a", random_file(tmp_path / "f", 100_000), {"b": path_direct()})
    transfer.client.epoch = 8
    assert transfer.open(n=3)["b"]["ok"] and transfer.open(n=3)["b"]["ok"], "over two ways, it may come twice"

    def reroute(number: int, route: str) -> Message:
        part = pair.member("b", {"routes": {str(transfer.tree): route}})
        return transfer.client.request("reroute", pair.member("a", None, [part]), {"n": number}, transfer.group)["b"]

    assert reroute(5, path_direct().hex())["ok"]
    late = reroute(4, "nonsense")
    assert late["code"] == "overtaken" and "4 came, after 5" in late["error"]
    assert reroute(6, "nonsense")["code"] == "bad_request"
    transfer.tree += 1
    late = transfer.open(n=2)
    assert {r["code"] for r in late.values()} == {"overtaken"}, late
    transfer.tree -= 1
    assert transfer.open(n=7)["b"]["ok"]
    assert reroute(6, path_direct().hex())["code"] == "overtaken"
    transfer.client.epoch = 9  # another master counts from the beginning
    assert reroute(1, "nonsense")["code"] == "bad_request"
    assert transfer.assign()["a"]["ok"], "its tree is the one it was"
    transfer.wait_ended()


def test_an_order_to_open_that_comes_after_the_group_was_closed_opens_nothing(pair: Net, tmp_path: Path) -> None:
    transfer = Transfer(pair, "a", random_file(tmp_path / "f", 100_000), {"b": path_direct()})
    transfer.client.epoch = 1
    assert transfer.open(n=2)["b"]["ok"]
    transfer.close()
    for late in (1, 2):
        assert {r["code"] for r in transfer.open(n=late).values()} == {"overtaken"}
        assert {r["code"] for r in transfer.status().values()} == {"no_group"}
    assert transfer.open(n=3)["b"]["ok"], "its master has called it back"
    assert transfer.close(n=5)["b"]["ok"] and transfer.close(n=4)["b"]["ok"]
    for late in (4, 5):
        assert {r["code"] for r in transfer.open(n=late).values()} == {"overtaken"}, "the close has come before it"
    assert {r["code"] for r in transfer.close(n="x").values()} == {"bad_request"}
    transfer.client.epoch = 2
    assert transfer.open(n=1)["b"]["ok"], "the next master counts from the beginning"
    transfer.client.epoch = 3
    assert transfer.close(n=2)["b"]["ok"]
    assert {r["code"] for r in transfer.open(n=2).values()} == {"overtaken"}
    assert transfer.open(n=3)["b"]["ok"]


def test_wrong_agent_at_an_address(line: Net) -> None:
    tree = line.member("a", None, [{"n": "x", "a": line.address("b")}, {"n": "y"}, {"n": "z", "a": "nowhere"}])
    results = line.client("a").request("ping", tree)
    assert results["x"]["code"] == "bad_request" and "is b" in results["x"]["error"]
    assert results["y"]["code"] == results["z"]["code"] == "unreachable"


def test_orders_come_in_their_order(pair: Net, tmp_path: Path) -> None:
    transfer = Transfer(pair, "a", random_file(tmp_path / "src", 300 * 8000), {"b": path_direct()})
    transfer.open()

    def order(number: int, first: int) -> Message:
        body = {"n": number, "extents": [[transfer.tree, first, first, 100]]}
        return transfer.client.request("assign", transfer.members(), body, "g-1")["b"]

    assert order(1, 0)["ok"]
    assert order(1, 0)["ok"], "sent again: acknowledged, nothing changes"
    gap = order(3, 200)
    assert (gap["code"], gap["n"]) == ("gap", 1)
    assert order(2, 100)["ok"] and order(3, 200)["ok"] and order(2, 100)["ok"]
    assert transfer.status()["b"]["n"] == 3
    transfer.wait_ended()


def test_an_order_that_a_full_receiver_took_in_part_is_taken_whole_later(pair: Net, tmp_path: Path) -> None:
    transfer = Transfer(pair, "a", random_file(tmp_path / "src", 300 * 8000), {"b": path_direct()})
    transfer.open()
    receiver = pair.client("b")
    orders = [
        {"n": number, "extents": [[transfer.tree, seq, seq, 1] for seq in range(first, end)]}
        for number, (first, end) in enumerate(((0, 254), (254, 300)), 1)
    ]

    def told(number: int) -> Message:
        return receiver.request("assign", pair.member("b"), orders[number - 1], "g-1")["b"]

    assert told(1)["ok"]
    assert told(2)["code"] == "limit"
    assert told(2)["code"] == "limit", "what it took of it is no error"
    assert transfer.client.request("assign", transfer.members(), orders[0], "g-1")["a"]["ok"]
    until(lambda: told(2)["ok"], "there is room")
    assert transfer.client.request("assign", transfer.members(), orders[1], "g-1")["a"]["ok"]
    transfer.wait_ended()


def test_an_earlier_master_is_refused_and_a_later_one_numbers_anew(pair: Net, tmp_path: Path) -> None:
    transfer = Transfer(pair, "a", random_file(tmp_path / "src", 300 * 8000), {"b": path_direct()})
    client, members = transfer.client, transfer.members()

    def order(number: int, first: int) -> Message:
        return client.request("assign", members, {"n": number, "extents": [[transfer.tree, first, first, 100]]}, "g-1")[
            "b"
        ]

    client.epoch = 1
    transfer.open()
    assert order(1, 0)["ok"] and order(2, 100)["ok"]
    client.epoch = 2
    assert transfer.open()["b"]["ok"] and transfer.status()["b"]["n"] == 0
    assert order(1, 200)["ok"]
    client.epoch = 1
    for op, body in (
        ("assign", {"n": 2, "extents": []}),
        ("cut", {"n": 2, "trees": []}),
        ("status", None),
        ("close", {}),
    ):
        for name, result in client.request(op, members, body, "g-1").items():
            assert result["code"] == "stale" and "epoch 1 of group g-1 is over" in result["error"], (name, op, result)
    client.epoch = 2
    assert transfer.status()["b"]["n"] == 1, "the refused ones have changed nothing"
    transfer.wait_ended()
    transfer.close()
    client.epoch = 1
    refused = client.request("close", members, {}, "g-1")
    assert {r["code"] for r in refused.values()} == {"stale"}, "nor is a group that has ended opened again"


def test_a_later_master_hears_of_a_group_whichever_host_it_begins_at(pair: Net, tmp_path: Path) -> None:
    """Each of the two had the other one above it, and an event went round between them."""
    transfer = Transfer(pair, "a", random_file(tmp_path / "src", 300 * 8000), {"b": path_direct()})
    transfer.client.epoch = 1
    transfer.open()
    transfer.assign()
    transfer.wait_ended()
    transfer.client.close()
    later = pair.client("b")
    later.epoch = 2
    results = later.request("status", pair.member("b", None, [pair.member("a")]), None, transfer.group)
    assert all(r["ok"] for r in results.values()), results
    later.wait(lambda: later.event("done", "b") and later.event("digests", "a"), "what it cannot know")


BAD_REQUESTS = [
    {"op": "nonsense"},
    {"op": "open", "group": "g"},
    {"op": "open", "group": "../g", "b": {"role": "relay"}},
    {"op": "open", "group": "g" * 65, "b": {"role": "relay"}},
    {"op": "open", "group": "g", "b": []},
    {"op": "status", "group": "g", "epoch": -1},
    {"op": "status", "group": "g", "epoch": "1"},
    {"op": "open", "group": "g", "b": {"role": "king"}},
    {"op": "open", "group": "g", "b": {"role": "source", "path": "/etc/hostname"}, "all": {"trees": []}},
    {
        "op": "open",
        "group": "g",
        "b": {"role": "receiver"},
        "all": {"size": 1, "piece": 1, "per_block": 1, "trees": []},
    },
    {
        "op": "open",
        "group": "g",
        "b": {"role": "receiver", "dest": "x"},
        "all": {"size": -1, "piece": 1, "per_block": 1, "trees": []},
    },
    {
        "op": "open",
        "group": "g",
        "b": {"role": "receiver", "dest": "x"},
        "all": {"size": 1, "piece": 0, "per_block": 1, "trees": []},
    },
    {
        "op": "open",
        "group": "g",
        "b": {"role": "receiver", "dest": "x"},
        "all": {"size": 1 << 52, "piece": 1, "per_block": 1, "trees": []},
    },
    {
        "op": "open",
        "group": "g",
        "b": {"role": "receiver", "dest": "x"},
        "all": {"size": 1 << 30, "piece": 1000, "per_block": 1, "trees": []},
    },
    {
        "op": "open",
        "group": "g",
        "b": {"role": "receiver", "dest": "x"},
        "all": {"size": 1, "piece": 1, "per_block": 1, "trees": [{"id": 1, "rate_max_bps": 10**8, "cc": "nonsense"}]},
    },
    {
        "op": "open",
        "group": "g",
        "b": {"role": "receiver", "dest": "x"},
        "all": {"size": 1, "piece": 1, "per_block": 1, "trees": [{"id": 1 << 32, "rate_max_bps": 10**8}]},
    },
    {
        "op": "open",
        "group": "g",
        "b": {"role": "receiver", "dest": "x"},
        "all": {"size": 1, "piece": 1, "per_block": 1, "trees": [{"id": 1, "rate_max_bps": 10**8}] * 2},
    },
    {
        "op": "open",
        "group": "g",
        "b": {"role": "receiver", "dest": "x", "routes": {"1": "zz"}},
        "all": {"size": 1, "piece": 1, "per_block": 1, "trees": [{"id": 1, "rate_max_bps": 10**8}]},
    },
    {
        "op": "open",
        "group": "g",
        "b": {"role": "receiver", "dest": "x", "routes": {"2": "00"}},
        "all": {"size": 1, "piece": 1, "per_block": 1, "trees": [{"id": 1, "rate_max_bps": 10**8}]},
    },
    {
        "op": "open",
        "group": "g",
        "b": {"role": "receiver", "dest": "x", "routes": {"1": path_direct(9).hex()}},
        "all": {"size": 1, "piece": 1, "per_block": 1, "trees": [{"id": 1, "rate_max_bps": 10**8}]},
    },
    {
        "op": "open",
        "group": "g",
        "b": {"role": "receiver", "dest": "x"},
        "all": {"size": 1, "piece": 1, "per_block": 1, "lease_ms": 0, "trees": []},
    },
    {"op": "assign", "group": "absent", "all": {"extents": []}},
    {"op": "status"},
    {"op": "stat", "b": {}},
    {"op": "stat", "b": "x"},
]


def test_bad_requests_are_refused_with_the_reason(make_net: Callable[[Path], Net]) -> None:
    net = make_pair(make_net(ASAN))
    client = net.client("b")
    for bad in BAD_REQUESTS:
        tree = net.member("b")
        if "b" in bad:
            tree["b"] = bad["b"]
        result = client.request(str(bad["op"]), tree, bad.get("all"), bad.get("group"))["b"]  # type: ignore[arg-type]
        if bad == {"op": "open", "group": "g"}:
            assert result["ok"], "no part of its own: only passed on"
            continue
        assert not result["ok"], bad
        assert result["code"] in ("bad_request", "limit", "no_group", "disk_full"), (bad, result)
        assert len(result["error"]) > 5
    assert list(net.agents["b"].folder.iterdir()) == [], "nothing is left of what was refused"
    assert client.request("node", net.member("b"))["b"]["process"]["groups"] == 0


def test_an_order_that_asks_for_it_is_answered_with_the_status(pair: Net, tmp_path: Path) -> None:
    transfer = Transfer(pair, "a", random_file(tmp_path / "src", 10 * 8000), {"b": path_direct()})
    transfer.open()
    orders = (("digest", {"blocks": []}), ("assign", {"extents": []}), ("cut", {"trees": []}))
    for n, (op, order) in enumerate(orders, 1):
        order |= {"n": n}
        plain = transfer.client.request(op, transfer.members(), order, "g-1")
        assert plain == {name: {"ok": True} for name in ("a", "b")}
        answers = transfer.client.request(op, transfer.members(), order | {"status": True}, "g-1")
        assert {name: (answer["role"], answer["n"]) for name, answer in answers.items()} == {
            "a": ("source", n),
            "b": ("receiver", n),
        }
    refused = transfer.client.request("digest", transfer.members(), {"blocks": [], "n": 9, "status": True}, "g-1")
    assert {answer["code"] for answer in refused.values()} == {"gap"}


def test_bad_orders_leave_the_group_alone(pair: Net, tmp_path: Path) -> None:
    transfer = Transfer(pair, "a", random_file(tmp_path / "src", 100 * 8000), {"b": path_direct()})
    transfer.open()

    def refused(op: str, everyone: Message) -> None:
        results = transfer.client.request(op, transfer.members(), everyone, "g-1")
        assert not results["b"]["ok"], (op, everyone, results)
        assert results["b"]["code"] in ("bad_request", "limit", "no_tree"), results

    for extents in (
        None,
        7,
        [7],
        [[7]],
        [[7, 0, 0]],
        [[7, 0, 0, 101]],
        [[7, 0, 100, 1]],
        [[8, 0, 0, 1]],
        [[7, -1, 0, 1]],
        [["7", 0, 0, 1]],
        [[7, 1 << 32, 0, 1]],
        [[7, 0, 1 << 53, 1]],
    ):
        refused("assign", {"extents": extents})
    for blocks in (None, [[0]], [[0, 7]], [[0, "00"]], [[1, "00" * 32]], [["0", "00" * 32]], [[0, "ZZ" * 32]]):
        refused("digest", {"blocks": blocks})
    for trees in (None, [7], [[7]], [[7, -1]]):
        refused("cut", {"trees": trees})
    transfer.assign()
    assert transfer.wait_ended()["b"]["event"] == "done"


def test_limit_on_groups(make_net: Callable[[Path], Net], tmp_path: Path) -> None:
    net = join_pair(make_net(PLAIN))
    net.start("a")
    net.start("b", "--groups", "2")
    client = net.client("b")
    for number in range(3):
        result = client.request("open", net.member("b", {"role": "relay"}), {"lease_ms": 5000}, f"g-{number}")["b"]
        assert result["ok"] == (number < 2)
    assert result["code"] == "limit"
    client.request("close", net.member("b"), {"reason": "test"}, "g-0")
    assert client.request("open", net.member("b", {"role": "relay"}), {"lease_ms": 5000}, "g-2")["b"]["ok"]
