"""``eagle3``: one layer on the target's hidden states writes ahead, then reads on from its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import ClassVar

from engine.backends.executors import executed
from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context, chunks, common_prefix
from engine.decoding.proposer import NOTHING, DraftProposal
from engine.decoding.sampling import Sampler
from engine.drafting.heads.eagle3 import Eagle3Draft, Eagle3Head
from engine.drafting.proposers.branches import BranchOptions, branched_out
from engine.drafting.proposers.drawing import floors_of, written_out
from engine.drafting.resources import Resources
from engine.events import Budget


class Eagle3Proposer:
    """Keeps keys and values of the head's layer, a row for each token that the target has read.

    Row i is made from the target's hidden states of tokens up to i, and from token i + 1. While it
    drafts, rows made from the head's own states stand behind those; they are never counted, and the
    next rows made from the target's states overwrite them. So what was accepted is read again as the
    target saw it, and what was rejected needs no removal.
    """

    Options = BranchOptions

    needs: ClassVar[frozenset[str]] = frozenset({Eagle3Head.kind})

    def __init__(self, options: BranchOptions, resources: Resources) -> None:
        self.options = options
        self.head, self.target = resources.head(Eagle3Head)
        self.drafts = executed(partial(Eagle3Draft, self.head), self.target)
        self.text: list[int] = []  # content keys that the rows are made from: one more than rows

    @property
    def rows(self) -> int:
        """How many rows are made from the target's states."""
        return max(0, len(self.text) - 1)

    def begin(self, context: Context, sampler: Sampler) -> None:
        self.sampler = sampler
        del self.text[common_prefix(self.text, context.keys) :]

    def prepare(self, context: Context) -> Iterator[None]:
        # The last row waits for ``propose``, which reads what it puts out.
        for chunk in chunks(range(self.rows, self.target.length - 1)):
            yield
            self.drafts.read(self._behind(context, chunk[0], chunk[-1] + 1), chunk[0])

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        read = self.target.length
        if budget.depth < 1 or read < 1:
            return NOTHING
        known, floors = len(context.tokens), floors_of(self.sampler, budget)
        # After a repeated text all rows may be there, but not what the last one put out.
        start = min(self.rows, read - 1)
        draft = self.drafts.begin(self._behind(context, start, read), start)
        on_target = self.head.on_target
        nodes = self.options.nodes(self.sampler, self.target, budget)
        if nodes:
            budget = replace(budget, nodes=nodes)
            return branched_out(draft, self.sampler, known, budget, on_target)
        return written_out(draft, self.sampler, known, budget.depth, floors, on_target)

    def observe(self, acceptance: Acceptance) -> None: ...

    def close(self) -> None:
        self.text.clear()
        self.drafts.close()

    def _behind(self, context: Context, start: int, end: int) -> list[int]:
        """The tokens that rows ``start`` .. ``end - 1`` name theirs behind; these rows count as made."""
        self.text[:] = context.keys[: end + 1]
        return context.tokens[start + 1 : end + 1]
