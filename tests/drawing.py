"""How tests draw the input they make up: the same each time on one revision, so that a run is red for its code only.

`make draws TIMES=20` draws by chance, TIMES as many examples. What it finds is mended, with an @example that stays.
"""

from __future__ import annotations

import os

import hypothesis

TIMES = int(os.environ.get("DATACAST_DRAWS", "0"))
"""So many times the examples, drawn by chance; 0: the few of every run, drawn from the test's own text."""


def examples(few: int) -> int:
    """What a test gives as max_examples."""
    return few * max(TIMES, 1)


def register() -> None:
    """For every test. A busy machine stands still for longer than any deadline."""
    hypothesis.settings.register_profile(
        "datacast", deadline=None, derandomize=not TIMES, max_examples=examples(100), print_blob=True
    )
    hypothesis.settings.load_profile("datacast")
