"""What the engine needs of a model: append tokens to a cache, get logits back.

Two implementations: the own decoder (decoder.py) and an adapter over transformers (adapter.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a loaded model is. ``context`` in tokens; ``eos`` are the tokens that end a reply."""

    name: str
    architecture: str
    vocabulary: int
    context: int
    parameters: int
    dtype: str
    device: str
    eos: frozenset[int]


class Cache(Protocol):
    """The model's memory of the first ``length`` tokens."""

    @property
    def length(self) -> int: ...

    def crop(self, length: int) -> None:
        """Forgets all positions from ``length`` on."""


class Model(Protocol):
    """A causal language model for one sequence at a time."""

    @property
    def info(self) -> ModelInfo: ...

    def new_cache(self, context: int) -> Cache:
        """An empty cache for ``context`` tokens; only this model's ``forward`` may use it."""

    def forward(self, tokens: Sequence[int], cache: Cache, *, last: int) -> Tensor:
        """Appends ``tokens`` to ``cache`` and returns the logits of the ``last`` ones.

        Returns float32 ``(last, vocabulary)``. Mutates the cache: its length grows by
        ``len(tokens)``. A position's bits do not depend on how many tokens (up to 16) came
        in the same call.
        """


@runtime_checkable
class GreedyModel(Model, Protocol):
    """A model that writes on by itself, without a call for each token."""

    def continue_greedily(
        self, tokens: Sequence[int], cache: Cache, depth: int, limit: int
    ) -> tuple[list[int], list[float]]:
        """Appends ``tokens`` to ``cache``, then chooses ``depth`` tokens, each the likeliest one.

        Returns them and their probabilities, both among the first ``limit`` tokens of the vocabulary.
        The last one is not appended.
        """
