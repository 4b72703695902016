"""Verify a draft: apply the request's acceptance rule to the target's logits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from engine.backends.native.cache import why_broken
from engine.decoding.acceptance import Acceptance, accept_matching, rejection_sample, verify_block
from engine.decoding.context import Context
from engine.decoding.proposer import DraftProposal
from engine.decoding.sampling import Sampler
from engine.errors import DEAD_END, InvalidRequest, ModelError
from engine.events import Tree
from engine.noise import Stream, place_in_draft, uniform
from engine.values import TopTokens
from engine.values.sampling import AcceptanceRule

SHOWN_TOP_TOKENS = 3
"""Top tokens shown at the position of the target's own token."""


@dataclass(frozen=True, slots=True)
class VerifierOutput:
    """The accepted path, with the target's probabilities of the drafted tokens and of its own token.

    ``top_tokens`` and ``top_logprobs``: see ``Round``.
    """

    acceptance: Acceptance
    p: tuple[float | None, ...]
    next_p: float
    top_tokens: TopTokens = ()
    top_logprobs: tuple[TopTokens, ...] = ()


_WEIGHING: Mapping[AcceptanceRule, Callable[..., Acceptance]] = {
    AcceptanceRule.REJECTION: rejection_sample,
    AcceptanceRule.BLOCK: verify_block,
}
"""The rules that use q; their arguments are those of ``rejection_sample``."""
_FOLLOWING = frozenset({AcceptanceRule.GREEDY, AcceptanceRule.COUPLED})
"""The rules that accept the sampler's own choice."""


class Verifier:
    """Applies the request's rule to each round."""

    def __init__(self, sampler: Sampler, top_logprobs: int = 0) -> None:
        """``top_logprobs``: the number of top tokens returned for each token.

        Raises ValueError for an unknown rule, or for ``auto``, which must be resolved first.
        """
        rule = sampler.rule
        if rule not in _FOLLOWING and rule not in _WEIGHING:
            raise ValueError(f"there is no acceptance rule {rule!r}")
        self.sampler, self.top_logprobs = sampler, top_logprobs

    def __call__(self, logits: Tensor, proposal: DraftProposal, context: Context) -> VerifierOutput:
        """Accept or reject. ``logits``: (nodes + 1, vocabulary) after the pending token and each node."""
        tree, position = proposal.tree, len(context.tokens)
        # Branches at the same position see the same noise, so each is verified as in a chain.
        positions = [position, *(position + depth for depth in tree.depths)]
        paths = ancestries(tree) if self.sampler.uses_context else [()] * len(positions)
        sampled = self.sampler.sample_raw(logits, positions, Stream.CHOICE, paths)
        if sampled is not None:
            acceptance = accept_matching(sampled.tokens, tree)
            return self._output(acceptance, sampled.probabilities, tree, sampled.top_tokens, paths)
        adjusted = self.sampler.adjusted(logits, paths)
        p = self.sampler.probabilities(adjusted)
        if self.sampler.rule in _FOLLOWING:
            choices = self.sampler.choose(adjusted, p, positions, Stream.CHOICE)
            acceptance = accept_matching(choices, tree)
        else:
            acceptance = self.weigh(p, proposal, position)

        def top_tokens(row: int, count: int) -> TopTokens:
            return self.sampler.top_tokens(p[row], count)

        return self._output(acceptance, partial(_read_off, p), tree, top_tokens, paths)

    def _output(
        self,
        acceptance: Acceptance,
        probabilities: Callable[[Iterable[tuple[int, int]]], list[float]],
        tree: Tree,
        top_tokens: Callable[[int, int], TopTokens],
        paths: Sequence[Sequence[int]],
    ) -> VerifierOutput:
        """Keep the probabilities of the rows that accepted nodes reach. Raises
        ModelError for logits that are no numbers, InvalidRequest where a grammar allows no token."""
        reached = {-1, *acceptance.path}
        nodes = zip(tree.parents, tree.tokens, strict=True)
        places = [(parent + 1, token) for parent, token in nodes]
        rows = [0, *(node + 1 for node in acceptance.path)]  # the row of each emitted token
        *shown, next_p = probabilities([*places, (rows[-1], acceptance.next_token)])
        # A NaN logit makes its whole row NaN, or, if sums skip it, leaves no probability.
        if not all(0 < p < math.inf for p in (next_p, *(shown[node] for node in acceptance.path))):
            raise ModelError(why_broken())
        mask = self.sampler.mask
        if mask is not None and not mask.allows(paths[rows[-1]], acceptance.next_token):
            # A row without an allowed token is not masked.
            raise InvalidRequest("grammar", DEAD_END)
        kept = zip(tree.parents, shown, strict=True)
        return VerifierOutput(
            acceptance,
            tuple(value if parent in reached else None for parent, value in kept),
            next_p,
            top_tokens(rows[-1], SHOWN_TOP_TOKENS),
            tuple(top_tokens(row, self.top_logprobs) for row in rows) if self.top_logprobs else (),
        )

    def weigh(self, p: Tensor, proposal: DraftProposal, position: int) -> Acceptance:
        seed = self.sampler.seed

        def accept(node: int) -> float:
            return uniform(seed, Stream.ACCEPT, place_in_draft(position, node))

        def draw(weights: Tensor, row: int, is_residual: bool) -> int:
            stream = Stream.RESIDUAL if is_residual else Stream.CHOICE
            return self.sampler.draw(weights[None], (position + row,), stream)[0]

        weigh = _WEIGHING[self.sampler.rule]
        return weigh(p, proposal.q, proposal.tree, accept, draw)


def ancestries(tree: Tree) -> list[Sequence[int]]:
    """Return for each row the tokens from the root down to its node; row 0 has none."""
    found: list[Sequence[int]] = [()]
    for parent, token in zip(tree.parents, tree.tokens, strict=True):
        found.append((*found[parent + 1], token))
    return found


def _read_off(p: Tensor, places: Iterable[tuple[int, int]]) -> list[float]:
    """Return ``p[row, token]`` for each of ``places``."""
    rows, tokens = zip(*places, strict=True)
    found: list[float] = p[list(rows), list(tokens)].tolist()
    return found
