"""tests/flakes.toml is short, and names tests that there are."""

from __future__ import annotations

import datetime
import re
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
MOST = 8


def test_what_has_failed_once_and_is_not_understood_is_little_and_still_there() -> None:
    rows = tomllib.loads((HERE / "flakes.toml").read_text()).get("row", [])
    assert len(rows) <= MOST, "mend one before another is written down"
    for row in rows:
        assert set(row) == {"test", "seen", "what"} and row["what"], row
        assert isinstance(row["seen"], datetime.date), row
        path, name = row["test"].split("::")
        text = (HERE.parent / path).read_text()
        assert re.search(rf"^(async )?def {re.escape(name)}\(", text, re.MULTILINE), f"{row['test']}: no such test"
