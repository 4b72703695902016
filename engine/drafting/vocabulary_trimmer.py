"""Choose the tokens that a draft model computes logits of, given the text.

The output head is a large part of a small model, and most of a large vocabulary is never drafted
(FR-Spec, Zhao et al. 2025, arXiv 2502.14856). Frequent tokens need not be counted: tokenizers are trained
by merging or keeping the most frequent pieces first, so ids are ranks. The target verifies over its whole
vocabulary, so no word changes; a token that is left out costs the rest of one draft.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from engine.kernels.operands import GROUP
from engine.models.base import GeneratingModel, Model
from engine.models.trimmed_vocabulary import TrimmedVocabulary

FREQUENT = 32_768
"""The first tokens of a vocabulary, always candidates; docs/log/drafting.md has their share of texts."""
LARGE = 2 * FREQUENT
"""A smaller vocabulary is not trimmed: there is too little to save."""
WINDOW, MISSES = 128, 16
"""A text with more than ``MISSES`` new groups within ``WINDOW`` tokens is drafted from all tokens: in its
language, or by its tokenizer, ids tell nothing about frequency."""


def frequent_tokens(vocabulary: int) -> int | None:
    """Return the number of tokens that are always candidates; None if all are."""
    return FREQUENT if vocabulary >= LARGE else None


def note_on(draft: Model) -> str | None:
    """Return a note for users about a draft model that is trimmed; None if it is not."""
    frequent = frequent_tokens(draft.info.vocabulary)
    if frequent is None or not isinstance(draft, GeneratingModel):
        return None
    return (
        f"For speed the draft considers only the {frequent:,} most common of its "
        f"{draft.info.vocabulary:,} tokens and those of the chat. The output is "
        "unaffected."
    )


class VocabularyTrimmer:
    """Collects the frequent tokens, ``always`` some others, and those of one text, in whole groups.

    The candidates depend on the text alone, never on drafted and rejected tokens: under rules that weigh
    q a draft must not depend on the noise it is drawn with.
    """

    def __init__(self, frequent: int, always: Iterable[int] = ()) -> None:
        self._frequent = frequent // GROUP
        self._always = {token // GROUP for token in always}
        self.begin()

    def begin(self) -> None:
        """Start another text."""
        self._others = set(self._always)
        self._read = 0  # tokens of the text
        self._misses = deque[int]()  # positions of new groups within the last tokens
        self._whole = False
        self._trimmed: TrimmedVocabulary | None = None

    def trim(self, text: Sequence[int]) -> TrimmedVocabulary | None:
        """Return the candidates after ``text``, which may only have grown since ``begin``; None: all."""
        for position in range(self._read, len(text)):
            group = text[position] // GROUP
            if group >= self._frequent and group not in self._others:
                self._add(group, position)
        self._read = len(text)
        if self._whole:
            return None
        if self._trimmed is None:
            self._trimmed = TrimmedVocabulary.of(self._frequent, self._others)
        return self._trimmed

    def _add(self, group: int, position: int) -> None:
        self._others.add(group)
        self._trimmed = None
        self._misses.append(position)
        while self._misses[0] <= position - WINDOW:
            self._misses.popleft()
        self._whole = self._whole or len(self._misses) > MISSES
