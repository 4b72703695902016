"""Convert requests to bodies of OpenAI's protocol, with the fields of each kind of server."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from engine.errors import ContextExceeded, InvalidRequest
from engine.remote.kinds import ENGINE_DATA, TRAITS, Kind
from engine.request import Control, Request
from engine.values.grammar import Grammar, GrammarKind
from engine.values.messages import Image, Message, pieces
from engine.values.sampling import Sampling
from engine.values.tools import Calling

Json = dict[str, Any]


_NEVER = {
    "reply_prefix": "A server receives text, so it cannot continue a reply. Retry instead.",
    "end_tokens": "The loaded model runs on a server, which accepts no further end tokens.",
    "prefill": "prefill is not possible: the loaded model runs on a server, which begins each reply "
    "itself. End the messages with a user message.",
}


def check(request: Request, kind: Kind, context: int) -> None:
    """Raise InvalidRequest for what this kind of server does not accept, and ContextExceeded for too many
    token ids; only the server counts text. ``context`` 0: unknown."""
    for name, why in _NEVER.items():
        if getattr(request, name):
            raise InvalidRequest(name, why)
    if request.token_ids is not None and context and len(request.token_ids) + 1 > context:
        raise ContextExceeded(len(request.token_ids), context)
    if kind is Kind.FORETOKEN:
        return
    if request.thinking_budget is not None and kind not in _BUDGETS:
        raise InvalidRequest("thinking_budget", f"{kind} has no thinking budget. Leave it out.")
    traits = TRAITS[kind]
    if request.token_ids is not None and not traits.token_ids:
        raise InvalidRequest("prompt", f"{kind} does not accept prompts as token ids. Send text.")
    if request.ignore_eos and not traits.ignore_eos:
        raise InvalidRequest("ignore_eos", f"{kind} does not support ignore_eos. Leave it out.")
    if request.grammar is not None and request.grammar.kind not in traits.grammars:
        raise InvalidRequest(
            "grammar",
            f"{kind} does not support {request.grammar.kind.value} grammars; it supports "
            f"{', '.join(sorted(each.value for each in traits.grammars))}.",
        )
    if request.speculation.depth is not None or request.speculation.control is Control.OFF:
        raise InvalidRequest(
            "depth", f"{kind} decides how far it drafts. Leave depth and controller out."
        )


def body_of(request: Request, kind: Kind) -> Json:
    """Return the body without ``model`` and ``stream``; with ``messages`` for chats, else ``prompt``."""
    body: Json = {"stream_options": {"include_usage": True}}
    if request.messages:
        body["messages"] = [message_of(each) for each in request.messages]
    else:
        body["prompt"] = request.prompt if request.token_ids is None else list(request.token_ids)
    if request.stop:
        body["stop"] = list(request.stop)
    if request.ignore_eos:
        body["ignore_eos"] = True
    if request.logit_bias:
        body["logit_bias"] = {str(token): bias for token, bias in request.logit_bias}
    if request.tools:
        body |= _tools(request)
    body |= _thinking(request, kind)
    if kind is Kind.FORETOKEN:
        return body | _for_foretoken(request)
    traits = TRAITS[kind]
    if request.max_tokens is not None:
        body["max_tokens"] = request.max_tokens
    elif not request.messages:
        body["max_tokens"] = traits.unlimited
    if request.grammar is not None:
        body |= _grammar(request.grammar, kind)
    if not request.reuse_cache:
        body |= _own_cache(kind)
    if kind is Kind.DYNAMO:  # its frontend passes a worker's counts on request
        body["nvext"] = {"extra_fields": [ENGINE_DATA]}
    return body | sampling_of(request, traits.sampling, says_all=traits.says_all)


def sampling_of(request: Request, names: Mapping[str, str], *, says_all: bool) -> Json:
    """Return the sampling fields by the server's ``names``."""
    body: Json = {}
    for each in fields(Sampling):
        value = getattr(request.sampling, each.name)
        if each.name not in names or value is None:
            continue
        if says_all or value != each.default or each.name == "temperature":
            body[names[each.name]] = value
    return body


def message_of(message: Message) -> Json:
    """Return one message of a chat."""
    body: Json = {"role": message.role, "content": message.content}
    if message.images:
        body["content"] = [_part(each) for each in pieces(message)]
    if message.tool_calls:
        body["content"] = message.content or None
        if message.reasoning:  # templates render it while tools are at work
            body["reasoning_content"] = message.reasoning
        body["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        body["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        body["name"] = message.name
    return body


def _part(piece: str | Image) -> Json:
    """Return a part of a message's content."""
    if isinstance(piece, str):
        return {"type": "text", "text": piece}
    url = f"data:image/{_kind_of(piece.data)};base64,{encoded(piece)}"
    return {"type": "image_url", "image_url": {"url": url}}


def encoded(image: Image) -> str:
    """Return an image's file in base64."""
    return base64.b64encode(image.data).decode("ascii")


def _kind_of(data: bytes) -> str:
    """Return the kind of an image's file by its first bytes."""
    begins = {b"\xff\xd8": "jpeg", b"GIF8": "gif", b"RIFF": "webp"}
    return next((kind for mark, kind in begins.items() if data.startswith(mark)), "png")


_BUDGETS = {
    Kind.FORETOKEN: "thinking_budget",
    Kind.VLLM: "thinking_token_budget",
    Kind.LLAMA_SERVER: "thinking_budget_tokens",
}
"""The names of a thinking budget, by servers that have one."""
_EFFORTS = {"off": "none", "on": "medium"}


def _thinking(request: Request, kind: Kind) -> Json:
    """Return the fields about thinking. A switch is a variable of the template on most servers."""
    body: Json = {}
    values = dict(request.template_values)
    if request.thinking:
        body["reasoning_effort"] = _EFFORTS.get(request.thinking, request.thinking)
        if kind in (Kind.VLLM, Kind.SGLANG, Kind.LLAMA_SERVER):
            values.setdefault("enable_thinking", request.thinking != "off")
    if values:
        body["chat_template_kwargs"] = values
    if request.thinking_budget is not None:
        body[_BUDGETS[kind]] = request.thinking_budget
    return body


def _tools(request: Request) -> Json:
    choice = request.tool_choice
    calling: Any = str(choice.calling) if choice.calling is not Calling.AUTO else "auto"
    if choice.name is not None:
        calling = {"type": "function", "function": {"name": choice.name}}
    tools = []
    for tool in request.tools:
        definition = tool.definition
        if tool.strict:
            definition["function"]["strict"] = True
        tools.append(definition)
    body: Json = {"tools": tools, "tool_choice": calling}
    return body if choice.parallel else {**body, "parallel_tool_calls": False}


def _for_foretoken(request: Request) -> Json:
    """Return the fields for another Foretoken, which takes every option and returns events."""
    speculation = request.speculation
    drafting: Json = {
        "proposer": speculation.proposer,
        "controller": str(speculation.control),
        "acceptance": str(speculation.acceptance),
        "options": dict(speculation.options),
    }
    if speculation.depth is not None:
        drafting["depth"] = speculation.depth
    body: Json = {
        "return_events": True,
        "speculation": drafting,
        "max_tokens": -1 if request.max_tokens is None else request.max_tokens,
        "cache_prompt": request.reuse_cache,
        **sampling_of(request, {each.name: each.name for each in fields(Sampling)}, says_all=True),
    }
    if request.predicted:
        body["prediction"] = {"type": "content", "content": request.predicted}
    if request.top_logprobs:
        asked = {"logprobs": True, "top_logprobs": request.top_logprobs}
        body |= asked if request.messages else {"logprobs": request.top_logprobs}
    if request.grammar is not None:
        body |= _own_grammar(request)
    return body


def _own_grammar(request: Request) -> Json:
    grammar = request.grammar
    assert grammar is not None
    if grammar.kind is GrammarKind.JSON_SCHEMA and not grammar.strict and request.messages:
        return {"response_format": _json_format(grammar)}
    return {"structured_outputs": _structured(grammar)}


def _grammar(grammar: Grammar, kind: Kind) -> Json:
    if grammar.kind in (GrammarKind.JSON_SCHEMA, GrammarKind.JSON_OBJECT):
        return {"response_format": _json_format(grammar)}
    if kind is Kind.LLAMA_SERVER:
        return {"grammar": grammar.text}
    return {"structured_outputs": _structured(grammar)}


def _json_format(grammar: Grammar) -> Json:
    if grammar.kind is GrammarKind.JSON_OBJECT:
        return {"type": "json_object"}
    schema = {"name": "reply", "schema": json.loads(grammar.text), "strict": grammar.strict}
    return {"type": "json_schema", "json_schema": schema}


def _structured(grammar: Grammar) -> Json:
    match grammar.kind:
        case GrammarKind.JSON_SCHEMA:
            return {"json": grammar.text}
        case GrammarKind.JSON_OBJECT:
            return {"json_object": True}
        case GrammarKind.REGEX:
            return {"regex": grammar.text}
        case _:
            return {"grammar": grammar.text}


def _own_cache(kind: Kind) -> Json:
    """Ask for an empty cache if the server supports it, so that races start equal."""
    match kind:
        case Kind.VLLM:
            return {"cache_salt": secrets.token_hex(16)}  # only equal salts share a prefix cache
        case Kind.LLAMA_SERVER:
            return {"cache_prompt": False}
        case _:
            return {}
