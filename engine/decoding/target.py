"""The target model and its KV cache: extend, verify, commit.

The cache holds every token but the pending one. Verification appends the pending token and the
drafted ones; committing keeps those on the accepted path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from torch import Tensor

from engine.decoding.prefix import common_prefix
from engine.decoding.proposer import RoundDraft
from engine.events import Tree
from engine.models.base import (
    Cache,
    CompiledModel,
    Lending,
    Model,
    Part,
    TappableModel,
    TreeCache,
    TreeModel,
)
from engine.models.hidden_states import EmbeddingAndHead, Features, Tap
from engine.models.rounds import RoundCache, RoundModel, RoundRunner
from engine.request import MAX_DEPTH


class Target:
    """A model, its cache, and the tokens that are in it. Tapped, it is the ``Backbone`` of heads."""

    def __init__(self, model: Model, taps: Sequence[Tap] = (), *, captures: bool = True) -> None:
        """``taps``: which hidden states are kept beside the cache, for a ``TappableModel``.

        ``captures``: as in ``RoundModel.round_runner``.
        """
        self.model, self._captures = model, captures
        # Asked once: isinstance looks up all of a protocol's members each time.
        self._trees = model if isinstance(model, TreeModel) else None
        self._rounds = model if isinstance(model, RoundModel) else None
        self._embedding_and_head = (
            model.embedding_and_head if isinstance(model, CompiledModel) else None
        )
        self.cache: Cache
        self._features: Features | None = None
        if taps:
            tapped = _tappable(model).new_cache(model.info.context, taps)
            self.cache, self._features = tapped, tapped.features
        else:
            self.cache = model.new_cache(model.info.context)
        self.tokens: list[int] = []
        self._unverified: list[int] = []
        self._branched = False  # whether they stand in a tree with branches
        self._runner: tuple[RoundRunner, Cache | None] | None = None  # with its draft's cache

    @property
    def context(self) -> int:
        return self.model.info.context

    @property
    def length(self) -> int:
        """See ``Backbone``."""
        return len(self.tokens)

    def features(self, tap: Tap, start: int, end: int) -> Tensor:
        """See ``Backbone``. Raises KeyError for a tap that was not asked for."""
        if not 0 <= start <= end <= self.length:
            raise ValueError(f"tokens {start} to {end} of {self.length} have no features")
        return self.tapped(tap)[start:end].float()

    def tapped(self, tap: Tap) -> Tensor:
        """See ``Backbone``. Raises KeyError for a tap that was not asked for."""
        if self._features is None:
            raise KeyError(tap)
        return self._features.at(tap)

    @property
    def embedding_and_head(self) -> EmbeddingAndHead | None:
        """See ``Backbone``."""
        return self._embedding_and_head

    def embed(self, tokens: Sequence[int]) -> Tensor:
        """See ``Backbone``."""
        return _tappable(self.model).embed(tokens)

    def logits(self, normed: Tensor) -> Tensor:
        """See ``Backbone``."""
        return _tappable(self.model).logits(normed)

    def reuse(self, tokens: Sequence[int]) -> int:
        """Drops what differs from ``tokens``; returns how many of them are in the cache."""
        length = common_prefix(self.tokens, tokens)
        self.crop(length)
        return length

    def extend(self, tokens: Sequence[int]) -> None:
        """Prefills ``tokens`` behind what is cached; computes no logits."""
        if tokens:
            self.model.forward(tokens, self.cache, last=0)
            self.tokens.extend(tokens)

    @property
    def tree_nodes(self) -> int:
        """See ``Backbone``."""
        room = self.context - self.length - 1
        return min(MAX_DEPTH, room) if self._trees is not None else 0

    def verify(self, pending: int, tree: Tree) -> Tensor:
        """Logits after the pending token and after each node: float32 (nodes + 1, vocabulary).

        Raises ValueError for a tree with branches of more than ``tree_nodes``.
        """
        part = self.verifying(pending, tree)
        if part.parents is None:
            return self.model.forward(part.tokens, self.cache, last=len(part.tokens))
        assert self._trees is not None
        return self._trees.forward_tree(part.tokens, part.parents, self.cache)

    def verifying(self, pending: int, tree: Tree) -> Part:
        """What ``verify`` computes, for a pass that others share. Raises as it does."""
        self._unverified = [pending, *tree.tokens]
        self._branched = not tree.is_chain
        if not self._branched:
            return Part(self._unverified, self.cache)
        if len(tree) > self.tree_nodes:
            raise ValueError(f"this target verifies trees of {self.tree_nodes} nodes at most")
        return Part(self._unverified, self.cache, [-1, *(parent + 1 for parent in tree.parents)])

    def commit(self, path: Sequence[int]) -> None:
        """Keeps the pending token and the nodes on ``path``, forgets the rest."""
        rows = [0, *(node + 1 for node in path)]
        self.tokens.extend(self._unverified[row] for row in rows)
        if self._branched:
            cast(TreeCache, self.cache).commit(rows)
        else:
            self.cache.crop(len(self.tokens))
        self._unverified, self._branched = [], False

    @property
    def runs_rounds(self) -> bool:
        """Whether whole rounds run on the model's device: drafting, verifying and judging."""
        return self._rounds is not None

    def round_runner(self, draft: RoundDraft | None) -> RoundRunner:
        """What runs rounds over this cache, with ``draft`` or none; kept, since its graphs took time.

        Only where the target ``runs_rounds``.
        """
        assert self._rounds is not None
        if self._runner is None or (draft is not None and self._runner[1] is not draft.cache):
            own = () if draft is None else (draft.model, draft.cache)
            runner = self._rounds.round_runner(self.cache, *own, captures=self._captures)
            self._runner = runner, None if draft is None else draft.cache
        return self._runner[0]

    def advance(self, tokens: Sequence[int]) -> None:
        """Rounds on the device have appended ``tokens`` to the cache."""
        self.tokens.extend(tokens)
        cast(RoundCache, self.cache).set_length(len(self.tokens))

    def borrow(self, other: Target, length: int) -> None:
        """Has the first ``length`` tokens as ``other`` has them, which shares with this one all that this
        one holds. Only where caches are ``Lending``."""
        assert self.tokens == other.tokens[: self.length] and length <= other.length
        cast(Lending, self.cache).borrow(cast(Lending, other.cache), length)
        self.tokens.extend(other.tokens[self.length : length])

    def clear(self) -> None:
        """Empties the cache."""
        self.crop(0)

    def crop(self, length: int) -> None:
        """Forgets all but the first ``length`` tokens."""
        # An abandoned verification may have left unverified positions behind the tokens.
        self.cache.crop(length)
        del self.tokens[length:]
        self._unverified, self._branched = [], False


def _tappable(model: Model) -> TappableModel:
    if not isinstance(model, TappableModel):
        raise TypeError(f"{type(model).__name__} shows no hidden states")
    return model
