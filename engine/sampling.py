"""Logits to probabilities: penalties, temperature, top-k, top-p, min-p, in this order.

Everything works row by row, so a position's distribution does not depend on the rows beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.context import Context
from engine.noise import Stream, argmax_sample, gumbel
from engine.request import AcceptanceRule, Sampling

_FIRST_TRY = 256
"""Likeliest tokens tried for top-p before the whole vocabulary is sorted."""


class Sampler:
    """One request's way from logits to tokens; shared by target and draft."""

    def __init__(
        self,
        sampling: Sampling,
        rule: AcceptanceRule,
        seed: int,
        context: Context,
        vocabulary: int,
    ) -> None:
        self.sampling, self.rule, self.seed = sampling, rule, seed
        self.context, self.vocabulary = context, vocabulary

    def adjusted(self, logits: Tensor, drafted: Sequence[Sequence[int]]) -> Tensor:
        """Logits after penalties: float32 (rows, vocabulary of the target).

        ``drafted[row]`` are the tokens between the context and that row's next token.
        """
        width = logits.shape[1]
        if width > self.vocabulary:
            logits = logits[:, : self.vocabulary]
        elif width < self.vocabulary:
            missing = logits.new_full((len(logits), self.vocabulary - width), float("-inf"))
            logits = torch.cat([logits, missing], dim=1)
        if not _penalises(self.sampling):
            return logits
        return torch.stack(
            [self._penalised(row, tokens) for row, tokens in zip(logits, drafted, strict=True)]
        )

    def probabilities(self, adjusted: Tensor) -> Tensor:
        """The distribution tokens are drawn from; at temperature 0 the plain softmax, for display."""
        if self.rule is AcceptanceRule.GREEDY:
            return torch.softmax(adjusted, dim=-1)
        return truncated(torch.softmax(adjusted / self.sampling.temperature, dim=-1), self.sampling)

    def choose(self, adjusted: Tensor, p: Tensor, first_position: int, stream: Stream) -> list[int]:
        """One token for each row; row i stands at ``first_position + i``."""
        if self.rule is AcceptanceRule.GREEDY:
            chosen: list[int] = adjusted.argmax(-1).tolist()
            return chosen
        positions = range(first_position, first_position + len(p))
        sampled: list[int] = argmax_sample(
            p, gumbel(self.seed, stream, positions, self.vocabulary)
        ).tolist()
        return sampled

    def _penalised(self, logits: Tensor, drafted: Sequence[int]) -> Tensor:
        sampling = self.sampling
        logits = logits.clone()
        if sampling.repetition_penalty != 1:
            seen = torch.tensor(sorted({*self.context.tokens, *drafted}), device=logits.device)
            values = logits[seen]
            factor = sampling.repetition_penalty
            logits[seen] = torch.where(values > 0, values / factor, values * factor)
        counts = Counter([*self.context.output, *drafted])
        if counts and (sampling.presence_penalty or sampling.frequency_penalty):
            seen = torch.tensor(list(counts), device=logits.device)
            times = torch.tensor(list(counts.values()), device=logits.device)
            logits[seen] -= sampling.presence_penalty + sampling.frequency_penalty * times
        return logits


def resolve_rule(rule: AcceptanceRule, temperature: float) -> AcceptanceRule:
    """``auto`` to a rule; temperature 0 is always greedy, which needs no noise."""
    if temperature == 0 or rule is AcceptanceRule.GREEDY:
        return AcceptanceRule.GREEDY
    return AcceptanceRule.COUPLED if rule is AcceptanceRule.AUTO else rule


def truncated(p: Tensor, sampling: Sampling) -> Tensor:
    """Cuts ``p (rows, vocabulary)`` by top-k, top-p, min-p and renormalises.

    Cuts are by value, never by rank: tokens of equal probability stay or go together, so the order
    in which a sort leaves ties cannot matter.
    """
    if sampling.top_k and sampling.top_k < p.shape[1]:
        p = _keep_from(p, p.topk(sampling.top_k).values[:, -1:])
    if sampling.top_p < 1:
        p = _keep_from(p, _top_p_threshold(p, sampling.top_p))
    if sampling.min_p > 0:
        p = _keep_from(p, p.amax(-1, keepdim=True) * sampling.min_p)
    return p


def _keep_from(p: Tensor, threshold: Tensor) -> Tensor:
    kept = torch.where(p >= threshold, p, 0.0)
    return kept / kept.sum(-1, keepdim=True)


def _top_p_threshold(p: Tensor, top_p: float) -> Tensor:
    """The probability of the last token of the smallest likeliest set that holds ``top_p``."""
    count = min(_FIRST_TRY, p.shape[1])
    ranked = p.topk(count).values
    if count < p.shape[1] and bool((ranked.sum(-1) < top_p).any()):
        ranked = p.sort(dim=-1, descending=True).values
    before = ranked.double().cumsum(-1) - ranked  # mass of the likelier ones
    inside = before < top_p
    return ranked.gather(1, inside.sum(-1, keepdim=True) - 1)


def _penalises(sampling: Sampling) -> bool:
    return sampling.repetition_penalty != 1 or bool(
        sampling.presence_penalty or sampling.frequency_penalty
    )
