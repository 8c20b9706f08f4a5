"""Records that msgspec reads and writes and /openapi.json describes: what a member means is what stands under it."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

import msgspec
from msgspec import structs

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema


class Described:
    """Mixed into what a service answers, a Struct. pydantic, which describes it, never reads or writes one."""

    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        members = {}
        for field in _fields(cls):
            schema = handler.generate_schema(_told(field.type))
            if field.default is None or isinstance(field.default, bool | int | float | str):
                schema = core_schema.with_default_schema(schema, default=field.default)
            members[field.encode_name] = core_schema.typed_dict_field(schema, required=field.required)
        name = f"{cls.__module__}.{cls.__qualname__}:{id(cls)}"
        return core_schema.typed_dict_schema(members, ref=name)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        described = handler(schema)
        whole = handler.resolve_ref_schema(described)
        whole["title"] = cls.__name__
        if text := cls.__dict__.get("__doc__"):
            whole["description"] = inspect.cleandoc(text)
        notes = {name: text for base in reversed(cls.__mro__) for name, text in _notes(base).items()}
        for field in _fields(cls):
            if text := notes.get(field.name):
                whole["properties"][field.encode_name]["description"] = text
        return described


_known: dict[type, tuple[structs.FieldInfo, ...]] = {}


def _fields(form: type) -> tuple[structs.FieldInfo, ...]:
    """Found out once: it is asked for by each route in which it stands."""
    if form not in _known:
        assert issubclass(form, msgspec.Struct)
        _known[form] = structs.fields(form)
    return _known[form]


def part_of(form: type[msgspec.Struct], name: str, *members: str) -> type[msgspec.Struct]:
    """A form with these members of another, and any of the others."""
    parts = [
        (f.name, f.type) if f.name in members else (f.name, f.type | msgspec.UnsetType, msgspec.UNSET)
        for f in structs.fields(form)
    ]
    return msgspec.defstruct(name, parts, bases=(Described, msgspec.Struct), kw_only=True)


def _told(kind: Any) -> Any:
    """The type of a member that is there."""
    if get_origin(kind) in (Union, types.UnionType):
        return Union[tuple(part for part in get_args(kind) if part is not msgspec.UnsetType)]  # noqa: UP007 (of a tuple)
    return kind


@cache
def _notes(form: type) -> dict[str, str]:
    """What stands under the members that a class itself has."""
    if not issubclass(form, Described) or form is Described:
        return {}
    try:
        source = inspect.getsource(form)
    except OSError:  # made by part_of
        return {}
    (whole,) = ast.parse(textwrap.dedent(source)).body
    assert isinstance(whole, ast.ClassDef)
    return {
        member.target.id: " ".join(note.value.value.split())
        for member, note in pairwise(whole.body)
        if isinstance(member, ast.AnnAssign)
        and isinstance(member.target, ast.Name)
        and isinstance(note, ast.Expr)
        and isinstance(note.value, ast.Constant)
        and isinstance(note.value.value, str)
    }
