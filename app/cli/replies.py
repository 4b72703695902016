"""Conversations held from the command line: turns in, replies out, every event passed on."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from app.cli.prompts import Conversation
from engine.errors import ForetokenError
from engine.events import Event, Failed, Finished
from engine.request import Message, Request, Sampling, Speculation
from engine.stats import Statistics, Tally

if TYPE_CHECKING:
    from engine.api import Engine, Generation


class GenerationFailed(ForetokenError):
    """The engine gave up in the middle of a reply; its own message tells why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What every reply of a run has in common. ``raw`` skips the chat template."""

    sampling: Sampling
    speculation: Speculation
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    system: str | None = None
    raw: bool = False

    def opening(self) -> list[Message]:
        """What stands before the first turn."""
        return [Message("system", self.system)] if self.system else []

    def request(self, history: list[Message]) -> Request:
        """The request that answers ``history``; with ``raw``, that continues its last message."""
        said: dict[str, Any] = (
            {"prompt": history[-1].content} if self.raw else {"messages": tuple(history)}
        )
        return Request(
            **said,
            sampling=self.sampling,
            speculation=self.speculation,
            max_tokens=self.max_tokens,
            stop=self.stop,
        )


@dataclass(frozen=True, slots=True)
class Reply:
    """One finished reply."""

    finished: Finished
    statistics: Statistics


def hold(
    engine: Engine,
    conversation: Conversation,
    wish: Wish,
    on_event: Callable[[Event], None],
) -> Iterator[Reply]:
    """Say each turn in order, with the replies so far as context; yields a reply a turn."""
    history = wish.opening()
    for turn in conversation:
        yield say(engine, history, turn, wish, on_event)


def say(
    engine: Engine,
    history: list[Message],
    turn: str,
    wish: Wish,
    on_event: Callable[[Event], None],
) -> Reply:
    """Say one turn. Once it is answered, it and the reply join ``history``."""
    said = [*history, Message("user", turn)]
    reply = answer(engine, wish.request(said), on_event)
    history[:] = [*said, Message("assistant", reply.finished.text)]
    return reply


def answer(engine: Engine, request: Request, on_event: Callable[[Event], None]) -> Reply:
    """Generate one reply. Ctrl-C cancels it before it goes on up."""
    generation = engine.generate(request)
    tally = Tally()
    try:
        for event in generation:
            tally.add(event)
            on_event(event)
    except KeyboardInterrupt:
        _cancel(generation)
        raise
    if isinstance(event, Failed):
        raise GenerationFailed(event.message)
    assert isinstance(event, Finished)
    return Reply(event, tally.statistics())


def _cancel(generation: Generation) -> None:
    generation.cancel()
    for _ in generation:  # it ends within one round
        pass


def as_json(done: list[Reply]) -> dict[str, Any]:
    """The stable keys over all replies; ``results`` has them one by one where there are several."""
    if len(done) == 1:
        return _entry(done[0].finished.text, done[0].finished.token_ids, done[0].statistics)
    text = "\n".join(reply.finished.text for reply in done)
    token_ids = tuple(token for reply in done for token in reply.finished.token_ids)
    statistics = functools.reduce(operator.add, (r.statistics for r in done), Statistics())
    results = [
        _entry(reply.finished.text, reply.finished.token_ids, reply.statistics) for reply in done
    ]
    return {**_entry(text, token_ids, statistics), "results": results}


def _entry(text: str, token_ids: tuple[int, ...], statistics: Statistics) -> dict[str, Any]:
    return {
        "text": text,
        "token_ids": token_ids,
        "rounds": statistics.rounds,
        "drafted": statistics.drafted,
        "accepted": statistics.accepted,
        "acceptance_rate": statistics.acceptance_rate,
        "mean_acceptance_length": statistics.mean_acceptance_length,
        "tokens_per_s": statistics.tokens_per_s,
        "time_to_first_token_s": statistics.time_to_first_token_s,
        "prompt_tokens": statistics.prompt_tokens,
        "reused_tokens": statistics.reused_tokens,
        "completion_tokens": statistics.completion_tokens,
        "decision": statistics.decision and asdict(statistics.decision),
    }
