"""Structured replies: OpenAI's ``response_format`` and vLLM's ``structured_outputs``."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.server.errors import missing
from engine.errors import InvalidRequest
from engine.tool_calls.schemas import leaves_names_open
from engine.values.grammar import Grammar, GrammarKind

MAX_TEXTS = 1024
"""Texts of a ``choice``, at most."""
_GBNF = re.compile(r"^\s*[\w-]+\s*::=", re.MULTILINE)


class Body(BaseModel):
    """A part of a request's body: no value is converted, unknown fields are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore")


class ClosedBody(BaseModel):
    """The same, but unknown fields are refused."""

    model_config = ConfigDict(strict=True, extra="forbid")


class JsonSchemaBody(Body):
    name: str | None = None
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")
    strict: bool | None = None


class ResponseFormatBody(Body):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchemaBody | None = None


class TextFormatBody(JsonSchemaBody):
    """The response format of ``/v1/responses``."""

    type: Literal["text", "json_object", "json_schema"]

    @property
    def response_format(self) -> ResponseFormatBody:
        """The chat's form of it. Raises ApiError, which names the field here, if the schema is
        missing."""
        if self.type == "json_schema" and self.schema_ is None:
            raise missing("text.format.schema")
        return ResponseFormatBody(type=self.type, json_schema=self)


class TextBody(Body):
    format: TextFormatBody | None = None


class StructuredOutputsBody(ClosedBody):
    """vLLM's field. Exactly one kind of structure is set; other options of vLLM's are refused."""

    json_: dict[str, Any] | str | None = Field(default=None, alias="json")
    json_object: bool | None = None
    regex: str | None = None
    choice: Annotated[list[str], Field(min_length=1, max_length=MAX_TEXTS)] | None = None
    grammar: str | None = None


def grammar_of(
    format: ResponseFormatBody | None, outputs: StructuredOutputsBody | None
) -> Grammar | None:
    """Return what the reply must match. Raises InvalidRequest for contradicting fields, and ApiError for
    a missing schema."""
    if outputs is None:
        return None if format is None else _of_format(format)
    if format is not None and format.type != "text":
        raise InvalidRequest(
            "structured_outputs",
            "structured_outputs and response_format exclude each other; leave one out.",
        )
    return _of_outputs(outputs)


def field_of(
    format: ResponseFormatBody | None, outputs: StructuredOutputsBody | None
) -> str | None:
    """Return the field of the body that the engine's ``grammar`` comes from."""
    if outputs is not None:
        given = (name for name in _NAMES if getattr(outputs, name) is not None)
        return f"structured_outputs.{next(given, 'json').strip('_')}"
    if format is not None and format.type == "json_schema":
        return "response_format.json_schema.schema"
    return None if format is None else "response_format"


def check_closed(schema: Any, field: str) -> None:
    """Raise InvalidRequest for a strict schema under which an object could have a name twice."""
    if leaves_names_open(schema):
        raise InvalidRequest(
            field,
            f"{field} is strict, but a part of its schema allows further names, so that one "
            'could appear twice. Give each part a type, each array "items" and each object '
            '"additionalProperties": false and no patternProperties, or leave strict out.',
        )


def _of_format(format: ResponseFormatBody) -> Grammar | None:
    match format.type:
        case "text":
            return None
        case "json_object":
            return Grammar(GrammarKind.JSON_OBJECT)
        case "json_schema":
            body = format.json_schema
            if body is None or body.schema_ is None:
                raise missing("response_format.json_schema" + ("" if body is None else ".schema"))
            if body.strict:
                check_closed(body.schema_, "grammar")
            text = json.dumps(body.schema_, ensure_ascii=False)
            return Grammar(GrammarKind.JSON_SCHEMA, text, strict=bool(body.strict))


def _of_outputs(outputs: StructuredOutputsBody) -> Grammar:
    kinds = [name for name in _NAMES if getattr(outputs, name) not in (None, False)]
    if len(kinds) != 1:
        raise InvalidRequest(
            "structured_outputs",
            "structured_outputs needs exactly one of json, json_object, regex, choice and grammar; it "
            f"has {', '.join(name.strip('_') for name in kinds) or 'none'}.",
        )
    if outputs.json_ is not None:
        text = outputs.json_ if isinstance(outputs.json_, str) else json.dumps(outputs.json_)
        return Grammar(GrammarKind.JSON_SCHEMA, text)
    if outputs.regex is not None:
        return Grammar(GrammarKind.REGEX, outputs.regex)
    if outputs.choice is not None:
        texts = " | ".join(json.dumps(each, ensure_ascii=False) for each in outputs.choice)
        return Grammar(GrammarKind.LARK, f"start: {texts}\n")
    if outputs.grammar is not None:
        kind = GrammarKind.GBNF if _GBNF.search(outputs.grammar) else GrammarKind.LARK
        return Grammar(kind, outputs.grammar)
    return Grammar(GrammarKind.JSON_OBJECT)


_NAMES = ("json_", "json_object", "regex", "choice", "grammar")
