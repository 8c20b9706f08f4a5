"""The stores that the tests run on: each by a factory that opens it once more, as another process would."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "services_kit"))

from etcd import Etcd

from datacast.services.store import Store, open_store


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with Etcd(tmp_path_factory.mktemp("etcd")) as member:
        yield member


@pytest.fixture(params=["sqlite", "etcd"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    if request.param == "sqlite":
        return lambda: open_store(str(tmp_path / "deep" / "d.sqlite"))
    member: Etcd = request.getfixturevalue("etcd")
    member.empty()
    return lambda: open_store(member.url)
