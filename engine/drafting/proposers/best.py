"""``best``: whatever drafts fastest just now, of all that is loaded.

A draft model and several heads may be loaded at once, and past text is always there. Which of them pays
depends on the machine, the model and the text at hand. The controller measures (see
``controllers/choice.py``) and names one for each round; text that is recalled takes its place where it is
good enough. Under a fixed depth the usual one drafts, and so does text that goes on as far.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, chain, repeat
from operator import mul
from typing import ClassVar

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.proposer import DraftProposal, Proposer
from engine.decoding.sampling import Sampler
from engine.drafting import proposers
from engine.drafting.lookup.suffix_automaton import Continuation
from engine.drafting.proposers.suffix import RECALLING, SuffixProposer, as_proposal
from engine.drafting.resources import Resources
from engine.events import Budget

_FORGET = 0.9
"""What a judged recollection still counts for one later: about the last ten of its length matter."""
_PRIOR = (0.0, 0.2, 0.4, 0.55, 0.9)
"""How often a recalled token is right, by the binary digits of how many there are: see docs/log."""
_PRIOR_WEIGHT = 4.0
"""Tokens that what is expected before anything was seen counts for."""


class Foresight:
    """How much of recalled text comes true in one text, judged in every round, whoever drafted in it.

    A recollection is as long as the text behind it is alike, so long ones are surer than short ones.
    """

    def __init__(self) -> None:
        self._seen = [[0.0, 0.0] for _ in _PRIOR]  # right and judged tokens

    def learn(self, recalled: Sequence[int], came: Sequence[int]) -> None:
        """``came`` are the tokens that stand now where ``recalled`` ones might have stood."""
        seen = self._seen[len(recalled).bit_length()]
        seen[:] = _FORGET * seen[0], _FORGET * seen[1]
        for token, wanted in zip(recalled, came, strict=False):
            seen[0] += token == wanted
            seen[1] += 1
            if token != wanted:
                break

    def expected(self, length: int) -> list[float]:
        """Of the first 1, 2, ... ``length`` tokens of a recollection so long, those that come true."""
        rate, kinds = 0.0, length.bit_length() + 1
        for prior, (right, judged) in zip(_PRIOR[:kinds], self._seen, strict=False):
            # Where shorter ones come true, longer ones do.
            rate = (right + _PRIOR_WEIGHT * max(prior, rate)) / (judged + _PRIOR_WEIGHT)
        return list(accumulate(accumulate(repeat(rate, length), mul)))


class BestProposer:
    """Who drafts is settled by the text and by finished rounds, before anything is drawn; why it has to
    be, ``hybrid`` says. Those that do not draft read what they missed when their turn comes.
    """

    Options = SuffixProposer.Options

    needs: ClassVar[frozenset[str]] = frozenset()
    recall_name = RECALLING

    def __init__(self, options: SuffixProposer.Options, resources: Resources) -> None:
        offered = proposers.available(resources.loaded)
        self.members: dict[str, Proposer] = {
            name: proposers.create(name, {}, resources)
            for name in proposers.neural()
            if name in offered
        }
        self.suffix = SuffixProposer(options, resources)
        self.foresight = Foresight()
        self._usual = proposers.preferred(self.members) if self.members else None
        self._drafting: Proposer | None = None
        self._recalled = Continuation()
        self._drafted: tuple[int, ...] = ()

    def begin(self, context: Context, sampler: Sampler) -> None:
        self._drafting, self._recalled, self._drafted = None, Continuation(), ()
        self.foresight = Foresight()
        for proposer in self._all:
            proposer.begin(context, sampler)

    def prepare(self, context: Context) -> Iterator[None]:
        return chain.from_iterable(proposer.prepare(context) for proposer in self._all)

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        name = budget.proposer or self._usual
        self._recalled = self.suffix.recall(context, max(budget.depth, len(budget.needed)))
        worth = budget.depth if name is None else self._worth(budget)
        if worth or name is None or not budget.depth:
            self._drafting = None
            recalled = Continuation(self._recalled.tokens[:worth])
            proposal = as_proposal(recalled, RECALLING)
        else:
            self._drafting = self.members[name]
            proposal = replace(self._drafting.propose(context, budget), by=name)
        self._drafted = proposal.tree.tokens
        return proposal

    def observe(self, acceptance: Acceptance) -> None:
        if self._drafting is not None:
            self._drafting.observe(acceptance)
        stood = [self._drafted[node] for node in acceptance.path]
        self.foresight.learn(self._recalled.tokens, [*stood, acceptance.next_token])

    def close(self) -> None:
        for proposer in self._all:
            proposer.close()

    @property
    def _all(self) -> tuple[Proposer | SuffixProposer, ...]:
        return (*self.members.values(), self.suffix)

    def _worth(self, budget: Budget) -> int:
        """How many of the recalled tokens are worth drafting in place of a member's."""
        length = len(self._recalled.tokens)
        if not budget.needed:
            return budget.depth if 0 < budget.depth <= length else 0
        expected = self.foresight.expected(length)
        gains = [found - needed for found, needed in zip(expected, budget.needed, strict=False)]
        best = max(range(len(gains)), key=gains.__getitem__, default=0)
        return best + 1 if gains and gains[best] > 0 else 0
