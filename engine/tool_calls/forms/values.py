"""What a schema says of one value, for forms that write some values otherwise than JSON does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.errors import InvalidRequest

Schema = Mapping[str, Any]

ALL = frozenset({"string", "number", "integer", "boolean", "null", "object", "array"})
_DEEPEST, _MOST = 16, 256
"""References that are followed one after the other, and alternatives of one value, at most."""
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


def kinds_of(schema: Any, root: Schema) -> frozenset[str]:
    """Return the types that ``schema`` allows, all where it does not say or says it in too many steps."""
    kinds: set[str] = set()
    left = [schema]
    for _ in range(_MOST):
        if not left:
            return frozenset(kinds)
        found = resolved(left.pop(), root)
        kind, values = found.get("type"), literals_of(found)
        ways = found.get("anyOf") or found.get("oneOf")
        if kind is not None:
            kinds |= {
                each for each in ALL if each == kind or (isinstance(kind, list) and each in kind)
            }
        elif values is not None:
            kinds |= {kind_of(value) for value in values}
        elif isinstance(ways, list):
            left += ways[:_MOST]
        else:
            return ALL
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


def check_enforced(schema: Schema, strict: bool) -> None:
    """Raise InvalidRequest for a keyword of a string that a form cannot enforce, where it must be."""
    names = [name for name in ("pattern", "format", "minLength", "maxLength") if name in schema]
    if strict and names:
        raise InvalidRequest(
            "tools",
            f"tools: this model writes strings without JSON quotes, so {names[0]} cannot be "
            "enforced. Leave it out, or leave strict out.",
        )
