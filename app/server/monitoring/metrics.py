"""Usage, ``timings`` (llama.cpp's names) and ``metrics`` (vLLM's), from the engine's statistics."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from app.server.answer import Answer
from engine.stats import Statistics


def usage(answers: Sequence[Answer], n: int) -> dict[str, Any]:
    """Return tokens as OpenAI counts them: a prompt once, whatever the number of its choices."""
    prompts = [answer.reply.statistics for answer in answers[::n]]
    replies = [answer.reply for answer in answers]
    accepted = sum(reply.predicted_accepted for reply in replies)
    prompt_tokens = sum(statistics.prompt_tokens for statistics in prompts)
    completion_tokens = total(answers).completion_tokens
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {
            "cached_tokens": sum(statistics.reused_tokens for statistics in prompts)
        },
        "completion_tokens_details": {
            "reasoning_tokens": sum(reply.thought_tokens for reply in replies),
            "accepted_prediction_tokens": accepted,
            "rejected_prediction_tokens": sum(reply.predicted_drafted for reply in replies)
            - accepted,
        },
    }


def measured(answers: Sequence[Answer]) -> dict[str, Any]:
    """Return ``timings`` over all choices, and ``metrics`` with each choice's seed."""
    single = answers[0] if len(answers) == 1 else None
    return {
        "timings": timings(total(answers), len(answers)),
        "metrics": {
            "seeds": [answer.reply.seed for answer in answers],
            # As in vLLM: None for several generations, whose figures cannot be separated.
            "speculative_decoding": speculative_decoding(single) if single else None,
            "controller": controller(single) if single else None,
        },
    }


def controller(answer: Answer) -> dict[str, Any]:
    """Return the controller, and its last decision with reasons if there is one."""
    decision = answer.reply.statistics.decision
    return {"name": answer.control, "decision": decision and asdict(decision)}


def total(answers: Sequence[Answer]) -> Statistics:
    return sum((answer.reply.statistics for answer in answers), Statistics())


def timings(statistics: Statistics, replies: int = 1) -> dict[str, Any]:
    """Return llama.cpp's object; ``prompt_n`` excludes cached tokens."""
    prompt_n = statistics.prompt_tokens - statistics.reused_tokens
    # A prompt's last token is computed in the first round, so this speed excludes it.
    prefilled = prompt_n - replies
    return {
        "cache_n": statistics.reused_tokens,
        "prompt_n": prompt_n,
        "prompt_ms": statistics.prefill_s * 1000,
        "prompt_per_second": prefilled / statistics.prefill_s if statistics.prefill_s else 0.0,
        "predicted_n": statistics.completion_tokens,
        "predicted_ms": statistics.decode_s * 1000,
        "predicted_per_second": statistics.tokens_per_s or 0.0,
        "draft_n": statistics.drafted,
        "draft_n_accepted": statistics.accepted,
    }


def speculative_decoding(answer: Answer) -> dict[str, Any] | None:
    """Return vLLM's object, with acceptance rates per position, and each round if requested.

    None if nothing was to be drafted, or if the engine neither reports rounds nor counts them.
    """
    statistics = answer.reply.statistics
    if answer.depth == 0:
        return None
    if answer.reply.text and (not statistics.rounds or answer.reply.tokens is None):
        return counted_drafting(statistics)
    return {
        **summed_drafting(statistics, answer.depth),
        **(per_step(answer) if answer.keeps_rounds else {}),
    }


def summed_drafting(statistics: Statistics, depth: int) -> dict[str, Any]:
    """Return vLLM's object of a reply with rounds, which drafted up to ``depth`` tokens each."""
    # Rounds that accepted at least 0, 1, 2 ... drafted tokens; differences give "exactly".
    at_least = (statistics.rounds, *statistics.accepted_at)
    at_least += (0,) * (depth + 2 - len(at_least))
    return {
        "mean_acceptance_length": statistics.mean_acceptance_length or 1.0,
        "draft_acceptance_rate": statistics.acceptance_rate or 0.0,
        "acceptance_histogram": [some - more for some, more in itertools.pairwise(at_least)],
        "per_position_acceptance_rates": list(statistics.per_position),
        "num_accepted_draft_tokens": statistics.accepted,
        "num_draft_tokens": statistics.drafted,
        "num_spec_steps": statistics.rounds,
        "num_spec_tokens": depth,
    }


def counted_drafting(statistics: Statistics) -> dict[str, Any] | None:
    """Return the same object from a server's own counts; what it does not report is null. ``shared``: the
    counts include its other replies at that time."""
    if not statistics.drafted and statistics.mean_acceptance_length is None:
        return None
    drafted = statistics.drafted or None
    return {
        "mean_acceptance_length": statistics.mean_acceptance_length,
        "draft_acceptance_rate": statistics.acceptance_rate,
        "acceptance_histogram": None,
        "per_position_acceptance_rates": list(statistics.per_position) or None,
        "num_accepted_draft_tokens": drafted and statistics.accepted,
        "num_draft_tokens": drafted,
        "num_spec_steps": statistics.rounds or None,
        "num_spec_tokens": None,
        "shared": statistics.shared,
    }


def per_step(answer: Answer) -> dict[str, list[Any]]:
    """Return vLLM's arrays of detailed metrics, one entry a round, with its proposer and times."""
    rounds = answer.rounds
    return {
        "per_step_drafted": [len(round.tree) for round in rounds],
        "per_step_accepted": [round.accepted for round in rounds],
        "per_step_proposer": [round.proposer for round in rounds],
        "per_step_draft_ms": [round.timing.draft_s * 1000 for round in rounds],
        "per_step_ms": [round.timing.total_s * 1000 for round in rounds],
    }
