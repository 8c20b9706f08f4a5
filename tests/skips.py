"""Which skips are right: tests/may_skip.toml, read once. Everything else that skips fails."""

from __future__ import annotations

import shutil
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

TABLE = Path(__file__).with_name("may_skip.toml")


@dataclass(frozen=True)
class Row:
    """One reason that is right for some tests. `unless`: programs whose presence makes it wrong."""

    tests: str
    reason: str
    because: str
    unless: tuple[str, ...] = ()

    def allows(self, test: str, reason: str) -> bool:
        """`test`: a pytest node id. `reason`: what the skip says; a row's reason is a pattern of how that begins."""
        if not (fnmatchcase(test, self.tests) and fnmatchcase(reason, self.reason + "*")):
            return False
        return not (self.unless and all(shutil.which(program) for program in self.unless))


def read(path: Path = TABLE) -> list[Row]:
    """The table; ValueError for a row with an unknown or missing key."""
    rows = []
    for row in tomllib.loads(path.read_text())["row"]:
        try:
            rows.append(Row(**{**row, "unless": tuple(row.get("unless", ()))}))
        except TypeError as error:
            raise ValueError(f"{path.name}: {row}: {error}") from None
    return rows


def refusal(rows: list[Row], test: str, reason: str) -> str | None:
    """Why this skip fails the run; None: it is right."""
    reason = reason.removeprefix("Skipped: ")
    if any(row.allows(test, reason) for row in rows):
        return None
    return (
        f"{test} skips and may not: {reason}\n"
        f"Mend what is missing, or give the reason a row in tests/{TABLE.name} that says why it is right."
    )
