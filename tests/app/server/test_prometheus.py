"""/metrics: what requests did, under vLLM's names."""

from __future__ import annotations

from time import perf_counter

import httpx
from prometheus_client.parser import text_string_to_metric_families

from engine.events import Emitted, Started


def series(http: httpx.Client) -> dict[tuple[str, str], float]:
    """Every sample by name and by the label that tells it from its like."""
    reply = http.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain")
    found = {}
    for family in text_string_to_metric_families(reply.text):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("engine") == "0"
            assert labels.pop("model_name")
            found[sample.name, next(iter(labels.values()), "")] = sample.value
    return found


def test_what_requests_did_adds_up(server, http: httpx.Client) -> None:
    before, began = series(http), perf_counter()
    for proposer in ("ngram", "none"):
        body = {"prompt": "a b a b a b a", "max_tokens": 12, "proposer": proposer}
        assert http.post("/v1/completions", json=body | {"depth": None}).status_code == 200
    after, passed = series(http), perf_counter() - began

    def grown(name: str, label: str = "") -> float:
        return after.get((name, label), 0) - before.get((name, label), 0)

    traces = server.recorder.traces
    rounds = [e.round for trace in traces for e in trace if isinstance(e, Emitted)]
    drafted = [one for one in rounds if one.tree.tokens]
    prompts = [e.prompt_tokens for trace in traces for e in trace if isinstance(e, Started)]
    assert grown("vllm:prompt_tokens_total") == sum(map(len, prompts))
    assert grown("vllm:generation_tokens_total") == sum(one.emitted for one in rounds)
    assert grown("vllm:spec_decode_num_drafts_total") == len(drafted)
    assert grown("vllm:spec_decode_num_draft_tokens_total") == sum(len(one.tree) for one in drafted)
    accepted = [one.accepted for one in drafted]
    assert grown("vllm:spec_decode_num_accepted_tokens_total") == sum(accepted)
    for position in range(max(accepted, default=0)):
        at = grown("vllm:spec_decode_num_accepted_tokens_per_pos_total", str(position))
        assert at == sum(count > position for count in accepted)
    assert grown("vllm:request_success_total", "length") == 2
    names = ("e2e_request_latency", "time_to_first_token", "request_time_per_output_token")
    assert all(grown(f"vllm:{name}_seconds_count") == 2 for name in names)
    whole, first, each = (grown(f"vllm:{name}_seconds_sum") for name in names)
    assert 0 < first < whole < passed
    longest = max(sum(one.emitted for one in rounds), 1)
    assert (whole - first) / longest < each < whole - first
    assert after["vllm:num_requests_running", ""] == after["vllm:num_requests_waiting", ""] == 0
