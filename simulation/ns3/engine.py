"""ns-3 behind the interface of our own engine: the experiments run unchanged on either.

A `Ns3Simulation` is built like a `Simulation`; before the first run our engine describes what was built as text, and
`build/datacast-ns3` reads it. So both have the same network, trees, routes (byte for byte), groups and parameters.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..engine import ETHERNET, NEVER, Faults, Simulation
from ..errors import SimulationError

_BUILD = Path(__file__).resolve().parents[2] / "build"


def program() -> Path:
    """Where `datacast-ns3` is. Raises SimulationError when it is not built."""
    path = Path(os.environ.get("DATACAST_NS3", _BUILD / "datacast-ns3"))
    if not path.exists():
        raise SimulationError(f"the ns-3 witness is not built: {path} is missing; run `make build` (it needs Debian's "
                              "libns3-dev)", what=str(path))  # fmt: skip
    return path


class Ns3Simulation(Simulation):
    """A network in ns-3. Losses and late hosts are the only faults, FIFO is the only policy; nothing changes later."""

    def __init__(self, seed: int = 1, framing: int = ETHERNET, policy: str = "fifo"):
        if policy != "fifo":
            raise SimulationError(f"ns-3 runs libdatacast unchanged: its store is FIFO, not {policy}", what=policy)
        super().__init__(seed, framing, policy)
        self._tcp: list[str] = []
        self._process: subprocess.Popen[str] | None = None
        self._report: dict[str, Any] | None = None

    # ---- building ----

    def tcp(self, path: Sequence[str], start: int, stop: int, flavour: str = "cubic", segment: int = 1500) -> int:
        """As the base's, with ns-3's own TCP."""
        links = [self.link(a, b) for a, b in pairwise(path)]
        self._tcp.append(f"tcp {flavour} {start} {stop} {segment} {' '.join(map(str, links))}")
        return len(self._tcp) - 1

    def faults(self, a: str, b: str, faults: Faults) -> None:
        """As the base's, before the first run."""
        self._still()
        super().faults(a, b, faults)

    def rate(self, a: str, b: str, rate: int) -> None:
        """As the base's, before the first run."""
        self._still()
        super().rate(a, b, rate)

    def describe(self) -> str:
        """All that was built, as `datacast-ns3` reads it (simulation/ns3/README.md)."""
        text = self._lib.sim_describe(self._sim)
        if text == self._ffi.NULL:
            raise SimulationError(f"ns-3: {self._ffi.string(self._lib.sim_error(self._sim)).decode()}", what="ns3")
        try:
            lines = self._ffi.string(text).decode()
        finally:
            self._lib.sim_text_free(text)
        names = "".join(f"# vertex {number} is {name}\n" for name, number in self._vertices.items())
        return names + lines + "".join(f"{line}\n" for line in self._tcp)

    # ---- running ----

    def run(self, until: int = NEVER, whole: bool = True) -> int:
        """As the base's. Raises SimulationError when ns-3 refuses the scenario or dies."""
        if self._process is None:
            scenario = self.describe()
            self._process = subprocess.Popen([str(program())], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=subprocess.PIPE, text=True)  # fmt: skip
            self._tell(scenario)
        self._tell(f"run {until} {'whole' if whole else 'all'}\nreport\n")
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            raise SimulationError(self._last_words(), what="ns3")
        self._report = json.loads(line)
        return self.now

    def __del__(self) -> None:
        process = getattr(self, "_process", None)
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                with contextlib.suppress(BrokenPipeError):  # what it was not told any more
                    pipe.close()

    @property
    def now(self) -> int:
        """Virtual time, ns."""
        return 0 if self._report is None else int(self._report["now"])

    @property
    def hops(self) -> int:
        """Packets that began to cross a link."""
        return 0 if self._report is None else int(self._report["hops"])

    @property
    def digest(self) -> int:
        """Of the last report: equal digests mean equal results."""
        return int.from_bytes(hashlib.sha256(json.dumps(self._report).encode()).digest()[:8], "big")

    def tcp_bytes(self, flow: int) -> int:
        """Bytes on the wire of a TCP connection's segments that came in order."""
        return 0 if self._report is None else int(self._report["tcp"][flow])

    def payload(self) -> int:
        """Payload bytes of data packets over all links."""
        return 0 if self._report is None else sum(link["payload"] for link in self._report["link"])

    def check(self) -> str | None:
        """What is wrong with what arrived, or None."""
        if self._report is not None and any(r["wrong"] for group in self._report["receiver"] for r in group):
            return "a receiver holds what the source never sent"
        return None

    # ---- inside ----

    def _still(self) -> None:
        if self._process is not None:
            raise SimulationError("ns-3 runs already: links cannot change any more", what="ns3")

    def _tell(self, text: str) -> None:
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(text)
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise SimulationError(self._last_words(), what="ns3") from None

    def _last_words(self) -> str:
        assert self._process is not None and self._process.stderr is not None
        self._process.wait()
        words = self._process.stderr.read().strip()
        return words or f"datacast-ns3 ended without a word (exit code {self._process.returncode})"

    def _stats(self, kind: str, *key: int) -> dict[str, int]:
        if self._report is None:
            return super()._stats(kind, *key)
        at: Any = self._report[kind]
        for index in key:
            at = at[index]
        assert isinstance(at, Mapping)
        return dict(at)
