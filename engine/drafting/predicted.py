"""Drafts from a text that the reply will likely follow, in front of whichever proposer was chosen.

OpenAI's Predicted Outputs: whoever asks for a file with one line changed knows most of the answer. The
prediction is followed as a copy follows its source (see ``lookup/copying.py``): where the reply departs
from it the other proposer drafts, and where it comes back the prediction does again, with the same
changes made. What is drafted is verified as ever, so a wrong prediction costs time and no words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, repeat, takewhile
from operator import mul
from typing import ClassVar

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.proposer import DraftProposal, Proposer
from engine.decoding.sampling import Sampler
from engine.drafting.lookup.copying import Copy
from engine.drafting.proposers.none import NoneProposer
from engine.events import Budget, Tree
from engine.request import PREDICTED
from engine.values import MAX_DEPTH

_END = -1
"""Stands behind the prediction: no token, so nothing is followed beyond it."""
_PRIOR, _PRIOR_WEIGHT = 0.95, 8.0
"""How often a predicted token is taken to stand before any was judged, and the tokens that counts for."""
_FORGET = 0.9
"""What an earlier draft counts for at the next one."""


class PredictedProposer:
    """A ``ChoosingProposer`` for one request: the prediction, else ``other``.

    Who drafts is settled by the text and by finished rounds, before anything is drawn; why it has to
    be, ``hybrid`` says. The other reads what it missed when its turn comes.
    """

    Options: ClassVar[type] = NoneProposer.Options
    needs: ClassVar[frozenset[str]] = frozenset()
    recall_name = PREDICTED

    def __init__(self, predicted: Sequence[int], other: Proposer, name: str) -> None:
        """``name`` is the other's, by which a controller knows it."""
        self.members = {name: other}
        self._other, self._predicted = other, tuple(predicted)
        self._copy, self._read = Copy(follows_itself=False), 0
        self._right = self._judged = 0.0
        self._drafted: tuple[int, ...] = ()  # of the prediction, in this round
        self._asked = False  # whether the other was, in this round

    def begin(self, context: Context, sampler: Sampler) -> None:
        self._other.begin(context, sampler)
        self._copy = Copy(follows_itself=False)
        self._copy.read((*self._predicted, _END))
        self._copy.expect(MAX_DEPTH)
        self._read = len(context.tokens)
        self._right = self._judged = 0.0
        self._drafted, self._asked = (), False

    def prepare(self, context: Context) -> Iterator[None]:
        return self._other.prepare(context)

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        self._copy.extend(context.tokens[self._read :])
        self._read = len(context.tokens)
        found = self._copy.draft(max(budget.depth, len(budget.needed)))
        found = tuple(takewhile(lambda token: token != _END, found))
        self._drafted = found[: self._worth(len(found), budget)]
        self._asked = not self._drafted
        if self._asked:
            # Whom the other has to choose from it knows itself.
            own = replace(budget, proposer=None, needed=())
            proposal = self._other.propose(context, own)
            if len(proposal.tree) or not found[: budget.depth]:
                return proposal
            self._drafted = found[: budget.depth]
        chain = Tree.chain(self._drafted)
        return DraftProposal(chain, None, (None,) * len(chain), PREDICTED)

    def observe(self, acceptance: Acceptance) -> None:
        if self._asked and self._drafted:
            # It drafted nothing, so the first token is all there is for it.
            first = self._drafted[0] if acceptance.path else acceptance.next_token
            self._other.observe(Acceptance((), first, acceptance.origin))
        elif self._asked:
            self._other.observe(acceptance)
        if self._drafted:
            stood = len(acceptance.path)
            self._right = _FORGET * self._right + stood
            self._judged = _FORGET * self._judged + min(stood + 1, len(self._drafted))

    def close(self) -> None:
        """The other is the session's, and stays."""

    def _worth(self, length: int, budget: Budget) -> int:
        """How many of the ``length`` tokens found are worth drafting in place of the other's."""
        if not budget.needed:
            return budget.depth if 0 < budget.depth <= length else 0
        rate = (self._right + _PRIOR_WEIGHT * _PRIOR) / (self._judged + _PRIOR_WEIGHT)
        expected = accumulate(accumulate(repeat(rate, length), mul))
        gains = [found - needed for found, needed in zip(expected, budget.needed, strict=False)]
        best = max(range(len(gains)), key=gains.__getitem__, default=0)
        return best + 1 if gains and gains[best] > 0 else 0
