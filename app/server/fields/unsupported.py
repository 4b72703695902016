"""Fields that are refused and not ignored: they would change the meaning of the reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel

from app.server.errors import ApiError

Harmless = Callable[[Any], bool]
"""True for a value that has no effect."""
Refused = Mapping[str, tuple[str, Harmless]]
"""Each field's meaning, and the values of it that change nothing."""


def is_nothing(value: Any) -> bool:
    """Return True for a value that has no effect."""
    return not value


def is_absent(value: Any) -> bool:
    """Return the same for a schema or grammar: an empty schema means any JSON."""
    return value in (None, "", [])


_FUNCTIONS = "functions (OpenAI replaced them by tools)"
_TEMPLATE = "other chat templates"
_GRAMMAR = "grammars in this field; use structured_outputs"

REFUSED: Refused = {
    "functions": (_FUNCTIONS, is_nothing),
    "function_call": (_FUNCTIONS, lambda value: value in (None, "none", "auto")),
    "json_schema": (_GRAMMAR, is_absent),
    "grammar": (_GRAMMAR, is_absent),
    "guided_json": (_GRAMMAR, is_absent),
    "guided_regex": (_GRAMMAR, is_absent),
    "guided_choice": (_GRAMMAR, is_absent),
    "guided_grammar": (_GRAMMAR, is_absent),
    "modalities": ("output other than text", lambda value: value in (None, [], ["text"])),
    "audio": ("audio", is_nothing),
    "echo": ("echoing the prompt", is_nothing),
    "suffix": ("text after the completion", is_nothing),
    "chat_template": (_TEMPLATE, is_nothing),
    "speculative": ("drafting options in this field; use speculation", is_nothing),
    "best_of": ("choosing the best of several replies", lambda value: value in (None, 1)),
}
"""Refused by all APIs."""

_NO_TOOLS = "tools here; use /v1/chat/completions, /v1/responses or /api/chat"
NO_TOOLS: Refused = {
    "tools": (_NO_TOOLS, is_nothing),
    "tool_choice": (_NO_TOOLS, lambda value: value in (None, "none", "auto")),
}
"""Refused in completions, which call no tools."""
REFUSED_IN_COMPLETIONS: Refused = {
    **REFUSED,
    "chat_template_kwargs": ("chat templates here; use /v1/chat/completions", is_nothing),
    **NO_TOOLS,
    "response_format": (
        "response_format here; use structured_outputs",
        lambda value: value in (None, {"type": "text"}),
    ),
}


def refuse(body: BaseModel, refused: Refused) -> None:
    """Raise a 400 for the first field with an effect that this version does not have."""
    for field, (what, harmless) in refused.items():
        if field in body.model_fields_set and not harmless(getattr(body, field)):
            raise unsupported(field, what)


def unsupported(param: str, what: str, remedy: str = "Leave the field out.") -> ApiError:
    return ApiError(
        400,
        f"{param}: Foretoken does not support {what}. {remedy}",
        code="unsupported_value",
        param=param,
    )
