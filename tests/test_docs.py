"""Documents: links within the repository lead somewhere, tables are whole, what falls short is said in short cells.

The site's own check (`make docs`) does not see results, decisions and the folders' READMEs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SKIPPED = {".venv", "build", "node_modules", ".git"}
CELL = 110
"""Letters of a cell of what falls short: it is to be read in five minutes. Details have a page of their own."""


def pages() -> list[Path]:
    found = [*ROOT.glob("*.md"), *ROOT.glob("*/**/*.md")]
    return sorted(page for page in found if not SKIPPED & set(page.relative_to(ROOT).parts))


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """As GitHub names headings."""
    names = []
    for heading in re.findall(r"^#+ (.*)$", without_code(text), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip().lower())
        names.append(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return set(names)


def broken(page: Path, text: str) -> list[str]:
    """Links of a page that lead to no file, or to no heading of one."""
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(text)):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = page.parent / file if file else page
        leads = target.exists() and (not anchor or target.suffix != ".md" or anchor in anchors(target.read_text()))
        if not leads:
            wrong.append(link)
    return wrong


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]


def torn(text: str) -> list[str]:
    """Rows with another number of cells than the head of their table."""
    wrong, columns = [], 0
    for line in without_code(text).splitlines():
        if not line.startswith("|"):
            columns = 0
            continue
        columns = columns or len(cells(line))
        if len(cells(line)) != columns:
            wrong.append(line)
    return wrong


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_tables(page: Path) -> None:
    text = page.read_text()
    assert not broken(page, text)
    assert not torn(text)


def test_what_is_broken_or_torn_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One thing\n")
    assert broken(page, "[a](page.md) [b](#one-thing) [c](page.md#two) [d](other.md)") == ["page.md#two", "other.md"]
    assert torn("| a | b |\n| --- | --- |\n| 1 | 2 |\n| 1 | 2 | 3 |\n") == ["| 1 | 2 | 3 |"]


def test_what_falls_short_is_short() -> None:
    text = (ROOT / "docs" / "results.md").read_text()
    _, _, table = text.partition("## What falls short")
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert len(rows) > 20
    assert [cell for row in rows for cell in cells(row) if len(cell) > CELL] == []
