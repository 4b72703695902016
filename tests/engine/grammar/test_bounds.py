"""Depth and repetitions of schemas, grammars and expressions, read without compiling them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.grammar import bounds
from engine.tool_calls.schemas import close, leaves_names_open
from engine.values.grammar import LONGEST_GRAMMAR, Grammar, GrammarKind
from tests.support.hostile_grammars import defs, inside, rules


@given(st.integers(1, 60), st.integers(1, 5), st.randoms())
def test_levels_are_those_of_the_longest_way_in_whatever_order(
    links: int, wraps: int, draw: Any
) -> None:
    """A chain of references, each ``wraps`` lists deep, its definitions in any order, one that nobody
    refers to, and a way back to the root, which is entered once."""
    names = [f"d{at}" for at in range(links)]
    schemas: dict[str, Any] = {}
    for at, name in enumerate(names):
        value: Any = {"$ref": f"#/$defs/{names[at + 1]}" if at + 1 < links else "#"}
        for _ in range(wraps):
            value = {"items": value}
        schemas[name] = value
    schemas["unused"] = {"items": {"items": {}}}
    order = sorted(schemas, key=lambda _: draw.random())
    schema = {"$defs": {name: schemas[name] for name in order}, "$ref": "#/$defs/d0"}
    assert bounds.levels_of_schema(schema) == 1 + links * (wraps + 1)


@pytest.mark.parametrize("pointer", ["#x{}", "#/anyOf/{}", "#"])
def test_every_value_is_looked_at_once_however_many_references_lead_to_it(
    pointer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """80 KB of references to the root took 54 s, in the server itself."""
    seen: list[object] = []
    read = bounds.children
    monkeypatch.setattr(bounds, "children", lambda *value: seen.append(value) or read(*value))
    schema = {"anyOf": [{"$ref": pointer.format(at)} for at in range(2_000)]}
    bounds.levels_of_schema(schema)
    assert len(seen) < 3 * 2_000


@given(st.integers(1, 200), st.booleans())
def test_rules_are_counted_along_their_names(count: int, back: bool) -> None:
    for sign, first, gbnf in ((":", "start", False), (" ::=", "root", True)):
        text = rules(count, sign, first, back)
        assert bounds.levels_of_rules(text, gbnf) == count + (1 if back else 2)


def test_names_in_texts_and_comments_are_no_rules() -> None:
    text = 'start: "a b" /b/ a // b\na: "x" # b\nb: b "y" c\nc: "z"\n'
    assert bounds.levels_of_rules(text) == 2
    assert bounds.levels_of_rules('root ::= [a"] "b" a\na ::= "x"\nb ::= a\n', gbnf=True) == 2


EXPRESSIONS = st.recursive(
    st.sampled_from([("a", 1), (r"\(", 1), (r"[(){9}]", 1), (r"\{", 1), (".", 1)]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: (two[0][0] + two[1][0], max(two[0][1], two[1][1]))),
        st.tuples(inner, inner).map(
            lambda two: (f"({two[0][0]}|{two[1][0]})", max(two[0][1], two[1][1]))
        ),
        st.tuples(inner, st.integers(1, 50)).map(
            lambda one: (f"({one[0][0]}){{{one[1]}}}", one[0][1] * one[1])
        ),
        st.tuples(inner, st.integers(1, 50)).map(
            lambda one: (f"(?:{one[0][0]}){{0,{one[1]}}}?", one[0][1] * one[1])
        ),
        inner.map(lambda one: (f"({one[0]})*", one[1])),
    ),
    max_leaves=12,
)


@given(EXPRESSIONS)
def test_repetitions_are_the_product_of_nested_counts(made: tuple[str, int]) -> None:
    pattern, count = made
    assert bounds.repetitions(pattern) == count


@given(st.text(alphabet="(){}[]|*+?\\,a19^-\n", max_size=60))
def test_no_expression_is_too_odd_to_be_read(pattern: str) -> None:
    assert bounds.repetitions(pattern) >= 1
    bounds.exceeded(Grammar(GrammarKind.LARK, f"start: /{pattern}/ {pattern} %json {{{pattern}"))


@pytest.mark.parametrize("unclosed", ["[", "[\\]", '\\"', "\\/", "a{9}"])
def test_what_is_never_closed_is_read_once(unclosed: str) -> None:
    """A million "[" were looked at from each of them on: hours, in which nothing else ran."""
    text = unclosed * (LONGEST_GRAMMAR // len(unclosed) - 20)
    for kind in (GrammarKind.REGEX, GrammarKind.LARK, GrammarKind.GBNF):
        for begun in ("", 'start: "', "start: /", "root ::= ["):
            bounds.exceeded(Grammar(kind, begun + text))


def test_what_is_within_the_bounds_passes() -> None:
    for text in (
        defs(500, lambda ref: ref),
        defs(160, inside),
        '{"pattern": "(a{100}){200}"}',
        "{",
    ):
        assert bounds.exceeded(Grammar(GrammarKind.JSON_SCHEMA, text)) is None
    for kind, text in (
        (GrammarKind.LARK, rules(500, ":", "start")),
        (GrammarKind.GBNF, rules(500, " ::=", "root")),
    ):
        assert bounds.exceeded(Grammar(kind, text)) is None


@pytest.mark.parametrize(
    ("schema", "kept"),
    [
        ({"minProperties": 3}, False),
        ({"minProperties": 1}, True),
        ({"minProperties": 3, "required": ["a", "b"]}, True),
        ({"minProperties": 3, "required": ["a"]}, False),
        ({"minProperties": 3, "additionalProperties": False}, True),
        (
            {"minProperties": 3, "additionalProperties": False, "patternProperties": {"x": {}}},
            False,
        ),
        ({"properties": {"minProperties": {"const": {"minProperties": 9}}}}, True),
        ({"$defs": {"a": {"items": {"minProperties": 2}}}}, False),
    ],
)
def test_a_count_of_names_is_kept_or_refused(schema: dict[str, Any], kept: bool) -> None:
    """llguidance lets an open name come twice, and counts it twice."""
    text = json.dumps(schema)
    assert (bounds.exceeded(Grammar(GrammarKind.JSON_SCHEMA, text)) is None) == kept
    assert bounds.exceeded(Grammar(GrammarKind.JSON_SCHEMA, text, strict=False)) is None


@pytest.mark.parametrize(
    ("schema", "open_"),
    [
        ({"type": "object"}, True),
        ({}, True),
        ({"type": ["object", "null"]}, True),
        ({"type": "array"}, True),
        ({"type": "array", "items": {"title": "Anything"}}, True),
        ({"type": "array", "items": {"type": "string"}}, False),
        ({"enum": [{"a": 1}]}, False),
        ({"type": "object", "additionalProperties": False}, False),
        ({"properties": {"a": {}}, "additionalProperties": {"type": "null"}}, True),
        ({"additionalProperties": False, "patternProperties": {"a": {}}, "type": "object"}, True),
        ({"type": "array", "items": {"anyOf": [{"type": "object"}]}}, True),
        ({"properties": {"properties": {"enum": [{}]}}, "additionalProperties": False}, False),
        ({"$defs": {"a": {"type": "object"}}, "type": "string"}, True),
    ],
)
def test_objects_whose_names_are_open_are_found(schema: dict[str, Any], open_: bool) -> None:
    assert leaves_names_open(schema) == open_


OBJECT = {"type": "object", "properties": {"a": {}}}


@pytest.mark.parametrize(
    ("schema", "closed"),
    [
        (OBJECT, True),
        ({"$defs": {"A": OBJECT}, "allOf": [{"$ref": "#/$defs/A"}]}, True),  # as pydantic writes it
        ({"properties": {"properties": {"anyOf": [OBJECT, {"type": "null"}]}}}, True),
        ({**OBJECT, "additionalProperties": True}, False),
        ({"type": "object"}, False),
        ({"const": OBJECT}, False),
        ({"$defs": {"A": OBJECT}, "allOf": [OBJECT, {"$ref": "#/$defs/A"}]}, False),
        ({**OBJECT, "anyOf": [OBJECT]}, False),
        ({"if": OBJECT, "allOf": 3}, False),
    ],
)
def test_only_what_lists_all_of_an_objects_names_is_closed(schema: Any, closed: bool) -> None:
    copy = json.loads(json.dumps(schema))
    close(copy)
    assert ('"additionalProperties": false' in json.dumps(copy)) == closed
    assert closed or copy == schema
