"""The host's sampling and acceptance of a single round, for the trial of a GPU's."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from torch import Tensor

from engine.backends.cuda.trial.rounds import RoundCase
from engine.decoding.acceptance import accept_matching
from engine.decoding.context import Context
from engine.decoding.proposer import DraftProposal
from engine.decoding.sampling import Sampler
from engine.decoding.verifier import Verifier, ancestries
from engine.drafting.proposers.branches import Level, grow
from engine.events import Tree
from engine.noise import Stream

LEAST = sys.float_info.min
"""The least joint probability of a drafted token that is compared."""


class Rules:
    """See ``HostRules``."""

    def probabilities(self, case: RoundCase, logits: Tensor) -> Tensor:
        sampler = _sampler(case)
        return sampler.probabilities(sampler.adjusted(logits, ancestries(case.tree)))

    def tokens(
        self, case: RoundCase, logits: Tensor, p: Tensor, q: Tensor | None
    ) -> tuple[int, ...]:
        sampler, tree = _sampler(case), case.tree
        position = len(case.prompt) + len(case.output)
        if case.rule.weighs_q:
            proposal = DraftProposal(tree, q, (None,) * len(tree))
            acceptance = Verifier(sampler).weigh(p, proposal, position)
        else:
            adjusted = sampler.adjusted(logits, ancestries(tree))
            positions = [position, *(position + depth for depth in tree.depths)]
            choices = sampler.choose(adjusted, p, positions, Stream.CHOICE)
            acceptance = accept_matching(choices, tree)
        return (*(tree.tokens[node] for node in acceptance.path), acceptance.next_token)

    def tree(
        self, ranked: Sequence[tuple[list[int], list[float]]], nodes: int, *, spread: bool
    ) -> Tree:
        return grow([Level(*each) for each in ranked], nodes, LEAST, spread=spread).tree


def _sampler(case: RoundCase) -> Sampler:
    context = Context(case.prompt)
    context.tokens.extend(case.output)
    return Sampler(case.sampling, case.rule, case.seed, context, case.vocabulary, native_step=False)
