"""Logits to probabilities: biases, a grammar's mask, penalties, temperature, top-k, top-p, min-p.

They act in this order and row by row, so a position's distribution does not depend on other rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from engine.backends.native import build
from engine.backends.native import sampling as compiled
from engine.backends.native.sampling import SampledTokens
from engine.decoding.context import Context
from engine.kernels.torch.penalties import penalised
from engine.noise import Draws, Stream, key, ranking, sample
from engine.values import TopTokens
from engine.values.sampling import AcceptanceRule, Sampling

_FIRST_TRY = 256
"""Top tokens tried for top-p before the whole vocabulary is sorted."""


class Mask(Protocol):
    """Forbids tokens; see ``engine.decoding.constraint``."""

    def precompute(self, drafted: Sequence[Sequence[int]]) -> None:
        """Start computing the masks after ``drafted``."""

    def masked(self, logits: Tensor, drafted: Sequence[Sequence[int]]) -> Tensor:
        """Return the logits with -inf for tokens that may not follow the text and ``drafted[row]``."""

    def allows(self, drafted: Sequence[int], token: int) -> bool:
        """Return whether ``token`` may follow the text and ``drafted``."""


class Sampler:
    """Samples tokens from logits for one request, for the target and for its drafts."""

    def __init__(
        self,
        sampling: Sampling,
        rule: AcceptanceRule,
        seed: int,
        context: Context,
        vocabulary: int,
        *,
        bias: Sequence[tuple[int, float]] = (),
        native_step: bool = True,
        mask: Mask | None = None,
    ) -> None:
        """``bias``: (token, value) pairs that are added to the logits.

        ``native_step``: whether the compiled library may choose tokens.
        ``mask``: the tokens that a grammar allows.
        """
        self.sampling, self.rule, self.seed = sampling, rule, seed
        self.context, self.vocabulary, self.mask = context, vocabulary, mask
        self.bias = tuple(bias)
        self._seen = _Seen(context)
        self._biased = torch.tensor([token for token, _ in bias], dtype=torch.long)
        self._bias = torch.tensor([value for _, value in bias])
        self._library = build.ready() if native_step else None
        self._as_it_is = not (sampling.penalises or bias)
        self.samples_raw = not rule.weighs_q and self._as_it_is
        """True if ``sample_raw`` may sample: no penalty, bias or q-weighting. A grammar mask is fine;
        drafted tokens that it forbids are truncated later."""

    @property
    def may_use_history(self) -> bool:
        """True if drafts and depths may depend on earlier replies.

        Under ``rejection`` and ``block`` a draft must be independent of this reply's noise, with which an
        earlier reply of the same seed was drawn. Under the other rules the target's choice does not
        depend on what is drafted.
        """
        return not self.rule.weighs_q or self.sampling.seed is None

    @property
    def takes_argmax(self) -> bool:
        """True if every token is the argmax of the raw logits."""
        return self.rule is AcceptanceRule.GREEDY and self._as_it_is

    @property
    def uses_context(self) -> bool:
        """True if penalties or a mask make logits depend on the tokens before them."""
        return self.sampling.penalises or self.mask is not None

    def sample_raw(
        self,
        logits: Tensor,
        positions: Sequence[int],
        stream: Stream,
        drafted: Sequence[Sequence[int]] | None = None,
    ) -> SampledTokens | None:
        """Sample a token for each row of raw ``logits``, row i at ``positions[i]``, on the compiled step.

        ``drafted``: as for ``adjusted``, to mask the rows; None: do not mask them. Return None if biases,
        penalties, a rule that weighs q, or a missing compiled step prevents it.
        """
        if self._library is None or not self.samples_raw or not compiled.supports(logits):
            return None
        logits = logits[:, : self.vocabulary]
        if drafted is not None and self.mask is not None:
            logits = self.mask.masked(logits, drafted)
        return compiled.sample(self._library, logits, self.draws(positions, stream))

    def draws(self, positions: Sequence[int], stream: Stream) -> Draws | None:
        """Return how tokens are drawn at ``positions``; None if the rule is greedy."""
        if self.rule is AcceptanceRule.GREEDY:
            return None
        return Draws(self.sampling, self._keys(positions, stream))

    def adjusted(self, logits: Tensor, drafted: Sequence[Sequence[int]]) -> Tensor:
        """Return the logits after biases, mask and penalties: float32 (rows, target's vocabulary).

        ``drafted[row]`` are the tokens between the context and that row's next token.
        """
        width = logits.shape[1]
        if width > self.vocabulary:
            logits = logits[:, : self.vocabulary]
        elif width < self.vocabulary:
            missing = logits.new_full((len(logits), self.vocabulary - width), float("-inf"))
            logits = torch.cat([logits, missing], dim=1)
        if len(self._biased):
            logits = logits.clone()
            logits[:, self._biased.to(logits.device)] += self._bias.to(logits.device)
        if self.mask is not None:
            logits = self.mask.masked(logits, drafted)
        if not self.sampling.penalises:
            return logits
        return torch.stack(
            [self._penalised(row, tokens) for row, tokens in zip(logits, drafted, strict=True)]
        )

    def probabilities(self, adjusted: Tensor) -> Tensor:
        """Return the distribution to draw from; at temperature 0 the plain softmax, for display."""
        if self.rule is AcceptanceRule.GREEDY:
            return torch.softmax(adjusted, dim=-1)
        return truncated(torch.softmax(adjusted / self.sampling.temperature, dim=-1), self.sampling)

    def choose(
        self, adjusted: Tensor, p: Tensor, positions: Sequence[int], stream: Stream
    ) -> list[int]:
        """Return a token for each row; row i is at ``positions[i]``."""
        if self.rule is AcceptanceRule.GREEDY:
            chosen: list[int] = adjusted.argmax(-1).tolist()
            return chosen
        return self.draw(p, positions, stream)

    def draw(self, weights: Tensor, positions: Sequence[int], stream: Stream) -> list[int]:
        """Draw a token for each row in proportion to ``weights``; see ``noise.sample``."""
        if self._library is not None and weights.device.type == "cpu":
            return compiled.draw(self._library, weights, self._keys(positions, stream))
        drawn: list[int] = sample(weights, self.seed, stream, positions).tolist()
        return drawn

    def top_tokens(self, p: Tensor, count: int) -> TopTokens:
        """Return the top ``count`` tokens of ``p (vocabulary,)`` with their probabilities, none at 0."""
        if self._library is not None and compiled.supports(p):
            tokens = compiled.top_indices(self._library, p, count)
        else:
            tokens = p.topk(min(count, len(p))).indices.tolist()
        chances: list[float] = p[tokens].tolist()
        return tuple((token, p) for token, p in zip(tokens, chances, strict=True) if p > 0)

    def rank(
        self, adjusted: Tensor, p: Tensor, position: int, stream: Stream, count: int
    ) -> list[int]:
        """Return the first ``count`` choices of a single row, best first; ``choose`` takes the first."""
        if self.rule is AcceptanceRule.GREEDY:
            ranked: list[int] = adjusted[0].topk(min(count, adjusted.shape[1])).indices.tolist()
            return ranked
        return ranking(p, self.seed, stream, position, count)

    def _keys(self, positions: Sequence[int], stream: Stream) -> tuple[int, ...]:
        return tuple(key(self.seed, stream, position) for position in positions)

    def _penalised(self, logits: Tensor, drafted: Sequence[int]) -> Tensor:
        """Penalise one row; drafted tokens count as if the text held them already."""
        sampling, result = self.sampling, logits.clone()
        penalties = (
            sampling.repetition_penalty, sampling.presence_penalty, sampling.frequency_penalty
        )  # fmt: skip
        parts = [self._seen.in_text()]
        if drafted:
            parts.append(self._seen.with_drafted(drafted))
        for tokens, times in parts:
            ids = tokens.to(logits.device)
            result[ids] = penalised(logits[ids], times.to(logits.device), *penalties)
        return result


class _Seen:
    """The tokens of a growing text, and how often each occurs in the output."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._times: dict[int, int] = {}  # every token of the text: occurrences in the output
        self._read = 0
        self._tensors = torch.empty(0, dtype=torch.long), torch.empty(0, dtype=torch.long)

    def in_text(self) -> tuple[Tensor, Tensor]:
        """Return the tokens of the text, and how often each occurs in the output."""
        tokens = self._context.tokens
        if self._read < len(tokens):
            for position in range(self._read, len(tokens)):
                token, new = tokens[position], position >= self._context.prompt_length
                self._times[token] = self._times.get(token, 0) + new
            self._read = len(tokens)
            self._tensors = _pair(self._times)
        return self._tensors

    def with_drafted(self, drafted: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return the drafted tokens, and how often each occurs in the output and the draft together."""
        return _pair({t: self._times.get(t, 0) + n for t, n in Counter(drafted).items()})


def _pair(times: dict[int, int]) -> tuple[Tensor, Tensor]:
    return torch.tensor(list(times)), torch.tensor(list(times.values()))


def truncated(p: Tensor, sampling: Sampling) -> Tensor:
    """Truncate ``p (rows, vocabulary)`` by top-k, top-p and min-p, and renormalise.

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
    # One sum a row: over several rows torch splits a large sum among threads in another way.
    return kept / torch.stack([row.sum() for row in kept])[:, None]


def _top_p_threshold(p: Tensor, top_p: float) -> Tensor:
    """Return the lowest probability in the smallest set of top tokens that holds ``top_p``."""
    count = min(_FIRST_TRY, p.shape[1])
    ranked = p.topk(count).values
    mass = ranked.double().cumsum(-1)
    if count < p.shape[1] and bool((mass[:, -1] < top_p).any()):
        ranked = p.sort(dim=-1, descending=True).values
        mass = ranked.double().cumsum(-1)
    inside = mass - ranked < top_p  # the more likely ones alone do not reach it
    return ranked.gather(1, inside.sum(-1, keepdim=True) - 1)
