"""HiMM's Figures 2 and 3: throughput to the last of one to twelve receivers on one switch, TCP to each, TRAM, and ours.

Ours runs packet by packet, in the engine and with the core of all other experiments. TCP is its best case: a
connection per receiver, which share the sender's link evenly, all headers paid, no losses. TRAM's figures are the
paper's: about 5 Mb/s of 10 and 20 of 100, however many receivers. The paper's 10 Mb/s network was a hub, where
everybody shares one medium; a switch is better for TCP's acknowledgements only.
"""

from __future__ import annotations

from typing import Any

import networkx as nx

from datacast.topologies.graph import add_host, add_link, add_switch

from ..engine import SECOND
from .base import Experiment, Report, Result, Row, Setting
from .delivery import KB, deliver

RECEIVERS = (1, 2, 3, 4, 6, 8, 12)
RATES = {10_000_000: 5.0, 100_000_000: 20.0}
"""Links in bit/s, and TRAM's throughput on them in Mb/s (text of section 4.1)."""
TCP_PAYLOAD = 1448 / 1514
"""With timestamps; frames counted as ours are, without preamble, checksum and gap."""


def star(receivers: int) -> nx.Graph:
    g = nx.Graph(topology="star")
    add_switch(g, "s")
    for i in range(receivers + 1):
        add_host(g, f"h{i:02}")
        add_link(g, f"h{i:02}", 0, "s", i)
    return g


def himm(s: Setting, report: Report) -> Result:
    rows: list[Row] = []
    for rate, tram in RATES.items():
        for n in (s.receivers,) if s.receivers else RECEIVERS:
            report(f"{n} receivers at {rate / 1e6:g} Mb/s")
            t = s.with_(rate=rate, slow=rate, rate_init=rate // 2, delta=rate // 200, size=s.size or 10_000_000)
            t = t.with_(source="h00", framing="ethernet", cache=s.cache or (128 * KB,))
            sim, group = deliver(t, star(n), [f"h{i:02}" for i in range(1, n + 1)])
            sim.run(until=600 * SECOND)
            row: Row = {"link_mbps": rate / 1e6, "receivers": n, "tram_mbps": tram}
            row["tcp_mbps"] = rate * TCP_PAYLOAD / n / 1e6
            row["ours_mbps"] = t.size * 8 / (group.finish() / SECOND) / 1e6
            rows.append(row)
    columns = {
        "link_mbps": "link Mb/s",
        "receivers": "receivers",
        "tcp_mbps": "TCP to each",
        "tram_mbps": "TRAM (paper)",
        "ours_mbps": "ours",
    }
    notes = ["Mb/s to the last receiver. TCP: its best case. TRAM: from the paper's text."]
    title = "Throughput against receivers on one switch (HiMM, Figures 2 and 3)"
    return Result("himm", title, s, rows, columns, notes)


def plot_himm(r: Result, ax: Any) -> None:
    for rate in RATES:
        rows = [row for row in r.rows if row["link_mbps"] == rate / 1e6]
        for key in ("tcp_mbps", "tram_mbps", "ours_mbps"):
            label = f"{key[:-5]}, {rate / 1e6:g} Mb/s"
            ax.plot([x["receivers"] for x in rows], [x[key] for x in rows], "o-", label=label)
    ax.set(xlabel="receivers", ylabel="Mb/s", ylim=(0, None))
    ax.legend()


EXPERIMENTS = [
    Experiment("himm", "Throughput to one to twelve receivers on one switch", himm, plot_himm),
]
