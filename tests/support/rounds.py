"""Rounds as a device would run them, in Python: for tests of what launches and reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.decoding.context import Context
from engine.decoding.proposer import NOTHING, DraftProposal
from engine.decoding.sampling import Sampler
from engine.decoding.verifier import Verifier
from engine.drafting.proposers.drawing import Chain, Floors
from engine.events import Tree
from engine.models.sequence_state import SequenceState
from engine.values import MAX_DEPTH, RoundResult
from engine.values.sampling import AcceptanceRule, Sampling
from tests.support.fakes import TableModel

DRAFT_S, TOTAL_S = 0.001, 0.003
"""What every round takes by the device's clock."""


class RoundTable(TableModel):
    """A table whose rounds run on its own."""

    def round_runner(
        self,
        state: SequenceState,
        drafter: Any = None,
        *,
        captures: bool = True,
    ) -> TableRounds:
        return TableRounds(self, state, drafter)

    def round_drafter(self, state: SequenceState) -> Any:
        return _Drafter(self, state)

    def head_operations(self, state: SequenceState) -> None:
        return None


@dataclass(eq=False)
class _Drafter:
    """A draft of a table, in a state."""

    model: RoundTable
    state: SequenceState
    steps: int = MAX_DEPTH

    @property
    def context(self) -> int:
        return self.model.info.context


@dataclass(frozen=True, slots=True)
class _Pending:
    rounds: TableRounds
    result: RoundResult

    def read(self) -> RoundResult:
        self.rounds.unread -= 1
        return self.result


class TableRounds:
    """A ``RoundRunner`` that runs a round when it is launched, as far ahead of the host as it is asked.

    It knows the text by its own rounds alone, and checks that the states hold what they should.
    """

    depths = (0, 1, 2, 3, 4, 5, 7, 15)

    def __init__(self, target: Any, state: Any, drafter: Any) -> None:
        self.target, self.state, self.drafter = target, state, drafter
        self.unread = self.launched = 0

    def begin(
        self,
        sampling: Sampling,
        rule: AcceptanceRule,
        seed: int,
        tokens: Sequence[int],
        prompt_length: int,
        bias: Sequence[tuple[int, float]] = (),
        top_tokens: int = 0,
    ) -> None:
        self.unread = self.launched = 0
        self.context = Context(tokens[:prompt_length])
        self.context.tokens += tokens[prompt_length:]
        vocabulary = self.target.info.vocabulary
        self.sampler = Sampler(sampling, rule, seed, self.context, vocabulary, bias=bias)
        self.verifier = Verifier(self.sampler, top_tokens)
        self.put_tree: DraftProposal = NOTHING

    def put(
        self, drafted: Sequence[int], q: Tensor | None, parents: Sequence[int] | None = None
    ) -> None:
        tree = Tree.chain(tuple(drafted))
        if parents is not None:
            assert q is None and not self.sampler.rule.weighs_q
            tree = Tree(tree.tokens, tuple(parent - 1 for parent in parents[1:]))
        self.put_tree = DraftProposal(tree, q, (1.0,) * len(drafted))

    def allow(self, bits: Tensor) -> None:
        words = np.ascontiguousarray(bits.numpy()).view(np.uint8)
        width = self.target.info.vocabulary
        allowed = np.unpackbits(words, axis=1, count=width, bitorder="little")
        self.allowed = torch.from_numpy(allowed).bool()

    def launch(
        self, depth: int, *, drafts: bool = False, sampled: bool = False, masked: bool = False,
        tree: bool = False, levels: int = 0, logits: Tensor | None = None,
    ) -> _Pending:  # fmt: skip
        assert depth in self.depths and not levels
        self.launched += 1
        self.unread += 1
        assert self.unread <= 2, "at most one round ahead"
        text = self.context.tokens
        drafted = self._draft(depth) if drafts else self.put_tree if depth else NOTHING
        assert len(drafted.tree) == depth and sampled <= (drafted.q is not None)
        assert tree != drafted.tree.is_chain
        ids = [text[-1], *drafted.tree.tokens]
        if logits is None:
            rewind(self.state, text[:-1])
            if tree:
                logits = self.target.forward_tree(ids, drafted.tree.row_parents, self.state)
            else:
                logits = self.target.forward(ids, self.state, last=len(ids))
        assert [*self.state.tokens, *self.state.branches] == [*text[:-1], *ids]
        if masked:
            logits = torch.where(self.allowed, logits, -torch.inf)
        judged = self.verifier(logits, drafted, self.context)
        path = judged.acceptance.path
        tokens = (*(drafted.tree.tokens[node] for node in path), judged.acceptance.next_token)
        if tree:
            self.state.commit([0, *(node + 1 for node in path)])
        text += tokens
        p = tuple(0.0 if each is None else each for each in judged.p)
        q = tuple(0.0 if each is None else each for each in drafted.chosen_q)
        result = RoundResult(
            len(path), tokens, drafted.tree.tokens, drafted.tree.parents, p, q, judged.next_p,
            DRAFT_S, TOTAL_S, judged.top_logprobs,
        )  # fmt: skip
        return _Pending(self, result)

    def _draft(self, depth: int) -> DraftProposal:
        text = self.context.tokens
        draft, state = self.drafter.model, self.drafter.state
        rewind(state, text[:-2])
        chain = Chain(self.sampler, len(text), Floors())
        new: Sequence[int] = text[-2:]
        while len(chain.tokens) < depth:
            new = [chain.draw(draft.forward(new, state, last=1))]
        return chain.proposal()


def rewind(state: Any, text: Sequence[int]) -> None:
    """Set the state's length, as a round does; what it then holds must be the text."""
    state.rewind(len(text))
    assert state.tokens == list(text)
