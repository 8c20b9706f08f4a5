"""What cables allow: the bound that `lab run --sites` is measured by."""

from __future__ import annotations

import signal

import pytest

from datacast.lab import sites
from datacast.lab.errors import Interrupted
from datacast.lab.faults import parse_faults
from datacast.lab.signals import Signals
from datacast.lab.sites_best import best_s, steps_of

CHAIN = """
sites:
  ams: {hosts: 2, access: 100mbit, card: 80mbit}
  sfo: {hosts: 2, access: 100mbit, card: 80mbit}
  syd: {hosts: 2, access: 100mbit, card: 80mbit}
links:
  - {between: [ams, sfo], rate: 40mbit, delay_ms: 50}
  - {between: [sfo, syd], rate: 20mbit, delay_ms: 50}
"""
MTU = 1500
SIZE = 10 * 10**6 * (MTU - 52) // (MTU + 14) // 8 * 8
"""80 Mbit on a cable."""


def best(tmp_path, target: str, text: str = CHAIN, faults: tuple[str, ...] = (), source: str = "ams-0") -> float:
    path = tmp_path / "sites.yaml"
    path.write_text(text)
    read = sites.read(path)
    graph = sites.graph(read)
    found = parse_faults([*sites.faults(read, graph), *faults], graph, "ip")
    seconds = best_s(graph, read.sites, source, target, SIZE, MTU, steps_of(found), lambda: None)
    assert seconds is not None
    return seconds


def test_the_slowest_cable_on_the_way_and_the_delay(tmp_path):
    assert best(tmp_path, "ams-1") == pytest.approx(1.0, rel=1e-3)  # a card
    assert best(tmp_path, "sfo-1") == pytest.approx(2.05, rel=1e-3)
    assert best(tmp_path, "syd-0") == pytest.approx(4.1, rel=1e-3)


def test_a_cut_costs_its_time_but_what_a_site_between_has_stored_waits_there(tmp_path):
    far, near = "link sfo-gw:2 down at 1s, up at 2s", "link ams-gw:1 down at 1s, up at 2s"
    assert best(tmp_path, "syd-0", faults=(far,)) == pytest.approx(5.1, rel=1e-3)
    assert best(tmp_path, "sfo-0", faults=(far,)) == pytest.approx(2.05, rel=1e-3)
    assert best(tmp_path, "sfo-0", faults=(near,)) == pytest.approx(3.05, rel=1e-3)
    assert best(tmp_path, "syd-0", faults=(near,)) == pytest.approx(4.1, rel=1e-3)  # of the first second's 40 Mbit


def test_rates_that_change_come_back_and_go_on(tmp_path):
    changed = CHAIN + "changes: [{at: 1s, between: [ams, sfo], rate: 10mbit}]\n"
    assert best(tmp_path, "sfo-0", changed) == pytest.approx(1 + 4 + 0.05, rel=1e-3)
    back = "link ams-gw:1 rate 10mbit at 1s, back at 2s"
    assert best(tmp_path, "sfo-0", faults=(back,)) == pytest.approx(2 + 0.75 + 0.05, rel=1e-3)
    both = "link ams-gw:1 down at 500ms", "link ams-gw:1 up at 1500ms"
    assert best(tmp_path, "sfo-0", faults=both) == pytest.approx(3.05, rel=1e-3)


def test_two_ways_are_used_both(tmp_path):
    triangle = CHAIN + "  - {between: [ams, syd], rate: 20mbit, delay_ms: 50}\n"
    assert best(tmp_path, "syd-0", triangle) == pytest.approx(80 / 40 + 0.05, rel=1e-3)


def test_whoever_does_not_wait_for_it_any_more_ends_it(tmp_path):
    path = tmp_path / "sites.yaml"
    path.write_text(CHAIN)
    read, signals = sites.read(path), Signals()
    signals.pending = signal.SIGINT
    with pytest.raises(Interrupted):
        best_s(sites.graph(read), read.sites, "ams-0", "syd-0", SIZE, MTU, [], signals.check)


def test_who_is_cut_off_for_good_gets_it_never(tmp_path):
    with pytest.raises(AssertionError):
        best(tmp_path, "syd-0", faults=("link sfo-gw:2 down at 1s",))
