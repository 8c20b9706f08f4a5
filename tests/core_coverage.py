"""`make coverage`: which lines and branches of the core tests reach, from what gcov has counted.

    core_coverage.py FOLDER [NAME …]      a table; for the sources named every line and branch that was not reached, too

What the compiler made of assertions in tests does not count.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

WIRE = ("wire", "route", "segment", "hello", "bytes")
"""What reads bytes from a network."""


@dataclass
class Source:
    """Lines by number: how often each ran; branches by (line, place): how often each was taken."""

    lines: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    branches: dict[tuple[int, int], int] = field(default_factory=lambda: defaultdict(int))

    def shares(self) -> str:
        def share(counts: list[int]) -> str:
            reached = sum(n > 0 for n in counts)
            return f"{reached:5} of {len(counts):5} {100 * reached / max(1, len(counts)):6.1f} %"

        return f"{share(list(self.lines.values()))}   {share(list(self.branches.values()))}"

    def missed(self) -> list[str]:
        lines = [f"line {number}" for number, ran in sorted(self.lines.items()) if not ran]
        return lines + [
            f"branch {place} of line {number}"
            for (number, place), taken in sorted(self.branches.items())
            if not taken and self.lines[number]
        ]


def read(folder: Path) -> dict[str, Source]:
    """By name, headers too; what several objects compile is added up."""
    found: dict[str, Source] = defaultdict(Source)
    for notes in sorted(folder.glob("*.gcno")):
        done = subprocess.run(
            ["gcov", "--json-format", "--branch-probabilities", "--stdout", notes.name], cwd=folder, capture_output=True
        )
        text = gzip.decompress(done.stdout) if done.stdout[:2] == b"\x1f\x8b" else done.stdout
        for row in text.splitlines():
            for file in json.loads(row)["files"]:
                if "libdatacast/" not in file["file"] or "/tests/" in file["file"]:
                    continue
                source = found[Path(file["file"]).name]
                for line in file["lines"]:
                    source.lines[line["line_number"]] += line["count"]
                    for place, branch in enumerate(line["branches"]):
                        if not branch["throw"]:
                            source.branches[line["line_number"], place] += branch["count"]
    return found


def total(sources: list[Source]) -> Source:
    both = Source()
    for at, source in enumerate(sources):
        both.lines.update({at << 20 | number: ran for number, ran in source.lines.items()})
        both.branches.update({(at << 20 | number, place): n for (number, place), n in source.branches.items()})
    return both


def main() -> None:
    found = read(Path(sys.argv[1]))
    print(f"{'':20}{'lines':>21}   {'branches':>21}")
    for name, source in sorted(found.items()):
        print(f"{name:20}{source.shares()}")
        if name in sys.argv[2:]:
            print("\n".join(f"    {what}" for what in source.missed()))
    wire = [source for name, source in found.items() if name.partition(".")[0] in WIRE]
    print(f"{'parsers of frames':20}{total(wire).shares()}\n{'all':20}{total(list(found.values())).shares()}")


if __name__ == "__main__":
    main()
