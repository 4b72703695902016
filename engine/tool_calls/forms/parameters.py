"""Arguments as tagged parameters: Qwen3-Coder's and 3.5's, Seed-OSS's, and GLM 4.5's.

A string stands there as it is, anything else as JSON. So a parameter's type is that of the tool's
schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import InvalidRequest
from engine.files import parse_json
from engine.tool_calls.forms.json_form import json_rule
from engine.tool_calls.schemas import pointed_to
from engine.values.tools import json_text

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
        schema = pointed_to(root, reference)
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


_NAMES = re.compile(r"[^<>\n]{1,200}")
_PYTHON = {"True": True, "False": False, "None": None}
"""As templates write them in earlier turns."""


@dataclass(frozen=True, slots=True)
class Tags:
    """``before`` NAME ``middle`` VALUE ``behind``, and ``end`` behind the last parameter."""

    before: str
    middle: str
    behind: str
    end: str


QWEN = Tags("<parameter=", ">\n", "\n</parameter>\n", "</function>")
SEED = Tags("<parameter=", ">", "</parameter>\n", "</function>")
GLM = Tags("<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n", "</tool_call>")
GLM_TIGHT = Tags("<arg_key>", "</arg_key><arg_value>", "</arg_value>", "</tool_call>")
"""GLM 4.5's and 4.6's, and 4.7's."""


class TaggedReader:
    """Reads parameters into a JSON object; a string as it comes, other values once they are whole."""

    def __init__(self, tags: Tags, schema: Mapping[str, Any]) -> None:
        self._tags, self._schema = tags, schema
        self._begun = self._streams = False  # the object, a string
        self._name: str | None = None
        self.ended = False

    def read(self, text: str) -> tuple[int, str]:
        at, made = 0, ""
        while not self.ended:
            read, more = self._next(text[at:])
            at, made = at + read, made + more
            if not read:
                break
        return at, made

    def _next(self, text: str) -> tuple[int, str]:
        if self._name is not None:
            return self._value(text)
        blank = len(text) - len(text.lstrip())
        if text.startswith(self._tags.end, blank):
            self.ended = True
            return blank, "}" if self._begun else "{}"
        end = text.find(self._tags.middle.strip(), blank)
        if not text.startswith(self._tags.before, blank) or end < 0:
            return 0, ""
        behind = end + len(self._tags.middle)
        if len(text) < behind:
            return 0, ""
        self._name = text[blank + len(self._tags.before) : end]
        opening = f"{', ' if self._begun else '{'}{json.dumps(self._name, ensure_ascii=False)}: "
        self._begun, self._streams = True, self._kinds == {"string"}
        return behind, opening + ('"' if self._streams else "")

    def _value(self, text: str) -> tuple[int, str]:
        behind = self._tags.behind.rstrip()
        end = text.find(behind)
        if end < 0:
            if not self._streams:
                return 0, ""
            safe = max(len(text) - len(behind), 0)
            return safe, _inner(text[:safe])
        kinds, self._name = self._kinds, None
        if self._streams:
            return end + len(behind), _inner(text[:end]) + '"'
        return end + len(behind), json_text(_value_of(text[:end], kinds))

    @property
    def _kinds(self) -> frozenset[str]:
        properties = self._schema.get("properties")
        own = properties.get(self._name) if isinstance(properties, Mapping) else None
        return ALL if own is None else kinds_of(own, self._schema)


def rules(
    tags: Tags, name: str, schema: Mapping[str, Any], quoted: Callable[[str], str], strict: bool
) -> list[str]:
    """Return the rules of the parameters, in the order of the schema; see ``rules_of``."""
    behind = quoted(tags.behind)
    # A string ends at the first mark of its end, or at the token that it begins with.
    lazy = "" if behind.startswith("<[") else "[lazy]"
    string = f"{name}_string{lazy}: /(.|\\n)*/ {behind}"
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        any_name = "/[^<>\\n]+/"
        one = f"{quoted(tags.before)} {any_name} {quoted(tags.middle)} {name}_string"
        return [f"{name}: ({one})*", string]
    required = schema.get("required")
    parts = []
    for parameter, own in properties.items():
        if not _NAMES.fullmatch(parameter):
            raise InvalidRequest(
                "tools",
                f"tools: this model cannot write a parameter named {parameter[:80]!r}. Rename it.",
            )
        value = _value_rule(own, schema, f"{name}_string", behind, strict)
        one = f"({quoted(tags.before + parameter + tags.middle)} {value})"
        needed = isinstance(required, list) and parameter in required
        parts.append(one if needed else f"{one}?")
    return [f"{name}: {' '.join(parts)}", string]


def _value_rule(own: Any, root: Mapping[str, Any], string: str, behind: str, strict: bool) -> str:
    found = resolved(own, root)
    values = literals_of(found)
    if values is not None:
        texts = (each if isinstance(each, str) else json.dumps(each) for each in values)
        return f"({' | '.join(json.dumps(each, ensure_ascii=False) for each in texts)}) {behind}"
    if "string" in kinds_of(found, root):
        check_enforced(found, strict)
        return string
    return f"{json_rule(within(found, root), strict)} {behind}"


def _value_of(text: str, kinds: frozenset[str]) -> Any:
    """Return a parameter's value: text, unless it is one of the other ``kinds``."""
    try:
        value = _PYTHON[text] if text in _PYTHON else parse_json(text)
        json.dumps(value, allow_nan=False)  # Python reads NaN and 1e999, which no JSON has
    except ValueError:
        return text
    kind = kind_of(value)
    fits = kind in kinds - {"string"} or (kind == "integer" and "number" in kinds)
    return value if fits else text


def _inner(text: str) -> str:
    """Return ``text`` as it stands inside a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]
