"""n-gram drafting against a naive search: the longest match, and of those the latest."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.sampling import Sampler
from engine.drafting.proposers import create, options_of
from engine.drafting.proposers.ngram import NgramProposer
from engine.drafting.resources import Resources
from engine.errors import InvalidRequest
from engine.events import Budget, Origin
from engine.values.sampling import AcceptanceRule, Sampling

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


# -- past replies, with ``remember``


def remembering(folder: Path | None = None, remember: bool = True, **options: int) -> NgramProposer:
    chosen = NgramProposer.Options(remember=remember, **options)
    return NgramProposer(chosen, Resources(remembered=folder))


def say(proposer: NgramProposer, prompt: list[int], reply: list[int]) -> None:
    """A whole request: the reply is a past one once the next request begins."""
    context = Context(prompt)
    proposer.begin(context, sampler(context))
    context.tokens.extend(reply)


def once(proposer: NgramProposer, prompt: list[int], depth: int = 8) -> list[int]:
    context = Context(prompt)
    proposer.begin(context, sampler(context))
    return drafted(proposer, context, depth)


@settings(max_examples=100, deadline=None)
@given(tokens=texts, sizes=bounds, past=st.lists(texts, max_size=3))
def test_past_replies_draft_their_commonest_follower_where_they_match_longer(
    tokens: list[int], sizes: list[int], past: list[list[int]]
) -> None:
    shortest, longest = sizes
    proposer = remembering(prompt_lookup_min=shortest, prompt_lookup_max=longest)
    for reply in past:
        say(proposer, [9], reply)
    drafted_tokens = once(proposer, tokens, 1)
    for size in range(min(longest, len(tokens)), shortest - 1, -1):
        here = naive(tokens, size, size, 1)
        if here:
            assert drafted_tokens == here
            return
        followers = Counter(
            reply[at + size]
            for reply in past
            if len(reply) > 1
            for at in range(len(reply) - size)
            if reply[at : at + size] == tokens[-size:]
        )
        if followers:
            assert followers[drafted_tokens[0]] == max(followers.values())
            return
    assert drafted_tokens == []


def test_past_replies_are_searched_only_where_that_was_asked_for(tmp_path: Path) -> None:
    for remember in (False, True):
        before = remembering(tmp_path, remember)
        say(before, [1], [5, 6, 7, 8])
        assert once(before, [2, 5, 6]) == ([7, 8] if remember else [])
        before.close()
        assert once(remembering(tmp_path, remember), [2, 5, 6]) == ([7, 8] if remember else [])
        assert any(tmp_path.rglob("*.jsonl")) == remember


def test_what_is_kept_on_disk_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.drafting.proposers.ngram.MAX_REPLIES", 4)
    proposer = remembering(tmp_path)
    for first in range(40):
        say(proposer, [1], [first, first + 1, first + 2])
    proposer.close()
    lines = [line for file in tmp_path.rglob("*.jsonl") for line in file.read_text().splitlines()]
    assert 2 <= len(lines) <= 4
    assert once(remembering(tmp_path), [39, 40]) == [41]


def test_a_damaged_file_is_told_and_begun_afresh(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "ngram").mkdir()
    (tmp_path / "ngram" / "newer.jsonl").write_bytes(b"\0\0\0\n")
    proposer = remembering(tmp_path)
    assert "start empty" in caplog.text
    say(proposer, [1], [5, 6, 7])
    assert once(proposer, [5, 6]) == [7]


def test_under_rejection_a_given_seed_recalls_nothing() -> None:
    """An earlier reply may have been drawn with the same noise: drafts must not know it."""
    for rule, expected in ((AcceptanceRule.REJECTION, []), (AcceptanceRule.COUPLED, [7])):
        proposer, context = remembering(), Context([5, 6])
        say(proposer, [1], [5, 6, 7])
        proposer.begin(context, Sampler(Sampling(seed=3), rule, 3, context, 10))
        assert drafted(proposer, context, 4) == expected


@pytest.mark.parametrize(("low", "high"), [(0, 3), (4, 3), (2, 65), (-1, -1)])
def test_impossible_lengths_are_refused(low: int, high: int) -> None:
    with pytest.raises(InvalidRequest, match="1 <= min <= max <= 64") as caught:
        create("ngram", {"prompt_lookup_min": low, "prompt_lookup_max": high}, Resources())
    assert caught.value.field == "options"


def test_the_options_are_those_the_interfaces_rely_on() -> None:
    options = options_of("ngram")()
    assert (options.prompt_lookup_min, options.prompt_lookup_max) == (2, 5)
    assert not options.remember
