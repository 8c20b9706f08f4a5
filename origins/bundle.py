"""The list of files with which a stream of several begins (host_agent/bundle.h): who fetches goes by it, and who makes
a folder of what came."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

FOLDER, FILE, EXPECTS = 1, 2, 0x80
HEAD = 16
BIG, ALIGN = 64 << 10, 4096
"""Files of BIG bytes begin at a multiple of ALIGN."""


@dataclass(frozen=True)
class Entry:
    """A file. `sha256`: what it must have; "": any."""

    size: int
    sha256: str = ""


@dataclass(frozen=True)
class Stream:
    """`files`: those that have bytes, in the stream's order."""

    manifest: bytes
    size: int
    files: tuple[str, ...]


def stream(files: Mapping[str, Entry]) -> Stream:
    """Of files by their paths (parts.safe_path). Raises ValueError where one lies beneath another."""
    folders = {path[:at] for path in files for at, char in enumerate(path) if char == "/"}
    if both := folders & files.keys():
        raise ValueError(f"{min(both)} is a file and a folder")
    names = sorted((name.encode(), name) for name in folders | files.keys())
    rows = []
    for raw, name in names:
        one = files.get(name)
        kind = FOLDER if one is None else FILE | (EXPECTS if one.sha256 else 0)
        head = struct.pack(">BHQH", kind, 0o755 if one is None else 0o644, one.size if one else 0, len(raw))
        rows.append(head + raw + bytes(2) + bytes.fromhex(one.sha256 if one else ""))
    body = b"".join(rows)
    manifest = b"dcbundl1" + struct.pack(">II", len(rows), HEAD + len(body)) + body
    size = len(manifest)
    for _, name in names:
        if (one := files.get(name)) is not None:
            size = (-(-size // ALIGN) * ALIGN if one.size >= BIG else size) + one.size
    return Stream(manifest, size, tuple(name for _, name in names if name in files and files[name].size))
