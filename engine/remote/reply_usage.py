"""Read a reply's statistics from its stream, as ``Counted``.

Sources: ``usage`` of all servers; llama-server's ``timings`` (llama.cpp as of llama-cpp-python 0.3.36,
server-common.cpp); vLLM's ``metrics.speculative_decoding`` where it was started with
``--per-request-spec-decode-metrics`` (0.32); LM Studio's ``stats`` and draft counts (REST API v0,
0.3.10); TensorRT-LLM's ``avg_decoded_tokens_per_iter`` (1.3, serve/openai_protocol.py).

Metrics of all requests of a server are read by ``engine.remote.server_metrics``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.events import Counted
from engine.remote.reading import Json, Reading


def counted(reading: Reading) -> Counted:
    """Return the statistics that the reply's chunks held."""
    usage = reading.usage
    found: dict[str, Any] = {
        "prompt_tokens": whole(usage.get("prompt_tokens")),
        "completion_tokens": whole(usage.get("completion_tokens")),
        "reused_tokens": whole(_part(usage, "prompt_tokens_details").get("cached_tokens")),
        "acceptance_length": reading.decoded_per_iteration,
    }
    if "timings" in reading.extras:
        found |= _of_timings(reading.extras["timings"])
    if "stats" in reading.extras:
        found |= _of_stats(reading.extras["stats"], usage)
    drafts = _part(reading.extras.get("metrics") or {}, "speculative_decoding")
    if drafts:
        found |= _of_vllm(drafts)
    return Counted(**found)


def _of_timings(timings: Json) -> dict[str, Any]:
    prompt, reused = whole(timings.get("prompt_n")), whole(timings.get("cache_n"))
    found: dict[str, Any] = {
        "completion_tokens": whole(timings.get("predicted_n")),
        "prefill_s": seconds(timings.get("prompt_ms"), 1e-3),
        "decode_s": seconds(timings.get("predicted_ms"), 1e-3),
        "reused_tokens": reused,
        "drafted": whole(timings.get("draft_n")),
        "accepted": whole(timings.get("draft_n_accepted")),
    }
    if prompt is not None:
        found["prompt_tokens"] = prompt + (reused or 0)
    return found


def _of_stats(stats: Json, usage: Json) -> dict[str, Any]:
    """Read draft counts from ``stats`` or ``usage``: it depends on the version."""
    both = {**usage, **stats}
    return {
        "decode_s": seconds(stats.get("generation_time"), 1.0),
        "drafted": whole(both.get("total_draft_tokens_count")),
        "accepted": whole(both.get("accepted_draft_tokens_count")),
    }


def _of_vllm(drafts: Json) -> dict[str, Any]:
    return {
        "rounds": whole(drafts.get("num_spec_steps")),
        "drafted": whole(drafts.get("num_draft_tokens")),
        "accepted": whole(drafts.get("num_accepted_draft_tokens")),
        "accepted_at": _accepted_at(drafts.get("acceptance_histogram")),
    }


def _accepted_at(histogram: object) -> tuple[int, ...]:
    """Return the rounds that accepted at least 1, 2, ... tokens, from the rounds that accepted exactly n.

    The histogram is a list, or a mapping with its nonzero counts.
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


def _part(parent: Json, name: str) -> Json:
    part = parent.get(name)
    return part if isinstance(part, dict) else {}


def whole(value: object) -> int | None:
    """Return ``value`` if it is a count."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def seconds(value: object, unit: float) -> float | None:
    """Return ``value``, in units of ``unit`` seconds, in seconds if it is a duration."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        return None
    return value * unit
