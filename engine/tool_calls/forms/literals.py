"""Arguments as literals: Gemma 4's ``{city:<|"|>Rome<|"|>}`` and LFM2's ``city="Rome", days=3)``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.tool_calls.forms.json_form import json_rule
from engine.tool_calls.forms.parameters import (
    check_enforced,
    kinds_of,
    literals_of,
    resolved,
    within,
)
from engine.values.tools import json_text

_DEEPEST = 32
"""Containers in containers; what is deeper is read as text, and any value by a grammar."""
_MOST_RULES = 2000
"""Rules of one tool, behind which a grammar takes any value: a schema may refer to itself."""


@dataclass(frozen=True, slots=True)
class Literals:
    """``opening`` NAME ``is_`` VALUE ``comma`` ... ``end``. ``quote`` stands around strings."""

    opening: str
    is_: str
    comma: str
    end: str
    quote: str
    words: Mapping[str, str]


GEMMA = Literals("{", ":", ",", "}", '<|"|>', {"true": "true", "false": "false", "null": "null"})
PYTHON = Literals("", "=", ", ", ")", '"', {"true": "True", "false": "False", "null": "None"})
_WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_INNER = {quote: re.compile(rf"(?:[^{quote}\\]|\\.)*", re.DOTALL) for quote in "\"'"}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_NUMBER = re.compile(r"-?\d{1,200}(\.\d+)?([eE][+-]?\d{1,2})?")
_WORD = re.compile(r"[^\s,:=()\[\]{}'\"<]+")


class LiteralReader:
    """Reads the arguments of one call into a JSON object, once they are whole."""

    def __init__(self, style: Literals) -> None:
        self._style = style
        self._text, self._at = "", len(style.opening)
        self._depth, self._quote = 1, ""  # open brackets, and what ends the open string
        self.ended = False

    def read(self, text: str) -> tuple[int, str]:
        self._text += text
        self._scan()
        if not self.ended:
            return len(text), ""
        parser = _Parser(self._text[: self._at])
        parser.at = len(self._style.opening)
        value = parser.pairs(self._style.end, 0)
        return len(text) - (len(self._text) - self._at), json_text(value)

    def _scan(self) -> None:
        """Go on to the last bracket, or as far as it is certain what the text is."""
        text = self._text
        while self._at < len(text) and not self.ended:
            at = self._at
            if self._quote:
                if len(text) < at + len(self._quote) and self._quote.startswith(text[at:]):
                    return
                step = 2 if len(self._quote) == 1 and text[at] == "\\" else 1
                if text.startswith(self._quote, at):
                    step, self._quote = len(self._quote), ""
                self._at += step
            elif text[at] == "<":
                if len(text) < at + len(GEMMA.quote) and GEMMA.quote.startswith(text[at:]):
                    return
                self._quote = GEMMA.quote if text.startswith(GEMMA.quote, at) else ""
                self._at += len(self._quote) or 1
            else:
                self._at += 1
                self._quote = text[at] if text[at] in "\"'" else ""
                self._depth += (text[at] in "([{") - (text[at] in ")]}")
                self.ended = not self._depth


class _Parser:
    """Parses literals, of both kinds. What it cannot read is text."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def pairs(self, end: str, deep: int) -> dict[str, Any]:
        """Read pairs of a name and a value up to and with ``end``."""
        found: dict[str, Any] = {}
        while not self._passed(end) and self.at < len(self.text):
            name = self.value(deep + 1)
            self._passed(":") or self._passed("=")
            found[name if isinstance(name, str) else json.dumps(name)] = self.value(deep + 1)
            self._passed(",")
        return found

    def value(self, deep: int) -> Any:
        self._skip()
        text, begin = self.text, self.at
        if deep > _DEEPEST:
            self.at = len(text)
            return text[begin:]
        if self._passed("{"):
            return self.pairs("}", deep)
        if self._passed("["):
            items: list[Any] = []
            while not self._passed("]") and self.at < len(text):
                items.append(self.value(deep + 1))
                self._passed(",")
            return items
        for quote in (GEMMA.quote, '"', "'"):
            if text.startswith(quote, begin):
                return self._string(quote)
        word = _WORD.match(text, begin)
        self.at = word.end() if word else begin + 1
        return _plain(text[begin : self.at])

    def _string(self, quote: str) -> str:
        begin = self.at + len(quote)
        if len(quote) > 1:
            end = self.text.find(quote, begin)
            self.at = len(self.text) if end < 0 else end + len(quote)
            return self.text[begin : self.at if end < 0 else end]
        inner = _INNER[quote].match(self.text, begin)
        assert inner is not None  # it matches nothing too
        self.at = inner.end() + 1
        return _ESCAPE.sub(_unescaped, inner[0])

    def _passed(self, mark: str) -> bool:
        self._skip()
        passed = self.text.startswith(mark, self.at)
        self.at += len(mark) if passed else 0
        return passed

    def _skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1


def _unescaped(found: re.Match[str]) -> str:
    if len(found[1]) > 1:
        return chr(int(found[1][1:], 16))
    return _ESCAPES.get(found[1], found[1])


def _plain(word: str) -> Any:
    if word in _WORDS:
        return _WORDS[word]
    if not _NUMBER.fullmatch(word):
        return word
    return float(word) if set(word) & set(".eE") else int(word)


class Rules:
    """Lark rules of one tool's arguments; ``made`` are all of them."""

    def __init__(
        self,
        style: Literals,
        name: str,
        schema: Mapping[str, Any],
        quoted: Callable[[str], str],
        strict: bool,
    ) -> None:
        self._style, self._name, self._root = style, name, schema
        self._quoted, self._strict = quoted, strict
        self.made = [""]
        self._any = False
        whole = self._members(schema, 0)
        self.made[0] = f"{name}: {quoted(style.opening)} {whole} {quoted(style.end)}"
        if self._any:
            self.made += self._anything()

    def _rule(self, body: str) -> str:
        """Add a rule and return its name."""
        name = f"{self._name}_{len(self.made)}"
        self.made.append(f"{name}: {body}")
        return name

    def _members(self, schema: Mapping[str, Any], deep: int) -> str:
        """Return the rule of an object's pairs, in the order of the schema; Gemma's are sorted."""
        properties = schema.get("properties")
        if not isinstance(properties, Mapping) or not properties:
            self._any = True
            return f"{self._name}_pairs?" if self._style is GEMMA else f"{self._name}_named?"
        required = schema.get("required")
        needed = required if isinstance(required, list) else []
        names = sorted(properties, key=str.lower) if self._style is GEMMA else [*properties]
        comma = self._quoted(self._style.comma)
        behind = first = '""'  # what may follow, with a pair before it and with none
        for name in reversed(names):
            value = self._value(properties[name], deep + 1)
            pair = f"{self._quoted(name + self._style.is_)} {value}"
            alone = f"{pair} {behind}"
            first = self._rule(alone if name in needed else f"{alone} | {first}")
            more = f"{comma} {pair} {behind}"
            behind = self._rule(more if name in needed else f"{more} | {behind}")
        return first

    def _value(self, schema: Any, deep: int) -> str:
        if deep > _DEEPEST or len(self.made) > _MOST_RULES:
            self._any = True
            return f"{self._name}_any"
        found = resolved(schema, self._root)
        values = literals_of(found)
        if values is not None:
            return self._rule(" | ".join(self._literal(each) for each in values))
        kinds = kinds_of(found, self._root)
        if self._style is PYTHON and not kinds & {"string", "boolean", "null"}:
            return self._rule(json_rule(within(found, self._root), self._strict))
        single = found.get("type") is not None and len(kinds) == 1
        ways = []
        for kind in sorted(kinds):
            own = {**found, "type": kind} if single else {"type": kind}
            ways.append(self._kind(kind, own, deep))
        return self._rule(" | ".join(ways))

    def _kind(self, kind: str, schema: Mapping[str, Any], deep: int) -> str:
        words = self._style.words
        match kind:
            case "string":
                check_enforced(schema, self._strict)
                self._any = True
                return f"{self._name}_string"
            case "boolean":
                return f'"{words["true"]}" | "{words["false"]}"'
            case "null":
                return f'"{words["null"]}"'
            case "array" | "object" if self._style is PYTHON:
                return json_rule(within(schema, self._root), self._strict)
            case "array":
                item = self._value(schema["items"], deep + 1) if "items" in schema else None
                self._any = self._any or item is None
                one = item or f"{self._name}_any"
                return f'"[" ({one} ("," {one})*)? "]"'
            case "object":
                return f'"{{" {self._members(schema, deep)} "}}"'
            case _:
                return json_rule(schema, self._strict)

    def _literal(self, value: Any) -> str:
        if isinstance(value, str) and self._style is GEMMA:
            quote = self._style.quote
            return self._quoted(f"{quote}{value}{quote}")
        text = json.dumps(value, ensure_ascii=False)
        if isinstance(value, str) and not set(value) & {"'", "\\"}:
            return f"""({self._quoted(text)} | {self._quoted(f"'{value}'")})"""
        return self._quoted(self._style.words.get(text, text))

    def _anything(self) -> list[str]:
        """Return the rules of a string, of any value, and of any pairs."""
        name = self._name
        text, number = "/(.|\\n)*/", json_rule({"type": "number"}, self._strict)
        words = " | ".join(f'"{word}"' for word in self._style.words.values())
        if self._style is PYTHON:
            string = json_rule({"type": "string"}, self._strict)
            return [
                f"{name}_string: {string} | /'([^'\\\\]|\\\\(.|\\n))*'/",
                f"{name}_any: {name}_string | {json_rule({}, self._strict)} | {words}",
                f'{name}_named: /[A-Za-z_][A-Za-z0-9_]*/ "=" {name}_any (", " {name}_named)?',
            ]
        quote = self._quoted(self._style.quote)
        special = quote.startswith("<")
        closed = f"{text} {quote}" if special else f"{name}_closed"
        return [
            *([] if special else [f"{name}_closed[lazy]: {text} {quote}"]),
            f"{name}_string: {quote} {closed}",
            f'{name}_any: {name}_string | {number} | {words} | "[" ({name}_any ("," {name}_any)*)? "]"'
            f' | "{{" {name}_pairs? "}}"',
            f'{name}_pairs: /[A-Za-z_][A-Za-z0-9_.-]*/ ":" {name}_any ("," {name}_pairs)?',
        ]
