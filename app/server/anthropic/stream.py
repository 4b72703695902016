"""A message of Anthropic's API, whole and as a stream of events."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from app.server.answer import Answer
from app.server.anthropic.blocks import Blocks
from app.server.dialects import chat_reason
from app.server.errors import translate
from app.server.monitoring import metrics
from app.server.monitoring.counter import Ticket
from app.server.transport.sending import named
from app.web.error_forms import Form
from engine.api import Loaded
from engine.events import Emitted, Event, Finished, FinishReason, Prefilled, Queued, Started

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One message. ``detailed``: report each round. ``omits_thought``: leave out the thought's text."""

    loaded: Loaded
    detailed: bool
    omits_thought: bool
    token: str = field(default_factory=lambda: secrets.token_hex(12))

    def message(self, usage: Json, answer: Answer | None = None, **fields: Any) -> Json:
        """Return the message object; without ``answer``, as it begins."""
        return {
            "id": f"msg_{self.token}",
            "type": "message",
            "role": "assistant",
            "model": self.loaded.id,
            "content": [],
            **_ended(answer),
            "usage": usage,
            **fields,
        }


async def whole(ticket: Ticket, job: Job) -> Json:
    """Return the message once it is complete."""
    reply = _Reply(ticket, job)
    async with aclosing(reply.events()) as events:
        async for _ in events:
            pass
    answer = reply.answer
    measured = metrics.measured([answer])
    return job.message(_usage(answer), answer, content=reply.blocks.content, **measured)


async def stream(ticket: Ticket, job: Job) -> AsyncGenerator[bytes, None]:
    """Yield the events of a message as they are sent."""
    async with aclosing(_Reply(ticket, job).events()) as events:
        async for event in events:
            yield named(event["type"], event)


def error_event(failure: Exception) -> bytes:
    """Return the event that ends a stream which failed."""
    return named("error", translate(failure).body(Form.ANTHROPIC))


class _Reply:
    """The events of one message."""

    def __init__(self, ticket: Ticket, job: Job) -> None:
        (self._generation,) = ticket.generations
        self._ticket, self._job = ticket, job
        calls = job.loaded.capabilities.calls
        self.answer = Answer(self._generation.request, calls, keeps_rounds=job.detailed)
        self.blocks = Blocks(omits_thought=job.omits_thought)
        self._begun = False

    async def events(self) -> AsyncGenerator[Json, None]:
        """Yield the events. Raises ApiError for a reply that failed."""
        async with aclosing(self._ticket.events_of(self._generation)) as events:
            async for event in events:
                self.answer.add(event)
                for each in self._made_of(event):
                    yield each

    def _made_of(self, event: Event) -> Iterator[Json]:
        match event:
            case Queued() | Started():  # a prompt takes a while
                yield {"type": "ping"}
            case Prefilled() | Emitted() | Finished() if not self._begun:
                self._begun = True
                # Only now is it known how much of the prompt was reused.
                usage = _usage(self.answer)
                yield {"type": "message_start", "message": self._job.message(usage)}
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
