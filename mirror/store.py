"""What groups have put on this host, by its digest: images as OCI layouts, and single blobs.

    FOLDER/images/NAME/blobs/sha256/HEX     of `datacast prepull`
    FOLDER/blobs/HEX                        of a layer that was asked for here

Nothing is kept in memory: a file is there or not, and whoever asks checks its digest.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

DIGEST = re.compile("sha256:([0-9a-f]{64})")
IMAGES_MAX = 4096
"""That are looked through."""


class Store:
    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    def find(self, digest: str) -> Path | None:
        """The file with this digest; None: there is none, or it is no digest."""
        told = DIGEST.fullmatch(digest)
        return next((path for path in self._places(told[1]) if _is_file(path)), None) if told else None

    def _places(self, name: str) -> Iterator[Path]:
        yield self.folder / "blobs" / name
        try:
            with os.scandir(self.folder / "images") as rows:
                for _, row in zip(range(IMAGES_MAX), rows, strict=False):
                    if not row.name.startswith("."):
                        yield Path(row.path) / "blobs" / "sha256" / name
        except OSError:
            return


def _is_file(path: Path) -> bool:
    """A file of its own that may be read: no link, which might lead anywhere."""
    try:
        own = stat.S_ISREG(path.lstat().st_mode) and path.parent.resolve() == path.parent.absolute()
        return own and os.access(path, os.R_OK)
    except OSError:
        return False
