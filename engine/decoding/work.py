"""Work items: a running request's next computation, done for it alone or in a shared pass.

``engine.local.batcher`` chooses what a pass computes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from time import perf_counter

from torch import Tensor

from engine.decoding.context import Context
from engine.decoding.target import Target
from engine.events import Timing, Tree
from engine.models.base import Entry

_numbers = count()
_SHORTEST_EDIT = 32
"""Tokens behind the last state that is saved within a prompt."""


class WorkItem:
    """A request continues once its item is ``ready``; ``error`` is set if the work failed. Later items
    have higher numbers."""

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.ready = False
        self.error: Exception | None = None

    def check(self) -> None:
        """Raise the error that the work failed with, if any."""
        if self.error is not None:
            raise self.error


class VerifyWork(WorkItem):
    """Compute the logits after the pending token and after each node of ``tree``."""

    def __init__(self, target: Target, pending: int, tree: Tree) -> None:
        super().__init__()
        self.target, self.pending, self.tree = target, pending, tree
        self.began: float | None = None  # when the shared pass began, by ``perf_counter``
        self._logits: Tensor | None = None

    @property
    def rows(self) -> int:
        return 1 + len(self.tree)

    def entry(self) -> Entry:
        """Return the rows as an entry of a batch."""
        return self.target.verify_entry(self.pending, self.tree)

    def finish(self, logits: Tensor, began: float) -> None:
        """Set the logits of a pass that began at ``began``."""
        self._logits, self.began, self.ready = logits, began, True

    @property
    def shared_logits(self) -> Tensor | None:
        """What a shared pass computed; None if none did. Raises as ``check``."""
        self.check()
        return self._logits

    def logits(self) -> Tensor:
        """Return what ``Target.verify`` returns; compute it now if no pass did. Raises as ``check``."""
        self.check()
        if self._logits is None:
            self._logits = self.target.verify(self.pending, self.tree)
            self.ready = True
        return self._logits


class SharedClock:
    """The times of rounds whose passes may be shared."""

    def __init__(self) -> None:
        self._ended: float | None = None  # when the last round ended, if its pass was shared

    def timing(
        self, started: float, drafted: float, verified: float, passed: float | None
    ) -> Timing:
        """Return the times of a round that ends now. ``passed``: when its shared pass began."""
        now = perf_counter()
        if passed is None:
            self._ended = None
            return Timing(drafted - started, verified - drafted, now - started)
        # Other requests' drafting in between counts too: this round waited for it.
        began, self._ended = self._ended or started, now
        return Timing(drafted - started, verified - passed, now - began)


class PrefillWork(WorkItem):
    """Prefill all of ``context`` but the pending token, some of it in each pass."""

    def __init__(
        self, target: Target, context: Context, copy_into: Callable[[list[int]], None] | None = None
    ) -> None:
        """``copy_into`` copies the prefix of a text with these keys from another slot."""
        super().__init__()
        self.target, self._copy_into = target, copy_into
        self._tokens, self._keys = context.tokens[:-1], context.keys[:-1]
        self.computed = 0  # tokens that no slot had

    @property
    def left(self) -> int:
        return len(self._tokens) - self.target.length

    def copy_prefix(self) -> None:
        """Copy the prefix that another slot holds by now, possibly all."""
        if self._copy_into is not None:
            self._copy_into(self._keys)
        self.ready = not self.left

    def entry(self, count: int) -> Entry:
        """Return at most the next ``count`` tokens as an entry of a batch."""
        return Entry(self._tokens[self._next(count)], self.target.state, final=True)

    def finish(self, entry: Entry) -> None:
        """Note that a pass has computed the entry."""
        self.target.keys.extend(self._keys[self._next(len(entry.tokens))])
        self._computed(len(entry.tokens))

    def compute(self, count: int) -> None:
        """Prefill at most ``count`` tokens, for this request alone."""
        part = self._next(count)
        self.target.extend(self._tokens[part], self._keys[part])
        self._computed(part.stop - part.start)

    def _computed(self, count: int) -> None:
        left = self.left
        if left >= _SHORTEST_EDIT and left.bit_count() == 1:
            self.target.save_checkpoint()
        self.computed += count
        self.ready = True

    def _next(self, count: int) -> slice:
        """Return the next ``count`` tokens at most.

        A state that cannot be cropped is saved where 32, 64, 128, ... tokens are left: if the last n
        change, fewer than 2n and a chunk are computed again.
        """
        start = self.target.length
        if not self.target.state.crops and self.left > _SHORTEST_EDIT:
            count = min(count, self.left - (1 << (self.left - 1).bit_length() - 1))
        return slice(start, min(start + count, len(self._tokens)))


class YieldWork(WorkItem):
    """A yield point before the next slice of long work."""
