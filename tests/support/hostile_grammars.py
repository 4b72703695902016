"""Grammars that strangers may send to end, fill or stall the app, and what refuses each."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from engine.values.grammar import Grammar, GrammarKind


def defs(count: int, link: Callable[[dict[str, str]], Any]) -> str:
    """A schema of ``count`` definitions, each made by ``link`` of a reference to the next."""
    chain = {f"d{at}": link({"$ref": f"#/$defs/d{at + 1}"}) for at in range(count)}
    return json.dumps({"$defs": {**chain, f"d{count}": {"type": "string"}}, "$ref": "#/$defs/d0"})


def rules(count: int, sign: str, first: str, back: bool = False) -> str:
    lines = [f"{first}{sign} r0"]
    lines += [f'r{at}{sign} r{(at + 1) % count if back else at + 1} | "y"' for at in range(count)]
    return "\n".join([*lines, f'r{count}{sign} "x"']) + "\n"


def inside(ref: dict[str, str]) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": ref}, "required": ["a"]}


SCHEMA, REGEX, LARK, GBNF = (
    GrammarKind.JSON_SCHEMA,
    GrammarKind.REGEX,
    GrammarKind.LARK,
    GrammarKind.GBNF,
)
DEEP = "(at most 512|512 levels)"
RECURSIVE = {"type": "object", "properties": {"c": {"$ref": "#"}}, "required": ["c"]}

LATE = Grammar(REGEX, "[a-z ]{120}" + "a?" * 2000 + "a" * 2000)
"""Passes its trial, and has too many states behind some twenty tokens."""

HOSTILE: dict[str, tuple[Grammar, str]] = {
    "3,000 references": (Grammar(SCHEMA, defs(3000, lambda ref: ref)), DEEP),
    "1,000 objects": (Grammar(SCHEMA, defs(1000, inside)), DEEP),
    "3,000 anyOf": (
        Grammar(SCHEMA, defs(3000, lambda ref: {"anyOf": [{"type": "null"}, ref]})),
        DEEP,
    ),
    "3,000 allOf": (
        Grammar(SCHEMA, defs(3000, lambda ref: {"allOf": [{"minLength": 1}, ref]})),
        DEEP,
    ),
    "3,000 items": (Grammar(SCHEMA, defs(3000, lambda ref: {"items": ref})), DEEP),
    "3,000 references in Lark": (
        Grammar(LARK, f"start: %json {defs(3000, lambda ref: ref)}\n"),
        DEEP,
    ),
    "3,000 brackets": (Grammar(SCHEMA, '{"not":' * 3000 + "{}" + "}" * 3000), DEEP),
    "5,000 rules of Lark": (Grammar(LARK, rules(5000, ":", "start")), DEEP),
    "a cycle of 5,000 rules": (Grammar(LARK, rules(5000, ":", "start", back=True)), DEEP),
    "5,000 rules of GBNF": (Grammar(GBNF, rules(5000, " ::=", "root")), DEEP),
    "(a{1100}){1000}": (Grammar(REGEX, "(a{1100}){1000}"), "1100000 times .at most 20000"),
    "(a{1000}){1000} in a schema": (
        Grammar(SCHEMA, json.dumps({"type": "string", "pattern": "^(a{1000}){1000}$"})),
        "1000000 times .at most 20000",
    ),
    "a{1000000}": (Grammar(REGEX, "a{1000000}"), "1000000 times .at most 20000"),
    "a? 30,000 times": (Grammar(REGEX, "a?" * 30000 + "a" * 30000), "its trial .+"),
    "a? 2,000 times": (Grammar(REGEX, "a?" * 2000 + "a" * 2000), "too many expressions"),
    "5,000 open properties": (
        Grammar(
            SCHEMA,
            json.dumps(
                {
                    "properties": {f"p{at}": {"type": "string"} for at in range(5000)},
                    "type": "object",
                }
            ),
        ),
        "(its trial|one token takes|it fails after)",
    ),
    "nothing": (Grammar(REGEX, r"[^\s\S]"), "no text matches it"),
    "itself": (Grammar(SCHEMA, '{"$ref": "#"}'), "no text matches it"),
    "itself inside": (
        Grammar(SCHEMA, json.dumps(RECURSIVE)),
        "(fails after 0 tokens|one token takes)",
    ),
    "a text of a megabyte": (
        Grammar(SCHEMA, json.dumps({"const": "ab " * 300_000})),
        "one token takes",
    ),
}
"""Each with what its refusal says."""
