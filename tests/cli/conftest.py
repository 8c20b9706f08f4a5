import pytest


@pytest.fixture(autouse=True)
def _signals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lab that ends ignores signals, and whatever this process started later would."""
    monkeypatch.setattr("datacast.lab.signals.STOPPING", ())
