"""A group that has a cable to itself until connections come, as in the lab (bench/lab/beside.py): how much it keeps of
a long queue, and what it does where nobody came and the cable became slower."""

from __future__ import annotations

import pytest

from datacast.simulation.engine import ETHERNET, SECOND, Group, Simulation
from datacast.simulation.experiments.base import Setting, late_hosts, simulation

RATE, TRIP_US = 50_000_000, 300
WAYS = {"frames": (9000, 100), "tunnels": (1500, 600)}
"""Bytes of a packet, packets in the queue: the same bytes."""
ALONE, SECONDS, STEADY = 2, 25, 0.3
"""Seconds until connections come, seconds with them, and the part of these that is no part of a share."""


class Cable:
    """sources -- a == cable == b -- receivers. Access links have four times its rate, hosts are late by up to the time
    of a packet."""

    def __init__(self, way: str, seconds: float) -> None:
        self.mtu, self.queue = WAYS[way]
        self.setting = Setting(rate=RATE, slow=RATE, mtu=self.mtu, delay=TRIP_US * 1000 // 6)
        self.sim: Simulation = simulation(self.setting, ETHERNET)
        self.end = int(seconds * SECOND)
        for switch in "ab":
            self.sim.switch(switch)
        self.sim.cable("a", "b", RATE, self.setting.delay, self.queue)
        self._hosts("s", "r")
        size = int(RATE / 8 * seconds * 1.2)
        self.group: Group = self.sim.group("s", ["r"], size, self.mtu - 50, self.setting.store())
        self.group.tree([("a", "s"), ("b", "a"), ("r", "b")], self.setting.tree(hops=3))
        self.group.assign()
        self.group.schedule(0, self.end)

    def _hosts(self, left: str, right: str) -> None:
        for host, switch in ((left, "a"), (right, "b")):
            self.sim.host(host)
            self.sim.cable(host, switch, 4 * RATE, self.setting.delay, self.queue)
        late_hosts(self.sim, self.setting, [(left, "a"), (right, "b")])

    def connect(self, number: int, flavour: str, until: int = 0) -> None:
        left, right = f"t{number}", f"u{number}"
        self._hosts(left, right)
        start = ALONE * SECOND + number * 1000
        self.sim.tcp([left, "a", "b", right], start, until * SECOND or self.end, flavour, self.mtu)

    def taken(self, until: float) -> int:
        """Packets of the group, so far."""
        self.sim.run(int(until * SECOND), whole=False)
        return int(self.group.receiver_stats()["r"]["pieces"])


def share(way: str, flavour: str, connections: int) -> float:
    cable = Cable(way, ALONE + SECONDS)
    for number in range(connections):
        cable.connect(number, flavour)
    before, after = cable.taken(ALONE + SECONDS * STEADY), cable.taken(ALONE + SECONDS)
    return (after - before) * cable.mtu * 8 / RATE / SECONDS / (1 - STEADY) * (1 + connections)


@pytest.mark.parametrize(("way", "connections"), [("frames", 1), ("frames", 3), ("tunnels", 1), ("tunnels", 3)])
def test_a_group_has_its_part_of_a_queue_that_cubic_fills(way, connections):
    assert 0.67 <= share(way, "cubic", connections) <= 1.5


@pytest.mark.parametrize("way", WAYS)
def test_beside_one_bbr_that_holds_its_queue_a_group_takes_no_more_than_it_has(way):
    assert 0.9 <= share(way, "bbr", 1) <= 1.1


@pytest.mark.parametrize("way", WAYS)
def test_a_cable_that_becomes_slower_is_nobody_else_and_nothing_comes_twice(way):
    cable = Cable(way, 60)
    cable.taken(2)
    cable.sim.rate("a", "b", RATE // 5)
    before, after = cable.taken(10), cable.taken(60)
    assert (after - before) * cable.mtu * 8 >= 0.99 * 50 * RATE / 5
    assert cable.group.duplicate_ratio() == 0


def test_when_others_have_gone_all_is_as_before():
    """Losses bound nothing any more, so what becomes slower then is nobody else, either."""
    cable = Cable("tunnels", 120)
    cable.connect(0, "cubic", until=20)
    before, after = cable.taken(70), cable.taken(71)
    assert (after - before) * cable.mtu * 8 >= 0.98 * RATE
    again = cable.group.tree_stats()[0]["dup_packets"]
    cable.sim.rate("a", "b", RATE // 5)
    cable.taken(120)
    assert again > 0 and cable.group.tree_stats()[0]["dup_packets"] == again
