"""Cables with length: the delay that was asked for, at the rate that was asked for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import uuid

import pytest

from datacast.lab.errors import LabError
from datacast.lab.network import Network
from datacast.lab.plan import DELAYED_MAX, make_plan
from datacast.lab.programs import need_program
from datacast.lab.signals import Signals
from datacast.lab.state import MARK, kill_marked
from datacast.topologies import TopologyError, from_json

RATE, DELAY_MS = 100_000_000, 25


def graph(**edge):
    nodes = [{"id": name, "kind": kind} for name, kind in (("a", "host"), ("s", "switch"), ("b", "host"))]
    edges = [{"source": "a", "target": "s", **edge}, {"source": "b", "target": "s"}]
    return from_json({"nodes": nodes, "edges": edges})


@pytest.fixture(scope="module")
def network():
    identity = uuid.uuid4().hex
    os.environ[MARK] = identity
    plan = make_plan(graph(delay_ms=DELAY_MS), rate_bps=RATE, mtu=1500, queue_packets=600, slot=29)
    with Signals() as signals:
        made = Network(plan, "dctest29", signals)
        made.ip = True
        line = None
        try:
            made.up()
            command = [need_program("datacast-delay"), *made.delay_lines]
            line = made.spawn_delay()(command, stdout=subprocess.PIPE, stderr=None)
            assert line.stdout.readline() == b"ready\n"
            for node, port, address in (("a", "a-eth0", "10.9.0.1"), ("b", "b-eth0", "10.9.1.1")):
                made.run_in(node, ["ip", "addr", "add", f"{address}/24", "dev", port])
            for port, address in (("s-eth0", "10.9.0.2"), ("s-eth1", "10.9.1.2")):
                made.run_in("sw0", ["ip", "addr", "add", f"{address}/24", "dev", port])
            yield made
        finally:
            if line is not None:
                line.terminate()
                line.wait(60)
            made.down()
            kill_marked(identity)
            os.environ.pop(MARK)


def shortest_ms(network, node: str, address: str) -> float:
    """Of eight round trips, all of which came back; else for ever. To ping an answer is lost that takes more than twice
    what the slowest before it took, as some do where processors are short."""
    out = network.run_in(node, ["sh", "-c", f"ping -c 8 -i 0.05 {address} || true"])
    times = [float(ms) for ms in re.findall(r"time=([0-9.]+)", out)]
    return min(times) if len(times) == 8 else float("inf")


@pytest.mark.root
def test_ping_takes_twice_the_delay_where_there_is_one(network):
    for node, address, least, most in (("a", "10.9.0.2", 2 * DELAY_MS, 3 * DELAY_MS), ("b", "10.9.1.2", 0, DELAY_MS)):
        shortest, end = float("inf"), time.monotonic() + 60
        while shortest >= most and time.monotonic() < end:  # what waits for a processor is late, nothing is early
            shortest = shortest_ms(network, node, address)
        assert least <= shortest < most, (node, shortest)


@pytest.mark.root
def test_tcp_comes_whole_through_the_delay(network):
    """Frames with offloads (GSO, checksums to be made), no faster than the link."""
    size = 12_000_000
    server = (
        "import socket, time; s = socket.create_server(('0.0.0.0', 7)); print('up', flush=True); c = s.accept()[0]\n"
        f"n = 0; t = time.monotonic()\nwhile n < {size}: n += len(c.recv(1 << 20))\nprint(n, time.monotonic() - t)"
    )
    rx = network.spawn("sw0")([sys.executable, "-c", server], stdout=subprocess.PIPE, stderr=None)
    assert rx.stdout.readline() == b"up\n"
    send = f"import socket; s = socket.create_connection(('10.9.0.2', 7)); s.sendall(bytes({size})); s.close()"
    network.run_in("a", [sys.executable, "-c", send])
    count, took = rx.communicate(timeout=60)[0].split()
    assert int(count) == size
    assert int(count) * 8 / float(took) < 1.1 * RATE


LATE = """
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
typedef int wait_f(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *m)
{
  if (!t)
    raise(SIGTERM);
  return ((wait_f *)dlsym(RTLD_NEXT, "ppoll"))(fds, n, t, m);
}
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *m, size_t size)
{
  return (void)size, ppoll(fds, n, t, m);
}
"""
"""It is told to end at the moment before it would wait without end."""


@pytest.mark.root
def test_an_idle_line_ends_at_once_whenever_it_is_told_to(tmp_path):
    shim = tmp_path / "late.so"
    command = ["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-x", "c", "-", "-o", str(shim), "-ldl"]
    subprocess.run(command, input=LATE, text=True, check=True)
    line = f"ip link set lo up; LD_PRELOAD={shim} exec {need_program('datacast-delay')} lo,lo,5"
    done = subprocess.run(["unshare", "--net", "sh", "-ec", line], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "ready\ndropped 0\n"), done


@pytest.mark.parametrize("delay", [-1, "far", True, 10_001])
def test_a_delay_that_is_none_is_refused(delay):
    with pytest.raises(TopologyError, match="delay_ms"):
        graph(delay_ms=delay)


def test_more_delayed_links_than_the_line_takes_are_refused():
    nodes = [{"id": "s", "kind": "switch"}, *({"id": f"h{i}", "kind": "host"} for i in range(DELAYED_MAX + 1))]
    edges = [{"source": "s", "target": f"h{i}", "delay_ms": 1} for i in range(DELAYED_MAX + 1)]
    with pytest.raises(LabError, match="delay"):
        make_plan(from_json({"nodes": nodes, "edges": edges}), rate_bps=RATE, mtu=1500)


@pytest.mark.parametrize("argument", ["", "lo", "lo,lo", "lo,lo,", "lo,lo,10000001", "lo,lo,5x", "none1,none2,5"])
def test_the_delay_line_says_what_is_wrong_with_its_arguments(argument):
    done = subprocess.run([need_program("datacast-delay"), argument], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.startswith("datacast-delay: ")
