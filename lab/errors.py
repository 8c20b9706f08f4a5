"""Errors of the lab. Each names the thing and the remedy."""

from __future__ import annotations

from datacast.core.errors import DatacastError


class LabError(DatacastError):
    """What went wrong, with which thing, where, and what helps."""

    def __init__(self, message: str, what: str = "", where: str = "", remedy: str = "") -> None:
        super().__init__(message, what=what, where=where)
        self.remedy = remedy

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text}\n{self.remedy}" if self.remedy else text


class Interrupted(LabError):
    """The user (or `lab down`) asked to stop; `signum` says how."""

    def __init__(self, signum: int) -> None:
        super().__init__("interrupted")
        self.signum = signum
