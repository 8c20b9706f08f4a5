"""Three sites of four hosts, 50 ms apart, one behind another, and links that fail for five seconds.

What sites are held to: each is within 5 % of what its links allow, each link carries each byte once, and a site that is
cut off costs the others nothing. One piece's way: from the site above to whichever host fetches it, by trees to the
site's other hosts, from there to the site below.
"""

from __future__ import annotations

from typing import Any

from ..wan.clusters import MB, Change, Clusters, both_ways
from ..wan.collective import Collective
from .base import Experiment, Report, Result, Row, Setting

NAMES = ("home", "near", "far")
FAST, DELAY_S, CUT_AT_S, CUT_S = 12.5 * MB, 0.05, 5.0, 5.0
CHAIN = both_ways({(0, 1): FAST, (1, 2): FAST})
STAR = both_ways({(0, 1): FAST, (0, 2): FAST / 2, (1, 2): FAST / 10})
CASES: dict[str, tuple[dict[tuple[int, int], float], tuple[int, int] | None]] = {
    "chain": (CHAIN, None),
    "chain, far cut": (CHAIN, (1, 2)),
    "chain, near cut": (CHAIN, (0, 1)),
    "triangle": (STAR, None),
    "triangle, far cut from home": (STAR, (0, 2)),
}


def network(case: str, size: float) -> Clusters:
    links, cut = CASES[case]
    changes: tuple[Change, ...] = ()
    if cut is not None:
        ends = both_ways({cut: 0.0})
        changes = (Change(CUT_AT_S, ends), Change(CUT_AT_S + CUT_S, {pair: links[pair] for pair in ends}))
    return Clusters(((float("inf"),) * 4,) * 3, links, dict.fromkeys(links, DELAY_S), size, changes=changes)


def sites(s: Setting, report: Report) -> Result:
    rows: list[Row] = []
    for case in CASES:
        report(case)
        made = network(case, s.size or 200 * MB)
        found = Collective(made, "steal", s.seed, peers=4).run()
        for site in (1, 2):
            best = made.best(site)
            over = {f"{NAMES[a]} to {NAMES[b]}": round(share, 3) for (a, b), share in found.links.items() if b == site}
            rows.append({"case": case, "site": NAMES[site], "best_s": best, "finish_s": found.ends[site]})
            rows[-1] |= {"over_best": found.ends[site] / best, "bytes": sum(over.values()), "from": str(over)[1:-1]}
    columns = {"case": "case", "site": "site", "best_s": "best s", "finish_s": "finish s", "over_best": "over best"}
    columns |= {"bytes": "bytes, times", "from": "bytes over links, times"}
    notes = [
        f"{(s.size or 200 * MB) / 1e6:g} MB from home. Cut: the link carries nothing from {CUT_AT_S:g} s on for "
        f"{CUT_S:g} s. Chain: 12.5 MB/s links. Triangle: 12.5 to near, 6.25 to far, 1.25 between them."
    ]
    return Result("sites", "Three sites, one behind another, and cuts", s, rows, columns, notes)


def plot_sites(r: Result, ax: Any) -> None:
    names = [f"{row['case']}, {row['site']}" for row in r.rows]
    ax.barh(names, [row["finish_s"] for row in r.rows], label="finish")
    ax.plot([row["best_s"] for row in r.rows], names, "k|", markersize=14, label="best")
    ax.set(xlabel="s")
    ax.legend()


EXPERIMENTS = [Experiment("sites", "Three sites, one behind another, and cuts", sites, plot_sites)]
