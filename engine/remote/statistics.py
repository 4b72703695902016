"""A reply's statistics as ``Counted``: from its stream, and from metrics of all the server's requests,
which are read before and after a reply whose stream has no draft counts.

Streams: ``usage`` of all servers; llama-server's ``timings`` (llama.cpp as of llama-cpp-python 0.3.36,
server-common.cpp); vLLM's ``metrics.speculative_decoding`` where it was started with
``--per-request-spec-decode-metrics`` (0.32); LM Studio's ``stats`` and draft counts (REST API v0,
0.3.10); TensorRT-LLM's ``avg_decoded_tokens_per_iter`` (1.3, serve/openai_protocol.py).

Metrics: vLLM (0.32; v1/spec_decode/metrics.py): Prometheus' ``vllm:spec_decode_num_drafts``,
``..._draft_tokens``, ``..._accepted_tokens`` and ``..._accepted_tokens_per_pos``. Where
``vllm:generation_tokens`` grew by just the reply's tokens, nobody else was answered, and the counts are
its own. SGLang (0.5.16; ``meta_info`` is refused in streams): ``avg_spec_accept_length`` of
``/server_info``, a mean since the server's start. TensorRT-LLM (1.3; its iteration statistics):
``specDecodingStats`` of ``/metrics``, which tells each iteration once, to whoever asks first.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from engine.events import Counted
from engine.remote.connection import Client
from engine.remote.kinds import SGLANG_INFO, Kind
from engine.remote.reading import Json, Reading, object_in


def counted(reading: Reading) -> Counted:
    """Return the statistics that the reply's chunks held."""
    usage = reading.usage
    found: dict[str, Any] = {
        "prompt_tokens": whole(usage.get("prompt_tokens")),
        "completion_tokens": whole(usage.get("completion_tokens")),
        "reused_tokens": whole(object_in(usage, "prompt_tokens_details").get("cached_tokens")),
        "acceptance_length": number(reading.decoded_per_iteration),
    }
    if "timings" in reading.extras:
        found |= _of_timings(reading.extras["timings"])
    if "stats" in reading.extras:
        found |= _of_stats(reading.extras["stats"], usage)
    drafts = object_in(reading.extras.get("metrics") or {}, "speculative_decoding")
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
    if isinstance(histogram, list):
        histogram = dict(enumerate(histogram))
    if not isinstance(histogram, dict):
        return ()
    told = (histogram.get(count, histogram.get(str(count))) for count in range(_DEEPEST + 1))
    exactly = [whole(rounds) or 0 for rounds in told]
    while exactly and not exactly[-1]:
        exactly.pop()
    return tuple(sum(exactly[count:]) for count in range(1, len(exactly)))


_DEEPEST, _MOST = 1024, 2**53
"""Tokens drafted in a round, and of any number: a server may send more, infinity, and what is none."""


def whole(value: object) -> int | None:
    """Return ``value`` if it is a count."""
    return value if isinstance(value, int) and number(value) is not None else None


def number(value: object) -> float | None:
    """Return ``value`` if it is a number that can be computed with."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MOST:
        return None
    return value


def seconds(value: object, unit: float) -> float | None:
    """Return ``value``, in units of ``unit`` seconds, in seconds if it is a duration."""
    found = number(value)
    return None if found is None else found * unit


_ATTEMPTS, _DELAY_S = 10, 0.05
"""Attempts to read vLLM's counters after a reply, and the delay between them: they may be a step late."""


class ServerMetrics:
    """Draft counts of one reply, from what the metrics grew by. This class is for a server without
    metrics, or with all counts in the reply."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def before(self) -> None:
        """Read the metrics before the request is sent."""

    async def after(self, usage: Counted) -> Counted:
        """Return ``usage`` with what the metrics add, after the reply has ended."""
        return usage


def metrics_of(client: Client, kind: Kind, model: str) -> ServerMetrics:
    """Return the metrics reader for one reply."""
    match kind:
        case Kind.VLLM:
            return VllmMetrics(client, model)
        case Kind.SGLANG:
            return SglangMetrics(client)
        case Kind.TENSORRT_LLM:
            return TensorrtMetrics(client)
        case _:
            return ServerMetrics(client)


_DRAFTS, _DRAFTED = "vllm:spec_decode_num_drafts", "vllm:spec_decode_num_draft_tokens"
_ACCEPTED = "vllm:spec_decode_num_accepted_tokens"
_AT, _GENERATED = f"{_ACCEPTED}_per_pos", "vllm:generation_tokens"
_READ = ("vllm:spec_decode_num_", _GENERATED)


class VllmMetrics(ServerMetrics):
    """Prometheus counters, summed over the engines behind one address."""

    def __init__(self, client: Client, model: str) -> None:
        super().__init__(client)
        self._model, self._before = model, Counter[str]()

    async def before(self) -> None:
        self._before = await self._read()

    async def after(self, usage: Counted) -> Counted:
        if usage.drafted is not None or _DRAFTS not in self._before:
            return usage  # the reply had counts, or the server does not draft
        own = usage.completion_tokens or 0
        for attempt in range(_ATTEMPTS):
            if attempt:
                await asyncio.sleep(_DELAY_S)
            now = await self._read()
            grown = {name: int(now[name] - self._before[name]) for name in now}
            if grown.get(_GENERATED, 0) >= own:
                break
        positions = sorted(
            int(name.partition("#")[2]) for name in grown if name.startswith(f"{_AT}#")
        )
        at = [grown[f"{_AT}#{position}"] for position in positions]
        while at and not at[-1]:
            at.pop()
        return replace(
            usage,
            rounds=grown.get(_DRAFTS, 0),
            drafted=grown.get(_DRAFTED, 0),
            accepted=grown.get(_ACCEPTED, 0),
            accepted_at=tuple(at),
            shared=grown.get(_GENERATED, 0) != own,
        )

    async def _read(self) -> Counter[str]:
        """Return the model's counters; those by position as ``NAME#POSITION``."""
        answer = await self._client.find("/metrics")
        lines = [] if answer is None else answer.text.splitlines()
        page = "".join(f"{line}\n" for line in lines if line.startswith(_READ))
        counts: Counter[str] = Counter()
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                if sample.labels.get("model_name", self._model) != self._model:
                    continue
                name = sample.name.removesuffix("_total")
                if name == _AT:
                    name = f"{_AT}#{sample.labels.get('position', 0)}"
                if not name.endswith("_created"):
                    counts[name] += int(sample.value)
        return counts


class SglangMetrics(ServerMetrics):
    """A mean over all requests since the start, marked as ``shared``."""

    async def after(self, usage: Counted) -> Counted:
        told = await self._client.find_json(*SGLANG_INFO)
        states: Any = told.get("internal_states") if isinstance(told, dict) else None
        found = [state for state in states or () if isinstance(state, dict)]
        each = [number(state.get("avg_spec_accept_length")) for state in found]
        means = [mean for mean in each if mean is not None]
        if not any(means):
            return usage
        return replace(usage, acceptance_length=sum(means) / len(means), shared=True)


class TensorrtMetrics(ServerMetrics):
    """The iterations since the last read; ``before`` discards older ones."""

    async def before(self) -> None:
        await self._client.find("/metrics")

    async def after(self, usage: Counted) -> Counted:
        told = await self._client.find_json("/metrics")
        stats = [
            each["specDecodingStats"]
            for each in (told if isinstance(told, list) else ())
            if isinstance(each, dict) and isinstance(each.get("specDecodingStats"), dict)
        ]
        drafted = sum(whole(each.get("numDraftTokens")) or 0 for each in stats)
        if not drafted:
            return usage
        accepted = sum(whole(each.get("numAcceptedTokens")) or 0 for each in stats)
        # Every iteration counts each request that drafted once: as many rounds.
        rounds = sum(whole(each.get("numRequestsWithDraftTokens")) or 0 for each in stats)
        return replace(usage, drafted=drafted, accepted=accepted, rounds=rounds, shared=True)
