"""The host's sampling and acceptance of a single round, for the trial of a GPU's."""

from __future__ import annotations

from torch import Tensor

from engine.backends.cuda.trial.rounds import RoundCase
from engine.decoding.acceptance import accept_matching
from engine.decoding.context import Context
from engine.decoding.proposer import DraftProposal
from engine.decoding.sampling import Sampler
from engine.decoding.verifier import Verifier, ancestries
from engine.noise import Stream


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


def _sampler(case: RoundCase) -> Sampler:
    context = Context(case.prompt)
    context.tokens.extend(case.output)
    return Sampler(case.sampling, case.rule, case.seed, context, case.vocabulary, native_step=False)
