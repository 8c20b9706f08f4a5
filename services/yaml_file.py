"""YAML files that people write: of bounded length, also with what its aliases repeat, and with no key twice, of which
the last would count."""

from __future__ import annotations

import os
from typing import Any

import yaml

BYTES_MAX = 8 << 20
REPEATED_MAX = 100_000
"""Values that aliases stand for: nine of nine of nine … make a billion of a few lines."""
MERGE = "tag:yaml.org,2002:merge"


class YamlError(ValueError):
    """What is wrong with a file, as a sentence that goes on behind its name."""


class _Strict(yaml.SafeLoader):
    """YAML lets a key stand twice; a file of settings must not."""


def _mapping(loader: _Strict, node: yaml.MappingNode) -> dict[object, object]:
    known = set[object]()
    for key in [loader.construct_object(key) for key, _ in node.value if key.tag != MERGE]:
        if not isinstance(key, str | int | float | bool | None):
            raise yaml.YAMLError("a list or a mapping is no key")
        if key in known:
            raise yaml.YAMLError(f"{key} stands there twice")
        known.add(key)
    loader.flatten_mapping(node)  # `<<`: what it brings stands before the mapping's own
    return {loader.construct_object(k): loader.construct_object(v, deep=True) for k, v in node.value}


_Strict.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def _load(content: bytes) -> Any:
    loader = _Strict(content)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        own = dict[int, int]()
        if _values(node, own) - len(own) > REPEATED_MAX:
            raise YamlError(f"repeats more than {REPEATED_MAX} values by its aliases")
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _values(node: yaml.Node, known: dict[int, int]) -> int:
    """How many a node stands for, those that aliases repeat too. `known`: of each node, once."""
    if id(node) in known:
        if not known[id(node)]:
            raise YamlError("has an alias that is a part of itself")
        return known[id(node)]
    known[id(node)] = 0
    inside = node.value if isinstance(node, yaml.CollectionNode) else ()
    found = 1
    for one in inside:
        found += sum(_values(part, known) for part in (one if isinstance(one, tuple) else (one,)))
    known[id(node)] = found
    return found


def read(path: str | os.PathLike[str], most: int = BYTES_MAX) -> Any:
    """What is in a file of at most so many bytes. Raises OSError and YamlError."""
    with open(path, "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise YamlError(f"is longer than {most} bytes")
    try:
        return _load(content)
    except YamlError:
        raise
    except RecursionError:
        raise YamlError("is nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        raise YamlError(f"is no YAML: {error}") from error
