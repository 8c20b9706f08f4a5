"""Networks of agents for the tests, and the agent's programs, built when they are not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from agent_harness import ASAN, PLAIN, Net, make_line, make_pair
from made import made


@pytest.fixture(scope="session", autouse=True)
def programs() -> None:
    made(PLAIN, ASAN)


@pytest.fixture
def make_net(tmp_path: Path) -> Iterator[Callable[[Path], Net]]:
    nets: list[Net] = []

    def make(program: Path = PLAIN) -> Net:
        nets.append(Net(tmp_path, program))
        return nets[-1]

    yield make
    errors = []
    for net in nets:
        try:
            net.close()
        except AssertionError as error:
            errors.append(str(error))
    assert not errors, errors


@pytest.fixture
def pair(make_net: Callable[[Path], Net]) -> Net:
    """Agents a (the source) and b on one cable."""
    return make_pair(make_net(PLAIN))


@pytest.fixture
def line(make_net: Callable[[Path], Net]) -> Net:
    """a - b - c: b forwards and caches."""
    return make_line(make_net(PLAIN))
