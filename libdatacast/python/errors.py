"""The one root of all exceptions of Datacast's Python parts."""


class DatacastError(Exception):
    """What went wrong (`message`), with which thing (`what`: a host, a file, an option) and `where` (file, process,
    line).

    Parts subclass it; whoever shows an error to a person needs to know this class only.
    """

    def __init__(self, message: str, what: str = "", where: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.what = what
        self.where = where

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class UsageError(DatacastError):
    """What was asked for makes no sense; the program ends with 2, as argparse does."""

    status = 422
