"""The target model and its KV cache: extend, verify, commit.

The cache holds every token but the pending one. Verification appends the pending token and the
drafted ones; committing keeps those on the accepted path.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from engine.events import Tree
from engine.features import Ends, Features, Tap
from engine.models.base import Cache, CompiledModel, Model, TappableModel
from engine.models.cuda.cache import DeviceCache
from engine.prefix import common_prefix


class Target:
    """A model, its cache, and the tokens that are in it. Tapped, it is the ``Backbone`` of heads."""

    def __init__(self, model: Model, taps: Sequence[Tap] = ()) -> None:
        """``taps``: which hidden states are kept beside the cache, for a ``TappableModel``."""
        self.model = model
        self.cache: Cache
        self._features: Features | None = None
        if taps:
            tapped = _tappable(model).new_cache(model.info.context, taps)
            self.cache, self._features = tapped, tapped.features
        else:
            self.cache = model.new_cache(model.info.context)
        self.tokens: list[int] = []
        self._unverified: list[int] = []

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
    def ends(self) -> Ends | None:
        """See ``Backbone``."""
        return self.model.ends if isinstance(self.model, CompiledModel) else None

    def embed(self, tokens: Sequence[int]) -> Tensor:
        """See ``Backbone``."""
        return _tappable(self.model).embed(tokens)

    def logits(self, normed: Tensor) -> Tensor:
        """See ``Backbone``."""
        return _tappable(self.model).logits(normed)

    def reuse(self, tokens: Sequence[int]) -> int:
        """Drops what differs from ``tokens``; returns how many of them are in the cache."""
        length = common_prefix(self.tokens, tokens)
        self._crop(length)
        return length

    def extend(self, tokens: Sequence[int]) -> None:
        """Prefills ``tokens`` behind what is cached; computes no logits."""
        if tokens:
            self.model.forward(tokens, self.cache, last=0)
            self.tokens.extend(tokens)

    def verify(self, pending: int, tree: Tree) -> Tensor:
        """Logits after the pending token and after each node: float32 (nodes + 1, vocabulary).

        Raises ValueError for a tree with branches; the cache of this version holds one sequence.
        """
        if not tree.is_chain:
            raise ValueError("this target verifies chains only")
        self._unverified = [pending, *tree.tokens]
        return self.model.forward(self._unverified, self.cache, last=len(self._unverified))

    def commit(self, path: Sequence[int]) -> None:
        """Keeps the pending token and the nodes on ``path``, forgets the rest."""
        kept = self._unverified[: 1 + len(path)]
        self.tokens.extend(kept)
        self._unverified = []
        self.cache.crop(len(self.tokens))

    def adopt(self, tokens: Sequence[int]) -> None:
        """Takes over what rounds on the device have left in the cache, which is a ``DeviceCache``."""
        assert isinstance(self.cache, DeviceCache)
        self.tokens = list(tokens)
        self.cache.settle(len(self.tokens))

    def clear(self) -> None:
        """Empties the cache."""
        self._crop(0)

    def _crop(self, length: int) -> None:
        # An abandoned verification may have left unverified positions behind the tokens.
        self.cache.crop(length)
        del self.tokens[length:]
        self._unverified = []


def _tappable(model: Model) -> TappableModel:
    if not isinstance(model, TappableModel):
        raise TypeError(f"{type(model).__name__} shows no hidden states")
    return model
