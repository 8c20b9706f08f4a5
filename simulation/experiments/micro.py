"""The paper's micro benchmarks of congestion control: Table 1, Figures 11 and 12, cache policies, Theorem 1."""

from __future__ import annotations

from typing import Any

from .base import Experiment, Report, Result, Setting, measure, theorem1, theorem2

KB = 1024
PAPER_TABLE1 = {8: (91.380, 1.15), 32: (95.076, 1.14), 128: (98.799, 1.11), 512: (98.799, 1.10), 2048: (98.799, 1.12)}
PAPER_POLICY = {"fifo": 1.12, "lru": 3.90, "lfu": 1.63}


def _papers(s: Setting) -> bool:
    """Is this the paper's own setting, so that its numbers may stand beside ours?"""
    d = Setting()
    return all(
        getattr(s, k) == getattr(d, k)
        for k in ("topology", "source", "receivers", "rate", "slow", "mtu", "delay", "queue", "delta", "interval")
    )


def table1(s: Setting, report: Report) -> Result:
    rows = []
    for cache in s.cache or tuple(k * KB for k in PAPER_TABLE1):
        report(f"cache {cache // KB} KB")
        row = measure(s, cache)
        paper = PAPER_TABLE1.get(cache // KB) if _papers(s) else None
        row["paper_throughput_mbps"], row["paper_duplicate_ratio"] = (
            (paper[0], paper[1] / 100) if paper else (None, None)
        )
        row["theory_duplicate_ratio"] = theorem2(s)
        row["ideal_mbps"] = s.goodput / 1e6
        rows.append(row)
    columns = {
        "cache_kb": "cache KB",
        "throughput_mbps": "Mb/s",
        "paper_throughput_mbps": "paper",
        "ideal_mbps": "ideal",
        "duplicate_ratio": "duplicates",
        "paper_duplicate_ratio": "paper",
        "theory_duplicate_ratio": "Theorem 2",
    }
    notes = [f"Theorem 1: full rate above {theorem1(s) / 1000:.0f} KB (of 1,000 bytes)."]
    return Result("table1", "Throughput and duplicates against the cache (paper, Table 1)", s, rows, columns, notes)


def plot_table1(r: Result, ax: Any) -> None:
    x = [row["cache_kb"] for row in r.rows]
    ax.semilogx(x, [row["throughput_mbps"] for row in r.rows], "o-", label=f"cc={r.setting.cc}")
    if all(row["paper_throughput_mbps"] for row in r.rows):
        ax.semilogx(x, [row["paper_throughput_mbps"] for row in r.rows], "s--", label="paper")
    ax.axhline(r.setting.goodput / 1e6, color="grey", lw=0.8, label="ideal")
    ax.set(xlabel="cache (KB)", ylabel="throughput (Mb/s)")
    ax.legend()


def figure11(s: Setting, report: Report) -> Result:
    rows = []
    cache = s.cache[0] if s.cache else 2048 * KB
    for k in range(11):
        delta = 100_000 * 2**k
        report(f"delta {delta / 1e6:g} Mb/s")
        row = measure(s.with_(delta=delta), cache)
        rows.append(
            {
                "delta_mbps": delta / 1e6,
                **row,
                "theory_duplicate_ratio": theorem2(s, delta),
                "theory_cache_kb": theorem1(s.with_(delta=delta)) / KB,
            }
        )
    columns = {
        "delta_mbps": "delta Mb/s",
        "duplicate_ratio": "duplicates",
        "theory_duplicate_ratio": "Theorem 2",
        "throughput_mbps": "Mb/s",
        "theory_cache_kb": "Theorem 1 KB",
    }
    notes = [
        "The paper's figure gives no numbers; it says that they are consistent with Theorem 2.",
        f"Cache {cache // KB} KB. Where Theorem 1 asks for more, the rate is not full and Theorem 2 does not hold.",
    ]
    return Result("figure11", "Duplicates against delta (paper, Figure 11)", s, rows, columns, notes)


def plot_figure11(r: Result, ax: Any) -> None:
    x = [row["delta_mbps"] for row in r.rows]
    ax.loglog(x, [100 * row["theory_duplicate_ratio"] for row in r.rows], "-", color="grey", label="Theorem 2")
    ax.loglog(x, [100 * max(row["duplicate_ratio"], 1e-6) for row in r.rows], "o", label=f"cc={r.setting.cc}")
    ax.set(xlabel="delta (Mb/s)", ylabel="duplicates (%)")
    ax.legend()


def figure12(s: Setting, report: Report) -> Result:
    cache = s.cache[0] if s.cache else 128 * KB
    report("no loss")
    base = measure(s.with_(loss=0.0), cache)
    rows = []
    for k in range(13):
        loss = 0.00001 * 2**k
        report(f"loss {100 * loss:g} %")
        row = measure(s.with_(loss=loss), cache)
        paper = _papers(s) and k == 10
        rows.append(
            {
                "loss": loss,
                **row,
                "added_finish": row["finish_s"] / base["finish_s"] - 1,
                "least_added": 1 / (1 - loss) - 1 if s.loss_on_wire else 0.0,
                "paper_added_finish": 0.0276 if paper else None,
                "paper_duplicate_ratio": 0.0123 if paper else None,
            }
        )
    columns = {
        "loss": "loss",
        "finish_s": "finish s",
        "added_finish": "added",
        "least_added": "least possible",
        "paper_added_finish": "paper",
        "duplicate_ratio": "duplicates",
        "paper_duplicate_ratio": "paper",
    }
    where = "behind the slow link (what is lost has taken its time)" if s.loss_on_wire else "in front of the slow link"
    notes = [
        f"Packets are lost {where}; `--loss-on-wire` or `--loss-in-queue` chooses.",
        f"Without loss: {base['finish_s']:.4f} s.",
    ]
    return Result("figure12", "Packet loss towards the slowest receiver (paper, Figure 12)", s, rows, columns, notes)


def plot_figure12(r: Result, ax: Any) -> None:
    x = [100 * row["loss"] for row in r.rows]
    ax.semilogx(x, [100 * row["added_finish"] for row in r.rows], "o-", label="added finish time")
    ax.semilogx(x, [100 * row["duplicate_ratio"] for row in r.rows], "s-", label="duplicates")
    ax.plot([1.024], [2.76], "k*", label="paper's finish time")
    ax.set(xlabel="loss (%)", ylabel="%", title=f"cc={r.setting.cc}")
    ax.legend()


def cachepolicy(s: Setting, report: Report) -> Result:
    rows = []
    for cache in s.cache or (128 * KB,):
        for policy, paper in PAPER_POLICY.items():
            report(f"{policy}, {cache // KB} KB")
            row = measure(s.with_(policy=policy), cache)
            papers = _papers(s) and cache == 128 * KB
            rows.append({"policy": policy, **row, "paper_duplicate_ratio": paper / 100 if papers else None})
    columns = {
        "policy": "policy",
        "cache_kb": "cache KB",
        "duplicate_ratio": "duplicates",
        "paper_duplicate_ratio": "paper",
        "throughput_mbps": "Mb/s",
    }
    return Result(
        "cachepolicy",
        "Cache replacement (paper, section 6.2.4)",
        s,
        rows,
        columns,
        ["The product has FIFO only; the others are linked in for this experiment."],
    )


def plot_cachepolicy(r: Result, ax: Any) -> None:
    names = [f"{row['policy']} {row['cache_kb']:g} KB" for row in r.rows]
    ax.bar(names, [100 * row["duplicate_ratio"] for row in r.rows], width=0.4, label=f"cc={r.setting.cc}")
    known = [
        (n, 100 * row["paper_duplicate_ratio"])
        for n, row in zip(names, r.rows, strict=True)
        if row["paper_duplicate_ratio"]
    ]
    ax.plot([n for n, _ in known], [value for _, value in known], "k*", label="paper")
    ax.set(ylabel="duplicates (%)")
    ax.legend()


def theorem_1(s: Setting, report: Report) -> Result:
    """The least cache at which the slowest receiver gets 99.9 % of its rate, by bisection."""
    rows = []
    for delta in (1_250_000, 2_500_000, 5_000_000, 10_000_000, 20_000_000):
        t = s.with_(delta=delta)
        least, most = s.mtu, int(4 * theorem1(t)) + 64 * KB
        while most - least > max(s.mtu, most // 50):
            middle = (least + most) // 2
            report(f"delta {delta / 1e6:g} Mb/s, cache {middle / KB:.0f} KB")
            full = measure(t, middle)["throughput_mbps"] * 1e6 >= 0.999 * s.goodput
            least, most = (least, middle) if full else (middle, most)
        rows.append({"delta_mbps": delta / 1e6, "cache_kb": most / KB, "theory_cache_kb": theorem1(t) / KB})
    columns = {"delta_mbps": "delta Mb/s", "cache_kb": "least cache KB", "theory_cache_kb": "Theorem 1 KB"}
    notes = ["Theorem 1 is a sufficient condition: a receiver's credits hold some packets too, so less is needed."]
    return Result("theorem1", "The cache that the full rate needs (paper, Theorem 1)", s, rows, columns, notes)


def plot_theorem1(r: Result, ax: Any) -> None:
    x = [row["delta_mbps"] for row in r.rows]
    ax.loglog(x, [row["theory_cache_kb"] for row in r.rows], "-", color="grey", label="Theorem 1")
    ax.loglog(x, [row["cache_kb"] for row in r.rows], "o", label=f"cc={r.setting.cc}")
    ax.set(xlabel="delta (Mb/s)", ylabel="least cache at the full rate (KB)")
    ax.legend()


PAPERS = {"cc": "datacast"}
"""What is about the paper's rule takes it, unless another is given."""

EXPERIMENTS = [
    Experiment("table1", "Throughput and duplicates against the cache", table1, plot_table1),
    Experiment("figure11", "Duplicates against delta, beside Theorem 2", figure11, plot_figure11, PAPERS),
    # In ns-3, where the paper's simulator was built, what is lost is lost behind the link.
    Experiment("figure12", "Finish time and duplicates under loss", figure12, plot_figure12, {"loss_on_wire": True}),
    Experiment("cachepolicy", "FIFO, LRU and LFU content stores", cachepolicy, plot_cachepolicy, PAPERS),
    Experiment(
        "theorem1",
        "The least cache for the full rate, by bisection",
        theorem_1,
        plot_theorem1,
        {"seconds": 4.0, **PAPERS},
    ),
]
