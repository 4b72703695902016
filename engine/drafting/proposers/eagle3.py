"""``eagle3``: one layer on the target's hidden states writes ahead, then reads on from its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.prefix import chunks, common_prefix
from engine.decoding.proposer import NOTHING, DraftProposal
from engine.decoding.sampling import Sampler
from engine.drafting.heads.compiled import compiled
from engine.drafting.heads.compiled.eagle3 import Eagle3Draft
from engine.drafting.heads.eagle3 import Eagle3Head
from engine.drafting.proposers.branches import BranchOptions, branched_out
from engine.drafting.proposers.drawing import Chain, count_of, floor_of, written_out
from engine.drafting.resources import Resources
from engine.events import Budget, Tree


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
        self.memory = self.head.new_memory()
        self.compiled = compiled(Eagle3Draft, self.head, self.target)
        self.text: list[int] = []  # the tokens that the rows are made from: one more than rows

    @property
    def rows(self) -> int:
        """How many rows are made from the target's states."""
        return max(0, len(self.text) - 1)

    def begin(self, context: Context, sampler: Sampler) -> None:
        self.sampler = sampler
        del self.text[common_prefix(self.text, context.tokens) :]

    def prepare(self, context: Context) -> Iterator[None]:
        # The last row waits for ``propose``, which reads what it puts out.
        for chunk in chunks(range(self.rows, self.target.length - 1)):
            yield
            if self.compiled is None:
                self._read(context, chunk[0], chunk[-1] + 1)
            else:
                self.compiled.read(self._behind(context, chunk[0], chunk[-1] + 1), chunk[0])

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        read = self.target.length
        if budget.depth < 1 or read < 1:
            return NOTHING
        known, floor = len(context.tokens), floor_of(self.sampler, budget)
        if self.compiled is not None:
            # After a repeated text all rows may be there, but not what the last one put out.
            start = min(self.rows, read - 1)
            draft = self.compiled.begin(self._behind(context, start, read), start)
            on_target = self.head.on_target
            nodes = self.options.nodes(self.sampler, self.target, budget)
            if nodes:
                budget = replace(budget, nodes=nodes)
                return branched_out(draft, self.sampler, known, budget, on_target)
            return written_out(draft, self.sampler, known, budget.depth, floor, on_target)
        state = self._catch_up(context, read)
        if self.sampler.takes_likeliest:
            return self._likeliest(state, budget.depth, floor)
        chain = Chain(self.sampler, known, floor)
        token = chain.draw(self.head.on_target(self.head.logits(state)))
        while len(chain.tokens) < budget.depth and not chain.ended:
            state = self._write(token, state, read + len(chain.tokens) - 1)
            token = chain.draw(self.head.on_target(self.head.logits(state)))
        return chain.proposal()

    def observe(self, acceptance: Acceptance) -> None: ...

    def close(self) -> None:
        self.text.clear()
        self.memory = self.head.new_memory()
        if self.compiled is not None:
            self.compiled.close()

    def _likeliest(self, state: Tensor, depth: int, floor: float) -> DraftProposal:
        """What ``propose`` drafts where nothing is drawn and nothing penalised."""
        tokens: list[int] = []
        likely: list[float] = []
        while True:
            p, drafted = torch.softmax(self.head.logits(state), dim=-1).max(dim=-1)
            tokens.append(self.head.token(int(drafted)))
            likely.append(float(p))
            count = count_of(likely, floor)
            if count == depth or count < len(tokens):
                return DraftProposal(Tree.chain(tokens[:count]), None, tuple(likely[:count]))
            state = self._write(tokens[-1], state, self.rows + len(tokens) - 1)

    def _catch_up(self, context: Context, read: int) -> Tensor:
        """Makes the rows that the target's states allow; what the last puts out (1, hidden)."""
        start = min(self.rows, read - 1)
        for chunk in chunks(range(start, read)):
            state = self._read(context, chunk[0], chunk[-1] + 1)
        return state[-1:]

    def _read(self, context: Context, start: int, end: int) -> Tensor:
        """Rows ``start`` .. ``end - 1`` from the target's states; what they put out."""
        states = self.head.fuse(self.target, start, end)
        behind = self._behind(context, start, end)
        return self.head.extend(self.target, behind, states, self.memory, start)

    def _behind(self, context: Context, start: int, end: int) -> list[int]:
        """The tokens that rows ``start`` .. ``end - 1`` name theirs behind; these rows count as made."""
        self.text[:] = context.tokens[: end + 1]
        return context.tokens[start + 1 : end + 1]

    def _write(self, token: int, state: Tensor, row: int) -> Tensor:
        """A row from the head's own ``state`` of the token before ``token``; what it puts out."""
        return self.head.extend(self.target, [token], state, self.memory, row)
