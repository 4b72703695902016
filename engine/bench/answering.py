"""Answer one prompt in one configuration from an empty cache, for races, comparisons and sweeps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from engine.api import Engine, Generation
from engine.bench.prompts import Prompt
from engine.errors import ForetokenError
from engine.events import Event, FinishReason
from engine.reply import ReplyState
from engine.request import Control, OptionValue, Request, Speculation
from engine.stats import Statistics
from engine.values.messages import Message
from engine.values.sampling import AcceptanceRule, Sampling, check_rule, resolve_rule

Follow = Callable[[Generation], ReplyState]
"""Reads a reply to its end. Raises ForetokenError where it failed."""

_T = TypeVar("_T")


def turned(items: Sequence[_T], turn: int) -> Sequence[_T]:
    """Return all items, another one first each turn."""
    at = turn % max(len(items), 1)
    return (*items[at:], *items[:at])


@dataclass(frozen=True, slots=True)
class Configuration:
    """A configuration for answering a prompt."""

    speculation: Speculation
    sampling: Sampling
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        check_rule(self.speculation.acceptance, self.sampling.temperature)

    @property
    def rule(self) -> AcceptanceRule:
        """Return the resolved acceptance rule, never ``auto``."""
        return resolve_rule(self.speculation.acceptance, self.sampling.temperature)

    @property
    def times_decide_words(self) -> bool:
        """True if the words follow measured times: under ``auto`` these decide the depth, and under a
        rule that weighs q the drafted tokens decide which words are drawn."""
        return self.rule.weighs_q and self.speculation.control is Control.AUTO

    @property
    def repeats_words(self) -> bool:
        """True if two runs of one request must give the same words. Greedy ones need no seed."""
        if self.rule is AcceptanceRule.GREEDY:
            return True
        return self.sampling.seed is not None and not self.times_decide_words


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one prompt: token ids of every turn, and the statistics of all turns as one.

    ``replies`` are the replies to ``requests``. An engine that tells no tokens leaves each turn's ids
    empty.
    """

    tokens: tuple[tuple[int, ...], ...]
    statistics: Statistics
    replies: tuple[ReplyState, ...] = ()
    requests: tuple[Request, ...] = ()

    def says_the_same_as(self, other: Answer) -> bool:
        """Return True if both have the same tokens; the texts are compared if tokens are not known."""
        texts, others = ([reply.text for reply in each.replies] for each in (self, other))
        has_tokens = all(reply.token_ids is not None for reply in (*self.replies, *other.replies))
        return texts == others and (not has_tokens or self.tokens == other.tokens)


def check_repeats(way: Configuration, answers: Sequence[Answer]) -> None:
    """Raise ForetokenError if runs of one request gave different words and must not."""
    if way.repeats_words and not all(one.says_the_same_as(answers[0]) for one in answers):
        raise ForetokenError(
            "The same request gave different text: this is a bug. Please report it."
        )


def answer(
    engine: Engine, prompt: Prompt, way: Configuration, follow: Follow = ReplyState.of
) -> Answer:
    """Hold the conversation of ``prompt``; its first reply starts from an empty cache.

    Proposers use nothing of earlier replies, which may be to the same prompt. Raises as ``follow``.
    """
    isolated = isolated_options(engine, way.speculation.proposer)
    speculation = replace(way.speculation, options={**way.speculation.options, **isolated})
    request_with = partial(
        Request,
        sampling=way.sampling,
        speculation=speculation,
        max_tokens=way.max_tokens,
        exclusive=True,
    )
    if prompt.token_ids:
        request = request_with(token_ids=prompt.token_ids, reuse_cache=False, ignore_eos=True)
        reply = follow(engine.generate(request))
        return Answer((reply.token_ids or (),), reply.statistics, (reply,), (request,))
    history = list(prompt.before)
    replies: list[ReplyState] = []
    requests: list[Request] = []
    total = Statistics()
    for turn in prompt.turns:
        history.append(Message("user", turn))
        requests.append(request_with(messages=tuple(history), reuse_cache=bool(replies)))
        replies.append(follow(engine.generate(requests[-1])))
        history.append(Message("assistant", replies[-1].text))
        total = total + replies[-1].statistics
    tokens = tuple(reply.token_ids or () for reply in replies)
    return Answer(tokens, total, tuple(replies), tuple(requests))


def isolated_options(engine: Engine, proposer: str) -> dict[str, OptionValue]:
    """Return ``ProposerInfo.isolated_options``; none for a proposer that the engine does not have."""
    info = engine.loaded.capabilities.proposer(proposer) if engine.loaded else None
    return dict(info.isolated_options) if info else {}


class Stopped(Exception):
    """A measurement was stopped early."""


class Stop:
    """Stops a measurement from any thread: the current reply and all later ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._generation: Generation | None = None
        self.stopped = False

    def now(self) -> None:
        with self._lock:
            self.stopped = True
            if self._generation is not None:
                self._generation.cancel()

    def follow(
        self, generation: Generation, listener: Callable[[Event], None] = lambda event: None
    ) -> ReplyState:
        """Read a reply to its end and pass each event to ``listener``.

        Raises Stopped for a reply that was cancelled, and ForetokenError for one that failed.
        """
        with self._lock:
            self._generation = generation
            if self.stopped:
                generation.cancel()
        reply = ReplyState()
        for event in generation:
            reply.add(event)
            listener(event)
        if reply.error is not None:
            raise ForetokenError(reply.error)
        if reply.reason is FinishReason.CANCELLED:
            raise Stopped
        return reply
