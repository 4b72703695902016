"""n-gram drafting against a naive search: the longest match, and of those the latest."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.acceptance import Acceptance
from engine.context import Context
from engine.errors import InvalidRequest
from engine.events import Budget, Origin
from engine.proposers import create, options_of
from engine.proposers.base import Resources
from engine.proposers.ngram import NgramProposer
from engine.request import AcceptanceRule, Sampling
from engine.sampling import Sampler

texts = st.lists(st.integers(0, 2), min_size=1, max_size=40)
bounds = st.tuples(st.integers(1, 5), st.integers(1, 5)).map(sorted)


def naive(tokens: list[int], shortest: int, longest: int, depth: int) -> list[int]:
    """What followed the latest earlier occurrence of the longest suffix that has one.

    A match that runs into the end of the text goes on into what it drafts itself.
    """
    for size in range(longest, shortest - 1, -1):
        for start in range(len(tokens) - size - 1, -1, -1):
            if tokens[start : start + size] == tokens[len(tokens) - size :]:
                text = list(tokens)
                for offset in range(depth):
                    text.append(text[start + size + offset])
                return text[len(tokens) :]
    return []


def begin(tokens: list[int], **options: int) -> tuple[NgramProposer, Context]:
    context = Context(tokens)
    proposer = NgramProposer(NgramProposer.Options(**options), Resources())
    proposer.begin(context, sampler(context))
    return proposer, context


def sampler(context: Context) -> Sampler:
    return Sampler(Sampling(), AcceptanceRule.GREEDY, 0, context, 10)


def drafted(proposer: NgramProposer, context: Context, depth: int) -> list[int]:
    proposal = proposer.propose(context, Budget(depth, depth))
    assert proposal.tree.is_chain
    assert proposal.q is None
    assert proposal.chosen_q == (None,) * len(proposal.tree)
    proposer.observe(Acceptance((), 0, Origin.BONUS))
    return list(proposal.tree.tokens)


@settings(max_examples=120, deadline=None)
@given(tokens=texts, sizes=bounds, depth=st.integers(1, 15))
def test_the_draft_is_what_a_naive_search_finds(
    tokens: list[int], sizes: list[int], depth: int
) -> None:
    shortest, longest = sizes
    proposer, context = begin(tokens, prompt_lookup_min=shortest, prompt_lookup_max=longest)
    assert drafted(proposer, context, depth) == naive(tokens, shortest, longest, depth)


@settings(max_examples=30, deadline=None)
@given(prompt=texts, bursts=st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6)))
def test_prompt_and_output_are_both_searched_however_the_text_grew(
    prompt: list[int], bursts: list[list[int]]
) -> None:
    proposer, context = begin(prompt)
    for burst in bursts:
        context.tokens += burst
        assert drafted(proposer, context, 4) == naive(context.tokens, 2, 5, 4)


def test_the_longest_match_wins_over_a_later_shorter_one() -> None:
    #        longest match      later, but shorter
    tokens = [1, 2, 3, 7, 9, 9, 2, 3, 8, 9, 1, 2, 3]
    proposer, context = begin(tokens)
    assert drafted(proposer, context, 1) == [7]


def test_the_latest_of_equally_long_matches_wins() -> None:
    proposer, context = begin([1, 2, 7, 9, 1, 2, 8, 9, 1, 2])
    assert drafted(proposer, context, 1) == [8]


def test_a_run_of_one_token_is_drafted_as_a_run() -> None:
    proposer, context = begin([5, 4, 4, 4])
    assert drafted(proposer, context, 6) == [4] * 6


def test_nothing_is_drafted_without_a_match_or_without_a_budget() -> None:
    proposer, context = begin([1, 2, 3, 4])
    assert drafted(proposer, context, 4) == []
    proposer, context = begin([1, 2, 1, 2, 1, 2])
    assert drafted(proposer, context, 0) == []


def test_a_new_request_forgets_the_last_ones_text() -> None:
    proposer, context = begin([1, 2, 7, 1, 2])
    assert drafted(proposer, context, 1) == [7]
    other = Context([3, 1, 2])
    proposer.begin(other, sampler(other))
    assert drafted(proposer, other, 1) == []


@pytest.mark.parametrize(("low", "high"), [(0, 3), (4, 3), (2, 65), (-1, -1)])
def test_impossible_lengths_are_refused(low: int, high: int) -> None:
    with pytest.raises(InvalidRequest, match="1 <= min <= max <= 64") as caught:
        create("ngram", {"prompt_lookup_min": low, "prompt_lookup_max": high}, Resources())
    assert caught.value.field == "options"


def test_the_options_are_those_the_interfaces_rely_on() -> None:
    options = options_of("ngram")()
    assert (options.prompt_lookup_min, options.prompt_lookup_max) == (2, 5)
