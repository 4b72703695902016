"""Track a text's position in its grammar, and mask the tokens allowed next and after drafts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import InvalidRequest
from engine.grammar.parsing import on_one_line

Bits = NDArray[np.int32]
"""(ceil(vocabulary / 32),): a bit for each token, the lowest first; set where it may follow."""


class ParserFailed(InvalidRequest):
    """llguidance gave up on a grammar, behind ``read`` tokens; ``why`` is its reason."""

    def __init__(self, error: str, read: int) -> None:
        self.why, self.read = on_one_line(error), read
        what = f"{self.why}. Simplify it: fewer repetitions and alternatives, or shorter texts."
        if self.is_dead_end:
            what = "no text can continue. A rule may require itself; give it an end."
        super().__init__(
            "grammar",
            f"grammar cannot be followed beyond the reply's first {read} tokens: {what}",
        )

    @property
    def is_dead_end(self) -> bool:
        """True if no token may follow, so that no text matches the grammar."""
        return "NoExtension" in self.why


class Matcher:
    """The matcher of one reply. Masks depend only on the tokens before, never on earlier calls.

    Every method raises ParserFailed where the parser gives up: the text needs more than its limits.
    """

    free: Bits | None = None
    """The mask that allows every token, if it ever does."""

    def __init__(
        self,
        parser: Any,
        vocabulary: int,
        ends: Collection[int],
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        """``parser``: an ``LLMatcher`` of the reply's own. ``ends``: tokens that end the text.
        ``on_failure`` is called where the parser gives up."""
        self._parser, self._ends = parser, frozenset(ends)
        self._on_failure = on_failure
        self._words = -(-vocabulary // 32)
        self._masks: dict[tuple[int, ...], Bits | None] = {}  # behind drafts from here
        self._forced: dict[tuple[int, ...], list[int]] = {}
        self.read = 0
        self.ended = False

    def consume(self, tokens: Sequence[int]) -> None:
        """Append ``tokens`` to the text. Raises ValueError if the grammar does not allow them."""
        if not tokens:
            return
        self._masks.clear()
        self._forced.clear()
        for token in tokens:
            if self.ended:
                raise ValueError(f"token {token} may not follow: the text has ended")
            self._parser.consume_token(token)
            self._check()
            self.read += 1
            self.ended = token in self._ends

    def mask(self, drafted: Sequence[int] = ()) -> Bits | None:
        """Return the mask of tokens allowed after ``drafted``; None if these are not allowed or
        end the text."""
        path = tuple(drafted)
        if path not in self._masks:
            self._masks[path] = self._behind(path, self._computed)
        return self._masks[path]

    def allows(self, drafted: Sequence[int], token: int) -> bool:
        """Return True if ``token`` is allowed after ``drafted``, which is allowed."""
        mask = self.mask(drafted)
        return mask is not None and bool(mask[token // 32] >> (token % 32) & 1)

    def forced(self, drafted: Sequence[int] = ()) -> list[int]:
        """Return the tokens that must follow ``drafted``, in order; often none."""
        path = tuple(drafted)
        if path not in self._forced:
            self._forced[path] = self._behind(path, self._parser.compute_ff_tokens) or []
        return self._forced[path]

    def count_fitting(self, tokens: Sequence[int]) -> int:
        """Return how many of ``tokens``, from the first, the grammar allows, up to the text's end."""
        if self.ended or not tokens:
            return 0
        if self._parser.is_stopped():  # it counts no end then
            self._check()
            return int(tokens[0] in self._ends)
        count = int(self._parser.validate_tokens(list(tokens)))
        self._check()
        return count

    def ends(self, drafted: Sequence[int]) -> bool:
        """Return True if the text ends with ``drafted``."""
        return self.ended or (len(drafted) > 0 and drafted[-1] in self._ends)

    def _computed(self) -> Bits:
        mask: Bits = np.frombuffer(self._parser.compute_bitmask(), dtype=np.int32)
        return mask[: self._words]  # it has a word more where the vocabulary fills all

    def _behind(self, path: tuple[int, ...], ask: Any) -> Any:
        """Return ``ask`` with the parser advanced by ``path``; None if it cannot follow it."""
        if self.ends(path) or self.count_fitting(path) < len(path):
            return None
        if path:
            self._parser.consume_tokens(list(path))
        result = ask()
        if path:
            self._parser.rollback(len(path))
        self._check()
        return result

    def _check(self) -> None:
        """Raise if the parser is in error: its masks allow the end alone then, as if all were said."""
        if self._parser.is_error():
            self._on_failure()
            raise ParserFailed(self._parser.get_error(), self.read)
