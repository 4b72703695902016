"""What ``/v1/responses`` accepts."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from app.server.schemas import MAX_MESSAGES, GenerationBody, MessageBody
from app.server.structured import TextBody
from app.server.unsupported import NO_TOOLS, is_nothing, refuse_fields


def _items(value: Any) -> Any:
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if isinstance(value, list):
        for item in value:
            kind = item.get("type") if isinstance(item, dict) else None
            if kind not in (None, "message"):
                raise ValueError(f"must hold messages; items of type {kind!r} are not supported")
        return value
    raise ValueError("must be a string or a list of messages")


class ItemBody(MessageBody):
    """A message of the conversation. Items of another type are refused, not skipped."""

    type: str | None = None
    id: str | None = None
    status: str | None = None


class ResponseBody(GenerationBody):
    """OpenAI's fields, and those that all dialects here have."""

    items: Annotated[
        list[ItemBody],
        Field(min_length=1, max_length=MAX_MESSAGES, alias="input"),
        BeforeValidator(_items, json_schema_input_type=str | list[ItemBody]),
    ]
    instructions: str | None = None
    text: TextBody | None = None
    max_output_tokens: int | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    include: list[str] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    metadata: dict[str, str] | None = None
    user: str | None = None


_REFUSED = {
    **NO_TOOLS,
    "background": ("answering in the background", is_nothing),
    "conversation": ("conversations other than by previous_response_id", is_nothing),
    "prompt": ("stored prompts", is_nothing),
    "truncation": ("leaving out what is too long", lambda value: value in (None, "disabled")),
    "n": ("several choices in a response", lambda value: value in (None, 1)),
}


def refuse_in_response(raw: bytes) -> None:
    """Raises a 400 for the first field that asks for something this version does not have."""
    refuse_fields(raw, _REFUSED)
