"""Bodies of requests for chats and completions: read within bounds of bytes and time; known fields are
checked, unknown ones ignored.

A field that is missing or null has the engine's default, as on the pages and the command line:
temperature 0, and no limit on the reply's length but the context.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, ValidationError, create_model
from pydantic_core import ErrorDetails, from_json
from starlette.requests import Request as HttpRequest

from app.server.errors import ApiError, Refused, missing, refuse
from app.server.fields.structured import (
    Body,
    ClosedBody,
    ResponseFormatBody,
    StructuredOutputsBody,
    field_of,
)
from app.server.fields.tools import ThinkingBody, ToolCallBody, ToolsBody
from engine.files import TooMany, check_counts
from engine.request import MAX_BIASES, MAX_STOPS
from engine.values import MAX_TOP_LOGPROBS, shown
from engine.values.sampling import Sampling

MAX_MESSAGES = 4096
"""Messages of a chat, and parts of one message, at most: even short ones take memory."""
MAX_IDS = 2**21
"""Token ids of a prompt, at most; far above any model's context."""
COMPLETION_TOKENS = 16
"""Default length of a completion, as in OpenAI's API and vLLM."""
MAX_CHOICES = 128
"""Replies of one request, at most: prompts times ``n``."""


def _stops(value: Any) -> Any:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and len(value) > MAX_STOPS:
        raise ValueError(f"must have at most {MAX_STOPS} strings")
    if value is None or isinstance(value, list):
        return value
    raise ValueError("must be a string or a list of strings")


def as_parts(value: Any, what: str = "parts") -> Any:
    """Return what a message holds as a list; a single text may be a string."""
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    if isinstance(value, list):
        return value
    raise ValueError(f"must be a string or a list of {what}")


def _prompts(value: Any) -> Any:
    """Return prompts as a list; a single one is a string or a list of token ids."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value:
        if len(value) > MAX_IDS:
            raise ValueError(f"must have at most {MAX_IDS} entries")
        if _all(value, int):
            return [value]
        if _all(value, str) or all(isinstance(ids, list) and _all(ids, int) for ids in value):
            return value
    raise ValueError("must be a string, a list of strings, a list of token ids, or a list of those")


def _all(values: list[Any], kind: type) -> bool:
    return all(type(value) is kind for value in values)


Prompts = Annotated[
    list[str | list[int]],
    BeforeValidator(_prompts, json_schema_input_type=str | list[str] | list[int] | list[list[int]]),
]
TopLogprobs = Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)]


class SpeculationBody(ClosedBody):
    """Foretoken's own field: how to draft for this request."""

    proposer: str | None = None
    depth: int | None = None
    controller: str | None = None
    acceptance: str | None = None
    options: dict[str, Any] | None = None


class StreamOptions(Body):
    include_usage: bool | None = None


_SAMPLING: Mapping[str, Any] = {
    name: (kind | None, None) for name, kind in get_type_hints(Sampling).items()
}
_SamplingBody = create_model("_SamplingBody", __base__=Body, **_SAMPLING)


class ImageAddress(Body):
    """Where an image is. ``detail`` is ignored: models decide how they scale it."""

    url: str


class ContentPart(Body):
    """A part of a message: text, or an image, whose address the API of responses has without a field."""

    type: str
    text: str | None = None
    image_url: str | ImageAddress | None = None


Content = Annotated[
    list[ContentPart],
    Field(max_length=MAX_MESSAGES),
    BeforeValidator(as_parts, json_schema_input_type=str | list[ContentPart]),
]


class UnloadBody(Body):
    """What to unload: the loaded model, also without a name."""

    model: str | None = None


class PredictionBody(Body):
    """The likely reply: OpenAI's Predicted Outputs."""

    type: Literal["content"]
    content: Content


class GenerationBody(_SamplingBody, Body):  # type: ignore[misc, valid-type]  # made of fields
    """The fields that chats, completions and responses share."""

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = None
    stop: Annotated[
        list[str] | None, BeforeValidator(_stops, json_schema_input_type=str | list[str] | None)
    ] = None
    max_tokens: int | None = None
    ignore_eos: bool | None = None
    cache_prompt: bool | None = None
    prediction: PredictionBody | None = None
    logit_bias: Annotated[dict[str, float], Field(max_length=MAX_BIASES)] | None = None
    structured_outputs: StructuredOutputsBody | None = None
    speculation: SpeculationBody | None = None
    spec_decode_metrics: Literal["summary", "detailed"] | None = None
    proposer: str | None = None
    depth: int | None = None
    controller: str | None = None
    acceptance: str | None = None

    @property
    def limit(self) -> int | None:
        """The most tokens of a reply."""
        return self.max_tokens

    @property
    def reply_format(self) -> ResponseFormatBody | None:
        """The format that a reply must have."""
        return None

    def engine_names(self) -> dict[str, str]:
        """Return the client's names of fields, by the engine's names."""
        names = {"options": "speculation.options", "predicted": "prediction"}
        if self.speculation is not None:
            names |= {name: f"speculation.{name}" for name in self.speculation.model_fields_set}
        structure = field_of(self.reply_format, self.structured_outputs)
        return names if structure is None else names | {"grammar": structure}


class MessageBody(Body):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Content | None = None
    tool_calls: Annotated[list[ToolCallBody], Field(max_length=MAX_CHOICES)] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    reasoning_content: Annotated[
        str | None, Field(validation_alias=AliasChoices("reasoning_content", "reasoning"))
    ] = None


class ChatBody(GenerationBody, ToolsBody, ThinkingBody):
    response_format: ResponseFormatBody | None = None
    messages: Annotated[list[MessageBody], Field(min_length=1, max_length=MAX_MESSAGES)]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: TopLogprobs | None = None
    return_events: bool | None = None
    continue_final_message: bool | None = None

    @property
    def limit(self) -> int | None:
        newer = self.max_completion_tokens
        return self.max_tokens if newer is None else newer

    @property
    def reply_format(self) -> ResponseFormatBody | None:
        return self.response_format

    def engine_names(self) -> dict[str, str]:
        limit = "max_tokens" if self.max_completion_tokens is None else "max_completion_tokens"
        names = {
            "max_tokens": limit,
            "template_values": "chat_template_kwargs",
            "prefill": "continue_final_message",
        }
        return {**super().engine_names(), **names}


class CompletionBody(GenerationBody):
    prompt: Prompts
    logprobs: TopLogprobs | None = None
    return_events: bool | None = None

    @property
    def limit(self) -> int | None:
        return COMPLETION_TOKENS if self.max_tokens is None else self.max_tokens

    def engine_names(self) -> dict[str, str]:
        return {**super().engine_names(), "messages": "prompt", "top_logprobs": "logprobs"}


_LARGEST_PARSED_AGAIN = 2**20
"""Bytes of a body that is parsed again to name a wrong field exactly, at most."""

_MOST_VARIANTS = 10
"""Errors that are looked at for the one that says most."""
_WORDS = {
    "extra_forbidden": "there is no such field",
    "dict_type": "it must be an object",
    "model_type": "it must be an object",
}
_SHORTER = {"greater than or equal to": "at least", "less than or equal to": "at most"}
_SHOULD = re.compile(r"^(\w+ should|must) ")

Parsed = TypeVar("Parsed", bound=BaseModel)


def parse(kind: type[Parsed], raw: bytes, beside: Collection[str] = ()) -> Parsed:
    """Return the request's body. Raises a 400 that names the first wrong field. ``beside``: names of
    further fields to read, with any value."""
    try:
        reader: type[Parsed] = _having(kind, tuple(beside))
        return reader.model_validate_json(raw)
    except ValidationError as error:
        raise _explained(error, raw) from error


def checked(kind: type[Parsed], fields: dict[str, Any]) -> Parsed:
    """Return the body made of parsed ``fields``. Raises as ``parse``."""
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        raise _explained(error, fields) from error


@cache
def _having(kind: type[Parsed], names: tuple[str, ...]) -> type[Parsed]:
    """Return ``kind`` with further fields of any value. Pydantic skips other unknown fields: to make
    objects of 16 MiB of them would take a second."""
    anything: Mapping[str, Any] = {
        name: (Any, None) for name in names if name not in kind.model_fields
    }
    return create_model(kind.__name__, __base__=kind, **anything)


def _explained(error: ValidationError, source: bytes | dict[str, Any]) -> ApiError:
    errors = error.errors(include_url=False)
    first = errors[0]
    if first["type"] == "json_invalid":
        why = f"not valid JSON{first['msg'].removeprefix('Invalid JSON')}"
        if "recursion limit" in why:
            why = "nested too deeply: it may have at most 200 lists and objects within each other"
        return ApiError(400, f"The body is {why}.", code="invalid_json")
    found, location = [first], first["loc"]
    if len(source) <= _LARGEST_PARSED_AGAIN:
        body = from_json(source) if isinstance(source, bytes) else source
        found, location = _innermost(errors, body)
        first = found[0]
    param = _path(location)
    if not param:
        return ApiError(400, "The body must be a JSON object.", code="invalid_json")
    if first["type"] == "missing":
        return missing(param)
    given = "null" if first["input"] is None else shown(first["input"])
    first_words, *others = dict.fromkeys(map(in_words, found))
    words = " or ".join([first_words, *(each.removeprefix("it must ") for each in others)])
    message = f"{param} is {given}; {words}."
    return ApiError(400, message, code="invalid_value", param=param)


def _innermost(
    errors: Sequence[ErrorDetails], body: Any
) -> tuple[list[ErrorDetails], tuple[int | str, ...]]:
    """Return the errors of the first field, or of a field within it: a union has an error for each of its
    variants, of which the one that went on deepest was meant."""
    found, deepest = [errors[0]], _fields(errors[0], body)
    for each in errors[1:_MOST_VARIANTS]:
        field = _fields(each, body)
        if field == deepest:
            found.append(each)
        elif len(field) > len(deepest) and field[: len(deepest)] == deepest:
            found, deepest = [each], field
    return found, deepest


def in_words(wrong: ErrorDetails) -> str:
    """Return Pydantic's message as the end of a sentence that begins with the field and its value."""
    if wrong["type"] in _WORDS:
        return _WORDS[wrong["type"]]
    message = _SHOULD.sub("it must ", wrong["msg"].removeprefix("Value error, "))
    for long, short in _SHORTER.items():
        message = message.replace(long, short)
    return message.partition(" after validation")[0]


def _fields(error: ErrorDetails, body: Any) -> tuple[int | str, ...]:
    """Return an error's location without the steps that Pydantic adds for the variants of a union.

    The last step of a missing field is not in ``body``.
    """
    location, missing = error["loc"], error["type"] == "missing"
    steps: list[int | str] = []
    for at, step in enumerate(location):
        try:
            body = body[step]
        except (LookupError, TypeError):
            if not (missing and at == len(location) - 1):
                continue
        steps.append(step)
    return tuple(steps)


def _path(location: tuple[int | str, ...]) -> str:
    """Return ``messages[0].content`` for ("messages", 0, "content")."""
    path = ""
    for step in location:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path


LARGEST_BODY = 16 * 2**20
"""Bytes, at most; far above any model's context."""
MOST_CONTAINERS = 2**17
"""Lists and objects of a body. Parsing megabytes of empty ones blocks the server for many seconds."""
MOST_VALUES = MAX_IDS + MOST_CONTAINERS
BODY_S = 30.0
"""Seconds for all of a body."""


async def read(http: HttpRequest, kind: type[Parsed], refused: Refused) -> Parsed:
    """Return the request's body, whatever its content type. Raises a 400, 408 or 413.

    ``refused``: fields that must have harmless values."""
    try:
        async with asyncio.timeout(BODY_S):
            raw = await _whole(http)
    except TimeoutError:
        raise ApiError(
            408,
            f"The body did not arrive within {BODY_S:g} seconds. Send the request again.",
            code="request_timeout",
            headers={"Connection": "close"},
        ) from None
    try:
        check_counts(raw, MOST_CONTAINERS, MOST_VALUES)
    except TooMany as error:
        raise ApiError(413, f"The body has {error}. Send less at once.", code="too_large") from None
    body = parse(kind, raw, refused)
    refuse(body, refused)
    return body


async def _whole(http: HttpRequest) -> bytes:
    raw = bytearray()
    declared = int(http.headers.get("content-length", 0))  # h11 accepts only digits
    async for part in http.stream():
        raw += part
        if max(len(raw), declared) > LARGEST_BODY:
            raise ApiError(
                413, f"The body is larger than {LARGEST_BODY >> 20} MiB.", code="too_large"
            )
    return bytes(raw)
