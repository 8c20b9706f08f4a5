"""The solver of linear programmes (HiGHS), which says nothing on anybody's standard output."""

from __future__ import annotations

from typing import Any

import highspy


class _Quiet(highspy.Highs):
    """Since 1.16 `Highs()` names itself when it sets its callback, before the caller has the object."""

    def enableCallbacks(self) -> None:
        self.setOptionValue("output_flag", False)
        super().enableCallbacks()  # type: ignore[no-untyped-call]


def programme() -> Any:
    """An empty linear programme, a `highspy.Highs`."""
    return _Quiet()  # type: ignore[no-untyped-call]
