"""What clients send: known fields checked, unknown ones ignored, wrong values named.

Where a field is left out or null, the engine's own default holds, which is also that of the pages
and of the command line: temperature 0, and no limit but the context on the reply's length.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model
from pydantic_core import ErrorDetails, from_json

from app.server.errors import ApiError, missing
from app.server.fields.structured import ResponseFormatBody, StructuredOutputsBody
from app.server.fields.tools import ToolCallBody, ToolsBody
from engine.request import MAX_BIASES, MAX_STOPS, MAX_TOP_LOGPROBS
from engine.values.sampling import Sampling

MAX_MESSAGES = 4096
"""Of a chat, and most parts of one message: each takes memory however short it is."""
MAX_IDS = 2**21
"""Most token ids of a prompt; the longest context a model may have is far below this."""
MAX_CHOICES = 128
"""Most replies one request may ask for: prompts times ``n``."""


def _stops(value: Any) -> Any:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and len(value) > MAX_STOPS:
        raise ValueError(f"must hold {MAX_STOPS} strings at most")
    if value is None or isinstance(value, list):
        return value
    raise ValueError("must be a string or a list of strings")


def _parts(value: Any) -> Any:
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    if isinstance(value, list):
        return value
    raise ValueError("must be a string or a list of text parts")


def _prompts(value: Any) -> Any:
    """One prompt as a list of one: a string, or a list of token ids."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value:
        if len(value) > MAX_IDS:
            raise ValueError(f"must have {MAX_IDS} entries at most")
        if _all(value, int):
            return [value]
        if _all(value, str) or all(isinstance(ids, list) and _all(ids, int) for ids in value):
            return value
    raise ValueError("must be a string, a list of strings, a list of token ids, or a list of those")


def _all(values: list[Any], kind: type) -> bool:
    return all(type(value) is kind for value in values)


class _Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")


class SpeculationBody(BaseModel):
    """Foretoken's own: how to draft, for this request."""

    model_config = ConfigDict(strict=True, extra="forbid")

    proposer: str | None = None
    depth: int | None = None
    controller: str | None = None
    acceptance: str | None = None
    options: dict[str, Any] | None = None


class SpeculativeBody(BaseModel):
    """The same in the words of most papers; a method is what vLLM calls a proposer."""

    model_config = ConfigDict(strict=True, extra="forbid")

    method: str | None = None
    depth: int | None = None
    acceptance: str | None = None


class StreamOptions(_Body):
    include_usage: bool | None = None


_SAMPLING: Mapping[str, Any] = {
    name: (kind | None, None) for name, kind in get_type_hints(Sampling).items()
}
_SamplingBody = create_model("_SamplingBody", __base__=_Body, **_SAMPLING)


class TextPart(_Body):
    type: str
    text: str | None = None


Content = Annotated[
    list[TextPart],
    Field(max_length=MAX_MESSAGES),
    BeforeValidator(_parts, json_schema_input_type=str | list[TextPart]),
]


class PredictionBody(_Body):
    """What the reply will likely be: OpenAI's Predicted Outputs."""

    type: Literal["content"]
    content: Content


class GenerationBody(_SamplingBody, _Body):  # type: ignore[misc, valid-type]  # made of fields
    """What both kinds of completion have in common."""

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
    speculative: SpeculativeBody | None = None
    spec_decode_metrics: Literal["summary", "detailed"] | None = None
    proposer: str | None = None
    depth: int | None = None
    controller: str | None = None
    acceptance: str | None = None


class MessageBody(_Body):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Content | None = None
    tool_calls: Annotated[list[ToolCallBody], Field(max_length=MAX_CHOICES)] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    reasoning_content: str | None = None


class ChatBody(GenerationBody, ToolsBody):
    response_format: ResponseFormatBody | None = None
    messages: Annotated[list[MessageBody], Field(min_length=1, max_length=MAX_MESSAGES)]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    return_events: bool | None = None


class CompletionBody(GenerationBody):
    prompt: Annotated[
        list[str | list[int]],
        BeforeValidator(
            _prompts, json_schema_input_type=str | list[str] | list[int] | list[list[int]]
        ),
    ]
    logprobs: Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    return_events: bool | None = None


_LOOKED_INTO = 2**20
"""Bytes of a body that is read once more to name a field well: of a larger one it would take long."""

_WORDS = {
    "extra_forbidden": "there is no such field",
    "dict_type": "it must be an object",
    "model_type": "it must be an object",
}
_SHOULD = re.compile(r"^(\w+ should|must) ")

Parsed = TypeVar("Parsed", bound=BaseModel)


def parse(kind: type[Parsed], raw: bytes, beside: Collection[str] = ()) -> Parsed:
    """The request's body; a 400 that names the first field that is wrong. ``beside``: names of fields
    that it has too, if they were sent, whatever they hold."""
    try:
        reader: type[Parsed] = _having(kind, tuple(beside))
        return reader.model_validate_json(raw)
    except ValidationError as error:
        raise _explained(error, raw) from error


def checked(kind: type[Parsed], given: dict[str, Any]) -> Parsed:
    """The same of fields that were read already."""
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise _explained(error, given) from error


@cache
def _having(kind: type[Parsed], names: tuple[str, ...]) -> type[Parsed]:
    """``kind`` with these fields beside its own. Of other unknown ones no objects are made: of 16 MiB
    that would take a second."""
    anything: Mapping[str, Any] = {
        name: (Any, None) for name in names if name not in kind.model_fields
    }
    return create_model(kind.__name__, __base__=kind, **anything)


def _explained(error: ValidationError, given: bytes | dict[str, Any]) -> ApiError:
    first = error.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        return ApiError(400, f"The body cannot be read: {first['msg']}.", code="invalid_json")
    location = first["loc"]
    if len(given) <= _LOOKED_INTO:
        body = from_json(given) if isinstance(given, bytes) else given
        location = _fields(location, body, missing=first["type"] == "missing")
    param = _path(location)
    if not param:
        return ApiError(400, "The body must be a JSON object.", code="invalid_json")
    if first["type"] == "missing":
        return missing(param)
    wrong = first["input"]
    # What is cut off here is not shown anyway, and may be as long as a body.
    written = repr(wrong[:61] if isinstance(wrong, str | list) else wrong)
    shown = written if len(written) <= 60 else f"{written[:60]}…"
    return ApiError(
        400, f"{param} is {shown}; {in_words(first)}.", code="invalid_value", param=param
    )


def in_words(wrong: ErrorDetails) -> str:
    """What Pydantic found, as what goes on behind a field's name and value."""
    if wrong["type"] in _WORDS:
        return _WORDS[wrong["type"]]
    message = _SHOULD.sub("it must ", wrong["msg"].removeprefix("Value error, "))
    return message.partition(" after validation")[0]


def _fields(location: tuple[int | str, ...], body: Any, *, missing: bool) -> tuple[int | str, ...]:
    """``location`` in ``body`` without what Pydantic adds: which of several forms it tried.

    ``missing``: whether its last step is a field that is not there.
    """
    found: list[int | str] = []
    for at, step in enumerate(location):
        try:
            body = body[step]
        except (LookupError, TypeError):
            if not (missing and at == len(location) - 1):
                continue
        found.append(step)
    return tuple(found)


def _path(location: tuple[int | str, ...]) -> str:
    """``messages[0].content`` of ("messages", 0, "content")."""
    path = ""
    for step in location:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path
