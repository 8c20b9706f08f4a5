"""`PYTHONPATH=tests python -m kills --seed 1 --kills 200`: a lab of its own, needs root and etcd."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time

from ports import free_ports

from datacast.lab.lab import LabOptions

from .campaign import KILLS, Campaign
from .cluster import Cluster


def main() -> int:
    parser = argparse.ArgumentParser(prog="kills", description="Services killed under transfers in a lab.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--transfers", type=int, default=20, help="at once")
    parser.add_argument("--topology", default="bcube:4,1")
    parser.add_argument("--link", type=int, default=10_000_000, help="bit/s")
    parser.add_argument("--size", type=int, default=2_000_000)
    parser.add_argument("--gap", type=float, nargs=2, default=(0.2, 1.2), metavar=("FROM", "TO"), help="s between two")
    parser.add_argument("--no-realtime", action="store_true")
    parser.add_argument("--keep", action="store_true", help="leave the logs")
    parser.add_argument("--name", default="kills")
    args = parser.parse_args()
    options = LabOptions(
        topology=args.topology, rate_bps=args.link, realtime=not args.no_realtime, room=256 << 20,
        rest_port=free_ports(1)[0], fabric_port=free_ports(1)[0], keep=args.keep,
    )  # fmt: skip
    with Cluster(options, args.name) as lab:
        lab.up()
        print(f"kills: logs in {lab.work}/logs", flush=True)
        say = lambda text: print(text, flush=True)  # noqa: E731
        kills = random.Random(args.seed).choices(list(KILLS), list(KILLS.values()), k=args.kills)
        campaign = Campaign(lab, args.seed, kills, args.transfers, args.size, tuple(args.gap), say)
        began = time.monotonic()
        asyncio.run(campaign.run())
        print(campaign.told(), flush=True)
        print(f"kills: seed {args.seed}, {time.monotonic() - began:.0f} s, {len(campaign.faults)} faults", flush=True)
    return 1 if campaign.faults else 0


if __name__ == "__main__":
    sys.exit(main())
