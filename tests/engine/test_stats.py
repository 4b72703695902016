"""Statistics by hand: vLLM's and llama.cpp's definitions on a reply small enough to count."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import trace
from engine.events import (
    Budget,
    Counted,
    Emitted,
    Event,
    Failed,
    Finished,
    FinishReason,
    Origin,
    Prefilled,
    Queued,
    Round,
    Started,
    Timing,
    Token,
    Tree,
)
from engine.stats import Statistics, Tally

USUAL = Timing(draft_s=0.01, verify_s=0.02, total_s=0.04)


def emitted(
    drafted: int,
    accepted: int,
    *,
    cut: int = 0,
    timing: Timing = USUAL,
) -> Emitted:
    """A round of tokens 0, 1, 2, ...; ``cut`` of its last tokens did not reach the output."""
    full = accepted == drafted
    turn = Round(
        index=0,
        proposer="draft",
        budget=Budget(drafted, drafted),
        tree=Tree.chain(tuple(range(drafted))),
        accepted_path=tuple(range(accepted)),
        next_token=99,
        origin=Origin.BONUS if full else Origin.CORRECTION,
        p=(0.5,) * drafted,
        q=(0.25,) * drafted,
        next_p=0.5,
        timing=timing,
        emitted=accepted + 1 - cut,
    )
    return Emitted(text="", round=turn)


def folded(*events: Event) -> Statistics:
    tally = Tally()
    for event in events:
        tally.add(event)
    return tally.statistics()


REPLY: tuple[Event, ...] = (
    Queued(1),
    Started("pip", "draft", "greedy", (1, 2, 3, 4, 5), 7),
    Prefilled(5, 3, 0.5),
    emitted(4, 4),
    emitted(4, 1),
    emitted(0, 0, timing=Timing(0.0, 0.02, 0.03)),
    emitted(3, 2, cut=1),
    Finished(FinishReason.STOP, "", "abc", (0,) * 10),
)


def test_a_reply_counted_by_hand() -> None:
    figures = folded(*REPLY)
    assert (figures.prompt_tokens, figures.reused_tokens) == (5, 3)
    assert (figures.rounds, figures.drafted, figures.accepted) == (4, 11, 7)
    assert figures.completion_tokens == 5 + 2 + 1 + 2
    # llama.cpp: n_accept / n_drafted
    assert figures.acceptance_rate == pytest.approx(7 / 11)
    # vLLM: 1 + accepted / rounds
    assert figures.mean_acceptance_length == pytest.approx(1 + 7 / 4)
    # vLLM: of all rounds, those in which position i was accepted
    assert figures.per_position == pytest.approx((3 / 4, 2 / 4, 1 / 4, 1 / 4))
    assert figures.draft_s == pytest.approx(0.03)
    assert figures.verify_s == pytest.approx(0.08)
    assert figures.prefill_s == 0.5
    # Cumulative: all tokens over all time in rounds, never an average of bursts.
    assert figures.decode_s == pytest.approx(0.15)
    assert figures.tokens_per_s == pytest.approx(10 / 0.15)
    assert figures.time_to_first_token_s == pytest.approx(0.54)


def test_what_the_draft_reads_after_the_first_token_is_told_apart() -> None:
    first, again = emitted(0, 0, timing=Timing(0.0, 0.02, 0.03)), Prefilled(5, 3, 0.8)
    figures = folded(*REPLY[:3], first, again, *REPLY[4:])
    assert figures.prefill_s == 0.5
    assert figures.late_prefill_s == pytest.approx(0.3)
    assert figures.decode_s == pytest.approx(folded(*REPLY[:3], first, *REPLY[4:]).decode_s + 0.3)
    assert figures.time_to_first_token_s == pytest.approx(0.53)
    assert folded(*REPLY).late_prefill_s == 0
    assert (figures + figures).late_prefill_s == pytest.approx(0.6)


def test_accepted_tokens_behind_the_end_of_a_reply_do_not_count() -> None:
    figures = folded(*REPLY[:3], emitted(2, 2), emitted(4, 4, cut=3))
    assert (figures.drafted, figures.accepted, figures.completion_tokens) == (6, 4, 5)
    assert figures.accepted_at == (2, 2)


def test_without_rounds_there_are_no_rates() -> None:
    for figures in (folded(), folded(REPLY[1], REPLY[2]), folded(Failed("no"))):
        assert figures.acceptance_rate is None
        assert figures.mean_acceptance_length is None
        assert figures.tokens_per_s is None
        assert figures.time_to_first_token_s is None
        assert figures.per_position == ()


def test_plain_decoding_has_length_1_and_no_acceptance_rate() -> None:
    figures = folded(*REPLY[:3], *[emitted(0, 0)] * 6)
    assert figures.mean_acceptance_length == 1.0
    assert figures.acceptance_rate is None
    assert figures.completion_tokens == figures.rounds == 6


@given(rounds=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12))
def test_the_positions_rates_add_up_to_the_mean_length(rounds: list[tuple[int, int]]) -> None:
    figures = folded(*(emitted(max(pair), min(pair)) for pair in rounds))
    assert sum(figures.accepted_at) == figures.accepted
    assert list(figures.accepted_at) == sorted(figures.accepted_at, reverse=True)
    if figures.mean_acceptance_length is not None:
        assert figures.mean_acceptance_length == pytest.approx(1 + sum(figures.per_position))
        assert figures.completion_tokens == figures.rounds + figures.accepted


def test_figures_may_be_asked_at_any_moment() -> None:
    tally = Tally()
    lengths = []
    for event in REPLY:
        tally.add(event)
        lengths.append(tally.statistics().rounds)
    assert lengths == [0, 0, 0, 1, 2, 3, 4, 4]


def test_several_replies_add_up_as_if_they_were_one() -> None:
    first, second = folded(*REPLY), folded(*REPLY[:3], emitted(6, 5))
    both = first + second
    assert both.rounds == 5
    assert both.accepted_at == (4, 3, 2, 2, 1)
    assert both.acceptance_rate == pytest.approx(12 / 17)
    assert both.tokens_per_s == pytest.approx(16 / 0.19)
    assert Statistics() + first == first == first + Statistics()


def test_a_trace_gives_the_same_statistics() -> None:
    lines = [json.dumps(trace.to_json(event)) for event in REPLY]
    assert folded(*trace.read(lines)) == folded(*REPLY)


def texts(*counts_and_stamps: tuple[int, float | None]) -> tuple[Event, ...]:
    """What an engine tells that shows no rounds: so many tokens, and when they came."""
    token = Token(1, "a", 0)
    return tuple(Emitted(text="a" * n, tokens=(token,) * n, at=at) for n, at in counts_and_stamps)


def test_without_rounds_the_speed_comes_from_time_stamps() -> None:
    figures = folded(*texts((2, 0.5), (3, 1.0), (1, 1.5)))
    assert (figures.rounds, figures.drafted, figures.completion_tokens) == (0, 0, 6)
    assert figures.tokens_per_s == pytest.approx(4 / 1.0)  # behind the first event
    assert figures.time_to_first_token_s == pytest.approx(0.5)
    assert figures.mean_acceptance_length is None
    twice = figures + figures
    assert twice.tokens_per_s == pytest.approx(4.0)


def test_without_rounds_and_stamps_there_is_no_speed() -> None:
    figures = folded(*texts((2, None), (3, None)))
    assert figures.completion_tokens == 5
    assert figures.tokens_per_s is None
    assert figures.time_to_first_token_s is None


def test_tokens_told_only_in_the_end_are_counted() -> None:
    figures = folded(
        Started("far", "-", "-", None, None),
        Emitted(text="ab"),
        Finished(FinishReason.STOP, "", "ab", (1, 2)),
    )
    assert (figures.prompt_tokens, figures.completion_tokens) == (0, 2)
    assert figures.tokens_per_s is None


def _told(event: Emitted, plain_s: float | None) -> Emitted:
    assert event.round is not None
    budget = replace(event.round.budget, plain_s=plain_s)
    return replace(event, round=replace(event.round, budget=budget))


def test_plain_decoding_is_as_fast_as_it_was_beside_each_token_and_unknown_before() -> None:
    unknown = folded(emitted(4, 4))
    assert (unknown.plain_tokens_per_s, unknown.speedup) == (None, None)
    figures = folded(
        emitted(4, 1), _told(emitted(4, 4), 0.03), _told(emitted(4, 2), 0.02), emitted(4, 3)
    )
    assert figures.plain_s == pytest.approx((5 * 0.03 + 3 * 0.02 + 4 * 0.02) / 12)
    assert figures.speedup == pytest.approx((2 + 5 + 3 + 4) / 0.16 * figures.plain_s)
    assert (figures + unknown).plain_s == figures.plain_s


def test_nothing_is_faster_than_its_tokens_in_a_round_allow() -> None:
    """Whatever was told at a moment when the machine was busier: a round reads the weights as well."""
    figures = folded(_told(emitted(4, 4), 9.0), emitted(4, 2))
    assert figures.speedup == pytest.approx(figures.mean_acceptance_length)
    assert folded(_told(emitted(0, 0), 9.0), emitted(0, 0)).speedup == pytest.approx(1)


def test_what_a_server_counted_stands_where_nothing_is_seen() -> None:
    counted = Counted(
        prompt_tokens=7,
        completion_tokens=11,
        rounds=4,
        drafted=12,
        accepted=6,
        accepted_at=(4, 2),
        shared=True,
    )
    heard: list[Any] = [
        Started("m", "server", "auto", None, None),
        Emitted(text="a", at=0.5),
        Emitted(text="bc", at=2.5),
        Finished(FinishReason.STOP, "", "abc", None, counted),
    ]
    found = folded(*heard)
    assert (found.prompt_tokens, found.completion_tokens, found.rounds) == (7, 11, 4)
    assert (found.acceptance_rate, found.mean_acceptance_length) == (0.5, 2.5)
    assert found.per_position == (1.0, 0.5) and found.shared
    assert found.time_to_first_token_s == 0.5
    assert found.tokens_per_s == 5.0  # ten tokens behind the first, in two seconds
    by_its_clock = replace(counted, decode_s=5.5, rounds=None, acceptance_length=3.0)
    found = folded(*heard[:-1], replace(heard[-1], counted=by_its_clock))
    assert (found.tokens_per_s, found.mean_acceptance_length) == (2.0, 3.0)
    assert folded(*heard[:-1]).tokens_per_s is None
