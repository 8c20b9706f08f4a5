"""Threads beside the manager: what is on its way to a switch, and what the fabric manager is told."""

from __future__ import annotations

import queue
import socket
import threading
import time
from typing import Any

import pytest

from datacast.controller.southbound import reporter as reporter_module
from datacast.controller.southbound.outbox import Outbox
from datacast.controller.southbound.reporter import Reporter
from datacast.controller.southbound.told import LinkReport, Registration
from datacast.services import framing


def thread(name: str) -> threading.Thread:
    return next(one for one in threading.enumerate() if one.name == name)


def test_what_is_not_sent_yet_when_a_connection_closes_is_dropped() -> None:
    sent: list[Any] = []
    sending, go_on = threading.Event(), threading.Event()

    def send(messages: list[Any]) -> None:
        sent.append(messages)
        sending.set()
        go_on.wait(60)

    box = Outbox("s0-closes", send, lambda error: None)
    sender = thread("to s0-closes")
    assert all(box.put([number]) for number in range(3))
    assert sending.wait(60)
    box.close()
    go_on.set()
    sender.join(60)
    assert not sender.is_alive() and sent == [[0]]


def test_a_reporter_that_was_told_to_stop_says_nothing_any_more() -> None:
    """What it speaks with is closed then: who would still use it fails."""
    telling = threading.Event()

    def registrations() -> list[Any]:
        telling.set()
        time.sleep(0.3)  # longer than it takes to stop
        return []

    with socket.create_server(("127.0.0.1", 0)) as manager:
        reporter = Reporter(f"127.0.0.1:{manager.getsockname()[1]}", registrations, lambda node, error: None)
        reporter.start()
        speaking = thread("reporter")
        assert telling.wait(60)
        reporter.stop()
        assert not speaking.is_alive()
        assert [one.fileno() for one in (reporter._wake, reporter._waker)] == [-1, -1]


def test_what_the_fabric_manager_refuses_is_told_and_the_reporter_goes_on() -> None:
    told = queue.SimpleQueue[tuple[str, str]]()
    with socket.create_server(("127.0.0.1", 0)) as manager:
        address = f"127.0.0.1:{manager.getsockname()[1]}"
        reporter = Reporter(address, lambda: [], lambda node, error: told.put((node, error)))
        reporter.start()
        connection, _ = manager.accept()
        with connection:
            for node in ("s1", "s2"):
                connection.sendall(framing.encode({"type": "error", "node": node, "error": "no such node"}))
                assert told.get(timeout=60) == (node, "no such node")
        reporter.stop()


def test_what_happens_while_there_is_no_fabric_manager_holds_nobody_up_and_is_not_kept() -> None:
    """Who reports holds the lock of all switches, and the reporter asks for that before it reads again."""
    lock, asked = threading.Lock(), threading.Event()

    def registrations() -> list[Any]:
        with lock:
            asked.set()
            return []

    with socket.create_server(("127.0.0.1", 0)) as manager:
        reporter = Reporter(f"127.0.0.1:{manager.getsockname()[1]}", registrations, lambda node, error: None)

        def report() -> None:
            with lock:
                for n in range(5000):
                    reporter.send(LinkReport(node="s1", port=0, up=False, t_ns=0, n=n))

        reporting = threading.Thread(target=report, daemon=True)
        reporting.start()
        reporting.join(30)
        assert not reporting.is_alive()
        assert reporter._queue.empty(), "the registrations say it all"
        reporter.start()
        connection, _ = manager.accept()
        with connection:
            decoder, heard = framing.Decoder(), list[dict[str, Any]]()
            connection.settimeout(60)
            assert asked.wait(60)
            reporter.send(LinkReport(node="s1", port=0, up=True, t_ns=0, n=5000))
            while not any(message["type"] == "heartbeat" for message in heard):
                heard += decoder.feed(connection.recv(1 << 16))
        reporter.stop()
    assert [m["n"] for m in heard if m["type"] == "link"] == [5000]


def test_a_reporter_goes_on_to_the_next_fabric_manager_where_one_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one answers some heartbeats, and then none: it hangs, and its kernel keeps the connection."""
    monkeypatch.setattr(reporter_module, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(reporter_module, "RETRY_S", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        addresses = ",".join(f"127.0.0.1:{one.getsockname()[1]}" for one in (first, second))
        reporter = Reporter(addresses, lambda: [], lambda node, error: None)
        reporter.start()
        connection, _ = first.accept()
        with connection:
            decoder, beats = framing.Decoder(), 0
            connection.sendall(framing.encode({"type": "registered", "node": "s1", "silence_beats": 3}))
            while data := connection.recv(1 << 16):
                for _ in decoder.feed(data):
                    beats += 1
                    if beats in (2, 4):
                        connection.sendall(framing.encode({"type": "heard"}))
            assert beats in (6, 7)
        second.settimeout(60)
        second.accept()[0].close()
        first.settimeout(60)
        first.accept()[0].close()  # and back, as nobody is there
        reporter.stop()


def test_a_node_that_is_refused_is_registered_again_until_it_is_taken_and_the_refusal_is_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The controller that led its switch before hangs, and is heard of for some seconds; or the node is new there."""
    monkeypatch.setattr(reporter_module, "HEARTBEAT_S", 0.05)
    told = queue.SimpleQueue[tuple[str, str]]()

    def registrations() -> list[Any]:
        more = {"kind": "switch", "pid": 1, "instance": "x", "proxy": True, "cache": False, "ports": []}
        return [Registration(node=node, **more) for node in ("s1", "s2")]

    with socket.create_server(("127.0.0.1", 0)) as manager:
        address = f"127.0.0.1:{manager.getsockname()[1]}"
        reporter = Reporter(address, registrations, lambda node, error: told.put((node, error)))
        reporter.start()
        connection, _ = manager.accept()
        connection.settimeout(60)
        decoder, heard = framing.Decoder(), list[str]()
        with connection:
            while heard.count("s1") < 4:
                for message in decoder.feed(connection.recv(1 << 16)):
                    if message["type"] == "register":
                        heard.append(message["node"])
                        answer = {"type": "registered", "node": message["node"]}
                        if message["node"] == "s1" and heard.count("s1") < 4:
                            answer = {"type": "error", "code": "duplicate", "error": "it is there", "node": "s1"}
                        connection.sendall(framing.encode(answer))
            assert told.get(timeout=60) == ("s1", "it is there") and told.get(timeout=60) == ("s1", "")
            beats = 0
            while beats < 10:
                for message in decoder.feed(connection.recv(1 << 16)):
                    beats += message["type"] == "heartbeat"
                    heard += [message["node"]] if message["type"] == "register" else []
        reporter.stop()
    assert heard.count("s1") == 4 and heard.count("s2") == 1 and told.empty()
