"""A cable that connections of the simulator's TCP share."""

from __future__ import annotations

from datacast.simulation.engine import PAPER, SECOND, Faults, Simulation

RATE, MS, SEGMENT = 50_000_000, SECOND // 1000, 1500


class Cable:
    """Connections over one cable; hosts are late by up to a packet's time."""

    def __init__(
        self, *flavours: str, delay: int = 5 * MS, queue: int = 100, rate: int = RATE, apart: int = 1000
    ) -> None:
        self.rate, self.delay = rate, delay
        self.sim = Simulation(1, PAPER)
        self.sim.switch("a")
        self.sim.switch("b")
        self.sim.cable("a", "b", rate, delay, queue)
        self.flows = []
        for k, flavour in enumerate(flavours):
            self.sim.host(f"t{k}")
            self.sim.host(f"u{k}")
            self.sim.cable(f"t{k}", "a", 4 * rate, 1000, 10_000)
            self.sim.cable("b", f"u{k}", 4 * rate, 1000, 10_000)
            self.sim.faults(f"t{k}", "a", Faults(jitter=SEGMENT * 8 * SECOND // rate))
            self.flows.append(self.sim.tcp([f"t{k}", "a", "b", f"u{k}"], k * apart, 100 * SECOND, flavour, SEGMENT))
        self.seen = [0] * len(flavours)

    def rates(self, ms: float) -> list[float]:
        """What each has of the cable in the next so many milliseconds."""
        self.sim.run(self.sim.now + int(ms * MS), whole=False)
        before, self.seen = self.seen, [self.sim.tcp_bytes(f) for f in self.flows]
        return [(b - a) * 8 / (self.rate * ms / 1000) for a, b in zip(before, self.seen, strict=True)]

    @property
    def dropped(self) -> int:
        return self.sim.link_stats("a", "b")["dropped"]

    def queues(self, ms: int) -> list[int]:
        """What stands before the cable in each of the next milliseconds."""
        found = []
        for _ in range(ms):
            self.sim.run(self.sim.now + MS, whole=False)
            past = sum(self.sim.link_stats("b", f"u{k}")["frames"] for k in range(len(self.flows)))
            under_way = self.delay * self.rate // (8 * SEGMENT * SECOND)
            found.append(max(0, self.sim.link_stats("a", "b")["frames"] - past - under_way))
        self.rates(0.001)
        return found

    def lose(self, part: float, ms: float) -> None:
        """Such a part of what goes over the cable, for so long."""
        self.sim.faults("a", "b", Faults(loss_data=part, loss_interest=part))
        self.rates(ms)
        self.sim.faults("a", "b", Faults())
