"""Proposers that combine others: ``best`` and ``hybrid``.

``best`` chooses the fastest of all loaded proposers, round by round. Which of a draft model, several
heads and past text pays depends on the machine, the model and the text. The controller measures (see
``controllers/auto.py``) and names one for each round. Recalled text takes its place where enough of it
is expected to be accepted. Under a fixed depth the preferred proposer drafts, or recalled text that
reaches that depth.

``hybrid`` is Arctic Inference's combination (SuffixDecoding, Oliaro et al. 2024, arXiv 2411.04975): a
suffix draft replaces the neural one if its score, the expected number of correct tokens, is at least
the length of the neural draft, which is the most that one could reach.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.proposer import DraftProposal, Proposer
from engine.decoding.sampling import Sampler
from engine.drafting import proposers
from engine.drafting.proposers.drawing import deterministic, option
from engine.drafting.proposers.suffix import (
    RECALLING,
    SuffixProposer,
    expected_accepted,
    recall_depth,
)
from engine.drafting.resources import Resources
from engine.events import Budget
from engine.request import FIXED_DEPTH
from engine.values import MAX_DEPTH

_NO_DRAFT = Budget(0, 0)


class HybridProposer:
    """Two proposers, one of which drafts in each round.

    The text alone decides which, before anything is drawn. Under ``rejection`` it must: if a drawn draft
    were dropped for its tokens or probabilities, the remaining drafts would not be distributed as q, nor
    the output as p. So the neural draft counts by its length.
    """

    @dataclass(frozen=True, slots=True)
    class Options(SuffixProposer.Options):
        # ``neural`` is called later: the registry is incomplete while this module is imported.
        neural: str = option(
            "draft", "drafts if the text does not repeat itself", choices=proposers.neural
        )
        neural_depth: int = option(
            FIXED_DEPTH,
            "most tokens this one drafts per round; a suffix may be longer",
            range=(1, MAX_DEPTH),
        )

    needs: ClassVar[frozenset[str]] = frozenset({"draft"})

    def __init__(self, options: Options, resources: Resources) -> None:
        self.neural_depth = options.neural_depth
        self.neural_name = options.neural
        self.neural: Proposer = proposers.create(options.neural, {}, resources)
        self.suffix = SuffixProposer(options, resources)

    def begin(self, context: Context, sampler: Sampler) -> None:
        self.neural.begin(context, sampler)
        self.suffix.begin(context, sampler)

    def prepare(self, context: Context) -> Iterator[int]:
        return _one_by_one([self.neural.prepare(context), self.suffix.prepare(context)])

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        recalled = self.suffix.recall(context, budget.depth)
        length = min(budget.depth, self.neural_depth)
        if recalled.score >= length:
            # An empty proposal, after which the neural proposer may observe this round and catch up.
            self.neural.propose(context, _NO_DRAFT)
            return deterministic(recalled.tokens, RECALLING)
        drafted = self.neural.propose(context, replace(budget, depth=length))
        # It drafts nothing at the end of its own context, which too is known before anything is drawn.
        if len(drafted.tree):
            return replace(drafted, by=self.neural_name)
        return deterministic(recalled.tokens, RECALLING)

    def observe(self, acceptance: Acceptance) -> None:
        self.neural.observe(acceptance)
        self.suffix.observe(acceptance)

    def close(self) -> None:
        self.neural.close()
        self.suffix.close()


_DECAY = 0.9
"""Decay of an observation per later one of the same class: about the last ten matter."""
_PRIOR = (0.0, 0.2, 0.45, 0.7, 0.93, 0.97)
"""Prior acceptance of a recalled token, by the bit length of what is matched before it: see docs/log."""
_PRIOR_WEIGHT = 4.0
"""Weight of the prior, in tokens."""


class RecallAccuracy:
    """Acceptance of recalled text within one text, observed in every round, whoever drafted.

    Recalled text is as long as the match before it, which each token that is right makes longer.
    """

    def __init__(self) -> None:
        self._counts = [[0.0, 0.0] for _ in _PRIOR]  # correct and observed tokens

    def observe(self, recalled: Sequence[int], actual: Sequence[int]) -> None:
        """Compare ``recalled`` tokens with the ``actual`` ones, up to the first difference."""
        pairs = zip(recalled, actual, strict=False)
        for matched, (token, wanted) in enumerate(pairs, len(recalled)):
            counts = self._counts[matched.bit_length()]
            counts[:] = _DECAY * counts[0] + (token == wanted), _DECAY * counts[1] + 1
            if token != wanted:
                break

    def expected(self, length: int) -> list[float]:
        """Return the expected accepted tokens among the first 1, 2, ... of ``length`` recalled ones."""
        rate, rates = 0.0, list[float]()
        for prior, (correct, observed) in zip(_PRIOR, self._counts, strict=True):
            # Longer recalls are at least as accurate as shorter ones.
            rate = (correct + _PRIOR_WEIGHT * max(prior, rate)) / (observed + _PRIOR_WEIGHT)
            rates.append(rate)
        return expected_accepted(rates[(length + right).bit_length()] for right in range(length))


class BestProposer:
    """Chooses who drafts from the text and finished rounds, before anything is drawn: see ``hybrid``.

    Proposers that do not draft catch up with the text when their turn comes.
    """

    Options = SuffixProposer.Options

    needs: ClassVar[frozenset[str]] = frozenset()
    recall_name = RECALLING

    def __init__(self, options: SuffixProposer.Options, resources: Resources) -> None:
        available = proposers.available(resources.loaded)
        self.members: dict[str, Proposer] = {
            name: proposers.create(name, {}, resources)
            for name in proposers.neural()
            if name in available
        }
        self.suffix = SuffixProposer(options, resources)
        self.accuracy = RecallAccuracy()
        self._preferred = next(iter(proposers.drafters(self.members)), None)
        self._drafting: Proposer | None = None
        self._recalled: tuple[int, ...] = ()
        self._drafted: tuple[int, ...] = ()

    def begin(self, context: Context, sampler: Sampler) -> None:
        self._drafting, self._recalled, self._drafted = None, (), ()
        self.accuracy = RecallAccuracy()
        for proposer in self._all:
            proposer.begin(context, sampler)

    def prepare(self, context: Context) -> Iterator[int]:
        return _one_by_one([proposer.prepare(context) for proposer in self._all])

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        name = budget.proposer or self._preferred
        # Its full length tells its accuracy, also where fewer tokens are still wanted.
        self._recalled = self.suffix.recall(context, MAX_DEPTH).tokens
        depth = budget.depth
        if name is not None:
            depth = recall_depth(self.accuracy.expected(len(self._recalled)), budget)
        if depth or name is None or not budget.depth:
            self._drafting = None
            proposal = deterministic(self._recalled[:depth], RECALLING)
        else:
            self._drafting = self.members[name]
            proposal = replace(self._drafting.propose(context, budget), by=name)
        self._drafted = proposal.tree.tokens
        return proposal

    def observe(self, acceptance: Acceptance) -> None:
        if self._drafting is not None:
            self._drafting.observe(acceptance)
        accepted = [self._drafted[node] for node in acceptance.path]
        self.accuracy.observe(self._recalled, [*accepted, acceptance.next_token])

    def close(self) -> None:
        for proposer in self._all:
            proposer.close()

    @property
    def _all(self) -> tuple[Proposer | SuffixProposer, ...]:
        return (*self.members.values(), self.suffix)


def _one_by_one(prefills: Sequence[Iterator[int]]) -> Iterator[int]:
    """Yield what is left of all ``prefills``, which are done one after the other."""
    left = [next(prefill, None) for prefill in prefills]
    for at, prefill in enumerate(prefills):
        while left[at] is not None:
            yield sum(tokens or 0 for tokens in left)
            left[at] = next(prefill, None)
