"""Convert bodies to engine requests, one for each choice, and queue them for the model they name."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from anyio import to_thread

from app.server.errors import ApiError, missing, unsupported
from app.server.fields.schemas import (
    MAX_CHOICES,
    ChatBody,
    CompletionBody,
    ContentPart,
    GenerationBody,
    MessageBody,
    SpeculationBody,
)
from app.server.fields.structured import grammar_of
from app.server.fields.tools import called_tool, calls_of, thinking_of, tools_of
from app.server.models import Models
from app.server.request_queue import RequestQueue, Ticket
from engine.api import Engine, Loaded, Tokenizer
from engine.errors import InvalidRequest
from engine.request import Request, Speculation, controller_named
from engine.values.messages import MAX_IMAGE_BYTES, Image, Message
from engine.values.sampling import Sampling, rule_named

_DATA = re.compile(r"data:[\w.+/-]*(?:;[\w=.+-]+)*;base64,", re.ASCII | re.IGNORECASE)
"""The type is not asked for: the file itself says what it is."""


def image_at(address: str, path: str) -> bytes:
    """Return the file in a data URL. Raises ApiError for another address: nothing is fetched."""
    head = _DATA.match(address[:200])
    if head is None:
        raise ApiError(
            400,
            f"{path}: send images as data URLs (data:image/png;base64,...). This server "
            "does not download images from addresses.",
            code="unsupported_value",
            param=path,
        )
    return file_in(address[head.end() :], path)


def file_in(encoded: str, path: str) -> bytes:
    """Return the file in base64. Raises ApiError."""
    if len(encoded) > MAX_IMAGE_BYTES * 4 // 3 + 4:
        raise _wrong(path, f"is larger than {MAX_IMAGE_BYTES >> 20} MiB")
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise _wrong(path, "is not base64") from None
    if not data:
        raise _wrong(path, "is empty")
    return data


def _wrong(path: str, what: str) -> ApiError:
    return ApiError(400, f"{path} {what}.", code="invalid_value", param=path)


@dataclass(frozen=True, slots=True)
class Drafting:
    """The loaded pair, how it drafts by default, and its engine."""

    loaded: Loaded
    default: Speculation
    engine: Engine


def tokenizer_of(engine: Engine) -> Tokenizer:
    """Return the tokenizer of what is loaded. Raises ApiError if a server has the model: it is not known
    here."""
    if engine.tokenizer is None:
        raise unsupported(
            "model",
            "this for a model on a server, which alone knows its tokens",
            "Name a model of this machine.",
        )
    return engine.tokenizer


_ANY = -1
"""Sent by clients of local servers for "a random seed", "no limit" and "no top-k"."""


def chat_requests(
    body: ChatBody, pair: Drafting, *, answers_name_calls: bool = True
) -> tuple[Request, ...]:
    """Return ``n`` requests for the same messages. ``answers_name_calls``: messages of tools must name
    the call that they answer."""
    if body.top_logprobs and not body.logprobs:
        raise InvalidRequest(
            "top_logprobs", "top_logprobs needs logprobs: true. Add it, or leave top_logprobs out."
        )
    common = common_fields(body, pair, body.top_logprobs)
    messages, prefill = _messages(body.messages, answers_name_calls), ""
    if body.continue_final_message:
        messages, prefill = messages[:-1], _prefill(messages)
    request = Request(
        messages=messages,
        prefill=prefill,
        **common,
        **tools_of(body),
        **thinking_of(body),
    )
    return _choices(request, body.n or 1)


def completion_requests(body: CompletionBody, pair: Drafting) -> tuple[Request, ...]:
    """Return ``n`` requests for each prompt."""
    n = body.n or 1
    if len(body.prompt) * n > MAX_CHOICES:
        raise InvalidRequest(
            "n",
            f"{len(body.prompt)} prompts with n = {n} are more than {MAX_CHOICES} replies. "
            "Send several requests.",
        )
    common = common_fields(body, pair, body.logprobs)
    requests: list[Request] = []
    for prompt in body.prompt:
        if isinstance(prompt, str):
            request = Request(prompt=prompt, **common)
        else:
            request = Request(token_ids=tuple(prompt), **common)
        requests += _choices(request, n)
    return tuple(requests)


@contextmanager
def _named_as_in(body: GenerationBody) -> Iterator[None]:
    """Let errors of the engine name fields as the client does."""
    names = body.engine_names()
    try:
        yield
    except InvalidRequest as error:
        name, message = error.field, str(error)
        error.field = names.get(name, name)
        if message.startswith(f"{name} "):
            error.args = (error.field + message.removeprefix(name),)
        raise


def common_fields(body: GenerationBody, pair: Drafting, top_logprobs: int | None) -> dict[str, Any]:
    """Return the fields of the engine's Request that all bodies set in the same way."""
    likely = body.prediction and body.prediction.content
    predicted = text_of(likely, "prediction.content") if likely else ""
    return {
        "sampling": sampling_from(dict(body)),
        "speculation": _speculation(body, pair, bool(predicted)),
        "predicted": predicted,
        "logit_bias": _logit_bias(body),
        "top_logprobs": top_logprobs or 0,
        "max_tokens": None if body.limit == _ANY else body.limit,
        "stop": tuple(body.stop or ()),
        "ignore_eos": bool(body.ignore_eos),
        "reuse_cache": body.cache_prompt is not False,
        "grammar": grammar_of(body.reply_format, body.structured_outputs),
    }


def sampling_from(given: Mapping[str, Any]) -> Sampling:
    """Return the sampling of a body's fields, of which null and absent ones have the engine's default."""
    values = {each.name: given.get(each.name) for each in fields(Sampling)}
    for name, neutral in (("top_k", 0), ("seed", None)):
        if values[name] == _ANY:
            values[name] = neutral
    return Sampling(**{name: value for name, value in values.items() if value is not None})


def _logit_bias(body: GenerationBody) -> tuple[tuple[int, float], ...]:
    biases = []
    for name, bias in (body.logit_bias or {}).items():
        if not (name.isascii() and name.isdecimal()) or len(name) > 10:
            raise InvalidRequest(
                "logit_bias", f"logit_bias has the key {name[:20]!r}; keys must be token ids."
            )
        biases.append((int(name), bias))
    return tuple(biases)


def _speculation(body: GenerationBody, pair: Drafting, predicts: bool) -> Speculation:
    """Return how to draft: by ``speculation``, by the flat fields, or by the loaded pair's default.

    The default applies as a whole or not at all. A default of plain decoding does not apply if there is a
    prediction to draft from.
    """
    values = _speculation_fields(body)
    plain = predicts and not pair.default.deepest
    if plain or values.keys() & {"proposer", "depth", "controller", "options"}:
        values.setdefault("proposer", pair.loaded.capabilities.preferred)
    else:
        default = pair.default
        values |= {name: getattr(default, name) for name in ("proposer", "depth", "controller")}
    if values.get("controller") is not None:
        values["controller"] = controller_named(values["controller"])
    if "acceptance" in values:
        values["acceptance"] = rule_named(values["acceptance"])
    return Speculation(**values)


def _speculation_fields(body: GenerationBody) -> dict[str, Any]:
    nested = body.speculation or SpeculationBody()
    values = {name: value for name, value in nested.model_dump().items() if value is not None}
    for name in ("proposer", "depth", "controller", "acceptance"):
        flat = getattr(body, name)
        if flat is None:
            continue
        if values.setdefault(name, flat) != flat:
            raise InvalidRequest(
                name,
                f"There are two values for {name}: {flat!r}, and {values[name]!r} in speculation. "
                "Leave one out.",
            )
    return values


def _messages(messages: list[MessageBody], answers_name_calls: bool) -> tuple[Message, ...]:
    converted: list[Message] = []
    names: dict[str, str] = {}  # of called tools, by ids of calls
    for at, each in enumerate(messages):
        message = message_of(each, f"messages[{at}]")
        names |= {call.id: call.name for call in message.tool_calls}
        if message.role == "tool" and (answers_name_calls or message.tool_call_id is not None):
            field = f"messages[{at}].tool_call_id"
            if message.tool_call_id is None:
                raise missing(field)
            called_tool(message.tool_call_id, names, field)
        converted.append(message)
    return tuple(converted)


def _prefill(messages: Sequence[Message]) -> str:
    """Return the text of the last message, which the reply continues. Raises InvalidRequest."""
    *before, last = messages
    if not before or last.role != "assistant" or last.tool_calls or last.images or last.reasoning:
        raise InvalidRequest(
            "continue_final_message",
            "continue_final_message is not possible: the last message must be an assistant's, with "
            "text alone, and another one must come before it.",
        )
    return last.content


def message_of(message: MessageBody, path: str) -> Message:
    """Return the engine's message. Raises ApiError for content that is neither text nor an image, and
    InvalidRequest for calls in a message that is not an assistant's."""
    if message.tool_calls and message.role != "assistant":
        raise InvalidRequest(
            f"{path}.tool_calls",
            f"{path}.tool_calls is given, but only assistant messages may have it.",
        )
    if message.content is None and not message.tool_calls:
        raise missing(f"{path}.content")
    text, images = _content_of(message.content or (), f"{path}.content")
    if images and message.role not in ("user", "tool"):
        raise InvalidRequest(
            f"{path}.content",
            f"{path}.content has an image, but only user messages may have images.",
        )
    return Message(
        "system" if message.role == "developer" else message.role,
        text,
        tool_calls=calls_of(message.tool_calls),
        tool_call_id=message.tool_call_id,
        name=message.name if message.role == "tool" else None,
        reasoning=message.reasoning_content or "",
        images=images,
    )


def text_of(parts: Sequence[ContentPart], path: str) -> str:
    """Return the text of the parts at ``path``. Raises ApiError for a part that is no text."""
    return "\n".join(_text(part, f"{path}[{at}]") for at, part in enumerate(parts))


def _content_of(parts: Sequence[ContentPart], path: str) -> tuple[str, tuple[Image, ...]]:
    """Return the text of the parts at ``path``, and their images. Raises ApiError for other parts."""
    text, images, after_text = "", [], False
    for at, part in enumerate(parts):
        place = f"{path}[{at}]"
        if part.type in ("image_url", "input_image"):
            address = part.image_url
            if address is None:
                raise missing(f"{place}.image_url")
            url = address if isinstance(address, str) else address.url
            images.append(Image(image_at(url, f"{place}.image_url"), len(text)))
            after_text = False
            continue
        text += "\n" * after_text + _text(part, place)
        after_text = True
    return text, tuple(images)


def _text(part: ContentPart, path: str) -> str:
    if part.type not in ("text", "input_text", "output_text"):
        what = f"content of type {part.type[:80]!r}"
        raise unsupported(f"{path}.type", what, "Leave the part out.")
    if part.text is None:
        raise missing(f"{path}.text")
    return part.text


def _choices(request: Request, n: int) -> tuple[Request, ...]:
    """Return the request ``n`` times. A seed counts up, so that each choice can be reproduced."""
    seed = request.sampling.seed
    if seed is None:
        return (request,) * n
    return tuple(
        replace(request, sampling=replace(request.sampling, seed=(seed + at) % 2**64))
        for at in range(n)
    )


BodyT = TypeVar("BodyT", bound=GenerationBody)
Convert = Callable[[BodyT, Drafting], tuple[Request, ...]]
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Service:
    """The models of one server, and the queue of its requests."""

    models: Models
    queue: RequestQueue

    async def admit(self, body: BodyT, convert: Convert[BodyT]) -> tuple[Loaded, Ticket]:
        """Queue the requests that ``convert`` makes of ``body``, for the model that it names.

        Raises ApiError, and the engine's errors, which name fields as the client does.
        """
        async with self.models.using(body.model) as loaded:
            with _named_as_in(body):
                requests = await to_thread.run_sync(self._made, body, convert, loaded)
                engine = self.queue.engine.of(loaded)
                return loaded, await self.queue.admit(requests, loaded.id, engine)

    async def of_prompt(
        self, body: BodyT, convert: Convert[BodyT], find: Callable[[Tokenizer, Request], Found]
    ) -> Found:
        """Return what ``find`` makes of the request that ``convert`` makes of ``body``. Raises as
        ``admit``."""
        async with self.tokenizing(body.model) as (loaded, tokenizer):
            with _named_as_in(body):
                request, *_ = await to_thread.run_sync(self._made, body, convert, loaded)
                return await to_thread.run_sync(find, tokenizer, request)

    @asynccontextmanager
    async def tokenizing(self, model: str | None) -> AsyncIterator[tuple[Loaded, Tokenizer]]:
        """Yield what ``model`` means, loaded, and its tokenizer. Raises ApiError, also as
        ``tokenizer_of``."""
        async with self.models.using(model) as loaded:
            yield loaded, tokenizer_of(self.queue.engine.of(loaded))

    def _made(self, body: BodyT, convert: Convert[BodyT], loaded: Loaded) -> tuple[Request, ...]:
        """Convert, in a thread: this decodes images, reads defaults, and encodes an infill's files."""
        default, engine = self.models.defaults.speculation(loaded), self.queue.engine.of(loaded)
        return convert(body, Drafting(loaded, default, engine))
