"""Which tokens a draft model chooses among beside a text, so that it pays for none it never proposes.

The output head is a large part of a small model, and most of a large vocabulary is never drafted
(FR-Spec, Zhao et al. 2025, arXiv 2502.14856). What is frequent needs no counting here: tokenizers are
trained by merging or keeping the most frequent pieces first, so that ids are ranks. The target judges
over its whole vocabulary, so that its words stay what they are; a token that is left out costs the rest
of one draft.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from engine.models.base import Model, WritingModel
from engine.models.trimmed_vocabulary import GROUP, TrimmedVocabulary

FREQUENT = 32_768
"""The first tokens of a vocabulary, always kept; their share of texts is in docs/log/drafting.md."""
LARGE = 2 * FREQUENT
"""A smaller vocabulary is not cut: there is too little to save."""
WINDOW, MISSES = 128, 16
"""A text that brings more new groups than ``MISSES`` within so many tokens is drafted from all of them:
it is in a language, or by a tokenizer, whose ids tell nothing of what is frequent in it."""


def kept_of(vocabulary: int) -> int | None:
    """How many tokens are kept whatever the text is; None where all are."""
    return FREQUENT if vocabulary >= LARGE else None


def note_on(draft: Model) -> str | None:
    """What people should know of a draft model that is cut; None where it is not."""
    frequent = kept_of(draft.info.vocabulary)
    if frequent is None or not isinstance(draft, WritingModel):
        return None
    return (
        f"The draft chooses among the first {frequent:,} of its {draft.info.vocabulary:,} tokens and "
        "those of the chat: it computes no others. The target judges over all, so no word changes."
    )


class VocabularyTrimmer:
    """The frequent tokens, ``always`` some others, and those that one text holds, by whole groups.

    What is kept depends on the text alone, never on what was drafted and rejected: rules that weigh q
    need drafts that do not know the noise they are drawn with.
    """

    def __init__(self, frequent: int, always: Iterable[int] = ()) -> None:
        self._frequent = frequent // GROUP
        self._always = {token // GROUP for token in always}
        self.begin()

    def begin(self) -> None:
        """Another text."""
        self._others = set(self._always)
        self._read = 0  # tokens of the text
        self._missed = deque[int]()  # where groups were new, in the last tokens
        self._whole = False
        self._map: TrimmedVocabulary | None = None

    def beside(self, text: Sequence[int]) -> TrimmedVocabulary | None:
        """What is kept behind ``text``, which may only have grown since ``begin``; None: all tokens."""
        for at in range(self._read, len(text)):
            group = text[at] // GROUP
            if group >= self._frequent and group not in self._others:
                self._take_in(group, at)
        self._read = len(text)
        if self._whole:
            return None
        if self._map is None:
            self._map = TrimmedVocabulary.of(self._frequent, self._others)
        return self._map

    def _take_in(self, group: int, at: int) -> None:
        self._others.add(group)
        self._map = None
        self._missed.append(at)
        while self._missed[0] <= at - WINDOW:
            self._missed.popleft()
        self._whole = self._whole or len(self._missed) > MISSES
