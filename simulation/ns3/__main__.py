"""`python -m datacast.simulation.ns3 describe`: a scenario for `build/datacast-ns3` by hand."""

from __future__ import annotations

import argparse
import sys

from datacast.core.errors import DatacastError

from ..engine import Faults
from ..experiments.base import Setting, micro
from .engine import Ns3Simulation


def main() -> int:
    """Print the paper's Figure 10(a) as a scenario; 0, or 2 for a parameter that makes no sense."""
    parser = argparse.ArgumentParser(prog="python -m datacast.simulation.ns3", description=__doc__)
    parser.add_argument("what", choices=["describe"])
    parser.add_argument("--cc", default="datacast", help="rule of rate control")
    parser.add_argument("--cache", type=int, default=128 * 1024, help="content store C, bytes")
    parser.add_argument("--delta", type=int, default=Setting.delta, help="rate added per interval, bit/s")
    parser.add_argument("--loss", type=float, default=0.0, help="share of data packets lost towards the slow receiver")
    parser.add_argument("--loss-on-wire", action="store_true", help="what is lost has taken the link's time")
    parser.add_argument("--size", type=int, default=0, help="bytes of the file (default: 10 s of the slow link)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    try:
        setting = Setting(engine="ns3", cc=args.cc, delta=args.delta, loss=args.loss, loss_on_wire=args.loss_on_wire,
                          size=args.size, seed=args.seed)  # fmt: skip
        m = micro(setting, args.cache)
        # Named even without loss, so that datacast-ns3 --loss knows where.
        m.sim.faults(*m.slow_link, Faults(loss_data=args.loss, early=not args.loss_on_wire))
        assert isinstance(m.sim, Ns3Simulation)
        print(m.sim.describe(), end="")
    except DatacastError as error:
        print(f"datacast: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
