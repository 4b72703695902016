"""What each kind of server counts of a reply, as ``Counted``.

Within the reply: ``usage`` of all; llama-server's ``timings`` (llama.cpp as of llama-cpp-python 0.3.36,
server-common.cpp); vLLM's ``metrics.speculative_decoding`` where it was started with
``--per-request-spec-decode-metrics`` (0.32); LM Studio's ``stats`` and draft counts (REST API v0,
0.3.10); TensorRT-LLM's ``avg_decoded_tokens_per_iter`` (1.3, serve/openai_protocol.py).

Beside it, and then of everyone whom the server answers: ``engine.remote.server_metrics``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.events import Counted
from engine.remote.reading import Json, Reading


def counted(reading: Reading) -> Counted:
    """What the chunks of a reply told."""
    usage = reading.usage
    found: dict[str, Any] = {
        "prompt_tokens": whole(usage.get("prompt_tokens")),
        "completion_tokens": whole(usage.get("completion_tokens")),
        "reused_tokens": whole(_part(usage, "prompt_tokens_details").get("cached_tokens")),
        "acceptance_length": reading.decoded_per_iteration,
    }
    if "timings" in reading.told:
        found |= _of_timings(reading.told["timings"])
    if "stats" in reading.told:
        found |= _of_stats(reading.told["stats"], usage)
    drafts = _part(reading.told.get("metrics") or {}, "speculative_decoding")
    if drafts:
        found |= _of_vllm(drafts)
    return Counted(**found)


def _of_timings(told: Json) -> dict[str, Any]:
    prompt, reused = whole(told.get("prompt_n")), whole(told.get("cache_n"))
    found: dict[str, Any] = {
        "completion_tokens": whole(told.get("predicted_n")),
        "prefill_s": seconds(told.get("prompt_ms"), 1e-3),
        "decode_s": seconds(told.get("predicted_ms"), 1e-3),
        "reused_tokens": reused,
        "drafted": whole(told.get("draft_n")),
        "accepted": whole(told.get("draft_n_accepted")),
    }
    if prompt is not None:
        found["prompt_tokens"] = prompt + (reused or 0)
    return found


def _of_stats(told: Json, usage: Json) -> dict[str, Any]:
    """Draft counts stand in ``stats`` or in ``usage``, by the version."""
    both = {**usage, **told}
    return {
        "decode_s": seconds(told.get("generation_time"), 1.0),
        "drafted": whole(both.get("total_draft_tokens_count")),
        "accepted": whole(both.get("accepted_draft_tokens_count")),
    }


def _of_vllm(told: Json) -> dict[str, Any]:
    return {
        "rounds": whole(told.get("num_spec_steps")),
        "drafted": whole(told.get("num_draft_tokens")),
        "accepted": whole(told.get("num_accepted_draft_tokens")),
        "accepted_at": _accepted_at(told.get("acceptance_histogram")),
    }


def _accepted_at(histogram: object) -> tuple[int, ...]:
    """Rounds that accepted at least 1, 2, ... tokens, of rounds that accepted exactly 0, 1, 2, ...

    The histogram is a list, or a mapping of the counts that there are.
    """
    if isinstance(histogram, Mapping):
        exactly = {int(count): int(rounds) for count, rounds in histogram.items()}
    elif isinstance(histogram, Sequence) and not isinstance(histogram, str):
        exactly = {count: int(rounds) for count, rounds in enumerate(histogram)}
    else:
        return ()
    deepest = max((count for count, rounds in exactly.items() if rounds), default=0)
    return tuple(
        sum(rounds for count, rounds in exactly.items() if count > position)
        for position in range(deepest)
    )


def _part(told: Json, name: str) -> Json:
    found = told.get(name)
    return found if isinstance(found, dict) else {}


def whole(value: object) -> int | None:
    """A count, if that is what it is."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def seconds(value: object, unit: float) -> float | None:
    """A duration in units of ``unit`` seconds, if that is what it is."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        return None
    return value * unit
