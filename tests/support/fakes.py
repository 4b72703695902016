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
from engine.models.base import Cache, ModelInfo
from engine.models.hidden_states import Features, Tap


class FakeCache:
    """Remembers the tokens themselves."""

    def __init__(self, features: Features | None = None) -> None:
        self.tokens: list[int] = []
        self.branches: list[int] = []  # the tokens of the last tree
        self.features = features

    @property
    def length(self) -> int:
        return len(self.tokens)

    def commit(self, rows: Sequence[int]) -> None:
        start = self.length
        self.tokens += [self.branches[row] for row in rows]
        if self.features is not None:
            self.features.keep(start, rows)

    def crop(self, length: int) -> None:
        if not 0 <= length <= len(self.tokens):
            raise ValueError(f"cannot crop {len(self.tokens)} positions to {length}")
        del self.tokens[length:]


class TableModel:
    """Logits are any function of the tokens so far: a TappableModel and TreeModel for exact tests.

    A hidden state is noise that the last two tokens and the tap decide; so are embeddings.
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

    def new_cache(self, context: int, taps: Sequence[Tap] = ()) -> FakeCache:
        if not taps:
            return FakeCache()
        features = Features(
            taps,
            layers=self.LAYERS,
            hidden=self.HIDDEN,
            context=context,
            dtype=torch.float32,
            device=torch.device("cpu"),
        )
        return FakeCache(features)

    def embed(self, tokens: Sequence[int]) -> Tensor:
        return torch.cat([self._noise(token) for token in tokens])

    def logits(self, normed: Tensor) -> Tensor:
        return normed @ self.embed(range(self._info.vocabulary)).T

    def _tap(self, features: Features, text: Sequence[int], at: int) -> None:
        for number, tap in enumerate(features.taps):
            features.write(tap, at, self._noise(number, *text[-2:]))

    def _noise(self, *key: int) -> Tensor:
        chance = random.Random(hash(key))
        return torch.tensor([[chance.gauss(0, 1) for _ in range(self.HIDDEN)]])

    def forward(self, tokens: Sequence[int], cache: Cache, *, last: int) -> Tensor:
        assert isinstance(cache, FakeCache)
        self.fed += len(tokens)
        rows = []
        for token in tokens:
            cache.tokens.append(token)
            if cache.features is not None:
                self._tap(cache.features, cache.tokens, cache.length - 1)
            rows.append(list(self._logits(cache.tokens)))
        width = self._info.vocabulary
        return torch.tensor(rows[len(rows) - last :], dtype=torch.float32).reshape(last, width)

    def forward_tree(self, tokens: Sequence[int], parents: Sequence[int], cache: Cache) -> Tensor:
        assert isinstance(cache, FakeCache)
        self.fed += len(tokens)
        cache.branches = list(tokens)
        texts: list[list[int]] = []
        for row, (token, parent) in enumerate(zip(tokens, parents, strict=True)):
            texts.append([*(texts[parent] if parent >= 0 else cache.tokens), token])
            if cache.features is not None:
                self._tap(cache.features, texts[-1], cache.length + row)
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

    def prepare(self, context: Context) -> Iterator[None]:
        return iter(())

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        drafted = self.script(context.tokens, budget.depth)
        if not isinstance(drafted, Tree):
            drafted = Tree.chain(tuple(drafted)[: budget.depth])
        return DraftProposal(drafted, None, (None,) * len(drafted))

    def observe(self, acceptance: Acceptance) -> None: ...

    def close(self) -> None: ...
