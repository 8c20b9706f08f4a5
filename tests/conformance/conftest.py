"""One running switch per data plane and session. DATAPLANE=ovs (or dpdk, bmv2, p4, swx, a list with commas) chooses."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from planes import PLANES, Plane, running

CHOSEN = [name for name in os.environ.get("DATAPLANE", ",".join(PLANES)).split(",") if name]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "plane" in metafunc.fixturenames:
        unknown = set(CHOSEN) - set(PLANES)
        if unknown:
            raise pytest.UsageError(f"no data plane {', '.join(unknown)}: choose of {', '.join(PLANES)}")
        metafunc.parametrize("plane", CHOSEN, indirect=True, scope="session")


@pytest.fixture(scope="session")
def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """The data plane named by the parameter; skips with the reason where this machine has not got it."""
    with running(PLANES[request.param], tmp_path_factory) as plane:
        yield plane
