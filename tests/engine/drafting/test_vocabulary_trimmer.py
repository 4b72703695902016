"""What a draft chooses among: a function of the text alone, however it came."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from engine.drafting.vocabulary_trimmer import MISSES, WINDOW, VocabularyTrimmer, frequent_tokens
from engine.kernels.operands import GROUP
from engine.models.trimmed_vocabulary import TrimmedVocabulary

FREQUENT, VOCABULARY, END = 10 * GROUP, 100 * GROUP - 3, 99 * GROUP - 1
texts = st.lists(st.integers(0, VOCABULARY - 1), max_size=60)


def candidates(text: list[int]) -> TrimmedVocabulary | None:
    return VocabularyTrimmer(FREQUENT, [END]).trim(text)


@given(text=texts, cuts=st.lists(st.integers(0, 60)))
def test_it_does_not_matter_in_how_many_parts_a_text_came(text: list[int], cuts: list[int]) -> None:
    parts = VocabularyTrimmer(FREQUENT, [END])
    parts.trim([7, VOCABULARY - 1, 500])  # of another text
    parts.begin()
    for cut in sorted(cuts):
        parts.trim(text[:cut])
    assert parts.trim(text) == candidates(text)


@given(text=texts)
def test_kept_are_the_frequent_tokens_the_end_and_the_texts_own(text: list[int]) -> None:
    trimmed = candidates(text[:MISSES])
    assert trimmed is not None
    groups = [group for run in trimmed.runs for group in run]
    assert groups == sorted({*range(10), *(token // GROUP for token in (*text[:MISSES], END))})
    assert all(one.stop < other.start for one, other in pairwise(trimmed.runs))


def test_a_text_of_rare_tokens_is_drafted_from_all() -> None:
    rare = [GROUP * group for group in range(20, 20 + MISSES + 1)]
    assert candidates(rare[:-1]) is not None
    assert candidates(rare) is None
    assert candidates([*rare, *[0] * WINDOW]) is None  # and so it stays
    assert candidates([*rare[:-1], *[0] * WINDOW, rare[-1]]) is not None
    assert candidates([*rare[:-1], *rare[:-1]]) is not None


def test_a_small_vocabulary_is_not_cut() -> None:
    assert frequent_tokens(49_152) is None
    assert frequent_tokens(151_936) is not None
