"""Text of others, as it may be shown."""

from __future__ import annotations

CONTROL = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}


def visible(text: str) -> str:
    """Names and errors come from others: what would move a terminal's cursor, or end a row, is shown, and not done."""
    return text.translate(CONTROL)
