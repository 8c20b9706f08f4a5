"""What ends a group."""

from __future__ import annotations

from datacast.core.errors import DatacastError


class GroupError(DatacastError):
    """The group as a whole has failed; `code` for machines."""

    def __init__(self, code: str, message: str, what: str = "") -> None:
        super().__init__(message, what=what)
        self.code = code
