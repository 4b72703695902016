"""Tools, tool calls and the choice between them: frozen, validated values."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from engine.errors import InvalidRequest

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
NO_PARAMETERS = '{"type": "object", "properties": {}}'


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a model may call. ``parameters``: the JSON schema of its arguments, as JSON.

    ``strict``: refuse a keyword of the schema that cannot be enforced; otherwise ignore it.
    """

    name: str
    description: str = ""
    parameters: str = NO_PARAMETERS
    strict: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidRequest(
                "tools",
                f"tools: the name {self.name[:80]!r} must have 1 to 64 letters, digits, '_', "
                "'-' or '.'.",
            )
        try:
            json.dumps(self.schema, allow_nan=False)
        except ValueError as error:
            why = "are no JSON, which has neither NaN nor Infinity."
            raise InvalidRequest(
                "tools", f"tools: the parameters of {self.name!r} {why}"
            ) from error

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        schema: dict[str, Any] = json.loads(self.parameters)
        return schema

    @property
    def arguments(self) -> dict[str, Any]:
        """The schema, of objects alone, as arguments are. Raises InvalidRequest if it allows none."""
        schema = self.schema
        kind = schema.get("type", "object")
        if "object" not in (kind if isinstance(kind, list) else [kind]):
            raise InvalidRequest(
                "tools",
                f'has the type {kind!r}, but arguments must be an object: "type": "object".',
            )
        return {**schema, "type": "object"}

    @property
    def definition(self) -> dict[str, Any]:
        """The definition in OpenAI's form, as chat templates take it."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": self.schema,
            },
        }


@dataclass(frozen=True, slots=True)
class ToolCall:
    """An assistant's call. ``arguments``: a JSON object as JSON, or its beginning if the call was cut."""

    id: str
    name: str
    arguments: str

    @property
    def object(self) -> dict[str, Any] | None:
        """The arguments; None if they are no JSON object."""
        return json_object(self.arguments)


def json_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object that ``text`` is, or None."""
    try:
        value = json.loads(text, parse_constant=_refused, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def json_text(value: Any) -> str:
    """Return ``value`` as JSON that is Unicode: join surrogates, and replace lone ones."""
    text = json.dumps(value, ensure_ascii=False)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")  # which Python reads


def _finite(number: str) -> float:
    value = float(number)
    if math.isinf(value):  # json.dumps writes Infinity, which is not JSON
        raise ValueError(f"{number} is too large")
    return value


class Calling(StrEnum):
    """Whether tools are called: as the model likes, or at least one."""

    AUTO = "auto"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """``name``: the tool that has to be called. ``parallel``: whether a reply may hold several calls."""

    calling: Calling = Calling.AUTO
    name: str | None = None
    parallel: bool = True

    @property
    def must(self) -> bool:
        """True if the reply must be calls."""
        return self.calling is Calling.REQUIRED or self.name is not None
