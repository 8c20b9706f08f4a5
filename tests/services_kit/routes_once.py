"""What FastAPI finds out of an endpoint is found out once for all apps of a test process.

It looks at an endpoint's parameters and at what it answers anew for every app, and once more for every router in it.
That is most of what services take to start, and tests start them by the hundred. An app's endpoints are functions
within a function: of the same code in each. What they answer is of the same types.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import fastapi.routing
from fastapi._compat import ModelField
from fastapi.dependencies.models import Dependant

looked_at: Callable[..., Dependant] = fastapi.routing.get_dependant
made_field: Callable[..., ModelField] = fastapi.routing.create_model_field
made_body: Callable[..., ModelField | None] = fastapi.routing._get_body_field
_known: dict[tuple[Any, ...], Dependant] = {}
_fields: dict[tuple[Any, ...], ModelField] = {}
_bodies: dict[tuple[Any, ...], tuple[list[ModelField], ModelField | None]] = {}
BODIES_MAX = 1000
"""Those of endpoints that are looked at for every app are new in each, and are not found here again."""


def get_dependant(*, path: str, call: Callable[..., Any], **how: Any) -> Dependant:
    code = getattr(call, "__code__", None)
    key = (code, path, repr(call.__defaults__), repr(call.__kwdefaults__), repr(how)) if code else ()
    found = _known.get(key)
    if found is None:
        found = looked_at(path=path, call=call, **how)
        if not code or found.dependencies:  # those are functions of one app
            return found
        _known[key] = replace(found, call=None)
    return replace(found, call=call, dependencies=[])


def create_model_field(name: str, type_: Any, mode: str) -> ModelField:
    """Of what an endpoint answers."""
    key = (name, type_, mode)
    if key not in _fields:
        _fields[key] = made_field(name=name, type_=type_, mode=mode)
    return _fields[key]


def get_body_field(*, body_params: list[ModelField], name: str, embed_body_fields: bool) -> ModelField | None:
    key = (name, embed_body_fields, *map(id, body_params))
    if key not in _bodies:
        found = made_body(body_params=body_params, name=name, embed_body_fields=embed_body_fields)
        if len(_bodies) >= BODIES_MAX:
            return found
        _bodies[key] = body_params, found  # they are held: another's identity is not theirs
    return _bodies[key][1]


def install() -> None:
    fastapi.routing.get_dependant = get_dependant  # type: ignore[attr-defined]
    fastapi.routing.create_model_field = create_model_field  # type: ignore[attr-defined]
    fastapi.routing._get_body_field = get_body_field
