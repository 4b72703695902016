"""What a running server measured: acceptance and step time, to plan again with (``plan --from``).

Read from the Prometheus metrics of vLLM and of Foretoken, which uses vLLM's names
(``vllm:spec_decode_*``, ``vllm:request_time_per_output_token_seconds``), and of SGLang
(``sglang:spec_accept_length``, with --enable-metrics); all since the server's start. What is another
model's or method's is refused, and what is not used is said.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from app.deploy.methods import CAN, METHODS, NAMES, NONE, SGLANG, VLLM
from app.deploy.planning import make_plan
from app.deploy.request import Plan, PlanRequest
from app.deploy.tables import refusal
from engine.errors import InvalidRequest
from engine.files import parse_json
from engine.machine.event_loop import Loop

LARGEST = 8 << 20
"""Bytes of an answer."""
TIMEOUT_S = 10.0
"""Of a whole answer: a server could send a byte now and then for ever."""
_PREFIXES = ("vllm:", "sglang:")
_MEANS = ("sglang:spec_accept_length", "sglang:spec_num_draft_tokens")
"""Gauges that each rank has one of."""
Figures = Mapping[str, float]


def figures_of(page: str) -> Figures:
    """Return the sums over all labels, by name without ``_total``; empty for another server's page."""
    sums: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    lines = (line for line in page.splitlines() if line.startswith(_PREFIXES))
    try:
        for family in text_string_to_metric_families("\n".join(lines) + "\n"):
            for sample in family.samples:
                if not sample.name.endswith(("_bucket", "_created")):
                    name = sample.name.removesuffix("_total")
                    sums[name] += sample.value  # type: ignore[assignment]
                    counts[name] += 1
    except ValueError:
        return {}
    return {name: sum / counts[name] if name in _MEANS else sum for name, sum in sums.items()}


def read(address: str, key: str | None) -> bytes:
    """Return what ``address`` answers. Raises InvalidRequest with what to do."""
    loop = Loop("figures of a server")
    try:
        return loop.start(_read(address, key)).result(TIMEOUT_S)
    except TimeoutError as error:
        raise refusal("from", "slow", address=address, seconds=TIMEOUT_S) from error
    finally:
        loop.close()


async def _read(address: str, key: str | None) -> bytes:
    # Uncompressed, because a compressed answer may be a thousand times larger than its bytes.
    headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {key}"} if key else {})
    try:
        async with (
            httpx2.AsyncClient(timeout=TIMEOUT_S) as client,
            client.stream("GET", address, headers=headers) as answer,
        ):
            if answer.status_code in (401, 403):
                raise refusal("from", "key", address=address, which="another" if key else "a")
            if answer.status_code == 404:
                raise refusal("from", "no-figures", address=address)
            answer.raise_for_status()
            content = b""
            async for part in answer.aiter_raw():
                content += part
                if len(content) > LARGEST:
                    raise refusal("from", "large", address=address, most=LARGEST)
            return content
    except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as error:  # of a key, too
        why = str(error).split("\n", 1)[0]  # a link to a page about the status follows
        raise refusal("from", "unreadable", address=address, error=why) from error


def model_of(base: str, key: str | None) -> Mapping[str, Any]:
    """Return what the server lists of its first model that is loaded, empty if it lists none."""
    models = _json(f"{base}/v1/models", key).get("data")
    models = [each for each in models or () if isinstance(each, Mapping)]
    return next((each for each in models if each.get("loaded", True)), {})


def _json(address: str, key: str | None) -> Mapping[str, Any]:
    """Return the object that ``address`` answers with, empty if there is none."""
    try:
        found = parse_json(read(address, key))
    except (InvalidRequest, ValueError):
        return {}
    return found if isinstance(found, Mapping) else {}


FEWEST, FEWEST_TIMES = 200, 20
"""Rounds, and replies' times per token, from which figures are used."""
_TIMES = ("vllm:request_time_per_output_token_seconds", "sglang:inter_token_latency_seconds")
"""Per token. vLLM's inter_token_latency_seconds are per step, of several tokens (v1/metrics/stats.py)."""
MOST_DRAFTED = 1024
"""Tokens of a round: no server drafts more."""
BELIEVED = 4.0
"""A step that takes more times as long as estimated, or as short, is of other hardware or another load:
no published run is half as far off."""
FORETOKEN = "foretoken"
_SPELT = {"draft": "draft_model", "assistant": "mtp", "block": "", "none": ""}
"""Foretoken's names of methods where they are others; a block drafter is one of two kinds."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures of a server at ``address`` that serves ``model``. ``tokens``: of a round, on average, with
    ``depth`` drafted ones; ``itl``: seconds between tokens; ``users``: answered now. 0 where unknown, and
    ``engine``, ``method`` and ``hardware`` are empty where the server does not tell them."""

    address: str
    model: str
    tokens: float
    depth: float
    itl: float
    users: int
    engine: str = ""
    method: str = ""
    hardware: str = ""

    @property
    def acceptance(self) -> float | None:
        """The acceptance, the same at each position, that gives as many tokens a round; None without
        drafts."""
        if self.depth < 1 or self.tokens < 1:
            return None
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            reached = sum(middle**position for position in range(round(self.depth) + 1))
            low, high = (middle, high) if reached < self.tokens else (low, middle)
        return round((low + high) / 2, 3)

    def __str__(self) -> str:
        engine = {FORETOKEN: "Foretoken", **NAMES}.get(
            self.engine, "an engine that it does not tell"
        )
        drafts = "no drafts counted"
        if self.depth:
            method = METHODS[self.method].title if self.method in METHODS else self.method
            drafts = (
                f"{method or 'a drafting method that it does not tell'} with {self.depth:.1f} drafted "
                f"tokens per round, {self.tokens:.2f} tokens per round"
            )
        time = "no times counted"
        if self.itl:
            time = f"{self.itl * 1000:.1f} ms between tokens, {self.users} running now"
        return (
            f"Measured at {self.address}: {engine}, {self.model or 'a model that it does not tell'}, "
            f"{drafts}, {time}, on {self.hardware or 'hardware that it does not tell'}."
        )


def measured(address: str, key: str | None = None) -> Measured:
    """Return what the server at ``address`` has measured. Raises InvalidRequest with what to do."""
    base = address.rstrip("/").removesuffix("/v1")
    if not base.startswith(("http://", "https://")):
        raise refusal("from", "no-address", address=address)
    figures = figures_of(read(f"{base}/metrics", key).decode("utf-8", "replace"))
    if not figures:
        raise refusal("from", "no-figures", address=f"{base}/metrics")
    found = _described(of_figures(base, figures), key)
    if not (found.tokens or found.itl):
        raise refusal("from", "few-figures", base=base, rounds=FEWEST, times=FEWEST_TIMES)
    return found


def of_figures(base: str, figures: Figures) -> Measured:
    """Return the figures in the metrics. Raises InvalidRequest for counts that cannot be."""
    rounds = figures.get("vllm:spec_decode_num_drafts", 0.0)
    tokens = depth = itl = 0.0
    if rounds >= FEWEST or math.isnan(rounds):
        tokens = 1 + figures.get("vllm:spec_decode_num_accepted_tokens", 0.0) / rounds
        depth = figures.get("vllm:spec_decode_num_draft_tokens", 0.0) / rounds
    elif figures.get("sglang:spec_accept_length"):
        tokens = figures["sglang:spec_accept_length"]
        depth = figures.get("sglang:spec_num_draft_tokens", 1.0) - 1
    for name in _TIMES:
        count = figures.get(f"{name}_count", 0.0)
        if count >= FEWEST_TIMES:
            itl = figures.get(f"{name}_sum", 0.0) / count
    users = figures.get("vllm:num_requests_running", figures.get("sglang:num_running_reqs", 0.0))
    can_be = 0 <= depth <= MOST_DRAFTED and (not tokens or 1 <= tokens <= depth + 1)
    if not (can_be and 0 <= itl < math.inf and 0 <= users < math.inf):
        raise refusal(
            "from", "wrong-figures", base=base, tokens=tokens, depth=depth, itl=itl, users=users
        )
    engine = SGLANG if any(name.startswith("sglang:") for name in figures) else ""
    engine = VLLM if "vllm:cache_config_info" in figures else engine  # Foretoken has no such series
    return Measured(base, "", tokens, depth, itl, int(users), engine)


def _described(found: Measured, key: str | None) -> Measured:
    """Return the figures with what the server says of itself."""
    model = model_of(found.address, key)
    name = str(model.get("root") or model.get("target") or model.get("id") or "")
    if model.get("owned_by") == FORETOKEN:
        default = model.get("default")
        proposer = str(default.get("proposer") or "") if isinstance(default, dict) else ""
        method = _SPELT.get(proposer, proposer)
        hardware = str(model.get("device") or "")
        return replace(found, model=name, engine=FORETOKEN, method=method, hardware=hardware)
    if found.engine == SGLANG:
        told = _json(f"{found.address}/server_info", key)  # the options that it was started with
        named = {theirs: ours for ours, theirs in CAN[SGLANG].items()}
        algorithm = str(told.get("speculative_algorithm") or "")
        # It calls NEXTN and EAGLE the same once it has started.
        method = "" if algorithm in ("EAGLE", "NEXTN") else named.get(algorithm, "")
        return replace(found, model=str(told.get("model_path") or name), method=method)
    return replace(found, model=name)


def replan(request: PlanRequest, found: Measured) -> Plan:
    """Return the plan with the server's acceptance, if both draft, and with steps as long as its own.
    Raises InvalidRequest if it drafts by another method."""
    if found.depth and request.method != NONE and found.method not in ("", request.method):
        choice = found.method if found.method in METHODS else NONE
        raise refusal("method", "other-method", found=found, request=request, choice=choice)
    told = [*request.told, str(found)]
    why_not = None
    if found.acceptance is None:
        why_not = "it has counted no drafts" if request.method != NONE else None
    elif request.method == NONE:
        why_not = "the plan drafts nothing"
    elif request.acceptance is not None:
        why_not = f"{request.acceptance:g} was given"
    else:
        source = f"measured at {found.address}"
        request = replace(request, acceptance=found.acceptance, acceptance_from=source)
    if why_not:
        told.append(f"The acceptance of {found.address} is not used: {why_not}.")
    factor, why_not = (
        _factor(request, found) if found.itl else (None, "too few replies are counted")
    )
    if why_not:
        told.append(f"The step time of {found.address} is not used: {why_not}.")
    return make_plan(replace(request, measured=factor, told=tuple(told)))


def _factor(request: PlanRequest, found: Measured) -> tuple[float | None, str]:
    """Return how many times as long as estimated the server's steps are, or why that is not known."""
    if found.engine != request.computes:
        theirs = {FORETOKEN: "Foretoken's", "": "of an engine that it does not tell"}
        whose = theirs.get(found.engine) or f"{NAMES[found.engine]}'s"
        return None, f"it is {whose}, and the plan is for {NAMES[request.computes]}"
    if found.depth and request.method == NONE:
        return None, "it is one with drafts, and the plan drafts nothing"
    # The same formula at the server's own load says how long its steps would be.
    plan = make_plan(replace(request, targets=None))
    users, depth = found.users or plan.sequences, round(found.depth)
    expected = plan.setup.round_seconds(users, depth) / max(1.0, found.tokens)
    factor = found.itl / expected
    if not 1 / BELIEVED <= factor <= BELIEVED:
        return None, (
            f"it is {factor:.3g} times the estimate for {request.gpus.kind.name} and "
            f"{users} at once, so that its hardware, or its load over time, is another"
        )
    return factor, ""
