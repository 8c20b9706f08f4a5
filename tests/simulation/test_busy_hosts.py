"""Hosts that share processors, in simulated time: each stands still for some milliseconds while others run, again and
again, as the source and the receivers of one lab on two cores do at rates that these cannot carry."""

from __future__ import annotations

import random
from collections import deque
from itertools import pairwise

import pytest

from datacast.simulation.engine import ETHERNET, SECOND, Group, Simulation
from datacast.simulation.experiments import Setting
from datacast.simulation.experiments.base import simulation

RATE, DELAY, QUEUE, SECONDS = 10_000_000_000, 2_000, 100, 0.2
"""Of a star or a chain of four hosts; the file takes its links so long."""
HOSTS = ["src", "r0", "r1", "r2"]
CORES, SLICE_NS = 2, 3_000_000


def by_turns(sim: Simulation, links: dict[str, list[str]], whole: Group, rng: random.Random) -> None:
    """CORES of the hosts run, and what the others send waits, until all have the file. `links`: whom each sends to."""
    turns = deque(rng.sample(list(links), len(links)))
    at = 0
    while not all(receiver["whole"] for receiver in whole.receiver_stats().values()):
        assert at < 60 * SECOND
        length = int(rng.uniform(0.7, 1.3) * SLICE_NS)
        for host in list(turns)[CORES:]:
            for neighbour in links[host]:
                sim.hold(host, neighbour, length)
        turns.rotate(-CORES)
        if rng.random() < 0.3:
            rng.shuffle(turns)
        at += length
        sim.run(until=at)


def sent(seed: int, tree: list[tuple[str, str]], hops: int) -> tuple[Simulation, Group]:
    """A file from HOSTS[0] to the others along a tree of (child, parent), its links cables; "s" is a switch."""
    s = Setting(rate=RATE, slow=RATE, mtu=9000, delay=DELAY, queue=QUEUE, seed=seed)
    sim = simulation(s, ETHERNET)
    links: dict[str, list[str]] = {host: [] for host in HOSTS}
    for host in HOSTS:
        sim.host(host)
    if any("s" in link for link in tree):
        sim.switch("s")
    for child, parent in tree:
        sim.cable(parent, child, RATE, DELAY, QUEUE)
        for one, other in ((child, parent), (parent, child)):
            if one in links:
                links[one].append(other)
    group = sim.group(HOSTS[0], HOSTS[1:], int(RATE * SECONDS / 8), s.mtu - 50, s.product(hops=hops).cache_bytes)
    group.tree(tree, s.tree(hops=hops))
    group.assign()
    group.schedule()
    by_turns(sim, links, group, random.Random(seed))
    return sim, group


@pytest.mark.parametrize("seed", range(1, 7))
def test_who_waits_for_a_processor_has_nothing_sent_again_and_is_not_taken_for_slow(seed: int) -> None:
    sim, group = sent(seed, [("s", HOSTS[0]), *((host, "s") for host in HOSTS[1:])], hops=2)
    assert group.duplicate_ratio() <= 0.01 and sim.link_stress() <= 1.005
    assert (
        group.finish() <= 6 * SECONDS * SECOND
    )  # each runs in half of the time; one that is believed to be slow takes 10 and more


@pytest.mark.parametrize("seed", range(1, 4))
def test_who_has_no_processor_asks_for_nothing_and_is_waited_for_along_a_chain(seed: int) -> None:
    """Each host passes on what the next one wants. While the first has no processor the source hears nobody: to go on
    as if interests were lost had each slice's credits sent once more."""
    sim, group = sent(seed, [(child, parent) for parent, child in pairwise(HOSTS)], hops=3)
    assert group.duplicate_ratio() <= 0.001 and sim.link_stress() <= 1.0005
    assert group.finish() <= 8 * SECONDS * SECOND  # eighty packets go along it in two slices
