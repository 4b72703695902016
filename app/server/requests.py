"""From a body to engine requests: one for each choice, in the order of their indices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from app.server.errors import missing
from app.server.fields.schemas import (
    MAX_CHOICES,
    ChatBody,
    CompletionBody,
    GenerationBody,
    MessageBody,
    SpeculationBody,
    TextPart,
)
from app.server.fields.structured import ResponseFormatBody, field_of, grammar_of
from app.server.fields.tools import answered, calls_of, tools_of
from app.server.fields.unsupported import unsupported
from app.server.responses.schemas import LOGPROBS, ResponseBody
from engine.errors import InvalidRequest
from engine.request import Request, Speculation, controller_named
from engine.values.messages import Message
from engine.values.sampling import Sampling, rule_named

if TYPE_CHECKING:
    from engine.api import Loaded


@dataclass(frozen=True, slots=True)
class Drafting:
    """What is loaded, and how it drafts where a body says nothing of that."""

    loaded: Loaded
    default: Speculation


COMPLETION_TOKENS = 16
"""Of a completion whose length nobody said, as OpenAI and vLLM have it."""
_ANY = -1
"""What local servers' clients send for "a random seed", "no limit" and "no top-k"."""


def chat_requests(
    body: ChatBody, pair: Drafting, *, answers_name_calls: bool = True
) -> tuple[Request, ...]:
    """``n`` requests for the same messages. ``answers_name_calls``: whether what a tool returned has to
    say which call it answers."""
    if body.top_logprobs and not body.logprobs:
        raise InvalidRequest(
            "top_logprobs", "top_logprobs needs logprobs: send true with it, or leave it out."
        )
    limit = body.max_tokens
    if body.max_completion_tokens is not None:
        limit = body.max_completion_tokens
    common = _common(body, pair, limit, body.top_logprobs)
    if (format := format_of(body)) is not None:
        common["grammar"] = grammar_of(format, body.structured_outputs)
    request = Request(
        messages=_messages(body.messages, answers_name_calls), **common, **tools_of(body)
    )
    return _choices(request, body.n or 1)


def response_requests(
    body: ResponseBody, pair: Drafting, conversation: tuple[Message, ...]
) -> tuple[Request, ...]:
    """The one request for ``conversation``, under the body's instructions."""
    if body.top_logprobs and LOGPROBS not in (body.include or ()):
        raise InvalidRequest(
            "top_logprobs",
            f'top_logprobs needs include: ["{LOGPROBS}"]. Send it with that, or leave it out.',
        )
    if body.instructions:
        conversation = (Message("system", body.instructions), *conversation)
    limit = body.max_tokens if body.max_output_tokens is None else body.max_output_tokens
    common = _common(body, pair, limit, body.top_logprobs)
    if (format := format_of(body)) is not None:
        common["grammar"] = grammar_of(format, body.structured_outputs)
    return (Request(messages=conversation, **common, **tools_of(body.offered)),)


def completion_requests(body: CompletionBody, pair: Drafting) -> tuple[Request, ...]:
    """``n`` requests for each prompt."""
    n = body.n or 1
    if len(body.prompt) * n > MAX_CHOICES:
        raise InvalidRequest(
            "n",
            f"{len(body.prompt)} prompts with n = {n} are more than {MAX_CHOICES} replies; "
            "send several requests.",
        )
    limit = COMPLETION_TOKENS if body.max_tokens is None else body.max_tokens
    common = _common(body, pair, limit, body.logprobs)
    requests: list[Request] = []
    for prompt in body.prompt:
        if isinstance(prompt, str):
            request = Request(prompt=prompt, **common)
        else:
            request = Request(token_ids=tuple(prompt), **common)
        requests += _choices(request, n)
    return tuple(requests)


def format_of(body: GenerationBody) -> ResponseFormatBody | None:
    """What a reply to a chat or a response has to look like."""
    if isinstance(body, ResponseBody):
        format = None if body.text is None else body.text.format
        return None if format is None else format.response_format
    return body.response_format if isinstance(body, ChatBody) else None


@contextmanager
def named_as_in(body: GenerationBody) -> Iterator[None]:
    """Errors of the engine name the field as the client spelt it."""
    names = {"options": "speculation.options", "predicted": "prediction"}
    names["top_logprobs"] = "logprobs" if isinstance(body, CompletionBody) else "top_logprobs"
    if body.speculation is not None:
        names |= {name: f"speculation.{name}" for name in body.speculation.model_fields_set}
    elif body.speculative is not None:
        given = {"proposer" if n == "method" else n: n for n in body.speculative.model_fields_set}
        names |= {name: f"speculative.{spelt}" for name, spelt in given.items()}
    if isinstance(body, ResponseBody):
        names["messages"] = "input"
        if body.max_output_tokens is not None:
            names["max_tokens"] = "max_output_tokens"
    if isinstance(body, ChatBody) and body.max_completion_tokens is not None:
        names["max_tokens"] = "max_completion_tokens"
    if isinstance(body, CompletionBody):
        names["messages"] = "prompt"
    if (structure := field_of(format_of(body), body.structured_outputs)) is not None:
        names["grammar"] = structure
        if isinstance(body, ResponseBody):
            names["grammar"] = structure.replace("response_format.json_schema", "text.format")
    try:
        yield
    except InvalidRequest as error:
        engines = error.field
        error.field = names.get(engines, engines)
        if isinstance(body, ResponseBody) and engines.startswith("tools["):
            error.field = engines.replace(".function.", ".")
        message = str(error)
        if message.startswith(f"{engines} "):
            error.args = (error.field + message.removeprefix(engines),)
        raise


def _common(
    body: GenerationBody, pair: Drafting, limit: int | None, top_logprobs: int | None
) -> dict[str, Any]:
    predicted = _predicted(body)
    return {
        "sampling": _sampling(body),
        "speculation": _speculation(body, pair, bool(predicted)),
        "predicted": predicted,
        "logit_bias": _logit_bias(body),
        "top_logprobs": top_logprobs or 0,
        "max_tokens": None if limit == _ANY else limit,
        "stop": tuple(body.stop or ()),
        "ignore_eos": bool(body.ignore_eos),
        "reuse_cache": body.cache_prompt is not False,
        "grammar": grammar_of(None, body.structured_outputs),
    }


def _sampling(body: GenerationBody) -> Sampling:
    given = {each.name: getattr(body, each.name) for each in fields(Sampling)}
    for name, neutral in (("top_k", 0), ("seed", None)):
        if given[name] == _ANY:
            given[name] = neutral
    return Sampling(**{name: value for name, value in given.items() if value is not None})


def _predicted(body: GenerationBody) -> str:
    if body.prediction is None:
        return ""
    return text_of(body.prediction.content, "prediction.content")


def _logit_bias(body: GenerationBody) -> tuple[tuple[int, float], ...]:
    found = []
    for name, bias in (body.logit_bias or {}).items():
        if not (name.isascii() and name.isdecimal()) or len(name) > 10:
            raise InvalidRequest(
                "logit_bias", f"logit_bias has the key {name[:20]!r}; keys are ids of tokens."
            )
        found.append((int(name), bias))
    return tuple(found)


def _speculation(body: GenerationBody, pair: Drafting, predicts: bool) -> Speculation:
    """From ``speculation``, from the flat fields, or the loaded pair's default.

    A measured default is a whole: where anything of it is chosen otherwise, none of it counts. One that
    drafts nothing does not count where there is a prediction to draft from.
    """
    given = _given_speculation(body)
    plain = predicts and not pair.default.deepest
    if plain or given.keys() & {"proposer", "depth", "controller", "options"}:
        given.setdefault("proposer", pair.loaded.capabilities.preferred)
    else:
        default = pair.default
        given |= {name: getattr(default, name) for name in ("proposer", "depth", "controller")}
    if given.get("controller") is not None:
        given["controller"] = controller_named(given["controller"])
    if "acceptance" in given:
        given["acceptance"] = rule_named(given["acceptance"])
    return Speculation(**given)


def _given_speculation(body: GenerationBody) -> dict[str, Any]:
    nested = body.speculation or SpeculationBody()
    if body.speculative is not None:
        if body.speculation is not None:
            raise InvalidRequest(
                "speculative", "speculation and speculative say the same; leave one out."
            )
        other = body.speculative
        nested = SpeculationBody(
            proposer=other.method, depth=other.depth, acceptance=other.acceptance
        )
    given = {name: value for name, value in nested.model_dump().items() if value is not None}
    for name in ("proposer", "depth", "controller", "acceptance"):
        flat = getattr(body, name)
        if flat is None:
            continue
        if given.setdefault(name, flat) != flat:
            raise InvalidRequest(
                name,
                f"{name} is {flat!r}, but speculation.{name} is {given[name]!r}; leave one out.",
            )
    return given


def _messages(messages: list[MessageBody], answers_name_calls: bool) -> tuple[Message, ...]:
    told: list[Message] = []
    names: dict[str, str] = {}  # of the tools that were called, by the calls' ids
    for at, each in enumerate(messages):
        message = message_of(each, f"messages[{at}]")
        names |= {call.id: call.name for call in message.tool_calls}
        if message.role == "tool" and (answers_name_calls or message.tool_call_id is not None):
            field = f"messages[{at}].tool_call_id"
            if message.tool_call_id is None:
                raise missing(field)
            answered(message.tool_call_id, names, field)
        told.append(message)
    return tuple(told)


def message_of(message: MessageBody, path: str) -> Message:
    """Raises ApiError for what is no text, and InvalidRequest for calls of somebody else's."""
    if message.tool_calls and message.role != "assistant":
        raise InvalidRequest(
            f"{path}.tool_calls", f"{path}.tool_calls are there, but only assistants call tools."
        )
    if message.content is None and not message.tool_calls:
        raise missing(f"{path}.content")
    return Message(
        "system" if message.role == "developer" else message.role,
        text_of(message.content or (), f"{path}.content"),
        tool_calls=calls_of(message.tool_calls),
        tool_call_id=message.tool_call_id,
        name=message.name if message.role == "tool" else None,
        reasoning=message.reasoning_content or "",
    )


def text_of(parts: Sequence[TextPart], path: str) -> str:
    """Of the parts at ``path``. Raises ApiError for one that is no text."""
    texts = []
    for at, part in enumerate(parts):
        if part.type not in ("text", "input_text", "output_text"):
            raise unsupported(f"{path}[{at}].type", f"content of type {part.type!r}")
        if part.text is None:
            raise missing(f"{path}[{at}].text")
        texts.append(part.text)
    return "\n".join(texts)


def _choices(request: Request, n: int) -> tuple[Request, ...]:
    """The request ``n`` times; a given seed counts up, so that each choice can be made again."""
    seed = request.sampling.seed
    if seed is None:
        return (request,) * n
    return tuple(
        replace(request, sampling=replace(request.sampling, seed=_wrapped(seed + at)))
        for at in range(n)
    )


def _wrapped(seed: int) -> int:
    return seed if seed < 2**64 else seed - 2**64
