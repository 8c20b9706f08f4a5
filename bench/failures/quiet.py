"""Transfers without a failure, for half an hour on a busy machine: no link may be reported down.

    .venv/bin/python bench/failures/quiet.py --minutes 30 --json quiet.json

Exit code 1 when a link was, or a file did not arrive. Root.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from transfers import Transfers

from datacast.core.errors import DatacastError
from datacast.fabric_manager.api.topology import LinkChange
from datacast.lab.counters import cpu_sample, cpu_use
from datacast.lab.fabric_events import FabricEvents
from datacast.lab.lab import Lab, LabOptions
from datacast.lab.report import plain
from datacast.lab.state import marked

SAMPLE_S = 5.0


def alarms(events: FabricEvents) -> list[dict[str, Any]]:
    return [plain(seen) for seen in events.seen if isinstance(seen.event, LinkChange) and not seen.event.up]


def measure(args: argparse.Namespace) -> dict[str, Any]:
    options = LabOptions(
        rate_bps=args.link * 10**6, rest_port=args.port, fabric_port=args.port + 1, room=7 * (args.size << 20)
    )
    with Lab(options, "bench-quiet", lambda text: None) as lab:
        lab.up()
        events = FabricEvents(lab)
        events.start()
        transfers = Transfers(lab, args.size << 20, args.seed, lambda group, reactions: None)
        before, started = cpu_sample(marked(lab.identity)), time.monotonic()
        loads = []
        while time.monotonic() - started < 60 * args.minutes:
            transfers.current()
            lab.signals.sleep(SAMPLE_S)
            loads.append(os.getloadavg()[0])
            minutes = (time.monotonic() - started) / 60
            end = "\r" if sys.stderr.isatty() else "\n"
            seen = len(alarms(events))
            print(f"{minutes:.1f} min, transfer {transfers.sent}, {seen} alarms", file=sys.stderr, end=end)
        transfers.finish()
        events.stop()
        cpu = cpu_use(before, cpu_sample(marked(lab.identity)), True)
        return {
            "minutes": round((time.monotonic() - started) / 60, 2),
            "link_mbit": args.link,
            "links_watched": lab.graph.number_of_edges(),
            "transfers": transfers.sent,
            "not_delivered": transfers.undelivered,
            "false_alarms": alarms(events),
            "cpu_busy": round(cpu.busy, 3),
            "load_average": {"mean": round(statistics.mean(loads), 2), "max": max(loads)},
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--link", type=int, default=10, metavar="MBIT", help="rate of all links (default %(default)s)")
    parser.add_argument("--size", type=int, default=64, metavar="MIB", help="of each transfer (default %(default)s)")
    parser.add_argument("--port", type=int, default=18590, help="REST's; the next one is the fabric manager's")
    parser.add_argument("--json", type=Path, default=None)
    args = parser.parse_args()
    try:
        result = measure(args)
    except DatacastError as error:
        print(f"quiet: {error}", file=sys.stderr)
        return 1
    text = json.dumps(result, indent=1)
    print(text)
    if args.json:
        args.json.write_text(text + "\n")
    return 1 if result["false_alarms"] or result["not_delivered"] else 0


if __name__ == "__main__":
    sys.exit(main())
