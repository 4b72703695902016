"""Tools, calls of them, and who decides whether one is called: frozen, validated values."""

from __future__ import annotations

import json
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

    ``strict``: a keyword of the schema that cannot be enforced is refused, where else it is left out.
    """

    name: str
    description: str = ""
    parameters: str = NO_PARAMETERS
    strict: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidRequest(
                "tools",
                f"tools: the name {self.name[:80]!r} must be 1 to 64 letters, digits, '_', '-' or '.'.",
            )

    @property
    def schema(self) -> dict[str, Any]:
        """Of its arguments."""
        found: dict[str, Any] = json.loads(self.parameters)
        return found

    @property
    def arguments(self) -> dict[str, Any]:
        """The schema of nothing but objects, which is what a call's arguments are. Raises InvalidRequest
        for one that takes none."""
        schema = self.schema
        kind = schema.get("type", "object")
        if "object" not in (kind if isinstance(kind, list) else [kind]):
            raise InvalidRequest(
                "tools",
                f'has the type {kind!r}, but arguments are an object. Give it "type": "object".',
            )
        return {**schema, "type": "object"}

    @property
    def definition(self) -> dict[str, Any]:
        """As chat templates take it, which is OpenAI's form."""
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
    """A call that an assistant made. ``arguments``: a JSON object, as JSON, or, where the call was cut,
    its beginning."""

    id: str
    name: str
    arguments: str

    @property
    def object(self) -> dict[str, Any] | None:
        """The arguments; None where they are no JSON object."""
        return json_object(self.arguments)


def json_object(text: str) -> dict[str, Any] | None:
    """The JSON object that ``text`` is, if it is one."""
    try:
        found = json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")  # which Python reads


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
        """Whether nothing but calls may come."""
        return self.calling is Calling.REQUIRED or self.name is not None
