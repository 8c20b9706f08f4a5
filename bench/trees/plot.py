"""Draw what measure.py wrote: running times (the paper's Figure 8) and numbers of trees (Figure 9).

python bench/trees/plot.py [results.json] [--out docs/results]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).resolve().parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="?", default=HERE / "results.json")
    parser.add_argument("--out", type=Path, default=HERE.parents[1] / "docs" / "results")
    args = parser.parse_args()
    data = json.loads(args.results.read_text())
    specs = list(dict.fromkeys(row["topology"] for row in data["rows"]))
    rates = sorted({row["lfr"] for row in data["rows"]})
    for name, unit in (("times", "microseconds"), ("numbers", "trees")):
        figure, axes = plt.subplots(1, len(specs), figsize=(5 * len(specs), 4))
        for axis, spec in zip(axes, specs, strict=True):
            for i, rate in enumerate(rates):
                rows = [r for r in data["rows"] if r["topology"] == spec and r["lfr"] == rate]
                sizes = [r["receivers"] for r in rows]
                if name == "times":
                    axis.plot(sizes, [r["median_us"] for r in rows], f"C{i}-o", ms=3, label=f"LFR {rate:.0%}")
                    axis.plot(sizes, [r["floor_us"] for r in rows], f"C{i}:", lw=1)
                    axis.set_yscale("log")
                else:
                    axis.plot(sizes, [r["trees"] for r in rows], f"C{i}-o", ms=3, label=f"LFR {rate:.0%}")
                    axis.plot(sizes, [r["bound_degree"] for r in rows], f"C{i}:", lw=1)
            axis.set_xscale("log", base=2)
            axis.set_xlabel("receivers")
            axis.set_ylabel(unit)
            axis.set_title(spec + (" (dotted: floor)" if name == "times" else " (dotted: degree bound)"))
            axis.legend()
        figure.tight_layout()
        args.out.mkdir(parents=True, exist_ok=True)
        figure.savefig(args.out / f"trees-{name}.svg")


if __name__ == "__main__":
    main()
