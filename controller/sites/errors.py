"""What can be wrong with sites."""

from __future__ import annotations

from datacast.core.errors import DatacastError


class SiteError(DatacastError):
    """A file of sites that cannot be used, or a site that cannot be spoken with. `code` for machines."""

    def __init__(self, message: str, what: str = "", code: str = "site", remedy: str = "") -> None:
        super().__init__(message, what=what)
        self.code, self.remedy = code, remedy
