"""A server's metrics of all its requests, read before and after a reply whose stream has no draft counts.

vLLM (0.32; v1/spec_decode/metrics.py): Prometheus' ``vllm:spec_decode_num_drafts``, ``..._draft_tokens``,
``..._accepted_tokens`` and ``..._accepted_tokens_per_pos``. Where ``vllm:generation_tokens`` grew by
just the reply's tokens, nobody else was answered, and the counts are its own.
SGLang (0.5.16; ``meta_info`` is refused in streams): ``avg_spec_accept_length`` of
``/server_info``, a mean since the server's start.
TensorRT-LLM (1.3; its iteration statistics): ``specDecodingStats`` of ``/metrics``, which tells each
iteration once, to whoever asks first.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from prometheus_client.parser import text_string_to_metric_families

from engine.events import Counted
from engine.remote.connection import Client
from engine.remote.kinds import SGLANG_INFO, Kind
from engine.remote.reply_usage import whole

_ATTEMPTS, _DELAY_S = 10, 0.05
"""Attempts to read vLLM's counters after a reply, and the delay between them: they may be a step late."""


class ServerMetrics(Protocol):
    """Draft counts of one reply, from what the metrics grew by."""

    async def before(self) -> None:
        """Read the metrics before the request is sent."""

    async def after(self, usage: Counted) -> Counted:
        """Return ``usage`` with what the metrics add, after the reply has ended."""


class NoMetrics:
    """For a server without metrics, or with all counts in the reply."""

    async def before(self) -> None: ...

    async def after(self, usage: Counted) -> Counted:
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
            return NoMetrics()


_DRAFTS, _DRAFTED = "vllm:spec_decode_num_drafts", "vllm:spec_decode_num_draft_tokens"
_ACCEPTED = "vllm:spec_decode_num_accepted_tokens"
_AT, _GENERATED = f"{_ACCEPTED}_per_pos", "vllm:generation_tokens"
_READ = ("vllm:spec_decode_num_", _GENERATED)

Counts = Mapping[str, float]


class VllmMetrics:
    """Prometheus counters, summed over the engines behind one address."""

    def __init__(self, client: Client, model: str) -> None:
        self._client, self._model = client, model
        self._before: Counts = {}

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
            grown = {name: int(now[name] - self._before.get(name, 0)) for name in now}
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

    async def _read(self) -> Counts:
        answer = await self._client.find("/metrics")
        if answer is None:
            return {}
        lines = (line for line in answer.text.splitlines() if line.startswith(_READ))
        return vllm_counts("\n".join(lines), self._model)


def vllm_counts(page: str, model: str) -> Counts:
    """Return one model's counters in lines of ``/metrics``; those by position as ``NAME#POSITION``."""
    counts: Counter[str] = Counter()
    for family in text_string_to_metric_families(page + "\n"):
        for sample in family.samples:
            if sample.labels.get("model_name", model) != model:
                continue
            name = sample.name.removesuffix("_total")
            if name == _AT:
                name = f"{_AT}#{sample.labels.get('position', 0)}"
            if not name.endswith("_created"):
                counts[name] += int(sample.value)
    return counts


class SglangMetrics:
    """A mean over all requests since the start, marked as ``shared``."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def before(self) -> None: ...

    async def after(self, usage: Counted) -> Counted:
        told = await self._client.find_json(*SGLANG_INFO)
        states: Any = told.get("internal_states") if isinstance(told, dict) else None
        means = [
            state["avg_spec_accept_length"]
            for state in states or ()
            if isinstance(state, dict)
            and isinstance(state.get("avg_spec_accept_length"), int | float)
        ]
        if not means or not any(means):
            return usage
        return replace(usage, acceptance_length=sum(means) / len(means), shared=True)


class TensorrtMetrics:
    """The iterations since the last read; ``before`` discards older ones."""

    def __init__(self, client: Client) -> None:
        self._client = client

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
