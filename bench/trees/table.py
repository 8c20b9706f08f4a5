"""Print what measure.py wrote as Markdown tables.

python bench/trees/table.py [results.json]
"""

import json
import sys
from pathlib import Path


def main() -> None:
    path = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "results.json"
    data = json.loads(Path(path).read_text())
    print(
        "| topology | LFR | receivers | median us | p99 us | floor us | ratio | trees | max-flow | degree bound",
        end="",
    )
    print(" | depth | repair us | routes ms | networkx ms |")
    print("| --- " * 14 + "|")
    for row in data["rows"] + data["large"]:
        repair = "" if row["repair_us"] is None else f"{row['repair_us']:.1f}"
        cells = [
            row["topology"],
            f"{row['lfr']:.0%}",
            row["receivers"],
            f"{row['median_us']:.1f}",
            f"{row['p99_us']:.1f}",
            f"{row['floor_us']:.1f}",
            f"{row['median_us'] / row['floor_us']:.2f}",
            f"{row['trees']:.2f}",
            f"{row['bound_maxflow']:.2f}",
            f"{row['bound_degree']:.2f}",
            f"{row['depth']:.2f}",
            repair,
            f"{row['routes_ms']:.2f}",
            f"{row['networkx_ms']:.0f}",
        ]
        print("| " + " | ".join(map(str, cells)) + " |")
    print()
    at_1 = [row for row in data["rows"] if row["lfr"] == 0.01]
    for spec in dict.fromkeys(row["topology"] for row in at_1):
        depths = [row["depth"] for row in at_1 if row["topology"] == spec]
        print(f"{spec}, LFR 1 %, mean depth over the sizes: {sum(depths) / len(depths):.2f}")
    rows = data["rows"] + data["large"]
    print(
        f"fell short of the max-flow: {sum(r['short'] for r in rows)} of {sum(r['cases'] for r in rows)} cases; "
        f"longest whole computation {max(r['exact_max_us'] for r in rows) / 1e3:.1f} ms"
    )
    for row in data["generic"]:
        stopped = f"{row['branchings']} of {row['wanted']} branchings when stopped"
        what = "finished" if row["finished"] else stopped
        print(f"(c) {row['topology']}: {row['ms'] / 1e3:.2f} s, {what}")


if __name__ == "__main__":
    main()
