"""Walk a JSON schema's subschemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose value maps names to schemas."""
_VALUES = frozenset({"const", "enum", "default", "examples", "$defs", "definitions"})
"""Keywords whose value is no schema of this place."""

_SAME_PLACE = frozenset({"properties", "$ref", "allOf", "anyOf", "oneOf"})
_CONDITIONS = frozenset({"not", "if", "dependentSchemas", "unevaluatedProperties"})
"""Keywords of which one makes an object's names depend on another part, and two of those above do."""

_NOTES = frozenset({"title", "description", "default", "examples", "deprecated", "$comment"})
"""Keywords that restrict nothing."""


def children(
    value: Any, is_map: bool = False, everywhere: bool = False
) -> Iterator[tuple[Any, bool]]:
    """Yield what lies directly in ``value`` where schemas may be, and whether it maps names to schemas.

    ``is_map``: ``value`` is such a map itself. ``everywhere``: definitions too.
    """
    if isinstance(value, list):
        yield from ((each, False) for each in value)
    elif isinstance(value, dict):
        for name, each in value.items():
            defines = name in ("$defs", "definitions")
            if is_map or name not in _VALUES or (defines and everywhere):
                yield each, not is_map and name in _MAPS


def parts_of(schema: Any, everywhere: bool = False) -> Iterator[dict[str, Any]]:
    """Yield each object of ``schema`` that is a schema; definitions too if ``everywhere``."""
    left: list[tuple[Any, bool]] = [(schema, False)]
    while left:
        value, is_map = left.pop()
        if isinstance(value, dict) and not is_map:
            yield value
        left.extend(children(value, is_map, everywhere))


def pointed_to(schema: Any, pointer: str) -> Any:
    """Return the part of ``schema`` that a JSON pointer behind ``#`` names; None where there is none."""
    for part in pointer.removeprefix("#").split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        try:
            schema = schema[int(name)] if isinstance(schema, list) else schema[name]
        except (LookupError, TypeError, ValueError):
            return None
    return schema


def close(schema: Any) -> None:
    """Forbid names that objects of ``schema`` do not list, in place, as llama.cpp reads a schema: without
    ``additionalProperties``. A schema whose parts apply to one object together is left as it is: a part
    would forbid the names of another."""
    parts = [part for part in parts_of(schema, everywhere=True) if "properties" in part]
    if not any(map(_combines, parts_of(schema, everywhere=True))):
        for part in parts:
            if "patternProperties" not in part:
                part.setdefault("additionalProperties", False)


def _combines(part: dict[str, Any]) -> bool:
    every = part.get("allOf")
    several = len(part.keys() & _SAME_PLACE) > 1 or (isinstance(every, list) and len(every) > 1)
    return several or bool(part.keys() & _CONDITIONS)


def leaves_names_open(schema: Any) -> bool:
    """Return True if an object of ``schema`` allows names that it does not list: these may come twice."""
    return any(_is_open(part) for part in parts_of(schema, everywhere=True))


def _is_open(part: dict[str, Any]) -> bool:
    kinds = part.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if part.keys() <= _NOTES or ("array" in kinds and not part.keys() & {"items", "prefixItems"}):
        return True  # any value, objects among them
    closed = part.get("additionalProperties") is False and "patternProperties" not in part
    return not closed and ("object" in kinds or isinstance(part.get("properties"), dict))
