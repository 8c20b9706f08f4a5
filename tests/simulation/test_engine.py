"""The simulator itself: exact times on one link, determinism, bad input."""

from typing import get_args

import pytest

from datacast.fabric_manager.api import RuleName
from datacast.simulation.engine import PAPER, Faults, Simulation, TreeConfig, rules
from datacast.simulation.errors import SimulationError

MBIT = 1_000_000
ARCS = [("w", "s"), ("a", "w"), ("b", "w")]


def star(seed: int = 1, size: int = 148_400, slow: int = 0, **tree):
    sim = Simulation(seed, PAPER)
    sim.host("s")
    sim.switch("w")
    sim.cable("s", "w", 100 * MBIT, delay=5000)
    for r in "ab":
        sim.host(r)
        sim.cable("w", r, 100 * MBIT, delay=5000)
    if slow:
        sim.rate("w", "a", slow)
    group = sim.group("s", ["a", "b"], size, piece=1484, cache=128 * 1024, per_block=16)
    group.tree(ARCS, TreeConfig(**{"rate_init": 100 * MBIT, "rate_max": 100 * MBIT, "packet_bytes": 1500, **tree}))
    group.assign()
    group.schedule()
    return sim, group


def test_one_packet_takes_exactly_its_way():
    sim, group = star(size=1484)
    sim.run()
    interest, data = 16 * 8 * 10, 1500 * 8 * 10  # ns at 100 Mb/s
    assert group.finish() == 2 * (interest + 5000) + 2 * (data + 5000)


def test_a_link_carries_its_rate_and_no_more():
    sim, group = star(size=1484 * 1000)
    sim.run()
    packet = 1500 * 8 * 10
    assert 1000 * packet <= group.finish() <= 1000 * packet + 400_000
    assert sim.link_stats("s", "w")["payload"] == group.size
    assert sim.link_stress() == pytest.approx(1.0)
    assert sim.check() is None


def test_the_same_seed_is_the_same_run():
    def run(seed: int) -> tuple[int, int]:
        sim, group = star(seed, size=1484 * 2000)
        sim.faults("w", "a", Faults(loss_data=0.02, duplicate=0.01, reorder=0.01, corrupt=0.002, reorder_by=50_000))
        sim.run()
        assert sim.check() is None
        return sim.digest, group.finish()

    assert run(7) == run(7)
    assert run(7) != run(8)


def test_jitter_makes_frames_late_and_keeps_their_order():
    def run(jitter: int) -> int:
        sim, group = star(size=1484 * 500, rate_init=50 * MBIT, rate_max=50 * MBIT)
        sim.faults("s", "w", Faults(jitter=jitter))
        sim.run()
        for r in "ab":
            assert group.asker_stats(0, r)["retransmitted"] == 0 and group.asker_stats(0, r)["data"] == 500
        return group.finish()

    assert run(0) < run(2_000_000) <= run(0) + 2 * 2_000_000 + 1_000_000


def test_a_share_is_kept_from_its_time_on():
    sim, group = star(size=1484 * 3000)
    group.limit(0, 60_000_000, 50 * MBIT)
    sim.run(60_000_000, whole=False)
    before = group.tree_stats()[0]["new_packets"]
    sim.run(120_000_000, whole=False)
    assert group.tree_stats()[0]["new_packets"] - before == pytest.approx(250, abs=5)
    group.limit(0, 120_000_000, None)
    sim.run(180_000_000, whole=False)
    assert group.tree_stats()[0]["new_packets"] - before == pytest.approx(750, abs=10)
    with pytest.raises(SimulationError, match="past"):
        group.limit(0, 1, None)


def test_everything_arrives_whole_and_right_over_bad_links():
    sim, group = star(size=1484 * 3000 - 17)
    for link in (("s", "w"), ("w", "a"), ("b", "w")):
        sim.faults(*link, Faults(loss_data=0.01, loss_interest=0.01, duplicate=0.01, corrupt=0.01, reorder_by=20_000))
    sim.run(until=60_000_000_000)
    stats = group.receiver_stats()
    assert all(s["whole"] and s["wrong"] == 0 and s["bytes"] == group.size for s in stats.values())
    assert sum(s["bad_blocks"] for s in stats.values()) > 0  # some damage was seen, and mended
    assert sim.check() is None


def test_a_queue_drops_its_tail_and_the_loss_is_mended():
    sim, group = star(size=1484 * 2000, slow=10 * MBIT, credits=200)
    sim.run()
    link = sim.link_stats("w", "a")
    assert link["dropped"] > 0 and link["queue_max"] == 101
    assert all(s["whole"] for s in group.receiver_stats().values())


def test_what_makes_no_sense_is_refused():
    sim = Simulation()
    sim.host("h")
    sim.switch("w")
    with pytest.raises(SimulationError, match="no vertex 'x'"):
        sim.cable("h", "x", MBIT)
    with pytest.raises(SimulationError, match="rate"):
        sim.cable("h", "w", 0)
    with pytest.raises(SimulationError, match="source is not a host"):
        sim.group("w", ["h"], 1000)
    with pytest.raises(SimulationError, match="other than the source"):
        sim.group("h", ["h"], 1000)
    with pytest.raises(SimulationError, match="no link"):
        sim.link("h", "w")
    sim, group = star()
    with pytest.raises(SimulationError, match="rate control"):
        sim.groups[0].tree(ARCS, TreeConfig(cc="vegas"))
    assert group.pieces == 100


@pytest.mark.parametrize(("first", "count"), [(100, 1), (99, 2), (2**64 - 1, 2)])
def test_pieces_that_a_file_does_not_have_are_given_to_no_tree(first: int, count: int) -> None:
    """They would be noted behind the end of what a receiver has room for."""
    _, group = star(size=148_400)
    with pytest.raises(SimulationError, match="100 pieces"):
        group.extent(0, first, count)


def test_what_needs_more_memory_than_there_is_does_not_start():
    with pytest.raises(SimulationError, match=r"needs \d+\.\d GiB of memory or more, \d+\.\d GiB are available"):
        star(size=1484 * 10**12)


def test_a_wheel_of_events_and_its_heap_agree_with_the_clock():
    sim, group = star(size=1484 * 50, rto_init=400_000_000)  # timers far beyond the wheel
    sim.faults("s", "w", Faults(loss_data=0.3))
    seen = [sim.run(until=t) for t in range(0, 3_000_000_000, 100_000_000)]
    assert seen == sorted(seen) and sim.check() is None
    assert all(s["whole"] for s in group.receiver_stats().values())


def test_a_group_may_name_the_rules_that_there_are() -> None:
    assert sorted(get_args(RuleName)) == sorted(rules())


def test_time_goes_on_and_nothing_begins_in_the_past():
    """A group that was added while it ran began at 0, and links carried what they had carried before."""
    sim, group = star(size=1484 * 3000)
    late = sim.group("s", ["a"], 1484)
    late.tree([("w", "s"), ("a", "w")], TreeConfig())
    late.assign()
    assert sim.run(1_000_000, whole=False) == 1_000_000
    assert sim.run(500_000, whole=False) == 1_000_000 == sim.now
    with pytest.raises(SimulationError, match="past"):
        late.schedule()
    with pytest.raises(SimulationError, match="past"):
        sim.tcp(["s", "w", "a"], 999_999, 2**63)
    late.schedule(sim.now)
    sim.tcp(["s", "w", "a"], sim.now, 2**63)
    with pytest.raises(SimulationError, match="once it runs"):
        sim.host("more")
    sim.run()
    assert min(group.finish(), late.finish()) > 1_000_000 and sim.check() is None


@pytest.mark.parametrize(
    ("there", "back", "words"),
    [([0, 99], [3, 1], "from one to the next"), ([0, 2], [-1, 1], "to the next"), ([0, 5], [3, 1], "to the next"),
     ([0, 2], [5, 1], "and back"), ([], [3, 1], "a path")],
    ids=["no such link", "nor a negative one", "not where it ends", "not from where it ends", "none"],
)  # fmt: skip
def test_a_connection_goes_over_links_that_there_are(there: list[int], back: list[int], words: str) -> None:
    sim, _ = star()
    with pytest.raises(SimulationError, match=words):
        sim._check(sim._lib.sim_tcp(sim._sim, b"cubic", there, len(there), back, len(back), 0, 2**63, 1500))
    with pytest.raises(SimulationError, match="52 to 65,535"):
        sim.tcp(["s", "w", "a"], 0, 2**63, segment=1 << 31)


def test_a_node_s_figures_are_of_all_its_trees():
    """Of the first 64 only: what the others had evicted was left out, and the books did not balance."""
    sim = Simulation(1, PAPER)
    sim.switch("w")
    for name in "sab":
        sim.host(name)
        sim.cable("w", name, 1000 * MBIT)
    groups = 80
    for _ in range(groups):
        group = sim.group("s", ["a", "b"], 1484 * 20, cache=4 * 1500)
        group.tree(ARCS, TreeConfig(rate_init=10 * MBIT, rate_max=10 * MBIT))
        group.assign()
        group.schedule()
    sim.run()
    assert sim.node_stats("w")["aggregated"] + sim.node_stats("w")["hits"] == groups * 20
    assert sim.check() is None
