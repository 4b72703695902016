"""The target's top tokens after a text, computed without speculation."""

from __future__ import annotations

import math

from engine.decoding.context import Context
from engine.decoding.sampling import Sampler
from engine.decoding.target import Target
from engine.events import Tree
from engine.noise import Stream, exponential
from engine.values.sampling import AcceptanceRule

ScoredToken = tuple[int, float, float]
"""A token, its probability, and the score by which it is ranked."""


def top_tokens(target: Target, sampler: Sampler, context: Context, count: int) -> list[ScoredToken]:
    """Return the first ``count`` choices after ``context``, best first; commit nothing.

    The target's state holds the text already, but for the pending token.
    Scores are log p under the greedy rule, else log p - log E: the Gumbel form of ``noise.sample``.
    """
    adjusted = sampler.adjusted(target.verify(context.tokens[-1], Tree()), [()])
    target.rewind(target.length)
    p, position = sampler.probabilities(adjusted), len(context.tokens)
    tokens = sampler.rank(adjusted, p, position, Stream.CHOICE, count)
    chances: list[float] = p[0, tokens].tolist()
    if sampler.rule is AcceptanceRule.GREEDY:
        noise = [1.0] * len(tokens)
    else:
        drawn = exponential(sampler.seed, Stream.CHOICE, [position], p.shape[1])
        noise = drawn[0, tokens].tolist()
    return [
        (token, chance, math.log(max(chance, 1e-300)) - math.log(clock))
        for token, chance, clock in zip(tokens, chances, noise, strict=True)
    ]
