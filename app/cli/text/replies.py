"""Conversations held from the command line: turns in, replies out, every event passed on."""

from __future__ import annotations

import functools
import itertools
import operator
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import ForetokenError, InvalidRequest
from engine.events import Event
from engine.reply import ReplyState
from engine.request import Request, Speculation
from engine.stats import Statistics
from engine.values.messages import Message
from engine.values.sampling import Sampling

if TYPE_CHECKING:
    from engine.api import Engine, Generation


Conversation = tuple[str, ...]
"""The user's turns."""


class GenerationFailed(ForetokenError):
    """The engine gave up in the middle of a reply; its own message tells why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyOptions:
    """The options of all replies of a run. ``raw`` skips the chat template."""

    sampling: Sampling
    speculation: Speculation
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    system: str | None = None
    raw: bool = False
    thinking: str = ""
    thinking_budget: int | None = None

    def opening(self) -> list[Message]:
        """Return the messages before the first turn."""
        return [Message("system", self.system)] if self.system else []

    def request(self, history: list[Message]) -> Request:
        """Return the request that answers ``history``, or, with ``raw``, continues its last message."""
        text: dict[str, Any] = (
            {"prompt": history[-1].content} if self.raw else {"messages": tuple(history)}
        )
        return Request(
            **text,
            sampling=self.sampling,
            speculation=self.speculation,
            max_tokens=self.max_tokens,
            stop=self.stop,
            thinking=self.thinking,
            thinking_budget=self.thinking_budget,
        )


def collect(prompt: str | None, file: Path | None) -> list[Conversation] | None:
    """Return the conversations to hold; None for a chat with the user at the terminal.

    ``prompt`` "-" reads standard input, and so does none if standard input is no terminal.
    """
    if prompt is not None and file is not None:
        raise InvalidRequest(
            "prompt", "Give either a prompt or a file of them with --prompts FILE, not both."
        )
    if file is not None:
        from engine.bench.prompts import read

        return [each.turns for each in read(file)]
    if prompt is None and sys.stdin.isatty():
        return None
    return [(sys.stdin.read() if prompt in (None, "-") else str(prompt),)]


def converse(
    engine: Engine,
    conversation: Conversation,
    options: ReplyOptions,
    on_event: Callable[[Event], None],
) -> Iterator[ReplyState]:
    """Send each turn in order, with the replies so far as context; yield one reply for each."""
    history = options.opening()
    for turn in conversation:
        yield say(engine, history, turn, options, on_event)


def say(
    engine: Engine,
    history: list[Message],
    turn: str,
    options: ReplyOptions,
    on_event: Callable[[Event], None],
) -> ReplyState:
    """Send one turn and return the reply. Once it is complete, both join ``history``."""
    messages = [*history, Message("user", turn)]
    reply = answer(engine, options.request(messages), on_event)
    parts = reply.thoughts
    history[:] = [*messages, Message("assistant", parts.answer, reasoning=parts.thought)]
    return reply


def answer(engine: Engine, request: Request, on_event: Callable[[Event], None]) -> ReplyState:
    """Generate one reply. Ctrl-C cancels it and is raised again."""
    generation = engine.generate(request)
    reply = ReplyState()
    try:
        for event in generation:
            reply.add(event)
            on_event(event)
    except KeyboardInterrupt:
        _cancel(generation)
        raise
    if reply.error is not None:
        raise GenerationFailed(reply.error)
    return reply


def _cancel(generation: Generation) -> None:
    generation.cancel()
    for _ in generation:  # it ends within one round
        pass


def as_json(done: list[ReplyState]) -> dict[str, Any]:
    """Return totals over all replies, with stable keys; ``results`` lists them if there are several.

    ``text`` holds the thought too, which ``reasoning`` is again without marks; null if there is none.
    ``token_ids`` and counts are null if the engine did not report them; ``shared``: the counts include
    other clients' requests.
    """
    if len(done) == 1:
        return _of(done[0])
    text = "\n".join(reply.text for reply in done)
    ids = [reply.token_ids for reply in done if reply.token_ids is not None]
    token_ids = tuple(itertools.chain(*ids)) if len(ids) == len(done) else None
    statistics = functools.reduce(operator.add, (r.statistics for r in done), Statistics())
    reasoning = "\n".join(reply.thoughts.thought for reply in done if reply.thoughts.thought)
    results = [_of(reply) for reply in done]
    return {**_entry(text, reasoning, token_ids, statistics), "results": results}


def _of(reply: ReplyState) -> dict[str, Any]:
    return _entry(reply.text, reply.thoughts.thought, reply.token_ids, reply.statistics)


def _entry(
    text: str, reasoning: str, token_ids: tuple[int, ...] | None, statistics: Statistics
) -> dict[str, Any]:
    counted = statistics.rounds or statistics.drafted  # else a server says nothing of its drafts
    return {
        "text": text,
        "reasoning": reasoning or None,
        "token_ids": token_ids,
        "rounds": statistics.rounds or None,
        "drafted": statistics.drafted if counted else None,
        "accepted": statistics.accepted if counted else None,
        "shared": statistics.shared,
        "acceptance_rate": statistics.acceptance_rate,
        "mean_acceptance_length": statistics.mean_acceptance_length,
        "tokens_per_s": statistics.tokens_per_s,
        "time_to_first_token_s": statistics.time_to_first_token_s,
        "prompt_tokens": statistics.prompt_tokens,
        "reused_tokens": statistics.reused_tokens,
        "completion_tokens": statistics.completion_tokens,
        "decision": statistics.decision and asdict(statistics.decision),
    }
