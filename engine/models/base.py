"""What the engine needs of a model: append tokens to a cache, get logits back.

Its implementations are in ``engine.backends``. What more a model can do, it declares by the protocols
below; whole rounds on a device are in ``rounds.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

from torch import Tensor

from engine.models.hidden_states import EmbeddingAndHead, Features, Tap
from engine.models.token_map import TokenMap
from engine.noise import Draws


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a loaded model is. ``context`` in tokens; ``eos`` are the tokens that end a reply.

    ``compiled``: whether its step is the one compiled for this processor.
    """

    name: str
    architecture: str
    vocabulary: int
    context: int
    parameters: int
    quantization: str
    device: str
    eos: frozenset[int]
    layers: int = 0
    hidden: int = 0
    compiled: bool = False


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


class TappedCache(Cache, Protocol):
    """A cache with the hidden states of its tokens, if they were asked for."""

    @property
    def features(self) -> Features | None: ...


@runtime_checkable
class TappableModel(Model, Protocol):
    """A model that heads can draft for: it shows its hidden states, embedding and output head."""

    def new_cache(self, context: int, taps: Sequence[Tap] = ()) -> TappedCache:
        """As of ``Model``; ``forward`` then fills the cache's features at ``taps`` too.

        A feature's bits are as independent of its neighbours as a logit's; no logit's bits depend on
        ``taps``. Raises ValueError for a tap that the model lacks.
        """

    def embed(self, tokens: Sequence[int]) -> Tensor:
        """See ``Backbone``."""

    def logits(self, normed: Tensor) -> Tensor:
        """See ``Backbone``."""


@runtime_checkable
class WritingModel(Model, Protocol):
    """A model that writes on by itself, without a call for each token, among some if asked."""

    def forward_among(self, tokens: Sequence[int], cache: Cache, among: TokenMap) -> Tensor:
        """As ``forward`` with ``last=1``; only logits of ``among`` are computed, others are -inf."""

    def write_on(
        self,
        tokens: Sequence[int],
        cache: Cache,
        depth: int,
        limit: int,
        draws: Draws | None = None,
        floor: float = 0.0,
        among: TokenMap | None = None,
    ) -> tuple[list[int], list[float]]:
        """Appends ``tokens`` to ``cache``, then chooses ``depth`` tokens.

        Each is the likeliest one, or drawn as ``draws`` says, which has a key for each. Returns them
        and their probabilities, both among the first ``limit`` tokens of the vocabulary, or those of
        them that ``among`` holds, at least one. They end with one that makes all of them together
        less likely than ``floor``. All are appended but the last.
        """


class TreeCache(Cache, Protocol):
    """A cache behind which a tree of rows can stand until it is known which of them stay."""

    def commit(self, rows: Sequence[int]) -> None:
        """Appends these rows of the last tree, from the root down, as if they had come one by one."""


class Lending(Cache, Protocol):
    """A cache whose tokens another of the same model may have without computing them."""

    def borrow(self, other: Self, length: int) -> None:
        """Copies what it lacks of the first ``length`` tokens; those it holds are the same ones."""


@runtime_checkable
class TreeModel(Model, Protocol):
    """A model that can read several continuations of a text at once."""

    def forward_tree(self, tokens: Sequence[int], parents: Sequence[int], cache: Cache) -> Tensor:
        """Logits float32 ``(len(tokens), vocabulary)``; each row sees the text and its ancestors.

        At most 16 rows, the root first, whose parent is -1; each comes before its children. A row's
        bits are those it has in ``forward`` behind the same tokens. Of the cache, a ``TreeCache``,
        the length stays; what was computed waits for ``commit`` and is lost with the next call.
        """


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one sequence in a pass that several share: ``tokens`` behind what ``cache`` holds.

    ``parents`` as in ``TreeModel.forward_tree``; None where they follow one another. ``logits``: whether
    those of all rows are wanted, or those of none.
    """

    tokens: Sequence[int]
    cache: Cache
    parents: Sequence[int] | None = None
    logits: bool = True


@runtime_checkable
class SharedModel(TreeModel, Protocol):
    """A model that computes rows of several sequences in one pass. Its caches are ``Lending``."""

    @property
    def shared_rows(self) -> int:
        """The most rows that all parts of a pass may have together."""

    def forward_together(self, parts: Sequence[Part]) -> list[Tensor]:
        """Logits float32 ``(rows, vocabulary)`` of each part, ``(0, vocabulary)`` where none are wanted.

        Each row has the bits it has in ``forward`` or ``forward_tree``, whoever the others belong to. No
        two parts have the same cache; caches change as they do there.
        """


@runtime_checkable
class CompiledModel(Model, Protocol):
    """A model whose step is compiled, so that what is compiled for a head may use its matrices."""

    @property
    def embedding_and_head(self) -> EmbeddingAndHead:
        """See ``Backbone``."""
