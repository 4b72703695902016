"""``eagle3``: one layer on the target's hidden states drafts, then continues from its own states.

``mtp`` does the same with a layer of the target's own checkpoint (see engine.drafting.heads.mtp).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import ClassVar

from engine.backends.executors import executed
from engine.decoding.context import Context, chunks, common_prefix
from engine.decoding.proposer import NOTHING, DraftProposal
from engine.decoding.sampling import Sampler
from engine.drafting.heads.eagle3 import Eagle3Draft, Eagle3Head
from engine.drafting.heads.mtp import MtpHead
from engine.drafting.proposers.branches import BranchingProposer, BranchOptions, draft_tree
from engine.drafting.proposers.drawing import draft_chain, floors_of
from engine.drafting.resources import Resources
from engine.drafting.vocabulary_trimmer import VocabularyTrimmer, frequent_tokens
from engine.events import Budget
from engine.kernels.operands import Candidates


class Eagle3Proposer(BranchingProposer):
    """Keeps keys and values of the head's layer, one row per token in the target's state.

    Row i is computed from the target's hidden states up to token i, and from token i + 1. Rows computed
    from the head's own states while drafting follow after these. They are not counted, and the next rows
    computed from the target's states overwrite them: a rejection needs no rewind.
    """

    Options = BranchOptions

    needs: ClassVar[frozenset[str]] = frozenset({Eagle3Head.kind})

    def __init__(self, options: BranchOptions, resources: Resources) -> None:
        self.options = options
        self.head: Eagle3Head | MtpHead
        self.head, self.target = resources.head(Eagle3Head)
        self.drafts = executed(partial(Eagle3Draft, self.head), self.target)
        self.text: list[int] = []  # content keys of the rows' tokens: one more than rows

    @property
    def rows(self) -> int:
        """The number of rows computed from the target's states."""
        return max(0, len(self.text) - 1)

    def begin(self, context: Context, sampler: Sampler) -> None:
        self.sampler = sampler
        del self.text[common_prefix(self.text, context.keys) :]

    def prepare(self, context: Context) -> Iterator[int]:
        # ``propose`` computes the last row, because it needs that row's output.
        missing = range(self.rows, self.target.length - 1)
        for chunk in chunks(missing):
            yield missing.stop - chunk[0]
            self.drafts.read(self._next_tokens(context, chunk[0], chunk[-1] + 1), chunk[0])

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        length, depth = self.target.length, min(budget.depth, self.head.steps)
        if depth < 1 or length < 1:
            return NOTHING
        position = len(context.tokens)
        # After a repeated text all rows may be there, but not the output of the last one.
        start = min(self.rows, length - 1)
        draft = self.drafts.begin(self._next_tokens(context, start, length), start)
        on_target = self.head.on_target
        nodes = self.options.nodes(self.sampler, self.target, budget)
        if nodes:
            budget = replace(budget, depth=depth, nodes=nodes)
            return draft_tree(draft, self.sampler, position, budget, on_target)
        floors = floors_of(self.sampler, budget)
        return draft_chain(draft, self.sampler, position, depth, floors, on_target)

    def read_text(self, context: Context) -> None:
        """See ``RoundDraft``."""
        length = len(context.tokens) - 1
        start = min(self.rows, length - 1)
        self.drafts.begin(self._next_tokens(context, start, length), start)

    def close(self) -> None:
        self.text.clear()
        self.drafts.close()

    def _next_tokens(self, context: Context, start: int, end: int) -> list[int]:
        """Return the tokens after rows ``start`` .. ``end - 1``, and count these rows as computed."""
        self.text[:] = context.keys[: end + 1]
        return context.tokens[start + 1 : end + 1]


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
