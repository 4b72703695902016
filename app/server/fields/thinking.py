"""The fields of a chat about thinking: how much, to what budget, and what the chat template is told."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field

from app.server.fields.structured import Body
from engine.request import MAX_TEMPLATE_VALUES, OptionValue

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""OpenAI's, and "max" of other APIs."""
_ENGINE: dict[str, str] = {"none": "off", "minimal": "low", "xhigh": "high", "max": "high"}
_UNLIMITED = -1


class ThinkingBody(Body):
    """``thinking_budget`` is Qwen's name; vLLM and llama.cpp have the others."""

    reasoning_effort: Effort | None = None
    thinking_budget: Annotated[
        int | None,
        Field(
            ge=_UNLIMITED,
            validation_alias=AliasChoices(
                "thinking_budget",
                "thinking_token_budget",
                "thinking_budget_tokens",
                "reasoning_budget_tokens",
            ),
        ),
    ] = None
    chat_template_kwargs: (
        Annotated[dict[str, OptionValue | None], Field(max_length=MAX_TEMPLATE_VALUES)] | None
    ) = None


def thinking_of(body: ThinkingBody, effort: str | None = None) -> dict[str, Any]:
    """Return the engine's fields. ``effort``: one that another field of the body has."""
    effort = body.reasoning_effort or effort or ""
    values = body.chat_template_kwargs or {}
    budget = body.thinking_budget
    return {
        "thinking": _ENGINE.get(effort, effort),
        "thinking_budget": None if budget == _UNLIMITED else budget,
        "template_values": tuple(
            (name, value) for name, value in values.items() if value is not None
        ),
    }
