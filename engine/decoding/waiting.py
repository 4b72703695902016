"""What a request waits for while several run: computed for it alone, or in a pass that they share.

Who sees all that is waited for decides what a pass computes (see ``engine.local.passes``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

from torch import Tensor

from engine.decoding.target import Target
from engine.events import Tree
from engine.models.base import Part

_numbers = count()


class Wait:
    """Until it is ``ready`` the request does nothing. ``error``: what kept it from being done.
    ``number``: the greater, the later it began."""

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.ready = False
        self.error: Exception | None = None

    def check(self) -> None:
        """Raises what kept it from being done."""
        if self.error is not None:
            raise self.error


class Verification(Wait):
    """Logits after the pending token and after each node of ``tree``."""

    def __init__(self, target: Target, pending: int, tree: Tree) -> None:
        super().__init__()
        self.target, self.pending, self.tree = target, pending, tree
        self.began: float | None = None  # when a shared pass began, by ``perf_counter``
        self._logits: Tensor | None = None

    @property
    def rows(self) -> int:
        return 1 + len(self.tree)

    def part(self) -> Part:
        """As a part of a pass."""
        return self.target.verifying(self.pending, self.tree)

    def take(self, logits: Tensor, began: float) -> None:
        """What a pass has found, which began then."""
        self._logits, self.began, self.ready = logits, began, True

    def logits(self) -> Tensor:
        """As ``Target.verify``; computed now where no pass did. Raises what kept a pass from it."""
        self.check()
        if self._logits is None:
            self._logits = self.target.verify(self.pending, self.tree)
            self.ready = True
        return self._logits


class Reading(Wait):
    """The rest of ``tokens`` in the target's cache, of which each pass may bring some."""

    def __init__(
        self,
        target: Target,
        tokens: Sequence[int],
        lend: Callable[[Sequence[int]], None] | None = None,
    ) -> None:
        """``lend`` brings in what somebody else has of ``tokens``."""
        super().__init__()
        self.target, self._tokens, self._lend = target, tokens, lend
        self.computed = 0  # of the tokens, the others were there or borrowed

    @property
    def left(self) -> int:
        return len(self._tokens) - self.target.length

    def borrow(self) -> None:
        """Takes what somebody else has by now; it may be all that was waited for."""
        if self._lend is not None:
            self._lend(self._tokens)
        self.ready = not self.left

    def part(self, count: int) -> Part:
        """At most the next ``count`` as a part of a pass."""
        return Part(self._next(count), self.target.state, final=True)

    def take(self, part: Part) -> None:
        """A pass has computed it."""
        self.target.tokens.extend(part.tokens)
        self.computed += len(part.tokens)
        self.ready = True

    def read(self, count: int) -> None:
        """Brings at most ``count`` in without anybody else."""
        tokens = self._next(count)
        self.target.extend(tokens)
        self.computed += len(tokens)
        self.ready = True

    def _next(self, count: int) -> Sequence[int]:
        return self._tokens[self.target.length : self.target.length + count]


class Chore(Wait):
    """Nothing but its turn: a part of some longer work comes next, which others need not wait for."""
