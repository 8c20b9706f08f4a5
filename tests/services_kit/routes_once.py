"""What FastAPI finds out of an endpoint is found out once for all apps of a test process.

It looks at an endpoint's parameters anew for every app, which takes four fifths of what services take to start, and
tests start them by the hundred. An app's endpoints are functions within a function: of the same code in each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import fastapi.routing
from fastapi.dependencies.models import Dependant

looked_at: Callable[..., Dependant] = fastapi.routing.get_dependant
_known: dict[tuple[Any, ...], Dependant] = {}


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


def install() -> None:
    fastapi.routing.get_dependant = get_dependant  # type: ignore[attr-defined]
