"""Shared by all tests: what needs root is skipped without it, and says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.geteuid() == 0:
        return
    skip = pytest.mark.skip(reason="needs root: network namespaces and raw sockets")
    for item in items:
        if "root" in item.keywords or "lab" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def project() -> Path:
    """The folder of the source tree."""
    return ROOT
