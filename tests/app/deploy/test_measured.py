"""Plans by what a running server measured, and plans for a service's targets."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import brotli
import pytest

from app.cli.text.plan import plan_text
from app.deploy.gpus import parse_gpus
from app.deploy.launch_plan import acceptance_from, cost, facts, plan_for
from app.deploy.measured import (
    LARGEST,
    Measured,
    figures_of,
    measured,
    of_figures,
    replan,
)
from app.deploy.model import known_models
from app.deploy.options import PlanOptions
from app.deploy.planning import make_plan
from app.deploy.render import render
from app.deploy.request import PlanRequest, Targets
from app.deploy.support import notes
from engine.errors import InvalidRequest, OutOfMemory

VLLM = """
# TYPE vllm:spec_decode_num_drafts counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 1000.0
vllm:spec_decode_num_drafts_created{engine="0",model_name="m"} 1.7e9
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 3000.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 1200.0
# TYPE vllm:inter_token_latency_seconds histogram
vllm:inter_token_latency_seconds_bucket{le="+Inf",model_name="m"} 1000.0
vllm:inter_token_latency_seconds_sum{model_name="m"} 22.0
vllm:inter_token_latency_seconds_count{model_name="m"} 1000.0
# TYPE vllm:request_time_per_output_token_seconds histogram
vllm:request_time_per_output_token_seconds_bucket{le="+Inf",model_name="m"} 40.0
vllm:request_time_per_output_token_seconds_sum{model_name="m"} 0.4
vllm:request_time_per_output_token_seconds_count{model_name="m"} 40.0
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",engine="0"} 1.0
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="m"} 4.0
"""
"""Of vLLM 0.31.0 with three drafted tokens, 40 % of them accepted."""
SGLANG = """
sglang:spec_accept_length{model_name="m",dp_rank="0"} 2.0
sglang:spec_accept_length{model_name="m",dp_rank="1"} 3.0
sglang:spec_num_draft_tokens{model_name="m"} 4.0
sglang:num_running_reqs{model_name="m"} 2.0
"""


@contextlib.contextmanager
def server(pages: dict[str, bytes]) -> Iterator[str]:
    """The address of a server with these pages."""

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path)
            if self.headers.get("Authorization") == "Bearer wrong":
                page = None
            self.send_response(200 if page is not None else 404)
            self.end_headers()
            self.wfile.write(page or b"")

        def log_message(self, *_: object) -> None: ...

    with serving(Pages) as address:
        yield address


@contextlib.contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address of a server with this handler."""
    http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    http.daemon_threads = True
    http.block_on_close = False
    threading.Thread(target=http.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{http.server_port}"
    finally:
        http.shutdown()
        http.server_close()


def test_vllm_s_counters_say_acceptance_depth_and_step() -> None:
    found = of_figures("http://x", figures_of(VLLM))
    assert (found.tokens, found.depth, found.itl, found.users) == (2.2, 3.0, 0.01, 4)
    a = found.acceptance
    assert a is not None
    assert 1 + a + a**2 + a**3 == pytest.approx(2.2, abs=0.01)


def test_sglang_s_gauges_say_acceptance() -> None:
    found = of_figures("http://x", figures_of(SGLANG))
    assert (found.tokens, found.depth, found.users) == (2.5, 3.0, 2)
    assert found.acceptance == pytest.approx(0.72, abs=0.03)


@pytest.mark.parametrize("page", ["", "<html>", "vllm:broken{", "other_total 3"])
def test_other_pages_have_no_figures(page: str) -> None:
    assert not figures_of(page)


def asked(**more) -> PlanRequest:
    target = known_models()["llama-3.1-8b"].facts
    return PlanRequest("vllm", target, parse_gpus("1xH100"), "eagle3", **{"users": 4, **more})


def test_the_plan_is_made_with_the_server_s_acceptance_and_steps() -> None:
    """A round of a server that takes twice as long as estimated takes so in the plan too."""
    setup = make_plan(asked(acceptance=0.6)).setup
    seconds = setup.round_seconds(4, 3)
    found = Measured("http://x", "m", 2.176, 3.0, 2 * seconds / 2.176, 4, "vllm")
    plan = replan(asked(), found)
    assert plan.setup.acceptance == pytest.approx(0.6, abs=0.01)
    assert plan.request.measured == pytest.approx(2, rel=0.02)
    assert plan.setup.round_seconds(4, 3) == pytest.approx(2 * seconds, rel=0.02)
    given = replan(asked(acceptance=0.9), found)
    assert given.setup.acceptance == 0.9


def test_a_card_without_runs_has_speeds_by_its_own_server() -> None:
    request = replace(asked(quantization="fp8", context=2048), gpus=parse_gpus("1xL4"))
    assert not make_plan(request).has_ground
    plan = replan(request, Measured("http://x", "m", 2.2, 3.0, 0.05, 1, "vllm"))
    assert plan.has_ground
    assert facts(plan, render(plan))["estimate"]["by_users"]


FORETOKEN_MODELS = b"""{"data": [{"id": "other", "owned_by": "foretoken", "loaded": false}, {"id": "qwen",
"owned_by": "foretoken", "loaded": true, "target": "Qwen2.5 1.5B", "device": "cpu",
"default": {"proposer": "draft"}}]}"""


def test_what_a_foretoken_server_measured_on_a_processor_is_not_taken_for_a_gpu(
    tmp_path: Path,
) -> None:
    """Its steps were, cut to 20 times the estimate, and nothing said whose they were."""
    page = VLLM.replace("vllm:cache_config_info", "other:info").encode()
    with server({"/metrics": page, "/v1/models": FORETOKEN_MODELS}) as address:
        options = PlanOptions("llama-3.1-8b", "1xL4", method="draft_model", server=address,
                              quantization="fp8", context=2048, price=1.0)  # fmt: skip
        plan = plan_for(options, tmp_path)
        assert not plan.has_ground
        told = " ".join(notes(plan))
        assert "Foretoken, Qwen2.5 1.5B, Draft model with 3.0 drafted" in told
        assert "on cpu." in told
        assert "calls it 'Qwen2.5 1.5B'" in told
        assert "step time of" in told
        assert "Foretoken's, and the plan is for vLLM" in told
        with pytest.raises(InvalidRequest, match="drafts by draft_model, and the plan by ngram"):
            plan_for(replace(options, method="ngram"), tmp_path)
        plain = plan_for(replace(options, method="none"), tmp_path)
        assert any("plan drafts nothing" in note for note in notes(plain))


def test_a_server_s_model_that_nobody_knows_is_to_be_named(tmp_path: Path) -> None:
    with server(
        {"/metrics": VLLM.encode(), "/v1/models": b'{"data": [{"id": "mine"}]}'}
    ) as address:
        options = PlanOptions("", "1xH100", method="ngram", server=address)
        with pytest.raises(InvalidRequest, match=r"serves 'mine'.* Name the model"):
            plan_for(options, tmp_path)


def test_steps_far_from_the_estimate_are_told_and_not_used() -> None:
    plan = replan(asked(), Measured("http://x", "m", 2.2, 3.0, 1.0, 4, "vllm"))
    assert plan.request.measured is None
    assert any("times the estimate for H100 and 4 at once" in note for note in notes(plan))


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("accepted", "NaN"),
        ("draft", "-5"),
        ("accepted", "9e99"),
        ("draft", "+Inf"),
        ("draft", "9e99"),
    ],
)
def test_counters_that_cannot_be_are_refused(name: str, count: str) -> None:
    was = {"accepted": "1200.0", "draft": "3000.0"}[name]
    page = VLLM.replace(f"{name}_tokens_total{{engine=\"0\",model_name=\"m\"}} {was}",
                        f"{name}_tokens_total{{engine=\"0\",model_name=\"m\"}} {count}")  # fmt: skip
    assert page != VLLM
    with pytest.raises(InvalidRequest, match="cannot be"):
        of_figures("http://x", figures_of(page))


def test_sglang_tells_its_model_and_method() -> None:
    told = b'{"model_path": "Qwen/Qwen3-8B", "speculative_algorithm": "EAGLE3"}'
    with server({"/metrics": SGLANG.encode(), "/server_info": told}) as address:
        found = measured(address)
    assert (found.engine, found.model, found.method) == ("sglang", "Qwen/Qwen3-8B", "eagle3")


def test_a_server_that_demands_a_key_is_told_with_where_to_put_it() -> None:
    class Closed(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(401)

        def log_message(self, *_: object) -> None: ...

    with serving(Closed) as address, pytest.raises(InvalidRequest, match="API_KEY"):
        measured(address)


def test_a_server_that_sends_a_byte_now_and_then_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each byte began a new time limit; the headers too."""
    monkeypatch.setattr("app.deploy.measured.TIMEOUT_S", 0.5)
    stop = threading.Event()

    class Slow(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with contextlib.suppress(OSError):
                while not stop.wait(0.05):
                    self.wfile.write(b"H")

        def log_message(self, *_: object) -> None: ...

    with serving(Slow) as address, pytest.raises(InvalidRequest, match=r"within 0.5 seconds|read"):
        measured(address)
    stop.set()


def test_the_model_is_the_server_s_and_the_key_is_sent(tmp_path: Path) -> None:
    listed = b'{"data": [{"id": "short", "root": "meta-llama/Llama-3.1-8B-Instruct"}]}'
    with server({"/metrics": VLLM.encode(), "/v1/models": listed}) as address:
        options = PlanOptions("", "1xH100", method="eagle3", server=f"{address}/v1")
        plan = plan_for(options, tmp_path)
        assert plan.target.id == "llama-3.1-8b"
        assert plan.request.measured is not None
        assert acceptance_from(plan) == f"measured at {address}"
        told = notes(plan)[0]
        assert f"{address}: vLLM, meta-llama/Llama-3.1-8B-Instruct, a drafting method" in told
        assert "3.0 drafted tokens per round" in told
        assert "on hardware that it does not tell" in told
        with pytest.raises(InvalidRequest, match=r"serves llama-3.1-8b, and the plan is for deep"):
            plan_for(replace(options, target="deepseek-r1", gpus="8xH200"), tmp_path)
        with pytest.raises(InvalidRequest, match="has no figures"):
            plan_for(options, tmp_path, "wrong")


@pytest.mark.parametrize(
    ("pages", "says"),
    [
        ({"/metrics": b"# nothing"}, "--enable-metrics"),
        ({}, "/metrics has no figures of vLLM, SGLang or Foretoken. Turn Foretoken's API on"),
        ({"/metrics": b"x" * (LARGEST + 1)}, "more than"),
        ({"/metrics": b"vllm:spec_decode_num_drafts_total 81.0\n"}, "fewer than 200 rounds"),
    ],
)
def test_a_bad_server_is_told_with_what_to_do(pages: dict[str, bytes], says: str) -> None:
    with server(pages) as address, pytest.raises(InvalidRequest, match=says):
        measured(address)


def test_what_a_server_sends_ends_in_a_message(tmp_path: Path) -> None:
    """Each of these was a traceback; and what was packed was unpacked before it was counted."""
    counted = b"vllm:request_time_per_output_token_seconds_count 30\n"
    with server({"/metrics": counted}) as address:
        with pytest.raises(InvalidRequest, match="fewer than 200 rounds"):
            measured(address)
        with pytest.raises(InvalidRequest, match="cannot be read"):
            measured(address, "schl\u00fcssel")
    for name in ("x" * 300, "~nobody-here/x"):
        listed = json.dumps({"data": [{"id": name}]}).encode()
        with server({"/metrics": VLLM.encode(), "/v1/models": listed}) as address:
            options = PlanOptions("", "1xH100", method="eagle3", server=address)
            with pytest.raises(InvalidRequest, match="Name the model"):
                plan_for(options, tmp_path)
            with pytest.raises(InvalidRequest, match="neither a folder"):
                plan_for(replace(options, target=name), tmp_path)

    class Packed(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Encoding", "br")
            self.end_headers()
            self.wfile.write(brotli.compress(b"vllm:x 1\n" * LARGEST))

        def log_message(self, *_: object) -> None: ...

    with serving(Packed) as address, pytest.raises(InvalidRequest, match="has no figures"):
        measured(address)


def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="HOST:PORT"):
        measured("localhost")


def service(targets: Targets, gpus: str = "8xH100", **more):
    target = known_models()["llama-3.3-70b"].facts
    context = targets.isl + targets.osl
    request = PlanRequest("vllm", target, parse_gpus(gpus), quantization="fp8", context=context,
                          targets=targets, **more)  # fmt: skip
    return make_plan(request)


def test_targets_are_reached_on_the_fewest_gpus() -> None:
    easy = service(Targets(1024, 256, 1.0, 3000, 60))
    hard = service(Targets(1024, 256, 1.0, 3000, 12))
    for plan, itl in ((easy, 60), (hard, 12)):
        assert plan.service is not None
        assert plan.service.itl <= itl
        assert plan.service.rps >= 1.0
        assert plan.memory.fits
    assert easy.layout.gpus < hard.layout.gpus
    assert easy.request.users == easy.service.users  # type: ignore[union-attr]


def test_more_requests_take_more_copies() -> None:
    few, many = (service(Targets(1024, 256, rate, None, 60)) for rate in (1.0, 30.0))
    assert few.layout.gpus < many.layout.gpus
    assert many.service is not None
    assert many.service.rps >= 30.0


def test_targets_that_are_not_reached_say_what_is() -> None:
    with pytest.raises(OutOfMemory, match=r"instead of 1 ms between tokens"):
        service(Targets(1024, 256, None, None, 1))


def test_users_are_the_rate_times_the_time_of_a_request() -> None:
    """Little's law holds of what is printed: 1.10 requests/s were told beside 1.08 s for each of them."""
    for targets in (Targets(1024, 256, 1.0, 3000, 60), Targets(4000, 500, 6.0), Targets(64, 1)):
        reached = service(targets).service
        assert reached is not None
        seconds = (reached.ttft + (targets.osl - 1) * reached.itl) / 1000
        assert reached.rps == pytest.approx(reached.users / seconds, rel=0.01)


def test_a_burst_finds_room_and_longer_requests_are_told() -> None:
    """--max-num-seqs was the mean: 1 for a request in ten seconds."""
    plan = service(Targets(1024, 256, 0.1))
    assert plan.request.users == 1
    assert plan.sequences == plan.memory.users == 4
    assert "--max-num-seqs 4" in render(plan).start
    assert any("more than 1,280 tokens are refused" in note for note in notes(plan))


def test_a_price_without_speeds_is_told() -> None:
    plan = make_plan(replace(asked(context=2048, price=2.0), gpus=parse_gpus("1xMI300X")))
    assert cost(plan) is None
    assert any("price is not used" in note for note in notes(plan))


def test_lengths_alone_reach_no_target() -> None:
    for targets, told in ((Targets(64, 64), "Expected on 1 GPU with 1 request"),
                          (Targets(64, 64, itl=50.0), "Targets: reached on 1 GPU ")):  # fmt: skip
        request = replace(asked(users=1, targets=targets), method="none")
        plan = make_plan(request)
        assert told in plan_text(plan, render(plan), ())


@pytest.mark.parametrize("rate", [20.0, 60.0, 500.0])
def test_a_rate_out_of_reach_is_told_with_the_most_that_is_reached(rate: float) -> None:
    """With drafts the logits of as many requests as the cache holds had no room: a ValueError."""
    target = known_models()["llama-3.1-8b"].facts
    for method in ("none", "eagle3"):
        request = PlanRequest("vllm", target, parse_gpus("1xH100"), method, context=2300,
                              targets=Targets(2000, 300, rate))  # fmt: skip
        with pytest.raises(OutOfMemory, match=rf"1\d\.\d\d of {rate:g} requests/s"):
            make_plan(request)


def test_a_service_that_does_not_fit_is_told_with_what_would() -> None:
    """Trying shorter contexts must not try those that a request is too long for."""
    for targets in (Targets(2000, 300, 2.0), Targets(2000, 300, itl=50.0)):
        with pytest.raises(OutOfMemory, match=r"What would fit: \d+xH100"):
            service(targets, "1xH100", kv_cache_dtype="fp8", users=1000)
    with pytest.raises(OutOfMemory, match=r"a context of [23],\d+ tokens"):
        target = known_models()["llama-3.3-70b"].facts
        make_plan(PlanRequest("vllm", target, parse_gpus("2xH100"), quantization="fp8", users=60,
                              context=8192, targets=Targets(2000, 300)))  # fmt: skip


def test_a_rate_takes_more_copies_than_the_default_number_of_users() -> None:
    plan = service(Targets(256, 64, 1000.0), "64xH200")
    assert plan.layout.replicas > 8
    assert plan.memory.fits


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"rps": 5.0, "users": 4}, "The rate says how many users"),
        ({"isl": 0, "osl": 0}, "isl is 0; it must be above 0"),
        ({"isl": 200_000}, "131,072"),
        ({"backend": "sglang"}, "backend has no use: only Dynamo has one"),
    ],
)
def test_options_without_a_use_are_refused(wrong: dict, says: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=says):
        plan_for(PlanOptions("llama-3.1-8b", "1xH100", **wrong), tmp_path)


def test_targets_need_a_card_with_published_runs() -> None:
    with pytest.raises(InvalidRequest, match="not held to published runs"):
        service(Targets(1024, 256, 1.0, None, None), "8xA100")


def test_a_price_gives_the_cost_of_a_million_tokens() -> None:
    plan = service(Targets(1024, 256, 2.0, None, None), price=3.0)
    assert plan.service is not None
    assert plan.service.rps > 2.0
    an_hour = 2.0 * 256 * 3600  # what the rate brings, not what the GPU could
    expected = 3.0 * plan.layout.gpus / an_hour * 1e6
    assert cost(plan) == pytest.approx(expected)
    assert cost(service(Targets(1024, 256, 2.0, None, None))) is None


@pytest.mark.parametrize("wrong", [{"rps": -1.0}, {"ttft": 0.0}])
def test_targets_are_above_zero(wrong: dict) -> None:
    with pytest.raises(InvalidRequest, match="above 0"):
        service(replace(Targets(100, 100), **wrong))
