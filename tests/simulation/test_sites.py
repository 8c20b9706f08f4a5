"""Sites one behind another: near the best, every byte over a link once, and a cut is paid by those behind it alone."""

from __future__ import annotations

import pytest

from datacast.simulation.experiments.sites import CASES, CUT_S, network
from datacast.simulation.wan.clusters import MB
from datacast.simulation.wan.collective import Collective

SIZE = 200 * MB


@pytest.fixture(scope="module")
def found():
    return {case: Collective(network(case, SIZE), "steal", 1, peers=4).run() for case in CASES}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_every_site_is_near_what_its_links_allow(found, case):
    made = network(case, SIZE)
    for site in (1, 2):
        assert 1.0 <= found[case].ends[site] / made.best(site) <= 1.05


def test_in_a_chain_each_link_carries_each_byte_once(found):
    for case in CASES:
        if case.startswith("chain"):
            assert found[case].links == {(0, 1): pytest.approx(1), (1, 2): pytest.approx(1), (2, 1): 0}


def test_in_any_case_a_site_takes_each_byte_once(found):
    for one in found.values():
        for site in (1, 2):
            assert sum(share for (_, target), share in one.links.items() if target == site) == pytest.approx(1)


def test_a_cut_costs_those_behind_it_alone(found):
    assert found["chain, far cut"].ends[1] == found["chain"].ends[1]
    assert found["chain, far cut"].ends[2] == pytest.approx(found["chain"].ends[2] + CUT_S, rel=0.02)
    assert found["chain, near cut"].ends[1] == pytest.approx(found["chain"].ends[1] + CUT_S, rel=0.02)
    triangle = [found[case].ends[1] for case in ("triangle", "triangle, far cut from home")]
    assert triangle[1] == pytest.approx(triangle[0], rel=0.01)
