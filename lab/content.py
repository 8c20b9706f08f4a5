"""Test content and its independent verification."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from pathlib import Path

CHUNK = 4 << 20


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
