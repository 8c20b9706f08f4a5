"""A controller of eight OpenFlow switches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from wire_switch import FabricManager, config

from datacast.controller.southbound.config import parse
from datacast.controller.southbound.service import Switches


@pytest.fixture
def manager() -> Iterator[FabricManager]:
    one = FabricManager()
    yield one
    one.close()


@pytest.fixture
def service(manager: FabricManager) -> Iterator[Switches]:
    one = Switches(parse(config(8, manager)))
    one.start()
    yield one
    one.stop()
