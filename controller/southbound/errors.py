"""What can go wrong between the controller and its switches."""

from datacast.core.errors import DatacastError


class SwitchError(DatacastError):
    """A switch, or a file that describes switches, is not as it must be. `code` is for machines."""

    def __init__(self, code: str, message: str, what: str = "", where: str = "") -> None:
        super().__init__(message, what=what, where=where)
        self.code = code
