"""What servers count of everyone: read before a reply and behind it, where the reply itself tells less.

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

_LOOKS, _LOOK_S = 10, 0.05
"""How often vLLM's counters are read behind a reply: they may be a step late."""


class ServerMetrics(Protocol):
    """A server's own, around one reply."""

    async def before(self) -> None:
        """A reply is about to be asked for."""

    async def behind(self, found: Counted) -> Counted:
        """``found`` with what the counters add, once the reply is whole."""


class NoMetrics:
    """Of a server that has none, or tells all within the reply."""

    async def before(self) -> None: ...

    async def behind(self, found: Counted) -> Counted:
        return found


def metrics_of(client: Client, kind: Kind, model: str) -> ServerMetrics:
    """For one reply of a server."""
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

    async def behind(self, found: Counted) -> Counted:
        if found.drafted is not None or _DRAFTS not in self._before:
            return found  # it was told, or nothing is drafted there
        own = found.completion_tokens or 0
        for look in range(_LOOKS):
            if look:
                await asyncio.sleep(_LOOK_S)
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
            found,
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
    """The counters in some lines of ``/metrics``, of one model; those by position as
    ``NAME#POSITION``."""
    found: Counter[str] = Counter()
    for family in text_string_to_metric_families(page + "\n"):
        for sample in family.samples:
            if sample.labels.get("model_name", model) != model:
                continue
            name = sample.name.removesuffix("_total")
            if name == _AT:
                name = f"{_AT}#{sample.labels.get('position', 0)}"
            if not name.endswith("_created"):
                found[name] += int(sample.value)
    return found


class SglangMetrics:
    """A mean over everyone, and over all time: better than nothing, and said to be that."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def before(self) -> None: ...

    async def behind(self, found: Counted) -> Counted:
        told = await self._client.find_json(*SGLANG_INFO)
        states: Any = told.get("internal_states") if isinstance(told, dict) else None
        means = [
            state["avg_spec_accept_length"]
            for state in states or ()
            if isinstance(state, dict)
            and isinstance(state.get("avg_spec_accept_length"), int | float)
        ]
        if not means or not any(means):
            return found
        return replace(found, acceptance_length=sum(means) / len(means), shared=True)


class TensorrtMetrics:
    """The iterations since somebody last asked: what is older is asked for and forgotten first."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def before(self) -> None:
        await self._client.find("/metrics")

    async def behind(self, found: Counted) -> Counted:
        told = await self._client.find_json("/metrics")
        stats = [
            each["specDecodingStats"]
            for each in (told if isinstance(told, list) else ())
            if isinstance(each, dict) and isinstance(each.get("specDecodingStats"), dict)
        ]
        drafted = sum(whole(each.get("numDraftTokens")) or 0 for each in stats)
        if not drafted:
            return found
        accepted = sum(whole(each.get("numAcceptedTokens")) or 0 for each in stats)
        # Every iteration counts each request that drafted once: as many rounds.
        rounds = sum(whole(each.get("numRequestsWithDraftTokens")) or 0 for each in stats)
        return replace(found, drafted=drafted, accepted=accepted, rounds=rounds, shared=True)
