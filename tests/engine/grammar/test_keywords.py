"""What a strict schema promises: whatever its masks allow is valid, or the schema is refused.

Random texts are drawn from the masks, and checked by a small reading of JSON Schema of our own.
"""

from __future__ import annotations

import ipaddress
import json
import random
import re
import uuid
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import numpy as np
import pytest

from engine.errors import InvalidRequest
from engine.grammar.compiler import GrammarCompiler
from engine.models.checkpoints.tokenizer import load_tokenizer
from engine.values.grammar import Grammar, GrammarKind
from tests.support.places import PIP

END = 1
BACKEND = load_tokenizer(PIP / "target").backend
NULL, INT = {"type": "null"}, {"type": "integer"}
CLOSED: dict[str, Any] = {"type": "object", "additionalProperties": False}

KEPT: list[dict[str, Any]] = [
    {**CLOSED, "properties": {"a": NULL, "b": NULL}, "required": ["b"]},
    {**CLOSED, "properties": {"a": NULL, "b": NULL}, "required": ["a", "b"], "minProperties": 2},
    {"type": "object", "additionalProperties": NULL, "minProperties": 1, "maxProperties": 2},
    {"type": "object", "additionalProperties": NULL, "required": ["a", "b"], "maxProperties": 2},
    {**CLOSED, "patternProperties": {"^x[ab]$": {"maximum": 9, **INT}}, "maxProperties": 3},
    {"type": "array", "items": {"enum": [1, "b", None]}, "minItems": 2, "maxItems": 3},
    {"type": "array", "prefixItems": [NULL, {"type": "boolean"}], "items": False, "minItems": 1},
    {"type": "string", "minLength": 2, "maxLength": 4},
    {"type": "string", "pattern": "^[ab]+$", "maxLength": 4},
    {"type": "string", "pattern": "q", "maxLength": 4},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "date-time"},
    {"type": "string", "format": "uuid"},
    {"type": "string", "format": "ipv4"},
    {"type": "string", "format": "ipv6"},
    {"minimum": -3, "maximum": 12, **INT},
    {"type": "number", "minimum": -1.5, "maximum": 2.25},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    {"multipleOf": 7, "minimum": 0, "maximum": 100, **INT},
    {"enum": [1, "x", None, [1], {"a": 2}]},
    {"const": {"a": [1, None]}},
    {"type": ["integer", "null"], "minimum": 3, "maximum": 5},
    {**INT, "enum": [1, "x", 3]},
    {**INT, "anyOf": [{"minimum": 5}, {"maximum": -5}]},
    {"allOf": [{"minimum": 5, **INT}, {"maximum": 9}]},
    {
        "allOf": [
            {"properties": {"a": NULL}, "required": ["a"], "type": "object"},
            {**CLOSED, "properties": {"a": {}}},
        ]
    },
    {"oneOf": [{**CLOSED, "properties": {"k": {"const": k}}, "required": ["k"]} for k in "ab"]},
    {"$defs": {"x": INT}, "$ref": "#/$defs/x", "minimum": 5, "maximum": 8},
    {"anyOf": [NULL, {**CLOSED, "properties": {"next": {"$ref": "#"}}, "required": ["next"]}]},
]
REFUSED: list[dict[str, Any]] = [
    {"type": "object", "additionalProperties": INT, "minProperties": 3},
    {"type": "object", "properties": {"a": NULL}, "minProperties": 2},
    {**CLOSED, "patternProperties": {"^x[ab]$": INT}, "minProperties": 2},
    {**CLOSED, "properties": {"a": NULL, "b": NULL}, "minProperties": 2},
    {"type": "object", "propertyNames": {"maxLength": 2}},
    {"type": "object", "dependentRequired": {"a": ["b"]}},
    {"type": "object", "dependentSchemas": {"a": {}}},
    {"type": "object", "unevaluatedProperties": False},
    {"type": "array", "uniqueItems": True},
    {"type": "array", "contains": INT},
    {"type": "array", "unevaluatedItems": False},
    {"not": INT},
    {"if": INT, "then": {"minimum": 3}},
    {"oneOf": [INT, {"type": "number"}]},
    {"type": "string", "format": "nonsense"},
    {"type": "object", "properties": {"a": False}, "required": ["a"]},
    {"enum": []},
    {"minimum": 5, "maximum": 3, **INT},
    {"$ref": "#"},
]
FORMATS: dict[str, Any] = {
    "date": date.fromisoformat,
    "date-time": lambda text: datetime.fromisoformat(_shortened(text)),
    "uuid": uuid.UUID,
    "ipv4": ipaddress.IPv4Address,
    "ipv6": ipaddress.IPv6Address,
}
TYPES: dict[str, Any] = {
    "null": lambda v: v is None,
    "boolean": lambda v: isinstance(v, bool),
    "integer": lambda v: isinstance(v, int | float) and not isinstance(v, bool) and v == int(v),
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
    "string": lambda v: isinstance(v, str),
    "array": lambda v: isinstance(v, list),
    "object": lambda v: isinstance(v, dict),
}


def _shortened(text: str) -> str:
    """A time that Python reads: six digits of a second, no leap second, an offset within a day."""
    text = re.sub(r"(\.\d{1,6})\d*", lambda found: found[1].ljust(7, "0"), text.upper())
    return text.replace(":60", ":59")


def valid(value: Any, schema: Any, root: Any) -> bool:
    """Whether ``value`` matches ``schema``, of the keywords that stand in ``KEPT``."""
    if isinstance(schema, bool):
        return schema
    if "$ref" in schema:
        found = root
        for name in schema["$ref"].split("/")[1:]:
            found = found[name]
        if not valid(value, found, root):
            return False
    kinds = schema.get("type", list(TYPES))
    return (
        any(TYPES[kind](value) for kind in ([kinds] if isinstance(kinds, str) else kinds))
        and ("enum" not in schema or value in schema["enum"])
        and ("const" not in schema or value == schema["const"])
        and all(valid(value, each, root) for each in schema.get("allOf", []))
        and ("anyOf" not in schema or any(valid(value, each, root) for each in schema["anyOf"]))
        and (
            "oneOf" not in schema or sum(valid(value, each, root) for each in schema["oneOf"]) == 1
        )
        and all(_of_kind(value, schema, root))
    )


def _of_kind(value: Any, schema: dict[str, Any], root: Any) -> Iterator[bool]:
    if TYPES["number"](value):
        yield schema.get("minimum", value) <= value <= schema.get("maximum", value)
        yield "exclusiveMinimum" not in schema or value > schema["exclusiveMinimum"]
        yield "exclusiveMaximum" not in schema or value < schema["exclusiveMaximum"]
        yield value % schema.get("multipleOf", value or 1) == 0
    elif isinstance(value, str):
        yield schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
        yield re.search(schema.get("pattern", ""), value) is not None
        if "format" in schema:
            FORMATS[schema["format"]](value)
    elif isinstance(value, list):
        yield schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
        fixed = schema.get("prefixItems", [])
        for at, each in enumerate(value):
            yield valid(each, fixed[at] if at < len(fixed) else schema.get("items", True), root)
    elif isinstance(value, dict):
        yield (
            schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value))
        )
        yield set(schema.get("required", [])) <= set(value)
        for name, each in value.items():
            own = [schema["properties"][name]] if name in schema.get("properties", {}) else []
            patterns = schema.get("patternProperties", {})
            own += [patterns[each] for each in patterns if re.search(each, name)]
            yield all(
                valid(each, part, root)
                for part in own or [schema.get("additionalProperties", True)]
            )


@pytest.fixture(scope="module")
def grammars() -> Iterator[GrammarCompiler]:
    made = GrammarCompiler(BACKEND.to_str, 4096, (END,))
    yield made
    made.close()


@pytest.mark.parametrize("schema", KEPT, ids=json.dumps)
def test_whatever_the_masks_allow_is_valid(
    grammars: GrammarCompiler, schema: dict[str, Any]
) -> None:
    whole = 0
    for seed in range(12):
        draw, text = random.Random(seed), list[int]()
        matcher = grammars.compiled(Grammar(GrammarKind.JSON_SCHEMA, json.dumps(schema))).start()
        while len(text) < 60:
            mask = matcher.mask()
            assert mask is not None
            choice = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
            if END in choice and (len(choice) == 1 or draw.random() < 0.5 or len(text) > 20):
                value = json.loads(BACKEND.decode(text, skip_special_tokens=False))
                assert valid(value, schema, schema), value
                whole += 1
                break
            # A quote ends a text that random letters would go on with.
            closing = [
                each for each in choice if BACKEND.decode([each]).startswith(('"', "}", "]"))
            ]
            ending = closing if closing and draw.random() < 0.5 else choice[choice != END]
            text.append(int(draw.choice(list(ending))))
            matcher.consume(text[-1:])
    assert whole


@pytest.mark.parametrize("schema", REFUSED, ids=json.dumps)
def test_what_cannot_be_kept_is_refused(grammars: GrammarCompiler, schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=r"grammar cannot be compiled as json_schema: .+"):
        grammars.compiled(Grammar(GrammarKind.JSON_SCHEMA, json.dumps(schema))).start()
