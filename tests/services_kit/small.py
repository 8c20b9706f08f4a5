"""Small graphs in the shape that the topologies package gives, written out by hand, and waiting in a loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import networkx as nx


def bcube41() -> nx.Graph:
    """BCube(4,1): host ab has port 0 to switch s0.a and port 1 to s1.b; names as in the paper."""
    graph = nx.Graph()
    for a in range(4):
        for level in range(2):
            graph.add_node(f"s{level}.{a}", kind="switch", forwards=True)
    for a in range(4):
        for b in range(4):
            host = f"{a}{b}"
            graph.add_node(host, kind="host", forwards=True)
            graph.add_edge(host, f"s0.{a}", ports={host: 0, f"s0.{a}": b}, up=True)
            graph.add_edge(host, f"s1.{b}", ports={host: 1, f"s1.{b}": a}, up=True)
    return graph


def star(hosts: int) -> nx.Graph:
    """One switch s with hosts h0, h1 …"""
    graph = nx.Graph()
    graph.add_node("s", kind="switch", forwards=True)
    for i in range(hosts):
        graph.add_node(f"h{i}", kind="host", forwards=False)
        graph.add_edge(f"h{i}", "s", ports={f"h{i}": 0, "s": i}, up=True)
    return graph


def chain(switches: int) -> nx.Graph:
    """h0 - s0 - s1 … - h1."""
    graph = nx.Graph()
    names = ["h0", *(f"s{i}" for i in range(switches)), "h1"]
    for name in names:
        graph.add_node(name, kind="host" if name[0] == "h" else "switch", forwards=name[0] == "s")
    for u, v in pairwise(names):
        graph.add_edge(u, v, ports={u: 0 if u == "h0" else 1, v: 0}, up=True)
    return graph


async def until(condition: Callable[[], Any], what: str, timeout: float = 60.0) -> Any:
    """Wait for a condition (sync or async); its value when it is true. Fails with `what`."""
    end = time.monotonic() + timeout
    while True:
        value, pause = condition(), 0.01
        if asyncio.iscoroutine(value):
            value, pause = await value, 0.04  # it asks a service, most likely, which takes the processor
        if value:
            return value
        assert time.monotonic() < end, f"not within {timeout} s: {what}"
        await asyncio.sleep(pause)
