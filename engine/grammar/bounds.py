"""Bounds that a schema or a grammar must keep before anything compiles it: depth and repetitions.

llguidance compiles by recursion and has no bound of its own. On a stack of 8 MiB it overflows at 1,950
levels or more of the worst kinds of schemas, and at 2,500 rules; ``LEVELS`` is a quarter of that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from engine.tool_calls.schemas import children, parts_of, pointed_to
from engine.values.grammar import Grammar, GrammarKind

LEVELS = 512
"""Most levels of nested lists and objects, references followed; and most rules that name each other."""
REPETITIONS = 20_000
"""Largest count, or product of nested counts, in a regular expression: ``(a{200}){100}``."""
_UNCOUNTED = 10**12
"""A product that is not counted further: numbers of many digits take long to multiply."""

# What is not closed, which no grammar has, reaches to the end: to look for its end from each place within
# would take hours.
_PART = re.compile(
    r"\\.|\[\^?\]?(?:[^\]\\]|\\.)*\]|\[.*|(?P<open>\()|(?P<close>\))"
    r"|\{(?P<least>\d+)(?:,(?P<most>\d*))?\}|(?P<sign>[*+?])|.",
    re.DOTALL,
)
_JSON = re.compile(r"%json\s*(?=\{)")
_RULE = re.compile(
    r"^[ \t]*[?!]?([A-Za-z_][\w-]*)(?:\[[^\]\n]*\])?(?:\.-?\d+)?\s*(?:::=|:)", re.MULTILINE
)
_TEXTS = re.compile(r'"(?:[^"\\\n]|\\.)*"|/(?:[^/\\\n]|\\.)+/|(?:#|//).*|(["/].*)')
_CLASSES = re.compile(r'"(?:[^"\\\n]|\\.)*"|\[(?:[^\]\\\n]|\\.)*\]|#.*|(["\[].*)')
_NAME = re.compile(r"[A-Za-z_][\w-]*")

Links = tuple[int, Sequence[Hashable]]
"""A node's own depth, and the nodes that it refers to, each one level deeper."""


def exceeded(grammar: Grammar) -> str | None:
    """Return which bound ``grammar`` exceeds, or None. Text that cannot be read exceeds none."""
    try:
        match grammar.kind:
            case GrammarKind.JSON_SCHEMA:
                return _schema_exceeds(json.loads(grammar.text), grammar.strict)
            case GrammarKind.REGEX:
                return _pattern_exceeds(grammar.text)
            case GrammarKind.LARK | GrammarKind.GBNF:
                return _rules_exceed(grammar.text, grammar.kind is GrammarKind.GBNF)
            case GrammarKind.JSON_OBJECT:
                return None
    except RecursionError:
        return f"it is nested too deeply (at most {LEVELS} levels)"
    except ValueError:
        return None  # no JSON: whoever compiles it says where


def levels_of_schema(schema: Any) -> int:
    """Return how many levels of lists and objects are met when references inside it are followed.

    A reference back to where one came from is followed no further.
    """

    # Each value is one node, however many references lead to it, so the time is linear in the schema.
    values: dict[Hashable, tuple[Any, bool]] = {}

    def node(value: Any, is_map: bool) -> Hashable:
        key = id(value), is_map
        values[key] = value, is_map
        return key

    def links(key: Hashable) -> Links:
        value, is_map = values[key]
        found = [node(each, inner) for each, inner in children(value, is_map)]
        is_schema = isinstance(value, dict) and not is_map
        pointer = value.get("$ref") if is_schema else None
        if isinstance(pointer, str) and pointer.startswith("#"):
            found.append(node(pointed_to(schema, pointer), False))
        return int(is_schema), found

    return longest(node(schema, False), links)


def levels_of_rules(text: str, gbnf: bool = False) -> int:
    """Return how many rules of a grammar name each other one after the other."""
    plain = (_CLASSES if gbnf else _TEXTS).sub(r" \1", text)
    starts = list(_RULE.finditer(plain))
    ends = [rule.start() for rule in starts[1:]] + [len(plain)]
    bodies = {rule[1]: plain[rule.end() : end] for rule, end in zip(starts, ends, strict=True)}

    def links(name: Hashable) -> Links:
        return 1, sorted({each for each in _NAME.findall(bodies[str(name)]) if each in bodies})

    return max((longest(name, links) for name in ("start", "root") if name in bodies), default=0)


def repetitions(pattern: str) -> int:
    """Return the largest product of counts that apply to the same part of a regular expression."""
    open_, last = [1], 1
    for part in _PART.finditer(pattern):
        if part["open"]:
            open_.append(1)
            last = 1
        elif part["close"]:
            last = open_.pop() if len(open_) > 1 else 1
        elif part["least"]:
            last = min(last * max(1, int(part["most"] or part["least"])), _UNCOUNTED)
        elif not part["sign"]:
            last = 1
        open_[-1] = max(open_[-1], last)
    return max(open_)


def longest(start: Hashable, links: Callable[[Hashable], Links]) -> int:
    """Return the depth of the deepest node that is reached from ``start``; cycles are entered once."""
    known: dict[Hashable, Links] = {}
    found: dict[Hashable, int] = {}
    stack = [start]
    while stack:
        node = stack[-1]
        if node in found:
            stack.pop()
        elif node not in known:
            known[node] = links(node)
            stack.extend(other for other in known[node][1] if other not in known)
        else:
            own, others = known[node]
            found[node] = max([own, *(1 + found.get(other, 0) for other in others)])
            stack.pop()
    return found[start]


def _schema_exceeds(schema: Any, strict: bool) -> str | None:
    if (levels := levels_of_schema(schema)) > LEVELS:
        return f"its schema is {levels} levels deep with references resolved (at most {LEVELS})"
    for part in parts_of(schema, everywhere=True):
        named = part.get("patternProperties")
        patterns = [part.get("pattern"), *(named if isinstance(named, dict) else ())]
        for pattern in patterns:
            if isinstance(pattern, str) and (why := _pattern_exceeds(pattern)):
                return why
        if strict and _counts_open_names(part):
            return (
                "minProperties cannot be enforced if additionalProperties or patternProperties "
                "allow further names: one name could appear twice"
            )
    return None


def _rules_exceed(text: str, gbnf: bool) -> str | None:
    rest, at = [], 0
    for found in _JSON.finditer(text):
        if found.end() >= at:
            schema, end = json.JSONDecoder().raw_decode(text, found.end())
            if why := _schema_exceeds(schema, strict=False):
                return why
            rest.append(text[at : found.start()])
            at = end
    levels = levels_of_rules("".join([*rest, text[at:]]), gbnf)
    return None if levels <= LEVELS else f"{levels} rules refer to each other (at most {LEVELS})"


def _pattern_exceeds(pattern: str) -> str | None:
    if (count := repetitions(pattern)) <= REPETITIONS:
        return None
    return f"a regular expression repeats a part {count} times (at most {REPETITIONS})"


def _counts_open_names(part: dict[str, Any]) -> bool:
    """Return True if a count of names relies on names that may come twice: all but the required ones."""
    least, required = part.get("minProperties"), part.get("required")
    fixed = len(required) if isinstance(required, list) else 0
    is_open = part.get("additionalProperties") is not False or "patternProperties" in part
    return is_open and isinstance(least, int | float) and least - fixed >= 2
