"""What drafts that are drawn must be, whatever head drew them."""

from __future__ import annotations

import pytest
import torch

from engine.decoding.proposer import DraftProposal
from engine.decoding.sampling import Sampler
from engine.drafting.proposers.drawing import places_of
from engine.noise import Stream, sample
from engine.values.sampling import AcceptanceRule, Sampling

SAMPLED = Sampling(temperature=0.9, top_p=0.95, seed=4)
PENALISED = Sampling(temperature=1.0, seed=4, repetition_penalty=1.5, frequency_penalty=1.0)

with_q = pytest.mark.parametrize(
    ("sampling", "rule"),
    [
        (SAMPLED, AcceptanceRule.REJECTION),
        (PENALISED, AcceptanceRule.REJECTION),
        (PENALISED, AcceptanceRule.COUPLED),
    ],
)
"""Ways of sampling whose drafts have a q."""


def check_q(proposal: DraftProposal, sampler: Sampler, length: int, depth: int) -> None:
    """Check that the tokens are drawn from q, behind a text of so many tokens."""
    stream = Stream.DRAFT if sampler.rule is AcceptanceRule.REJECTION else Stream.CHOICE
    assert proposal.q is not None
    positions = places_of(sampler, length, range(depth))
    again = sample(proposal.q, sampler.seed, stream, positions).tolist()
    assert again == list(proposal.tree.tokens)
    assert proposal.chosen_q == tuple(proposal.q[range(depth), again].tolist())


def check_beginning(shallow: DraftProposal, deep: DraftProposal) -> None:
    """Check that a draft of two tokens is the beginning of a deeper one, q and all."""
    assert shallow.tree.tokens == deep.tree.tokens[:2]
    assert (shallow.q is None) == (deep.q is None)
    if shallow.q is not None and deep.q is not None:
        assert torch.equal(shallow.q, deep.q[:2])
