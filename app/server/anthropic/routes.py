"""The routes of Anthropic's Messages API, and a message: its blocks, whole and as a stream of events."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from anyio import to_thread
from fastapi import APIRouter
from pydantic_core import from_json
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from app.server.answer import Answer, chat_reason
from app.server.anthropic.content import NAMES, chat_of
from app.server.anthropic.schemas import REFUSED_IN_MESSAGES, CountBody, MessagesBody
from app.server.errors import renamed, translate
from app.server.fields.schemas import read
from app.server.monitoring import metrics
from app.server.request_queue import Ticket
from app.server.requests import Service, chat_requests
from app.server.sending import Json, JsonReply, Stream, named, send_whole
from app.web.error_forms import MESSAGES, Form
from engine.api import Loaded
from engine.errors import ContextExceeded
from engine.events import Emitted, Event, Finished, FinishReason, Prefilled, Queued, Started
from engine.tool_calls.reading import Arguments, CallStart, Content, Part, Thought


class Blocks:
    """A reply's blocks so far: a thought, a text, then calls. The last one may be open."""

    def __init__(self, *, omits_thought: bool) -> None:
        """``omits_thought``: the block of a thought has no text."""
        self.content: list[Json] = []
        self._omits, self._open = omits_thought, False
        self._blank = ""  # white space that a text begins with, if a text follows
        self._written = ""  # the thought, or the JSON of a call's input

    def add(self, answer: Answer) -> Iterator[Json]:
        """Yield the events of what the answer's last event added."""
        for part in answer.parts:
            yield from self._add(part, answer)

    def end(self) -> Iterator[Json]:
        """Yield the events of the reply's end."""
        if self._blank and not self.content:
            yield from self._text("")
        yield from self._close()

    def _add(self, part: Part, answer: Answer) -> Iterator[Json]:
        match part:
            case Thought(text):
                if not self._is_open("thinking"):
                    yield from self._begin({"type": "thinking", "thinking": "", "signature": ""})
                self._written += text
                if not self._omits:
                    self.content[-1]["thinking"] += text
                    yield self._delta("thinking_delta", thinking=text)
            case Content(text):
                yield from self._text(text)
            case CallStart(index, name):
                call = {"type": "tool_use", "id": answer.called[index].id, "name": name}
                yield from self._begin({**call, "input": {}})
            case Arguments(_, text):
                self._written += text
                yield self._delta("input_json_delta", partial_json=text)

    def _text(self, text: str) -> Iterator[Json]:
        """Add text. Blank text before a call makes no block: Anthropic's API takes none back."""
        if not self._is_open("text"):
            self._blank += text
            if text and not self._blank.strip():
                return
            text, self._blank = self._blank, ""
            yield from self._begin({"type": "text", "text": ""})
        self.content[-1]["text"] += text
        yield self._delta("text_delta", text=text)

    def _is_open(self, kind: str) -> bool:
        return self._open and self.content[-1]["type"] == kind

    def _begin(self, block: Json) -> Iterator[Json]:
        yield from self._close()
        self.content.append(block)
        self._open, self._written = True, ""
        yield self._event("content_block_start", content_block=dict(block))

    def _close(self) -> Iterator[Json]:
        if not self._open:
            return
        self._open, block = False, self.content[-1]
        if block["type"] == "thinking":
            # Clients drop thoughts without one. It is not checked when it comes back.
            digest = hashlib.sha256(self._written.encode()).digest()
            block["signature"] = base64.b64encode(digest).decode("ascii")
            yield self._delta("signature_delta", signature=block["signature"])
        elif block["type"] == "tool_use" and self._written:
            # As clients read the deltas: what max_tokens cut is left out.
            with suppress(ValueError):  # a server's model may write what is no JSON
                found = from_json(self._written, allow_partial=True, allow_inf_nan=False)
                block["input"] = found if isinstance(found, dict) else {}
        yield self._event("content_block_stop")

    def _delta(self, kind: str, **fields: Any) -> Json:
        return self._event("content_block_delta", delta={"type": kind, **fields})

    def _event(self, kind: str, **fields: Any) -> Json:
        return {"type": kind, "index": len(self.content) - 1, **fields}


class _Reply:
    """The events of one message."""

    def __init__(self, ticket: Ticket, loaded: Loaded, body: MessagesBody) -> None:
        self._ticket, self._model, self._token = ticket, loaded.id, secrets.token_hex(12)
        detailed, calls = body.spec_decode_metrics == "detailed", loaded.capabilities.calls
        self.answer = Answer(ticket.only.request, calls, keeps_rounds=detailed)
        self.blocks = Blocks(omits_thought=body.omits_thought)
        self._begun = False

    def _message(self, content: list[Json], answer: Answer | None = None) -> Json:
        """Return the message object; without ``answer``, as it begins."""
        return {
            "id": f"msg_{self._token}",
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": content,
            **_ended(answer),
            "usage": _usage(self.answer),
        }

    async def whole(self) -> Json:
        """Return the message once it is complete."""
        async for _ in self.stream():
            pass
        message = self._message(self.blocks.content, self.answer)
        return {**message, **metrics.measured([self.answer])}

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Yield the events as they are sent. Raises ApiError for a reply that failed."""
        async for event in self.answer.each(self._ticket.events_of(self._ticket.only)):
            for each in self._made_of(event):
                yield named(each["type"], each)

    def _made_of(self, event: Event) -> Iterator[Json]:
        match event:
            case Queued() | Started():  # a prompt takes a while
                yield {"type": "ping"}
            case Prefilled() | Emitted() | Finished() if not self._begun:
                self._begun = True
                # Only now is it known how much of the prompt was reused.
                yield {"type": "message_start", "message": self._message([])}
            case _:
                pass
        yield from self.blocks.add(self.answer)
        if isinstance(event, Finished):
            yield from self.blocks.end()
            yield {
                "type": "message_delta",
                "delta": _ended(self.answer),
                "usage": _usage(self.answer),
                **metrics.measured([self.answer]),
            }
            yield {"type": "message_stop"}


def _error_event(failure: Exception) -> bytes:
    return named("error", translate(failure).body(Form.ANTHROPIC))


def _ended(answer: Answer | None) -> Json:
    """Return how a message ended, and which stop sequence ended it."""
    if answer is None:
        return {"stop_reason": None, "stop_sequence": None}
    return {"stop_reason": _reason(answer), "stop_sequence": answer.reply.stop_string}


def _reason(answer: Answer) -> str:
    if answer.reply.stop_string is not None:
        return "stop_sequence"
    if chat_reason(answer) == "tool_calls":
        return "tool_use"
    if answer.reply.reason is not FinishReason.LENGTH:
        return "end_turn"
    written, most = answer.reply.statistics.completion_tokens, answer.request.max_tokens
    full = most is not None and 0 < written < most
    return "model_context_window_exceeded" if full else "max_tokens"


def _usage(answer: Answer) -> Json:
    """Return the usage so far. Reused tokens of the prompt are not counted as its input."""
    counted = metrics.usage([answer], 1)
    reused = counted["prompt_tokens_details"]["cached_tokens"]
    thought = counted["completion_tokens_details"]["reasoning_tokens"]
    return {
        "input_tokens": counted["prompt_tokens"] - reused,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": reused,
        "output_tokens": counted["completion_tokens"],
        "output_tokens_details": {"thinking_tokens": thought},
    }


@contextmanager
def _as_anthropic_says_it() -> Iterator[None]:
    """Let errors name Anthropic's fields. By these words for a prompt that is too long its clients know
    that they must shorten the conversation, and by how much."""
    try:
        with renamed(NAMES):
            yield
    except ContextExceeded as error:
        told = f"prompt is too long: {error.tokens} tokens > {error.context} maximum. {error}"
        error.args = (told,)
        raise


def add_routes(router: APIRouter, service: Service) -> None:
    @router.post(MESSAGES)
    async def create(http: HttpRequest) -> Response:
        body = await read(http, MessagesBody, REFUSED_IN_MESSAGES)
        with _as_anthropic_says_it():
            chat = await to_thread.run_sync(chat_of, body)  # it may read documents
            loaded, ticket = await service.admit(chat, chat_requests)
        reply = _Reply(ticket, loaded, body)
        if body.stream:
            return Stream(reply.stream(), ticket.close, _error_event)
        return await send_whole(http, reply.whole(), ticket.close)

    @router.post(f"{MESSAGES}/count_tokens")
    async def count_tokens(http: HttpRequest) -> Response:
        body = await read(http, CountBody, REFUSED_IN_MESSAGES)
        with _as_anthropic_says_it():
            chat = await to_thread.run_sync(chat_of, body)
            tokens = await service.of_prompt(chat, chat_requests, lambda t, r: t.prompt(r))
        return JsonReply({"input_tokens": len(tokens)})
