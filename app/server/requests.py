"""From a body to engine requests: one for each choice, in the order of their indices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from app.server.errors import ApiError
from app.server.schemas import (
    MAX_CHOICES,
    ChatBody,
    CompletionBody,
    GenerationBody,
    MessageBody,
    SpeculationBody,
)
from app.server.unsupported import unsupported
from engine.errors import InvalidRequest
from engine.request import (
    Message,
    Request,
    Sampling,
    Speculation,
    controller_named,
    rule_named,
)

if TYPE_CHECKING:
    from engine.api import Loaded


@dataclass(frozen=True, slots=True)
class Drafting:
    """What is loaded, and how it drafts where a body says nothing of that."""

    loaded: Loaded
    default: Speculation


_TOP = "the probabilities of tokens that were not chosen"
_ANY = -1
"""What local servers' clients send for "a random seed", "no limit" and "no top-k"."""


def chat_requests(body: ChatBody, pair: Drafting) -> tuple[Request, ...]:
    """``n`` requests for the same messages."""
    if body.top_logprobs:
        raise unsupported("top_logprobs", _TOP)
    limit = body.max_tokens
    if body.max_completion_tokens is not None:
        limit = body.max_completion_tokens
    request = Request(messages=_messages(body.messages), **_common(body, pair, limit))
    return _choices(request, body.n or 1)


def completion_requests(body: CompletionBody, pair: Drafting) -> tuple[Request, ...]:
    """``n`` requests for each prompt."""
    if body.logprobs:
        raise unsupported("logprobs", f"{_TOP}; 0 gives those of the chosen ones")
    n = body.n or 1
    if len(body.prompt) * n > MAX_CHOICES:
        raise InvalidRequest(
            "n",
            f"{len(body.prompt)} prompts with n = {n} are more than {MAX_CHOICES} replies; "
            "send several requests.",
        )
    common = _common(body, pair, body.max_tokens)
    requests: list[Request] = []
    for prompt in body.prompt:
        if isinstance(prompt, str):
            request = Request(prompt=prompt, **common)
        else:
            request = Request(token_ids=tuple(prompt), **common)
        requests += _choices(request, n)
    return tuple(requests)


@contextmanager
def named_as_in(body: GenerationBody) -> Iterator[None]:
    """Errors of the engine name the field as the client spelt it."""
    names = {"options": "speculation.options"}
    if body.speculation is not None:
        names |= {name: f"speculation.{name}" for name in body.speculation.model_fields_set}
    if isinstance(body, ChatBody) and body.max_completion_tokens is not None:
        names["max_tokens"] = "max_completion_tokens"
    if isinstance(body, CompletionBody):
        names["messages"] = "prompt"
    try:
        yield
    except InvalidRequest as error:
        engines = error.field
        error.field = names.get(engines, engines)
        message = str(error)
        if message.startswith(f"{engines} "):
            error.args = (error.field + message.removeprefix(engines),)
        raise


def _common(body: GenerationBody, pair: Drafting, limit: int | None) -> dict[str, Any]:
    return {
        "sampling": _sampling(body),
        "speculation": _speculation(body, pair),
        "max_tokens": None if limit == _ANY else limit,
        "stop": tuple(body.stop or ()),
        "ignore_eos": bool(body.ignore_eos),
    }


def _sampling(body: GenerationBody) -> Sampling:
    given = {each.name: getattr(body, each.name) for each in fields(Sampling)}
    for name, neutral in (("top_k", 0), ("seed", None)):
        if given[name] == _ANY:
            given[name] = neutral
    return Sampling(**{name: value for name, value in given.items() if value is not None})


def _speculation(body: GenerationBody, pair: Drafting) -> Speculation:
    """From ``speculation``, from the flat fields, or the loaded pair's default.

    A measured default is a whole: where anything of it is chosen otherwise, none of it counts.
    """
    given = _given_speculation(body)
    if given.keys() & {"proposer", "depth", "controller", "options"}:
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


def _messages(messages: list[MessageBody]) -> tuple[Message, ...]:
    return tuple(_message(message, f"messages[{at}]") for at, message in enumerate(messages))


def _message(message: MessageBody, path: str) -> Message:
    if message.tool_calls:
        raise unsupported(f"{path}.tool_calls", "tool calls")
    texts = []
    for at, part in enumerate(message.content):
        if part.type != "text":
            raise unsupported(f"{path}.content[{at}].type", f"content of type {part.type!r}")
        if part.text is None:
            param = f"{path}.content[{at}].text"
            raise ApiError(400, f"{param} is missing.", code="missing_value", param=param)
        texts.append(part.text)
    role = "system" if message.role == "developer" else message.role
    return Message(role, "\n".join(texts))


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
