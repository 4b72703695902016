"""From Ollama's bodies to those of OpenAI's chats and completions, which mean the same."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from app.server.errors import ApiError
from app.server.fields.schemas import ChatBody, CompletionBody, checked
from app.server.fields.tools import answered
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
"""What Ollama's clients put behind a name without one."""
_NO_LIMIT = (-1, -2)
"""``num_predict``: as long as it gets, and until the context is full."""
_SPELT = {
    **{name: f"options.{name}" for name in OllamaOptions.model_fields},
    "repetition_penalty": "options.repeat_penalty",
    "max_tokens": "options.num_predict",
    "structured_outputs.json": "format",
}
"""Fields here, by those of the other dialects that mean the same."""
_FIELD = re.compile(r"structured_outputs\.json|\w+")


def chat_of(body: OllamaChatBody) -> ChatBody:
    """Raises ApiError for what is no text."""
    tools = [tool.model_dump(exclude_none=True) for tool in body.tools or ()]
    messages = list(_messages(body.messages))
    return checked(ChatBody, {**_fields(body), "messages": messages, "tools": tools})


def text_of(body: OllamaGenerateBody) -> ChatBody | CompletionBody:
    """A chat of one message, or, ``raw``, a text that goes on."""
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
    """Errors begin with the field as this dialect spells it, which is all that its clients are told."""
    spelt = _SPELT if isinstance(body, OllamaChatBody) else _SPELT | {"messages": "prompt"}
    try:
        yield
    except InvalidRequest as error:
        error.args = (_respelt(str(error), spelt),)
        raise
    except ApiError as error:
        error.message = _respelt(error.message, spelt)
        raise


def _respelt(message: str, spelt: Mapping[str, str]) -> str:
    return _FIELD.sub(lambda found: spelt.get(found[0], found[0]), message, count=1)


def untagged(model: str | None) -> str | None:
    return None if model is None else model.removesuffix(TAG)


def _messages(messages: Sequence[OllamaMessage]) -> Iterator[Json]:
    """As OpenAI has them, where each call has an id and what it returned names it.

    Where a client sends none, ids count up, so that a conversation is the same text at every turn; and
    what a tool returned answers the first call of it that nothing answers yet. Raises InvalidRequest for
    an id that none of the calls has, if they have any.
    """
    open_calls: list[Json] = []
    named: dict[str, str] = {}  # tools that were called, by ids that the client knows
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
            answered(message.tool_call_id, named, f"messages[{at}].tool_call_id")
        told: Json = {"role": message.role, "content": message.content or ""}
        if calls:
            told["tool_calls"] = calls
        if message.role == "tool":
            told |= _answered(message, open_calls)
        yield told


def _call(call: OllamaCall, number: int) -> Json:
    arguments = json.dumps(call.function.arguments, ensure_ascii=False)
    # Nine signs, as Mistral's templates demand.
    id = call.id or f"call{number:05}"
    function = {"name": call.function.name, "arguments": arguments}
    return {"id": id, "type": "function", "function": function}


def _answered(message: OllamaMessage, open_calls: list[Json]) -> Json:
    """Which call a tool's message answers; that is open no longer. Ollama takes what answers none."""
    for at, call in enumerate(open_calls):
        name = call["function"]["name"]
        if message.tool_call_id in (None, call["id"]) and message.tool_name in (None, name):
            del open_calls[at]
            return {"tool_call_id": call["id"], "name": name}
    return {"name": message.tool_name}


def _fields(body: OllamaBody) -> Json:
    """The fields of the other dialects that these options mean."""
    options = body.options or OllamaOptions()
    given = options.model_dump(exclude_none=True)
    if "repeat_penalty" in given:
        given["repetition_penalty"] = given.pop("repeat_penalty")
    limit = given.pop("num_predict", -1)
    given["max_tokens"] = -1 if limit in _NO_LIMIT else limit
    given["model"] = untagged(body.model)
    if body.format not in (None, ""):
        schema = body.format
        outputs = {"json_object": True} if schema == "json" else {"json": schema}
        given["structured_outputs"] = outputs
    if body.logprobs:
        given |= {"logprobs": True, "top_logprobs": body.top_logprobs or 0}
    if body.speculation is not None:
        given["speculation"] = body.speculation.model_dump(exclude_none=True)
    return given
