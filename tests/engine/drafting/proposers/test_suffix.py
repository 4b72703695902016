"""Suffix drafting against a naive search, and what it recalls of past replies."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decoding.context import Context
from engine.decoding.sampling import Sampler
from engine.drafting.proposers import create
from engine.drafting.proposers.suffix import SuffixProposer
from engine.drafting.resources import Resources
from engine.errors import InvalidRequest
from engine.events import Budget
from engine.values.sampling import AcceptanceRule, Sampling

tokens = st.integers(0, 2)
texts = st.lists(tokens, min_size=1, max_size=40)


def begin(
    proposer: SuffixProposer,
    prompt: list[int],
    rule: AcceptanceRule = AcceptanceRule.GREEDY,
    seed: int | None = None,
) -> Context:
    context = Context(prompt)
    proposer.begin(context, Sampler(Sampling(seed=seed), rule, seed or 0, context, 100))
    return context


def made(remembered: Path | None = None, **options: object) -> SuffixProposer:
    proposer = create("suffix", options, Resources(remembered=remembered))
    assert isinstance(proposer, SuffixProposer)
    return proposer


def drafted(proposer: SuffixProposer, context: Context, depth: int = 15) -> list[int]:
    proposal = proposer.propose(context, Budget(depth, depth))
    assert proposal.tree.is_chain
    assert proposal.q is None
    assert len(proposal.chosen_q) == len(proposal.tree) <= depth
    return list(proposal.tree.tokens)


def once(proposer: SuffixProposer, prompt: list[int], depth: int = 15) -> list[int]:
    return drafted(proposer, begin(proposer, prompt), depth)


def say(proposer: SuffixProposer, prompt: list[int], reply: list[int]) -> None:
    """A whole request: the reply is a past one once the next request begins."""
    begin(proposer, prompt).tokens.extend(reply)


def naive(text: list[int], past: list[list[int]], depth: int) -> float:
    """The best score of all suffixes, in the text and in past replies, by search."""
    best = 0.0
    for corpus in ([text], past):
        for size in range(1, min(23, len(text)) + 1):
            score, probability, suffix = 0.0, 1.0, text[-size:]
            if not followers(corpus, suffix):
                continue
            for _ in range(min(depth, size)):
                while suffix and not followers(corpus, suffix):
                    suffix = suffix[1:]
                counts = followers(corpus, suffix) if suffix else {}
                if not counts:
                    break
                # Of equally common followers any may be drafted: the comparison is by score, so
                # only texts where no tie matters are compared exactly.
                token = max(counts, key=lambda t: counts[t])
                probability *= counts[token] / sum(counts.values())
                if probability < 0.1:
                    break
                score += probability
                suffix = [*suffix, token][-23:]
            best = max(best, score)
    return best


def followers(corpus: list[list[int]], pattern: list[int]) -> dict[int, int]:
    size = len(pattern)
    counts: dict[int, int] = {}
    for text in corpus:
        for at in range(len(text) - size):
            if text[at : at + size] == pattern:
                counts[text[at + size]] = counts.get(text[at + size], 0) + 1
    return counts


@settings(max_examples=40, deadline=None)
@given(prompt=texts, past=st.lists(texts, max_size=3))
def test_one_drafted_token_is_the_likeliest_of_all_suffixes(
    prompt: list[int], past: list[list[int]]
) -> None:
    """At depth 1 ties cannot matter: the score is the probability of one token."""
    proposer = made()
    for reply in past:
        say(proposer, [9], reply)
    context = begin(proposer, prompt)
    token = drafted(proposer, context, 1)
    replies = [reply for reply in past if len(reply) > 1]
    expected = naive(prompt, replies, 1)
    if not expected:
        assert token == []
        return
    shares = [
        counts[token[0]] / sum(counts.values())
        for corpus in ([prompt], replies)
        for size in range(1, min(23, len(prompt)) + 1)
        if token and token[0] in (counts := followers(corpus, prompt[-size:]))
    ]
    assert max(shares) == pytest.approx(expected)


@settings(max_examples=25, deadline=None)
@given(prompt=texts, bursts=st.lists(st.lists(tokens, min_size=1, max_size=6), max_size=8))
def test_however_the_text_grew_the_draft_is_that_of_the_whole_text(
    prompt: list[int], bursts: list[list[int]]
) -> None:
    grown, past = made(), [0, 1, 2, 0, 2, 1, 1]
    say(grown, [9], past)
    context = begin(grown, prompt)
    for burst in bursts:
        drafted(grown, context, len(burst) % 3)
        context.tokens += burst
    fresh = made()
    say(fresh, [9], past)
    at_once = begin(fresh, prompt)
    at_once.tokens += context.output
    assert drafted(grown, context) == drafted(fresh, at_once)
    grown.own.check()


def test_the_longer_the_match_the_longer_the_draft() -> None:
    text = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert once(made(), [*text, 3]) == [4]
    assert once(made(), [*text, 2, 3]) == [4, 5]
    assert once(made(), [*text, 1, 2, 3]) == [4, 5, 6]
    assert once(made(max_spec_factor=2.0), [*text, 2, 3]) == [4, 5, 6, 7]
    assert once(made(), [*text, 1, 2, 3], 2) == [4, 5]


def test_the_commonest_follower_is_drafted_and_unlikely_ones_are_not() -> None:
    text = [7, 1, 2, 5, 8, 1, 2, 6, 9, 1, 2, 6, 4, 1, 2]
    assert once(made(), text)[0] == 6
    assert once(made(min_token_prob=0.9), text) == []


@pytest.mark.parametrize("stop", [0, 1, 9])
def test_a_prompt_read_in_parts_is_drafted_from_like_a_whole_one(stop: int) -> None:
    """Stopped before all of it is read, the rest is read with the first draft."""
    prompt = [*range(400), *range(40, 60)]
    ready, fresh = made(), made()
    for proposer in (ready, fresh):
        say(proposer, [7], [*range(50, 60), 99, 98])
    context = begin(ready, prompt)
    for index, _ in enumerate(ready.prepare(context)):
        if index == stop:
            break
    assert drafted(ready, context) == once(fresh, prompt) != []


def test_a_round_between_two_parts_of_a_prompt_reads_nothing_twice() -> None:
    prompt = [*range(600), *range(40, 60)]
    proposer = made()
    context = begin(proposer, prompt)
    for token, _ in enumerate(proposer.prepare(context), 60):
        proposer.propose(context, Budget(0, 0))
        context.tokens.append(token)
    assert drafted(proposer, context) == once(made(), context.tokens) != []


def test_past_replies_are_drafted_again_and_prompts_are_not() -> None:
    proposer = made()
    say(proposer, [50, 51, 52, 53], [10, 11, 12, 13, 14])
    context = begin(proposer, [60, 10, 11, 12])
    assert drafted(proposer, context) == [13, 14]
    assert drafted(proposer, begin(proposer, [60, 51, 52])) == []


def test_a_past_reply_counts_only_once_it_is_whole() -> None:
    proposer = made()
    first = begin(proposer, [1, 2])
    first.tokens += [10, 11, 12]
    assert proposer.past.counts == (0, 0)
    assert drafted(proposer, begin(proposer, [10, 11])) == [12]


def test_without_cached_requests_only_this_text_is_searched() -> None:
    proposer = made(max_cached_requests=0)
    say(proposer, [1], [10, 11, 12, 13])
    assert drafted(proposer, begin(proposer, [10, 11, 12])) == []


def test_under_rejection_a_given_seed_recalls_nothing() -> None:
    """An earlier reply may have been drawn with the same noise: drafts must not know it."""
    for seed, expected in ((None, [13]), (7, [])):
        proposer = made()
        say(proposer, [1], [10, 11, 12, 13])
        context = begin(proposer, [10, 11, 12], AcceptanceRule.REJECTION, seed)
        assert drafted(proposer, context) == expected
        proposer = made()
        say(proposer, [1], [10, 11, 12, 13])
        context = begin(proposer, [10, 11, 12], AcceptanceRule.COUPLED, seed)
        assert drafted(proposer, context) == [13]


def test_a_turn_that_goes_on_keeps_what_was_read() -> None:
    proposer = made()
    context = begin(proposer, [1, 2, 3])
    drafted(proposer, context)
    own = proposer.own
    context.tokens += [4, 5]
    longer = begin(proposer, [1, 2, 3, 4, 5, 6])
    assert proposer.own is own
    assert drafted(proposer, longer) == []
    begin(proposer, [1, 2, 9])
    assert proposer.own is not own


def test_replies_survive_a_restart_only_where_that_was_asked_for(tmp_path: Path) -> None:
    for remember in (False, True):
        before = made(tmp_path, remember=remember)
        say(before, [1], [10, 11, 12, 13])
        before.close()
        after = made(tmp_path, remember=remember)
        assert drafted(after, begin(after, [10, 11, 12])) == ([13] if remember else [])
        assert any(tmp_path.rglob("*.jsonl")) == remember


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_tree_depth": 1}, "max_tree_depth is 1; it must be 2 to 64"),
        ({"max_cached_requests": -1}, "must be 0 to 100000"),
        ({"max_spec_factor": 0.0}, "must be above 0"),
        ({"min_token_prob": 1.5}, "must be 0 to 1"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message) as caught:
        made(**options)
    assert caught.value.field == "options"


def test_the_defaults_are_those_the_interfaces_rely_on() -> None:
    options = SuffixProposer.Options()
    assert (options.max_tree_depth, options.max_cached_requests) == (24, 1000)
    assert (options.max_spec_factor, options.min_token_prob) == (1.0, 0.1)
    assert not options.remember


NOTE = [*range(20, 30), 7, 30, 31, 32, 7, 33, 34, 7, 35]
CHANGED = [*range(20, 30), 8, 9, 30, 31]


def test_a_change_is_copied_past_and_made_again() -> None:
    """7 becomes 8, 9: after the first time drafts do it too. A match is lost at each change."""
    context = begin(made(), [1, *NOTE, 2])
    context.tokens += CHANGED
    assert once_more(made(), context) == [32, 8, 9, 33, 34, 8, 9]
    assert once_more(made(edits=False), context) == [32, 7]


def test_a_copy_is_followed_anew_in_each_reply() -> None:
    proposer = made(max_cached_requests=0)
    context = begin(proposer, [1, *NOTE, 2])
    context.tokens += CHANGED
    assert drafted(proposer, context)[:3] == [32, 8, 9]
    context = begin(proposer, [*context.tokens, 3])
    context.tokens += [31, 32]
    assert drafted(proposer, context)[:2] == [7, 33]


def once_more(proposer: SuffixProposer, finished: Context) -> list[int]:
    context = begin(proposer, finished.tokens[: finished.prompt_length])
    context.tokens += finished.output
    return drafted(proposer, context)
