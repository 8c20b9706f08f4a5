"""HiMM's curves: TCP falls with the receivers, ours does not, and is above TRAM's."""

from __future__ import annotations

from datacast.simulation.experiments import Setting, find


def test_ours_does_not_fall_with_the_receivers():
    experiment = find("himm")
    rows = [
        row
        for n in (1, 5)
        for row in experiment.run(Setting(**experiment.defaults, receivers=n, size=2_000_000), lambda text: None).rows
    ]
    for rate in (10, 100):
        one, five = (row for row in rows if row["link_mbps"] == rate)
        assert five["ours_mbps"] > 0.98 * one["ours_mbps"] > 0.9 * rate
        assert one["ours_mbps"] <= rate and five["tcp_mbps"] < 0.2 * rate
        assert five["ours_mbps"] > five["tram_mbps"]
