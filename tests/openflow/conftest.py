"""Shared kit on the path: the authority for certificates. A controller of eight OpenFlow switches."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.append(str(Path(__file__).parents[1] / "services_kit"))

if TYPE_CHECKING:
    from wire_switch import FabricManager

    from datacast.controller.southbound.service import Switches


@pytest.fixture
def manager() -> Iterator[FabricManager]:
    from wire_switch import FabricManager

    one = FabricManager()
    yield one
    one.close()


@pytest.fixture
def service(manager: FabricManager) -> Iterator[Switches]:
    from wire_switch import config

    from datacast.controller.southbound.config import parse
    from datacast.controller.southbound.service import Switches

    one = Switches(parse(config(8, manager)))
    one.start()
    yield one
    one.stop()
