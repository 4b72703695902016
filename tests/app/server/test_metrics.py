"""Figures from events made by hand, checked against numbers worked out by hand."""

from __future__ import annotations

from app.server.answer import Answer
from app.server.monitoring import metrics
from engine.events import Budget, Emitted, Event, Origin, Prefilled, Round, Started, Timing, Tree
from engine.request import Request, Speculation
from engine.values.messages import Message


def round_of(drafted: int, accepted: int) -> Emitted:
    return Emitted(
        round=Round(
            index=0,
            proposer="draft",
            budget=Budget(3, 3),
            tree=Tree.chain(list(range(drafted))),
            accepted_path=tuple(range(accepted)),
            next_token=9,
            origin=Origin.BONUS if accepted == drafted else Origin.CORRECTION,
            p=(None,) * drafted,
            q=(None,) * drafted,
            next_p=None,
            timing=Timing(0.1, 0.3, 0.5),
            emitted=accepted + 1,
        ),
        text="",
    )


def answered(*events: Event, proposer: str = "draft") -> Answer:
    request = Request(
        messages=(Message("user", "Hello"),),
        speculation=Speculation(proposer=proposer, depth=3),
    )
    answer = Answer(request)
    for event in (Started("m", proposer, "greedy", (1,) * 11, 7), Prefilled(11, 4, 2.0), *events):
        answer.add(event)
    return answer


ROUNDS = (round_of(3, 3), round_of(3, 1), round_of(3, 0), round_of(2, 1))


def test_timings_have_llama_cpps_names() -> None:
    assert metrics.measured([answered(*ROUNDS)])["timings"] == {
        "cache_n": 4,
        "prompt_n": 7,
        "prompt_ms": 2000,
        "prompt_per_second": 3,
        "predicted_n": 9,
        "predicted_ms": 2000,
        "predicted_per_second": 4.5,
        "draft_n": 11,
        "draft_n_accepted": 5,
    }


def test_drafting_has_vllms_names() -> None:
    assert metrics.speculative_decoding(answered(*ROUNDS)) == {
        "mean_acceptance_length": 2.25,
        "draft_acceptance_rate": 5 / 11,
        "acceptance_histogram": [1, 2, 0, 1],
        "per_position_acceptance_rates": [0.75, 0.25, 0.25],
        "num_accepted_draft_tokens": 5,
        "num_draft_tokens": 11,
        "num_spec_steps": 4,
        "num_spec_tokens": 3,
    }


def test_nothing_done_yet_has_figures_too() -> None:
    drafting = metrics.speculative_decoding(answered())
    assert drafting is not None
    assert drafting["acceptance_histogram"] == [0, 0, 0, 0]
    assert drafting["mean_acceptance_length"] == 1
    assert metrics.timings(answered().reply.statistics)["predicted_per_second"] == 0


def test_plain_decoding_drafts_nothing() -> None:
    assert metrics.speculative_decoding(answered(round_of(0, 0), proposer="none")) is None


def test_a_prompt_counts_once_however_many_choices_it_has() -> None:
    usage = metrics.usage([answered(*ROUNDS) for _ in range(4)], n=2)
    assert usage["prompt_tokens"] == 22
    assert usage["completion_tokens"] == 36
    assert usage["total_tokens"] == 58
    assert usage["prompt_tokens_details"] == {"cached_tokens": 8}
