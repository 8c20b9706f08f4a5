"""Test content and its independent verification."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable
from pathlib import Path

from datacast.lab.errors import LabError

CHUNK = 4 << 20
SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_size(text: str) -> int:
    """`256M`, `128K`, `1G`, `4096`: bytes, powers of 1024. Raises LabError."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if not match:
        raise LabError(f"{text!r} is no size", what=text, remedy="give bytes, or a number with K, M or G, such as 256M")
    return int(float(match[1]) * SUFFIXES[match[2].upper()])


def parse_rate(text: str) -> int:
    """`100mbit`, `1gbit`, `250kbit`: bit/s. Raises LabError."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmg]?)(?:bit(?:/s)?|bps|b/s)?", text.strip().lower())
    value = float(match[1]) * {"": 1, "k": 1e3, "m": 1e6, "g": 1e9}[match[2]] if match else 0
    if value < 8000:
        raise LabError(f"{text!r} is no link rate", what=text, remedy="give something like 100mbit or 1gbit")
    return int(value)


def write_random(path: Path, size: int, seed: int, step: Callable[[int], None] = lambda done: None) -> str:
    """Reproducible random bytes. Returns their SHA-256. `step(done)` is called after every 4 MiB."""
    source, digest, done = random.Random(seed), hashlib.sha256(), 0
    with open(path, "wb") as out:
        while done < size:
            chunk = source.randbytes(min(CHUNK, size - done))
            digest.update(chunk)
            out.write(chunk)
            done += len(chunk)
            step(done)
    return digest.hexdigest()


def sha256_of(path: Path, step: Callable[[int], None] = lambda done: None) -> str:
    digest, done = hashlib.sha256(), 0
    with open(path, "rb") as lines:
        while chunk := lines.read(CHUNK):
            digest.update(chunk)
            done += len(chunk)
            step(done)
    return digest.hexdigest()
