"""Reads tests/golden/frames.txt; the format stands at its top."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from datacast.core.wire import Segment, Stop

PATH = Path(__file__).resolve().parents[1] / "golden" / "frames.txt"


@dataclass
class Entry:
    kind: str
    name: str
    value: dict[str, str] = field(default_factory=dict)
    stops: list[Stop] = field(default_factory=list)

    @property
    def frame(self) -> bytes:
        return bytes.fromhex(self.value["hex"])

    @property
    def labels(self) -> list[int]:
        return [int(label) for label in self.value["labels"].split() if label != "-"]

    @property
    def rest(self) -> bytes:
        return bytes.fromhex(self.value["rest"].replace("-", ""))

    def number(self, key: str) -> int:
        return int(self.value.get(key, "0"), 0)


def _ports(text: str) -> tuple[int, ...]:
    return () if text == "-" else tuple(int(port) for port in text.split(","))


def read(kind: str) -> list[Entry]:
    """The entries of one kind: frame, pop or refuse."""
    entries: list[Entry] = []
    for line in PATH.read_text().splitlines():
        key, _, value = line.partition(" ")
        if not line or key in ("#", "end"):
            continue
        if key in ("frame", "pop", "refuse"):
            entries.append(Entry(key, value))
        elif key == "stop":
            flags, ret, fwd = value.split()
            entries[-1].stops.append(
                Stop(Segment(_ports(fwd), "f" in flags), Segment(_ports(ret), "r" in flags), "s" in flags)
            )
        else:
            entries[-1].value[key] = value
    found = [entry for entry in entries if entry.kind == kind]
    assert found, f"no {kind} in {PATH}"
    return found
