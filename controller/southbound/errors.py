"""What can go wrong between the controller and its switches."""

from datacast.core.errors import DatacastError, UsageError


class SwitchError(DatacastError):
    """A switch is not as it must be. `code` is for machines."""

    def __init__(self, code: str, message: str, what: str = "", where: str = "") -> None:
        super().__init__(message, what=what, where=where)
        self.code = code


class ConfigError(SwitchError, UsageError):
    """A file that describes switches is not as it must be."""

    def __init__(self, message: str, what: str = "", where: str = "") -> None:
        super().__init__("bad_config", message, what, where)
