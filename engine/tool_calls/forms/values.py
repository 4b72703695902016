"""What a schema says of one value, for forms that write some values otherwise than JSON does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

ALL = frozenset({"string", "number", "integer", "boolean", "null", "object", "array"})
_DEEPEST = 16
"""References and alternatives that are followed."""
_KINDS = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def resolved(schema: Any, root: Schema) -> Schema:
    """Return ``schema`` with a reference inside ``root`` replaced by what it names; {} for anything."""
    for _ in range(_DEEPEST):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        found: Any = root
        for step in reference[2:].split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        schema = found
    return {}


def kinds_of(schema: Any, root: Schema, deep: int = 0) -> frozenset[str]:
    """Return the types that ``schema`` allows, all where it does not say."""
    found = resolved(schema, root)
    kind = found.get("type")
    if kind is not None:
        return frozenset(kind if isinstance(kind, list) else [kind]) & ALL or ALL
    values = literals_of(found)
    if values is not None:
        return frozenset(kind_of(value) for value in values)
    for name in ("anyOf", "oneOf"):
        if isinstance(found.get(name), list) and found[name] and deep < _DEEPEST:
            return frozenset().union(*(kinds_of(one, root, deep + 1) for one in found[name]))
    return ALL


def literals_of(schema: Schema) -> list[Any] | None:
    """Return the values of an enumeration or a constant; None if it is neither."""
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) and values else None


def kind_of(value: Any) -> str:
    """Return the type of a JSON value."""
    return _KINDS.get(type(value), "array" if isinstance(value, list) else "object")


def within(schema: Schema, root: Schema) -> dict[str, Any]:
    """Return ``schema`` with the definitions of ``root``, so that its references lead somewhere."""
    defined = {name: root[name] for name in ("$defs", "definitions") if name in root}
    return {**defined, **schema}
