"""A few seeds of the campaign; more: `make sites`."""

from __future__ import annotations

from pathlib import Path

import pytest
from site_campaign import campaign


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
async def test_after_faults_of_controllers_and_fabric_managers_every_group_ends(tmp_path: Path, seed: int) -> None:
    assert not (wrong := await campaign(seed, tmp_path, 7)), "\n".join(wrong)
