"""What tests find out of an endpoint once for all apps: each app answers as its own functions do, all the same."""

from __future__ import annotations

from typing import Annotated

import pytest
import routes_once
from fastapi import Depends, FastAPI, Path
from fastapi.testclient import TestClient

Number = Annotated[int, Path(ge=1)]


def app(word: str, default: int) -> FastAPI:
    made = FastAPI()

    def own() -> str:
        return f"own {word}"

    @made.get("/plain/{number}")
    async def plain(number: Number, more: int = default) -> str:
        return f"{word} {number} {more}"

    @made.get("/depends")
    async def depends(told: str = Depends(own)) -> str:
        return told

    return made


@pytest.fixture(autouse=True)
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastapi.routing.get_dependant", routes_once.get_dependant)


def test_each_app_answers_with_what_is_its_own_and_refuses_what_it_should() -> None:
    for word, default in (("one", 1), ("two", 2), ("three", 2)):
        client = TestClient(app(word, default))
        assert client.get("/plain/7").json() == f"{word} 7 {default}"
        assert client.get("/depends").json() == f"own {word}"
        assert client.get("/plain/0").status_code == 422


def test_the_second_app_is_not_looked_at_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    app("first", 5)
    looked: list[str] = []

    def look(*, path: str, **how: object) -> object:
        looked.append(path)
        return before(path=path, **how)

    before = routes_once.looked_at
    monkeypatch.setattr(routes_once, "looked_at", look)
    app("second", 5)
    assert "/plain/{number}" not in looked and "/depends" in looked
