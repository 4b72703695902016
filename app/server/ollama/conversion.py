"""Convert Ollama's bodies to those of OpenAI's chats and completions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from app.server.errors import ApiError
from app.server.fields.schemas import ChatBody, CompletionBody, checked
from app.server.fields.tools import called_tool
from app.server.ollama.schemas import (
    OllamaBody,
    OllamaCall,
    OllamaChatBody,
    OllamaGenerateBody,
    OllamaMessage,
    OllamaOptions,
)
from engine.errors import InvalidRequest

Json = dict[str, Any]

TAG = ":latest"
"""Appended by Ollama's clients to names without a tag."""
_NO_LIMIT = (-1, -2)
"""``num_predict`` without a limit, and until the context is full."""
_NAMES = {
    **{name: f"options.{name}" for name in OllamaOptions.model_fields},
    "repetition_penalty": "options.repeat_penalty",
    "max_tokens": "options.num_predict",
    "structured_outputs.json": "format",
}
"""Ollama's fields, by OpenAI's."""
_FIELD = re.compile(r"structured_outputs\.json|\w+")


def chat_of(body: OllamaChatBody) -> ChatBody:
    """Return the chat's body. Raises ApiError for content that is no text."""
    tools = [tool.model_dump(exclude_none=True) for tool in body.tools or ()]
    messages = list(_messages(body.messages))
    return checked(ChatBody, {**_fields(body), "messages": messages, "tools": tools})


def text_of(body: OllamaGenerateBody) -> ChatBody | CompletionBody:
    """Return a chat of one message, or, with ``raw``, a completion."""
    if body.raw:
        fields = _fields(body)
        if fields.pop("logprobs", False):
            fields["logprobs"] = fields.pop("top_logprobs")
        return checked(CompletionBody, {**fields, "prompt": body.prompt})
    system = [{"role": "system", "content": body.system}] if body.system else []
    messages = [*system, {"role": "user", "content": body.prompt}]
    return checked(ChatBody, {**_fields(body), "messages": messages})


@contextmanager
def named_as_here(body: OllamaBody) -> Iterator[None]:
    """Let messages of errors begin with Ollama's name of the field, which its clients see nowhere
    else."""
    names = _NAMES if isinstance(body, OllamaChatBody) else _NAMES | {"messages": "prompt"}

    def renamed(message: str) -> str:
        return _FIELD.sub(lambda field: names.get(field[0], field[0]), message, count=1)

    try:
        yield
    except InvalidRequest as error:
        error.args = (renamed(str(error)),)
        raise
    except ApiError as error:
        error.message = renamed(error.message)
        raise


def untagged(model: str | None) -> str | None:
    return None if model is None else model.removesuffix(TAG)


def _messages(messages: Sequence[OllamaMessage]) -> Iterator[Json]:
    """Yield OpenAI's messages, where each call has an id and its result names it.

    Missing ids count up, so that the prompt is the same at every turn; a result without an id answers the
    first open call of its tool. Raises InvalidRequest for an unknown id, if calls have ids.
    """
    open_calls: list[Json] = []
    named: dict[str, str] = {}  # called tools, by the client's ids
    made = 0
    for at, message in enumerate(messages):
        if message.images:
            raise ApiError(
                400,
                f"messages[{at}].images: images are not supported.",
                code="unsupported_value",
                param=f"messages[{at}].images",
            )
        calls = [_call(call, made + place) for place, call in enumerate(message.tool_calls or ())]
        made += len(calls)
        open_calls += calls
        named |= {call.id: call.function.name for call in message.tool_calls or () if call.id}
        if message.tool_call_id is not None and named:
            called_tool(message.tool_call_id, named, f"messages[{at}].tool_call_id")
        converted: Json = {"role": message.role, "content": message.content or ""}
        if message.thinking:
            converted["reasoning_content"] = message.thinking
        if calls:
            converted["tool_calls"] = calls
        if message.role == "tool":
            converted |= _answered(message, open_calls)
        yield converted


def _call(call: OllamaCall, number: int) -> Json:
    arguments = json.dumps(call.function.arguments, ensure_ascii=False)
    # Nine characters, as Mistral's templates require.
    id = call.id or f"call{number:05}"
    function = {"name": call.function.name, "arguments": arguments}
    return {"id": id, "type": "function", "function": function}


def _answered(message: OllamaMessage, open_calls: list[Json]) -> Json:
    """Return which call a tool's message answers, and remove it from the open ones. Ollama accepts
    results without a call."""
    for at, call in enumerate(open_calls):
        name = call["function"]["name"]
        if message.tool_call_id in (None, call["id"]) and message.tool_name in (None, name):
            del open_calls[at]
            return {"tool_call_id": call["id"], "name": name}
    return {"name": message.tool_name}


def _fields(body: OllamaBody) -> Json:
    """Return the body's options as OpenAI's fields."""
    fields = (body.options or OllamaOptions()).model_dump(exclude_none=True)
    if "repeat_penalty" in fields:
        fields["repetition_penalty"] = fields.pop("repeat_penalty")
    limit = fields.pop("num_predict", -1)
    fields["max_tokens"] = -1 if limit in _NO_LIMIT else limit
    fields["model"] = untagged(body.model)
    if body.format not in (None, ""):
        json_object = body.format == "json"
        outputs = {"json_object": True} if json_object else {"json": body.format}
        fields["structured_outputs"] = outputs
    if body.think is not None:
        switched = "medium" if body.think is True else body.think or "none"
        fields["reasoning_effort"] = switched
    if body.logprobs:
        fields |= {"logprobs": True, "top_logprobs": body.top_logprobs or 0}
    if body.speculation is not None:
        fields["speculation"] = body.speculation.model_dump(exclude_none=True)
    return fields
