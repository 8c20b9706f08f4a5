"""Rigs for the switch's tests: plain and under AddressSanitizer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from made import made
from switch_rig import BINARY, BINARY_ASAN, Rig


def _made(target: Path) -> Path:
    made(target)
    return target


@pytest.fixture(scope="session")
def switch_binary() -> Path:
    """The program, built if need be."""
    return _made(BINARY)


@pytest.fixture(scope="session")
def asan_binary() -> Path:
    """The same under AddressSanitizer and UBSan."""
    return _made(BINARY_ASAN)


@pytest.fixture
def rig3(tmp_path: Path, switch_binary: Path) -> Iterator[Rig]:
    """Three ports, jumbo frames."""
    r = Rig(tmp_path, 3)
    yield r
    r.close()
