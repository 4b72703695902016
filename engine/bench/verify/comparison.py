"""Compare every method's replies with plain decoding's: tokens and log probabilities, bit for bit.

Plain decoding answers each prompt alone, at temperature 0 (``greedy``) and at a drawn one (``coupled``).
Every method answers the same, first alone, then with other prompts at once. It drafts a drawn number of
tokens a round, or as many as it finds best. Depths and sampling are drawn from one seed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, islice, zip_longest
from typing import Any

from engine.api import Tokenizer
from engine.bench.real.contest import EncodedPrompt
from engine.events import Token
from engine.local.engine import LocalEngine
from engine.reply import ReplyState
from engine.request import PLAIN, Request, Speculation
from engine.values import MAX_DEPTH
from engine.values.sampling import AcceptanceRule, Sampling

RULES = (AcceptanceRule.GREEDY, AcceptanceRule.COUPLED)
TOP = 5
"""The likeliest tokens of each position, whose log probabilities are compared too."""
TEMPERATURES = 0.3, 1.5
"""Lowest and highest that is drawn."""
_TRUNCATIONS: tuple[dict[str, float], ...] = (
    {},
    {},
    {"top_p": 0.9},
    {"top_k": 20, "min_p": 0.02},
    {"repetition_penalty": 1.2, "frequency_penalty": 0.3},
)


@dataclass(frozen=True, slots=True)
class Case:
    """A prompt, by its place in the set, under one rule. ``depth`` None: found by measuring."""

    prompt: int
    rule: AcceptanceRule
    depth: int | None
    request: Request

    def by(self, proposer: str) -> Request:
        """Return the request for a method."""
        depth = None if proposer == PLAIN else self.depth
        speculation = Speculation(proposer=proposer, depth=depth, acceptance=self.rule)
        return replace(self.request, speculation=speculation)


@dataclass(slots=True)
class Row:
    """One method under one rule, ``at_once`` requests at a time: replies, and how many differ."""

    quantization: str
    proposer: str
    rule: str
    at_once: int
    replies: int = 0
    tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    differ: int = 0

    def add(self, reply: ReplyState, *, differs: bool) -> None:
        """Count a reply."""
        self.replies += 1
        self.tokens += len(reply.tokens or ())
        self.drafted += reply.statistics.drafted
        self.accepted += reply.statistics.accepted
        self.differ += differs

    @property
    def is_reference(self) -> bool:
        """True for plain decoding alone, which all others are compared with."""
        return self.proposer == PLAIN and self.at_once == 1


@dataclass(frozen=True, slots=True)
class ShownToken:
    """A token of a reply. ``logprob`` is None where it is not known."""

    id: int
    text: str
    logprob: float | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """The first place where a prompt's reply differs; both count from 0. None: a reply had ended."""

    prompt: int
    position: int
    expected: ShownToken | None
    found: ShownToken | None


@dataclass(frozen=True, slots=True)
class Difference:
    """A reply that differs from plain decoding's. ``depth`` None: found by measuring."""

    quantization: str
    proposer: str
    at_once: int
    depth: int | None
    sampling: Sampling
    first: Change


@dataclass(slots=True)
class Found:
    """All results so far. ``run`` adds to them, so they are kept if it is stopped."""

    rows: dict[tuple[str, str, str, int], Row] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)

    @property
    def quantizations(self) -> list[str]:
        return list(dict.fromkeys(row.quantization for row in self.rows.values()))


def cases(prompts: Sequence[EncodedPrompt], seed: int, **settings: Any) -> Iterator[Case]:
    """Draw depth and sampling; yield each prompt under both rules. ``settings``: more of the requests."""
    rng = random.Random(seed)
    for number, prompt in enumerate(prompts):
        own_seed = rng.getrandbits(32)
        greedy = Sampling(repetition_penalty=rng.choice((1.0, 1.0, 1.0, 1.1)), seed=own_seed)
        temperature, cut = (
            round(rng.uniform(*TEMPERATURES), 1),
            dict[str, Any](rng.choice(_TRUNCATIONS)),
        )
        sampled = Sampling(temperature=temperature, seed=own_seed, **cut)
        for rule, sampling in zip(RULES, (greedy, sampled), strict=True):
            depth = rng.choice((*[rng.randint(1, MAX_DEPTH)] * 3, None))
            request = Request(token_ids=prompt.tokens, sampling=sampling, **settings)
            yield Case(number, rule, depth, request)


def drawn(prompts: Sequence[EncodedPrompt], seed: int) -> dict[str, str]:
    """Return the depths and temperatures of ``cases`` as facts of a report, by prompt."""
    every = list(cases(prompts, seed))
    greedy, sampled = every[::2], every[1::2]
    depths = [
        ["auto" if one.depth is None else str(one.depth) for one in e] for e in (greedy, sampled)
    ]
    return {
        "depth at temperature 0, by prompt": ", ".join(depths[0]),
        "temperature drawn, by prompt": ", ".join(
            str(e.request.sampling.temperature) for e in sampled
        ),
        "depth at that temperature, by prompt": ", ".join(depths[1]),
    }


def run(
    engine: LocalEngine,
    prompts: Sequence[EncodedPrompt],
    found: Found,
    *,
    seed: int = 1,
    max_tokens: int = 24,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Compare on the loaded pair and add the results to ``found``. Raises ForetokenError."""
    loaded, tokenizer = engine.loaded, engine.tokenizer
    assert loaded is not None and tokenizer is not None
    names = (PLAIN, *(name for name in loaded.capabilities.names if name != PLAIN))
    top = TOP if loaded.capabilities.top_logprobs else 0
    asked = list(cases(prompts, seed, max_tokens=max_tokens, top_logprobs=top))
    groups, parallel = [[case] for case in asked], loaded.capabilities.parallel
    if parallel > 1:
        again = cycle(asked)
        groups += [list(islice(again, parallel)) for _ in range(0, len(asked), parallel)]
    plain: dict[tuple[int, AcceptanceRule], ReplyState] = {}
    done, total = 0, len(names) * sum(map(len, groups))
    for group in groups:
        for name in names:
            requests = [case.by(name) for case in group]
            generations = [engine.generate(request) for request in requests]
            for case, request, generation in zip(group, requests, generations, strict=True):
                reply = ReplyState.of(generation)
                expected = plain.setdefault((case.prompt, case.rule), reply)
                change = _change(case.prompt, expected, reply, tokenizer)
                key = loaded.quantization, name, case.rule, len(group)
                found.rows.setdefault(key, Row(*key)).add(reply, differs=change is not None)
                if change is not None:
                    how = len(group), request.speculation.depth, request.sampling
                    found.differences.append(Difference(loaded.quantization, name, *how, change))
            done += len(group)
            on_progress(done, total)


def _change(
    prompt: int, expected: ReplyState, reply: ReplyState, tokenizer: Tokenizer
) -> Change | None:
    """Return the first token that differs, in itself or in a log probability."""

    def shown(token: Token | None) -> ShownToken | None:
        likely = math.log(token.p) if token and token.p else None
        return ShownToken(token.id, tokenizer.piece(token.id), likely) if token else None

    pairs = zip_longest(expected.tokens or (), reply.tokens or ())
    for position, both in enumerate(pairs):
        ours, theirs = (one and (one.id, one.p, one.top_logprobs) for one in both)
        if ours != theirs:
            return Change(prompt, position, *map(shown, both))
    return None
