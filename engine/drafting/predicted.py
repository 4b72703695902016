"""Draft from a predicted reply first, else with the chosen proposer: OpenAI's Predicted Outputs.

The reply is followed as a copy of the prediction (see ``lookup/copying.py``). Where it departs from the
prediction the other proposer drafts. Where it returns the prediction drafts again, with the same edits
applied. Drafts are verified as always, so a wrong prediction costs time and changes no words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import repeat, takewhile
from typing import ClassVar

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.proposer import DraftProposal, Proposer
from engine.decoding.sampling import Sampler
from engine.drafting.lookup.copying import Copy
from engine.drafting.proposers.drawing import deterministic
from engine.drafting.proposers.none import NoneProposer
from engine.drafting.proposers.suffix import expected_accepted, recall_depth
from engine.events import Budget
from engine.request import PREDICTED
from engine.values import MAX_DEPTH

_END = -1
"""Ends the prediction. It is no token, so nothing is copied beyond it."""
_PRIOR, _PRIOR_WEIGHT = 0.95, 8.0
"""Prior acceptance of a predicted token, and its weight in tokens."""
_DECAY = 0.9
"""Decay of an observation per draft."""


class PredictedProposer:
    """A ``ChoosingProposer`` for one request: the prediction, else ``other``.

    The text and finished rounds decide who drafts, before anything is drawn: see ``hybrid``. The other
    proposer catches up with the text when its turn comes.
    """

    Options: ClassVar[type] = NoneProposer.Options
    needs: ClassVar[frozenset[str]] = frozenset()
    recall_name = PREDICTED

    def __init__(self, predicted: Sequence[int], other: Proposer, name: str) -> None:
        """``name``: the other's, by which a controller knows it."""
        self.members = {name: other}
        self._other, self._predicted = other, tuple(predicted)
        self._copy, self._read = Copy(follows_itself=False), 0
        self._correct = self._observed = 0.0
        self._drafted: tuple[int, ...] = ()  # of the prediction, in this round
        self._other_proposed = False  # in this round

    def begin(self, context: Context, sampler: Sampler) -> None:
        self._other.begin(context, sampler)
        self._copy = Copy(follows_itself=False)
        self._copy.read((*self._predicted, _END))
        self._copy.expect(MAX_DEPTH)
        self._read = len(context.tokens)
        self._correct = self._observed = 0.0
        self._drafted, self._other_proposed = (), False

    def prepare(self, context: Context) -> Iterator[int]:
        return self._other.prepare(context)

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        self._copy.extend(context.tokens[self._read :])
        self._read = len(context.tokens)
        copied = self._copy.draft(max(budget.depth, len(budget.needed)))
        copied = tuple(takewhile(lambda token: token != _END, copied))
        rate = (self._correct + _PRIOR_WEIGHT * _PRIOR) / (self._observed + _PRIOR_WEIGHT)
        expected = expected_accepted(repeat(rate, len(copied)))
        self._drafted = copied[: recall_depth(expected, budget)]
        self._other_proposed = not self._drafted
        if self._other_proposed:
            # Without ``proposer`` and ``needed``, which are not meant for the other's own members.
            proposal = self._other.propose(context, replace(budget, proposer=None, needed=()))
            if len(proposal.tree) or not copied[: budget.depth]:
                return proposal
            self._drafted = copied[: budget.depth]
        return deterministic(self._drafted, PREDICTED)

    def observe(self, acceptance: Acceptance) -> None:
        if self._other_proposed and self._drafted:
            # To the other, which proposed nothing, this is a round with one new token.
            first = self._drafted[0] if acceptance.path else acceptance.next_token
            self._other.observe(Acceptance((), first, acceptance.origin))
        elif self._other_proposed:
            self._other.observe(acceptance)
        if self._drafted:
            accepted = len(acceptance.path)
            self._correct = _DECAY * self._correct + accepted
            self._observed = _DECAY * self._observed + min(accepted + 1, len(self._drafted))

    def close(self) -> None:
        """Do nothing: the other proposer belongs to the slot."""
