"""What a disk may hold after a loss of power: the journal of forget.c, cut anywhere.

The rules are those a program may rely on, and no more. A file's bytes last from its fsync on; of what was written
since, any part may be there, in pieces of a sector. A name lasts from its folder's fsync on; of the changes of names
since, the first few are there (journalling file systems keep their order), whatever became of the bytes.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

ENTRY = struct.Struct("<B3xIIIQQ")
SECTOR = 512


@dataclass(frozen=True)
class Op:
    """One line of the journal. `kind`: C create, M make a folder, W write, T truncate, S sync, D sync of a folder,
    R rename, L link, U unlink, K mark."""

    kind: str
    inode: int
    offset: int
    path: str
    rest: bytes


def read(journal: Path) -> list[Op]:
    """The whole journal; ValueError when it ends within an entry."""
    data = journal.read_bytes()
    ops, at = [], 0
    while at < len(data):
        if len(data) - at < ENTRY.size:
            raise ValueError(f"{journal} ends within an entry")
        kind, path_len, rest_len, _, inode, offset = ENTRY.unpack_from(data, at)
        at += ENTRY.size
        if len(data) - at < path_len + rest_len:
            raise ValueError(f"{journal} ends within an entry")
        path = data[at : at + path_len].decode()
        rest = data[at + path_len : at + path_len + rest_len]
        ops.append(Op(chr(kind), inode, offset, path, rest))
        at += path_len + rest_len
    return ops


def _write(content: bytearray, offset: int, data: bytes) -> None:
    if offset > len(content):
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _truncate(content: bytearray, length: int) -> None:
    if length < len(content):
        del content[length:]
    else:
        content.extend(bytes(length - len(content)))


@dataclass
class File:
    """`safe`: bytes that last. `loose`: writes (offset, data) and truncations (length, None) since the last sync."""

    safe: bytearray = field(default_factory=bytearray)
    loose: list[tuple[int, bytes | None]] = field(default_factory=list)

    def sync(self) -> None:
        for offset, data in self.loose:
            _truncate(self.safe, offset) if data is None else _write(self.safe, offset, data)
        self.loose.clear()

    def after_a_cut(self, rng: random.Random) -> bytes:
        content = bytearray(self.safe)
        fate = rng.random()  # nothing, everything and any part are all likely
        for offset, data in self.loose:
            if fate < 0.2 or (fate < 0.8 and rng.random() < 0.5):
                continue
            if data is None:
                _truncate(content, offset)
            elif fate < 0.8 and rng.random() < 0.3:
                sectors = max(1, len(data) // SECTOR)
                _write(content, offset, data[: SECTOR * rng.randrange(sectors)])
            else:
                _write(content, offset, data)
        return bytes(content)


class Disk:
    """The journal applied step by step. `cut` says what could be there if the power went now."""

    def __init__(self) -> None:
        self.names: dict[str, File] = {}
        self.by_inode: dict[int, File] = {}
        self.now: dict[str, File] = {}
        self.pending: dict[str, list[Op]] = {}
        self.created: dict[int, File] = {}
        self.folders: set[str] = set()
        """That were made: what lies in one is there when its own name is."""
        self.marks: list[str] = []

    def step(self, op: Op) -> None:
        if op.kind == "K":
            self.marks += op.rest.decode().splitlines()
        elif op.kind in "WT":
            self.by_inode.setdefault(op.inode, File()).loose.append((op.offset, op.rest if op.kind == "W" else None))
        elif op.kind == "S":
            self.by_inode.setdefault(op.inode, File()).sync()
        elif op.kind == "D":
            for held in self.pending.pop(op.path, []):
                self._name(self.names, held)
        else:
            if op.kind == "C":
                self.by_inode[op.inode] = self.created[id(op)] = File()
            elif op.kind == "M":
                self.folders.add(op.path)
            self._name(self.now, op)
            self.pending.setdefault(str(PurePosixPath(op.path).parent), []).append(op)

    def _name(self, names: dict[str, File], op: Op) -> None:
        other = op.rest.decode()
        if op.kind == "C":
            names[op.path] = self.created[id(op)]
        elif op.kind == "M":
            names[op.path] = File()
        elif op.kind == "U":
            names.pop(op.path, None)
        elif op.path in names:
            names[other] = names.pop(op.path) if op.kind == "R" else names[op.path]

    def cut(self, rng: random.Random) -> dict[str, bytes]:
        """Content by path as after a loss of power at this moment, one of the many possible."""
        names = dict(self.names)
        for held in self.pending.values():
            for op in held[: rng.randrange(len(held) + 1)]:
                self._name(names, op)
        lost = self.folders - names.keys()
        return {
            path: file.after_a_cut(rng)
            for path, file in names.items()
            if path not in self.folders and lost.isdisjoint(map(str, PurePosixPath(path).parents))
        }


def cuts(ops: list[Op], count: int, seed: int) -> Iterator[tuple[int, Disk, random.Random]]:
    """`count` seeded moments, in order: after how many operations, the disk then, and the randomness of that cut."""
    rng = random.Random(seed)
    moments = sorted(rng.randrange(len(ops) + 1) for _ in range(count))
    disk, done = Disk(), 0
    for number, moment in enumerate(moments):
        while done < moment:
            disk.step(ops[done])
            done += 1
        yield moment, disk, random.Random(f"{seed} {number}")


def lay_out(content: dict[str, bytes], old_root: Path, new_root: Path) -> None:
    """Write what survived where a program can find it."""
    new_root.mkdir(parents=True, exist_ok=True)
    for path, data in content.items():
        target = new_root / PurePosixPath(path).relative_to(old_root)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
