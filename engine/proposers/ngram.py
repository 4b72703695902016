"""``ngram``: what followed the last time the text went like this?

Prompt lookup decoding (Saxena 2023): the longest suffix of the text that occurred before, at its
latest occurrence, predicts that the same continuation comes again. No model, almost no cost; strong
where replies repeat their prompt: rewriting, editing, quoting, code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from engine.acceptance import Acceptance
from engine.context import Context
from engine.errors import InvalidRequest
from engine.events import Budget, Tree
from engine.proposers.base import NOTHING, DraftProposal, Resources
from engine.sampling import Sampler


class NgramProposer:
    """Copies what followed the latest earlier occurrence of the longest matching suffix."""

    @dataclass(frozen=True, slots=True)
    class Options:
        prompt_lookup_min: int = field(
            default=2, metadata={"help": "shortest run of tokens that counts as a match"}
        )
        prompt_lookup_max: int = field(
            default=5, metadata={"help": "longest run of tokens looked for, tried first"}
        )

        def __post_init__(self) -> None:
            if not 1 <= self.prompt_lookup_min <= self.prompt_lookup_max <= 64:
                raise InvalidRequest(
                    "options",
                    f"prompt_lookup_min is {self.prompt_lookup_min} and prompt_lookup_max "
                    f"{self.prompt_lookup_max}; they must satisfy 1 <= min <= max <= 64.",
                )

    needs: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, options: Options, resources: Resources) -> None:
        self.sizes = range(options.prompt_lookup_max, options.prompt_lookup_min - 1, -1)
        self._latest: dict[tuple[int, ...], int] = {}
        self._indexed = 0

    def begin(self, context: Context, sampler: Sampler) -> None:
        self._latest.clear()
        self._indexed = 0

    def prepare(self, context: Context) -> Iterator[None]:
        return iter(())

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        tokens = context.tokens
        self._index(tokens)
        follow = self._continuation(tokens)
        if follow is None or not budget.depth:
            return NOTHING
        text = tokens[follow:]
        while len(text) < budget.depth:  # the match reaches the end of the text: it repeats
            text += text
        drafted = Tree.chain(text[: budget.depth])
        return DraftProposal(drafted, None, (None,) * len(drafted))

    def observe(self, acceptance: Acceptance) -> None: ...

    def close(self) -> None:
        self._latest.clear()

    def _index(self, tokens: list[int]) -> None:
        """Notes, for every run that something follows, where that something stands."""
        for follow in range(max(self._indexed, 1), len(tokens)):
            for size in self.sizes:
                if size <= follow:
                    self._latest[tuple(tokens[follow - size : follow])] = follow
        self._indexed = len(tokens)

    def _continuation(self, tokens: list[int]) -> int | None:
        for size in self.sizes:
            if size < len(tokens):
                found = self._latest.get(tuple(tokens[-size:]))
                if found is not None:
                    return found
        return None
