"""The solver writes nothing: what `datacast` prints may be JSON for a machine."""

from __future__ import annotations

import numpy as np
import pytest

from datacast.planners.solver import programme


def test_a_programme_is_solved_in_silence(capfd: pytest.CaptureFixture[str]) -> None:
    lp = programme()
    lp.addCol(-1.0, 0.0, 7.0, 0, np.array([], np.int32), np.array([]))
    lp.run()
    assert lp.getSolution().col_value == [7.0]
    assert capfd.readouterr() == ("", "")
