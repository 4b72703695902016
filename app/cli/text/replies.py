"""Conversations held from the command line: turns in, replies out, every event passed on."""

from __future__ import annotations

import functools
import itertools
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import GenerationFailed, InvalidRequest
from engine.events import Event
from engine.files import bounded
from engine.reply import ReplyState
from engine.request import Request, Speculation
from engine.stats import Statistics
from engine.values.image import MAX_IMAGE_BYTES, Image
from engine.values.messages import Message
from engine.values.sampling import Sampling
from engine.values.units import counted

if TYPE_CHECKING:
    from app.cli.text.tools import TerminalTools
    from engine.api import Engine, Generation


Conversation = tuple[str, ...]
"""The user's turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyOptions:
    """The options of all replies of a run. ``raw`` skips the chat template. ``tools``: those that replies
    may call. ``attached`` and ``images``: what goes with the first turn of a conversation."""

    sampling: Sampling
    speculation: Speculation
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    system: str | None = None
    raw: bool = False
    thinking: str = ""
    thinking_budget: int | None = None
    tools: TerminalTools | None = None
    attached: str = ""
    images: tuple[Image, ...] = ()

    def opening(self) -> list[Message]:
        """Return the messages before the first turn."""
        return [Message("system", self.system)] if self.system else []

    def asked(self, history: list[Message], turn: str) -> Message:
        """Return the message of a turn, the first one after what is attached and with the images."""
        if any(each.role == "user" for each in history):
            return Message("user", turn)
        text = "\n\n".join(filter(None, (self.attached, turn)))
        return Message("user", text, images=self.images)

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
            tools=self.tools.offered if self.tools else (),
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


def images_in(files: Iterable[Path]) -> tuple[Image, ...]:
    """Return the images in ``files``. Raises InvalidRequest for one that cannot be read."""
    found = []
    for file in files:
        try:
            found.append(Image(bounded(file, MAX_IMAGE_BYTES)))
        except OSError as error:
            raise InvalidRequest(
                "image", f"{file} cannot be read: {error.strerror or error}."
            ) from error
    return tuple(found)


def converse(
    engine: Engine,
    conversation: Conversation,
    options: ReplyOptions,
    on_event: Callable[[Event], None],
) -> Iterator[ReplyState]:
    """Send each turn in order, with the replies so far as context; yield every reply."""
    history = options.opening()
    for turn in conversation:
        yield from say(engine, history, turn, options, on_event)


def say(
    engine: Engine,
    history: list[Message],
    turn: str,
    options: ReplyOptions,
    on_event: Callable[[Event], None],
) -> Iterator[ReplyState]:
    """Send one turn and yield its replies: several if they call tools. Once the turn is complete, all of
    it joins ``history``."""
    messages = [*history, options.asked(history, turn)]
    for _ in range(options.tools.rounds if options.tools else 1):
        request = options.request(messages)
        reply = answer(engine, request, on_event)
        yield reply
        results = options.tools.results(reply, request) if options.tools else ()
        if not results:
            parts = reply.thoughts
            messages.append(Message("assistant", parts.answer, reasoning=parts.thought))
            break
        messages += results
    else:
        rounds = options.tools.rounds if options.tools else 0
        print(f"Stopped after {counted(rounds, 'tool step')}.")
    history[:] = messages


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
