"""Bodies of Ollama's routes, the fields that are refused, and how they become OpenAI's bodies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, FiniteFloat

from app.server.errors import NO_TOOLS, REFUSED, Refused, is_nothing, unsupported
from app.server.fields.schemas import (
    MAX_CHOICES,
    MAX_MESSAGES,
    ChatBody,
    CompletionBody,
    SpeculationBody,
    TopLogprobs,
    checked,
)
from app.server.fields.structured import Body
from app.server.fields.tools import ToolBody, called_tool
from app.server.requests import file_in
from app.server.sending import Json
from app.server.text import InfillBody
from engine.tool_calls.schemas import close
from engine.values.messages import MAX_IMAGES

_GO = re.compile(r"[+-]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h))+)")
"""A duration as Go writes it: 5m, 1h30m, 0."""
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([\d.]+)(ns|us|µs|ms|s|m|h)")


def _duration(text: str) -> str:
    if _GO.fullmatch(text) is None:
        raise ValueError("must be a duration, such as 5m or 1h30m")
    return text


class OllamaOptions(Body):
    """The options that have an effect here; others are ignored, like all unknown fields."""

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int | None = None
    num_predict: int | None = None
    stop: str | list[str] | None = None
    repeat_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None


class OllamaFunctionCall(Body):
    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class OllamaCall(Body):
    """A call in an assistant's message; older clients send no id."""

    function: OllamaFunctionCall
    id: str | None = None


class OllamaMessage(Body):
    role: str
    content: str | None = None
    images: Annotated[list[str], Field(max_length=MAX_IMAGES)] | None = None
    thinking: str | None = None
    tool_calls: Annotated[list[OllamaCall], Field(max_length=MAX_CHOICES)] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class OllamaBody(Body):
    """The fields that chat and generate share. Ollama streams unless ``stream`` is false."""

    model: str | None = None
    stream: bool | None = None
    format: Literal["json", ""] | dict[str, Any] | None = None
    options: OllamaOptions | None = None
    think: bool | Literal["low", "medium", "high", "max"] | None = None
    keep_alive: (
        FiniteFloat | Annotated[str, Field(max_length=40), AfterValidator(_duration)] | None
    ) = None
    logprobs: bool | None = None
    top_logprobs: TopLogprobs | None = None
    speculation: SpeculationBody | None = None

    @property
    def kept_s(self) -> float | None:
        """The seconds for which the model stays in memory; below 0: always. None: as the server says."""
        time = self.keep_alive
        if not isinstance(time, str):
            return time
        parts = _PART.findall(time)
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
        return -1.0 if time.startswith("-") and seconds else seconds

    @property
    def unloads(self) -> bool:
        """True if the model is unloaded after this request."""
        return self.kept_s == 0


class OllamaChatBody(OllamaBody):
    messages: list[OllamaMessage] = Field(default_factory=list, max_length=MAX_MESSAGES)
    tools: list[ToolBody] | None = None


class OllamaGenerateBody(OllamaBody):
    prompt: str = ""
    system: str | None = None
    images: Annotated[list[str], Field(max_length=MAX_IMAGES)] | None = None
    raw: bool | None = None
    suffix: str | None = None


class OllamaShowBody(Body):
    model: str | None = None
    name: str | None = None


class OllamaPullBody(OllamaShowBody):
    stream: bool | None = None


_REFUSED: Refused = {
    **REFUSED,
    "template": ("other templates", is_nothing),
    "context": ("context tokens; send the conversation to /api/chat", is_nothing),
}
REFUSED_IN_CHAT: Refused = {
    **_REFUSED,
    "tool_choice": (
        "tool_choice, which Ollama's protocol lacks; use /v1/chat/completions",
        lambda value: value in (None, "auto"),
    ),
}
REFUSED_IN_TEXT: Refused = {
    name: why for name, why in {**_REFUSED, **NO_TOOLS}.items() if name != "suffix"
}


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
_NAMES_IN_TEXT = {"messages": "prompt", "input_prefix": "prompt", "input_suffix": "suffix"}


def chat_of(body: OllamaChatBody) -> ChatBody:
    """Return the chat's body. Raises ApiError for content that is no text."""
    messages = list(_messages(body.messages))
    return checked(ChatBody, {**_fields(body), "messages": messages, "tools": body.tools})


def text_of(body: OllamaGenerateBody) -> ChatBody | CompletionBody | InfillBody:
    """Return a chat of one message; with ``suffix``, an infill; with ``raw``, a completion."""
    fields = _fields(body)
    if body.images and (body.raw or body.suffix):
        raise unsupported("images", "images in a raw prompt or an infill; /api/chat does")
    if body.suffix:
        around = {"input_prefix": body.prompt, "input_suffix": body.suffix}
        return checked(InfillBody, {**fields, **around})
    if body.raw:
        if fields.pop("logprobs", False):
            fields["logprobs"] = fields.pop("top_logprobs")
        return checked(CompletionBody, {**fields, "prompt": body.prompt})
    system = [{"role": "system", "content": body.system}] if body.system else []
    messages = [*system, {"role": "user", "content": _content(body.prompt, body.images, "images")}]
    return checked(ChatBody, {**fields, "messages": messages})


def names_in(body: OllamaBody) -> dict[str, str]:
    """Return Ollama's names of fields, by OpenAI's."""
    return _NAMES if isinstance(body, OllamaChatBody) else _NAMES | _NAMES_IN_TEXT


def untagged(model: str | None) -> str | None:
    """Return a name without the tag that clients append, and without Hugging Face's address."""
    if model is None:
        return None
    return model.removesuffix(TAG).removeprefix("huggingface.co/").removeprefix("hf.co/")


def _messages(messages: Sequence[OllamaMessage]) -> Iterator[Json]:
    """Yield OpenAI's messages, where each call has an id and its result names it.

    Missing ids count up, so that the prompt is the same at every turn; a result without an id answers the
    first open call of its tool. Raises InvalidRequest for an unknown id, if calls have ids.
    """
    open_calls: list[Json] = []
    named: dict[str, str] = {}  # called tools, by the client's ids
    made = 0
    for at, message in enumerate(messages):
        calls = [_call(call, made + place) for place, call in enumerate(message.tool_calls or ())]
        made += len(calls)
        open_calls += calls
        named |= {call.id: call.function.name for call in message.tool_calls or () if call.id}
        if message.tool_call_id is not None and named:
            called_tool(message.tool_call_id, named, f"messages[{at}].tool_call_id")
        content = _content(message.content or "", message.images, f"messages[{at}].images")
        converted: Json = {"role": message.role, "content": content}
        if message.thinking:
            converted["reasoning_content"] = message.thinking
        if calls:
            converted["tool_calls"] = calls
        if message.role == "tool":
            converted |= _answered(message, open_calls)
        yield converted


def _content(text: str, images: Sequence[str] | None, path: str) -> str | list[Json]:
    """Return the content of a message with ``images`` before its text. Raises ApiError."""
    if not images:
        return text
    for at, image in enumerate(images):
        file_in(image, f"{path}[{at}]")
    parts = [{"type": "image_url", "image_url": f"data:image/any;base64,{one}"} for one in images]
    return [*parts, *([{"type": "text", "text": text}] if text else ())]


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
    fields |= {"model": untagged(body.model), "speculation": body.speculation}
    if body.format not in (None, ""):
        close(body.format)
        json_object = body.format == "json"
        outputs = {"json_object": True} if json_object else {"json": body.format}
        fields["structured_outputs"] = outputs
    if body.think is not None:
        switched = "medium" if body.think is True else body.think or "none"
        fields["reasoning_effort"] = switched
    if body.logprobs:
        fields |= {"logprobs": True, "top_logprobs": body.top_logprobs or 0}
    return fields
