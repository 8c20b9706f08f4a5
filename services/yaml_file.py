"""YAML files that people write: of bounded length, and with no key twice, of which the last would count."""

from __future__ import annotations

import os
from typing import Any

import yaml

BYTES_MAX = 8 << 20
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


def read(path: str | os.PathLike[str], most: int = BYTES_MAX) -> Any:
    """What is in a file of at most so many bytes. Raises OSError and YamlError."""
    with open(path, "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise YamlError(f"is longer than {most} bytes")
    try:
        return yaml.load(content, _Strict)
    except RecursionError:
        raise YamlError("is nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        raise YamlError(f"is no YAML: {error}") from error
