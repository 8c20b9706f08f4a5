"""What a name of several files comes to."""

from __future__ import annotations

from dataclasses import dataclass

from datacast.core.errors import DatacastError

FILES_MAX = 512


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


def safe_path(path: str) -> bool:
    """Does it stay beneath the folder it is put into?"""
    parts = path.split("/")
    return bool(path) and path.isprintable() and len(path) <= 1024 and not any(p in ("", ".", "..") for p in parts)
