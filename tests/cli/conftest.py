import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "services_kit"))


@pytest.fixture(autouse=True)
def _signals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lab that ends ignores signals, and whatever this process started later would."""
    monkeypatch.setattr("datacast.lab.signals.STOPPING", ())
