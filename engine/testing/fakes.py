"""A model that is a table, and a proposer that is told what to say."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from engine.acceptance import Acceptance
from engine.context import Context
from engine.events import Budget, Tree
from engine.features import Features, Tap
from engine.models.base import Cache, ModelInfo
from engine.proposers.base import DraftProposal
from engine.sampling import Sampler


class FakeCache:
    """Remembers the tokens themselves."""

    def __init__(self, features: Features | None = None) -> None:
        self.tokens: list[int] = []
        self.features = features

    @property
    def length(self) -> int:
        return len(self.tokens)

    def crop(self, length: int) -> None:
        if not 0 <= length <= len(self.tokens):
            raise ValueError(f"cannot crop {len(self.tokens)} positions to {length}")
        del self.tokens[length:]


class TableModel:
    """Logits are any function of the tokens so far: a TappableModel for exact tests.

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

    def _tap(self, features: Features, text: Sequence[int]) -> None:
        for number, tap in enumerate(features.taps):
            features.write(tap, len(text) - 1, self._noise(number, *text[-2:]))

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
                self._tap(cache.features, cache.tokens)
            rows.append(list(self._logits(cache.tokens)))
        width = self._info.vocabulary
        return torch.tensor(rows[len(rows) - last :], dtype=torch.float32).reshape(last, width)


@dataclass(frozen=True, slots=True)
class Scripted:
    """A proposer that drafts ``script(tokens so far, depth)``, whatever the model thinks."""

    script: Callable[[Sequence[int], int], Sequence[int]]

    @dataclass(frozen=True, slots=True)
    class Options:
        """Nothing to choose."""

    needs: ClassVar[frozenset[str]] = frozenset()

    def begin(self, context: Context, sampler: Sampler) -> None: ...

    def prepare(self, context: Context) -> Iterator[None]:
        return iter(())

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        tokens = tuple(self.script(context.tokens, budget.depth))[: budget.depth]
        return DraftProposal(Tree.chain(tokens), None, (None,) * len(tokens))

    def observe(self, acceptance: Acceptance) -> None: ...

    def close(self) -> None: ...
