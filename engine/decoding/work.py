"""Work items: what a running request needs next, done for it alone or in a pass that several share.

``engine.local.batcher`` sees the items of all requests and decides what a pass computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

from torch import Tensor

from engine.decoding.target import Target
from engine.events import Tree
from engine.models.base import Entry

_numbers = count()


class WorkItem:
    """The request goes on once its item is ``ready``. ``error`` is set if the work failed. ``number``
    rises with each new item."""

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

    def part(self) -> Entry:
        """Return the rows as an entry of a batch."""
        return self.target.verifying(self.pending, self.tree)

    def take(self, logits: Tensor, began: float) -> None:
        """Take over the logits of a pass that began at ``began``."""
        self._logits, self.began, self.ready = logits, began, True

    def logits(self) -> Tensor:
        """Return what ``Target.verify`` returns; compute it now if no pass did. Raises as ``check``."""
        self.check()
        if self._logits is None:
            self._logits = self.target.verify(self.pending, self.tree)
            self.ready = True
        return self._logits


class PrefillWork(WorkItem):
    """Prefill the rest of ``tokens``, some in each pass."""

    def __init__(
        self,
        target: Target,
        tokens: Sequence[int],
        lend: Callable[[Sequence[int]], None] | None = None,
    ) -> None:
        """``lend`` copies in the prefix of ``tokens`` that another slot has."""
        super().__init__()
        self.target, self._tokens, self._lend = target, tokens, lend
        self.computed = 0  # tokens that no slot had

    @property
    def left(self) -> int:
        return len(self._tokens) - self.target.length

    def copy_prefix(self) -> None:
        """Copy what another slot has by now; that may be all there is to do."""
        if self._lend is not None:
            self._lend(self._tokens)
        self.ready = not self.left

    def part(self, count: int) -> Entry:
        """Return at most the next ``count`` tokens as an entry of a batch."""
        return Entry(self._next(count), self.target.state, final=True)

    def take(self, part: Entry) -> None:
        """Note that a pass has computed the entry."""
        self.target.tokens.extend(part.tokens)
        self.computed += len(part.tokens)
        self.ready = True

    def read(self, count: int) -> None:
        """Prefill at most ``count`` tokens, for this request alone."""
        tokens = self._next(count)
        self.target.extend(tokens)
        self.computed += len(tokens)
        self.ready = True

    def _next(self, count: int) -> Sequence[int]:
        return self._tokens[self.target.length : self.target.length + count]


class YieldWork(WorkItem):
    """A yield point before the next slice of long work."""
