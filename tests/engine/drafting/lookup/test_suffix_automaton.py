"""The suffix automaton against a naive search through the texts."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.drafting.lookup.suffix_automaton import Match, SuffixAutomaton

tokens = st.integers(0, 2)
texts = st.lists(st.lists(tokens, max_size=30), min_size=1, max_size=4)
depths = st.integers(2, 8)


def built(several: list[list[int]], depth: int) -> SuffixAutomaton:
    automaton = SuffixAutomaton(depth)
    for text in several:
        automaton.begin()
        automaton.extend(text)
        automaton.check()
    return automaton


def naive_followers(several: list[list[int]], pattern: list[int]) -> Counter[int]:
    """What came behind ``pattern`` and how often."""
    size = len(pattern)
    return Counter(
        text[at + size]
        for text in several
        for at in range(len(text) - size)
        if text[at : at + size] == pattern
    )


def occurs(several: list[list[int]], pattern: list[int]) -> bool:
    size = len(pattern)
    return any(text[i : i + size] == pattern for text in several for i in range(len(text)))


def longest(several: list[list[int]], query: list[int], most: int) -> list[int]:
    """The longest suffix of ``query`` that the texts hold."""
    for size in range(min(most, len(query)), 0, -1):
        if occurs(several, query[-size:]):
            return query[-size:]
    return []


@settings(max_examples=60, deadline=None)
@given(several=texts, query=st.lists(tokens, max_size=20), depth=depths)
def test_a_text_read_along_finds_its_longest_known_suffix_and_what_followed_it(
    several: list[list[int]], query: list[int], depth: int
) -> None:
    automaton = built(several, depth)
    match = Match()
    for end, token in enumerate(query, start=1):
        match = automaton.follow(match, token)
        match_tokens = longest(several, query[:end], depth - 1)
        assert match.length == len(match_tokens)
        if match_tokens:
            assert automaton.followers(match) == naive_followers(several, match_tokens)


@settings(max_examples=60, deadline=None)
@given(several=texts, depth=depths)
def test_the_longest_repeated_suffix_is_found_after_every_token(
    several: list[list[int]], depth: int
) -> None:
    automaton = SuffixAutomaton(depth)
    for index, text in enumerate(several):
        automaton.begin()
        for end, token in enumerate(text, start=1):
            automaton.append(token)
            before = [*several[:index], text[:end]]
            match = automaton.repeated()
            sizes = range(min(depth - 1, end), 0, -1)
            expected = next((n for n in sizes if naive_followers(before, text[end - n : end])), 0)
            assert match.length == expected
            if expected:
                naive = naive_followers(before, text[end - expected : end])
                assert automaton.followers(match) == naive


@settings(max_examples=40, deadline=None)
@given(several=texts, depth=depths)
def test_shorter_matches_are_suffixes_in_more_places(several: list[list[int]], depth: int) -> None:
    automaton = built(several, depth)
    for match in automaton.shorter(automaton.repeated()):
        naive = naive_followers(several, several[-1][-match.length :])
        assert automaton.followers(match) == naive


@settings(max_examples=60, deadline=None)
@given(
    several=texts,
    query=st.lists(tokens, min_size=1, max_size=8),
    depth=depths,
    limit=st.integers(1, 12),
    least=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
)
def test_a_continuation_takes_the_commonest_follower_of_the_longest_match_each_time(
    several: list[list[int]], query: list[int], depth: int, limit: int, least: float
) -> None:
    automaton = built(several, depth)
    match = Match()
    for token in query:
        match = automaton.follow(match, token)
    continuation = automaton.continuation(match, limit, least)
    assert len(continuation.tokens) <= limit
    text, probability, score = query[-match.length :] if match.length else [], 1.0, 0.0
    for token in continuation.tokens:
        match_tokens = longest(several, text, depth - 1)
        while not naive_followers(several, match_tokens):  # it stands at the end of a text only
            match_tokens = longest(several, match_tokens[1:], depth - 1)
        followers = naive_followers(several, match_tokens)
        assert followers[token] == max(followers.values())
        probability *= followers[token] / followers.total()
        score += probability
        text = [*match_tokens, token]
    assert probability >= least or not continuation.tokens
    assert continuation.score == pytest.approx(score)


def test_a_run_of_one_token_goes_on_as_a_run() -> None:
    automaton = built([[5, 4, 4, 4]], 8)
    assert automaton.continuation(automaton.repeated(), 6, 0.0).tokens == (4,) * 6


def test_an_unlikely_draft_is_cut_short() -> None:
    automaton = built([[1, 2, 3], [1, 2, 3], [1, 2, 4], [1, 5]], 8)
    match = automaton.follow(Match(), 1)
    assert automaton.continuation(match, 9, 0.6).tokens == (2,)  # 3/4, then 3/4 * 2/3
    assert automaton.continuation(match, 9, 0.5).tokens == (2, 3)
    assert automaton.continuation(match, 9, 0.5).score == pytest.approx(0.75 + 0.5)


def test_states_and_steps_grow_with_the_text_and_not_faster() -> None:
    """A long run is where counting all suffixes one by one would be quadratic."""
    automaton = SuffixAutomaton(8)
    automaton.extend([7] * 20_000)
    automaton.check()
    assert automaton.repeated().length == 7
