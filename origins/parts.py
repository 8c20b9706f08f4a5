"""What a name of several files comes to."""

from __future__ import annotations

import re
from dataclasses import dataclass

from datacast.core.errors import DatacastError

FILES_MAX = 512
SIZE_MAX = (1 << 53) - 1


class OriginError(DatacastError):
    """What a name does not lead to, with a code as the agents have them."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Part:
    """A file: bytes of an address, or (`url` empty) `data`."""

    path: str
    size: int
    url: str = ""
    sha256: str = ""
    data: bytes = b""


@dataclass(frozen=True)
class Named:
    """What a name means: one file, or (`folder`) several beneath one folder."""

    name: str
    folder: bool
    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)


def size_told(text: str) -> int | None:
    """Bytes, as a header tells them; None: it does not."""
    size = int(text) if re.fullmatch("[0-9]{1,16}", text) else None
    return size if size is not None and size <= SIZE_MAX else None


def safe_path(path: str) -> bool:
    """Does it stay beneath the folder it is put into?"""
    parts = path.split("/")
    return bool(path) and path.isprintable() and len(path) <= 1024 and not any(p in ("", ".", "..") for p in parts)
