"""A model that is a table, and a proposer that is told what to say."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.proposer import DraftProposal
from engine.decoding.sampling import Sampler
from engine.events import Budget, Tree
from engine.models.base import ModelInfo
from engine.models.hidden_states import AuxHiddenStates, AuxLayer
from engine.models.sequence_state import SequenceState

KV_HEADS, HEAD_DIM = 2, 16
"""Of ``FakeState.keys_values``."""


class FakeState(SequenceState):
    """Remembers the tokens themselves: committed ones, then pending ones."""

    def __init__(self, context: int, aux: AuxHiddenStates | None = None) -> None:
        super().__init__(context, aux)
        self.tokens: list[int] = []
        self.branches: list[int] = []  # the pending tokens of a tree

    def _keep_path(self, rows: Sequence[int]) -> None:
        self.tokens += [self.branches[row] for row in rows]
        if self.aux is not None:
            self.aux.keep(self.length, rows)

    def keys_values(self, slides: bool, end: int) -> tuple[Tensor, Tensor]:
        """Of the size that heads of random targets read, and told by the tokens."""
        told = torch.tensor(self.tokens[:end]).float().view(1, -1, 1).expand(KV_HEADS, -1, HEAD_DIM)
        return told.sin(), told.cos()

    def settle(self, length: int) -> None:
        """May only forget: nothing but ``forward`` and ``commit`` brings tokens."""
        if not 0 <= length <= len(self.tokens):
            raise ValueError(f"there are {len(self.tokens)} tokens, not {length}")
        super().settle(length)
        del self.tokens[length:]
        self.branches = []


class TableModel:
    """Logits are any function of the tokens so far: a HiddenStateModel and TreeModel for exact tests.

    A hidden state is noise that the last two tokens and the layer decide; so are embeddings.
    """

    LAYERS, HIDDEN = 8, 16

    def __init__(
        self,
        logits: Callable[[Sequence[int]], Sequence[float]],
        vocabulary: int,
        *,
        context: int = 64,
        eos: frozenset[int] = frozenset(),
    ) -> None:
        self._logits = logits
        self.fed = 0  # tokens that went through forward, for tests of reuse
        self._info = ModelInfo(
            "table", "Table", vocabulary, context, 0, "fp32", "cpu", eos, self.LAYERS, self.HIDDEN
        )

    @property
    def info(self) -> ModelInfo:
        return self._info

    def new_state(self, context: int, aux_layers: Sequence[AuxLayer] = ()) -> FakeState:
        if not aux_layers:
            return FakeState(context)
        aux = AuxHiddenStates(
            aux_layers,
            layers=self.LAYERS,
            hidden=self.HIDDEN,
            context=context,
            dtype=torch.float32,
            device=torch.device("cpu"),
        )
        return FakeState(context, aux)

    def embed(self, tokens: Sequence[int]) -> Tensor:
        return torch.cat([self._noise(token) for token in tokens])

    def logits(self, normed: Tensor) -> Tensor:
        return normed @ self.embed(range(self._info.vocabulary)).T

    def _aux_layer(self, aux: AuxHiddenStates, text: Sequence[int], at: int) -> None:
        for number, aux_layer in enumerate(aux.aux_layers):
            aux.write(aux_layer, torch.tensor([at]), self._noise(number, *text[-2:]))

    def _noise(self, *key: int) -> Tensor:
        chance = random.Random(hash(key))
        return torch.tensor([[chance.gauss(0, 1) for _ in range(self.HIDDEN)]])

    def forward(
        self, tokens: Sequence[int], state: SequenceState, *, last: int, final: bool = True
    ) -> Tensor:
        assert isinstance(state, FakeState) and len(state.tokens) == state.end
        self.fed += len(tokens)
        rows = []
        for token in tokens:
            state.tokens.append(token)
            if state.aux is not None:
                self._aux_layer(state.aux, state.tokens, len(state.tokens) - 1)
            rows.append(list(self._logits(state.tokens)))
        state.append(len(tokens), final=final)
        width = self._info.vocabulary
        return torch.tensor(rows[len(rows) - last :], dtype=torch.float32).reshape(last, width)

    def forward_tree(
        self, tokens: Sequence[int], parents: Sequence[int], state: SequenceState
    ) -> Tensor:
        assert isinstance(state, FakeState)
        self.fed += len(tokens)
        state.branches = list(tokens)
        texts: list[list[int]] = []
        for row, (token, parent) in enumerate(zip(tokens, parents, strict=True)):
            texts.append([*(texts[parent] if parent >= 0 else state.tokens), token])
            if state.aux is not None:
                self._aux_layer(state.aux, texts[-1], state.length + row)
        state.append_tree(parents)
        return torch.tensor([list(self._logits(text)) for text in texts], dtype=torch.float32)


@dataclass(frozen=True, slots=True)
class Scripted:
    """A proposer that drafts ``script(tokens so far, depth)``, whatever the model thinks.

    A tree is drafted as it is; of other tokens, a chain of ``depth``.
    """

    script: Callable[[Sequence[int], int], Sequence[int] | Tree]

    @dataclass(frozen=True, slots=True)
    class Options:
        """Nothing to choose."""

    needs: ClassVar[frozenset[str]] = frozenset()

    def begin(self, context: Context, sampler: Sampler) -> None: ...

    def prepare(self, context: Context) -> Iterator[int]:
        return iter(())

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        drafted = self.script(context.tokens, budget.depth)
        if not isinstance(drafted, Tree):
            drafted = Tree.chain(tuple(drafted)[: budget.depth])
        return DraftProposal(drafted, None, (None,) * len(drafted))

    def observe(self, acceptance: Acceptance) -> None: ...

    def close(self) -> None: ...
