"""What tests find out of an endpoint once for all apps: each app answers as its own functions do, all the same."""

from __future__ import annotations

from typing import Annotated

import pytest
import routes_once
from fastapi import Body, Depends, FastAPI, Path
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
    for name in ("get_dependant", "create_model_field", "_get_body_field"):
        monkeypatch.setattr(f"fastapi.routing.{name}", getattr(routes_once, name.lstrip("_")))


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


def counting(answers: type, *apps: str) -> list[FastAPI]:
    """Apps whose endpoint takes two numbers, and answers `answers`."""

    def one(word: str) -> FastAPI:
        made = FastAPI()

        @made.post("/sum", response_model=answers)
        async def add(a: Annotated[int, Body()], b: Annotated[int, Body()]) -> object:
            return [word, str(a + b)] if answers == list[str] else {word: a + b}

        return made

    return [one(word) for word in apps]


def test_apps_whose_endpoints_differ_in_what_they_answer_are_kept_apart() -> None:
    for made, word in zip(counting(list[str], "one", "two"), ("one", "two"), strict=True):
        assert TestClient(made).post("/sum", json={"a": 1, "b": 2}).json() == [word, "3"]
        assert TestClient(made).post("/sum", json={"a": 1}).status_code == 422
        form = made.openapi()["paths"]["/sum"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
        assert form["type"] == "array"
    [last] = counting(dict[str, int], "three")
    assert TestClient(last).post("/sum", json={"a": 1, "b": 2}).json() == {"three": 3}


def test_what_the_second_app_takes_and_answers_is_not_looked_at_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    counting(list[str], "first")

    def never(**_: object) -> None:
        raise AssertionError("looked at anew")

    monkeypatch.setattr(routes_once, "made_field", never)
    monkeypatch.setattr(routes_once, "made_body", never)
    counting(list[str], "second")
