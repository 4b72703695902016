"""``mtp``: a layer of the target's own checkpoint drafts (see engine.drafting.heads.mtp)."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from engine.backends.executors import executed
from engine.decoding.context import Context
from engine.decoding.proposer import DraftProposal
from engine.decoding.sampling import Sampler
from engine.drafting.heads.eagle3 import Eagle3Draft
from engine.drafting.heads.mtp import MtpHead
from engine.drafting.proposers.branches import BranchOptions
from engine.drafting.proposers.eagle3 import Eagle3Proposer
from engine.drafting.resources import Resources
from engine.drafting.vocabulary_trimmer import VocabularyTrimmer, frequent_tokens
from engine.events import Budget
from engine.kernels.operands import Candidates


class MtpProposer(Eagle3Proposer):
    """Keeps rows as ``eagle3`` does, and computes logits of the text's likely tokens alone."""

    needs: ClassVar[frozenset[str]] = frozenset({MtpHead.kind})

    def __init__(self, options: BranchOptions, resources: Resources) -> None:
        self.options = options
        head, self.target = resources.head(MtpHead)
        self.head = head
        vocabulary = head.shape.architecture.vocabulary
        frequent = frequent_tokens(vocabulary)
        self.trimmer = self.candidates = None
        if frequent is not None:
            self.trimmer = VocabularyTrimmer(frequent, head.shape.eos)
            self.candidates = Candidates(vocabulary)
        self.drafts = executed(partial(Eagle3Draft, head, candidates=self.candidates), self.target)
        self.text = []
        self._trimmed: object = None

    def begin(self, context: Context, sampler: Sampler) -> None:
        super().begin(context, sampler)
        if self.trimmer is not None:
            self.trimmer.begin()

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        self._trim(context)
        return super().propose(context, budget)

    def _trim(self, context: Context) -> None:
        """Choose the candidates, from the text alone."""
        if self.trimmer is None or self.candidates is None:
            return
        trimmed = self.trimmer.trim(context.tokens)
        if trimmed is not self._trimmed:
            self._trimmed = trimmed
            self.candidates.choose(None if trimmed is None else trimmed.runs)
