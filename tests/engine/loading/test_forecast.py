"""What a pair would take, before it is loaded: as loading reckons it, and by the catalog elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import ModelError
from engine.loading.catalog import load_catalog, local_spec
from engine.loading.files import PairFiles, fetch_pair
from engine.loading.planning import choices
from engine.loading.planning import forecast as forecasts
from engine.loading.planning.fit import DEFAULT_CONTEXT
from engine.loading.planning.forecast import estimate, forecast
from engine.loading.planning.plan import plan_loading, read_facts
from engine.loading.request import LoadRequest
from engine.loading.specs import ModelSpec, Pairing
from engine.values import MAX_ROWS, RECENT_ROWS
from tests.support.checkpoints import write_random
from tests.support.places import ROOT


def nowhere(spec: ModelSpec) -> Path | None:
    return spec.path


def test_a_pair_that_is_here_is_reckoned_as_loading_reckons_it() -> None:
    catalog, request = load_catalog(ROOT / "model_catalog.yaml"), LoadRequest(target="pip")
    plan = plan_loading(fetch_pair(request, catalog, None), request)
    found = forecast(catalog.pair("pip"), request, nowhere)
    assert found.roles == ("target", "draft", "medusa", "eagle3", "mlp", "lstm", "block")
    titles = (
        "Pip, Pip's draft, Medusa heads, EAGLE-3 head, MLP speculator, LSTM speculator and Block"
    )
    assert found.sentence.startswith(titles)
    assert (found.quantization, found.context) == (plan.target.quantization, plan.context_limit)
    assert (found.memory_fit.weights, found.memory_fit.kv) == (
        plan.memory_fit.weights,
        plan.memory_fit.kv,
    )
    parts = sum(model.weights + model.kv for model in found.memory_fit.models)
    assert parts + found.memory_fit.work == found.memory_fit.needed


def test_less_context_takes_less_and_only_of_the_caches() -> None:
    catalog, request = load_catalog(ROOT / "model_catalog.yaml"), LoadRequest(target="pip")
    whole, half = (forecast(catalog.pair("pip"), request, nowhere, n) for n in (10**9, 512))
    assert (whole.context, half.context) == (whole.longest, 512)
    assert half.memory_fit.weights == whole.memory_fit.weights
    assert half.memory_fit.kv * whole.context == whole.memory_fit.kv * 512


def test_what_is_not_here_is_reckoned_by_the_catalog_or_not_at_all() -> None:
    catalog = load_catalog(ROOT / "model_catalog.yaml")
    request = LoadRequest(target="qwen3-8b", quantization="bf16")
    found = forecast(catalog.pair("qwen3-8b"), request, nowhere)
    assert (found.roles, found.quantization) == (("target", "draft"), "bf16")
    assert (found.context, found.longest) == (DEFAULT_CONTEXT, 40_960)
    assert found.memory_fit.models[0].weights == 2 * catalog.model("qwen3-8b").parameters
    ghost = Pairing(name="Ghost", target=ModelSpec(id="g", name="Ghost", repository="a/b"))
    with pytest.raises(ModelError, match="Download it first"):
        forecast(ghost, LoadRequest(target="g"), nowhere)


def test_states_and_the_drafter_that_comes_along_count_before_a_download() -> None:
    """Only keys and values did: of Qwen3.5 27B, 48 of 64 layers keep a state instead."""
    catalog = load_catalog(ROOT / "model_catalog.yaml")
    hybrid, context = catalog.model("qwen3.5-27b"), 4096
    found, none = (
        estimate([hybrid], context, request=LoadRequest(target="", checkpoint_mb=mb))
        for mb in (256, 0)
    )
    assert found.roles == ("target", "mtp")
    states = 48 * 4 * (2 * 48 * 128 * 128 + (RECENT_ROWS + MAX_ROWS) * (10240 + 2 * 48))
    numbers = context * (16 * 2 * 4 * 256 + 5120)  # keys and values, and what the MTP layer reads
    assert [one.memory_fit.models[0].saved for one in (found, none)] == [256 << 20, 0]
    assert none.memory_fit.models[0].kv - states in (2 * numbers, 4 * numbers)
    assert found.memory_fit.kv - none.memory_fit.kv == 256 << 20
    llama = catalog.model("llama-3.1-8b")
    _, head = estimate([llama, *llama.companions], context).memory_fit.models
    assert (head.weights, head.kv) != (0, 0)


GB = 1_000_000_000


@pytest.mark.parametrize(
    ("free", "held", "fits"),
    [(60, "bf16", True), (14.3, "int8", True), (8, "q4", True), (4, "q4", False)],
)
def test_a_model_fits_in_what_auto_would_hold_it_in(
    free: float, held: str, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Qwen3 8B was reckoned in 16 bits alone: "The weights alone do not fit" where four bits did."""
    monkeypatch.setattr(forecasts.processor, "instructions", lambda: ("avx512bw",))
    catalog = load_catalog(ROOT / "model_catalog.yaml")
    found = estimate([catalog.model("qwen3-8b:safetensors")], free=int(free * GB))
    assert (found.quantization, found.memory_fit.context > 0) == (held, fits)
    assert ("The weights alone do not fit" in found.memory_fit.sentence) is not fits


def test_no_advice_to_leave_the_draft_out_where_the_target_alone_does_not_fit() -> None:
    catalog = load_catalog(ROOT / "model_catalog.yaml")
    pair = [catalog.model("qwen3-8b"), catalog.model("qwen3-0.6b")]
    assert "without a draft" not in estimate(pair, free=4 * GB).memory_fit.sentence
    assert "without a draft" in estimate(pair, free=8 * GB).memory_fit.sentence


def test_the_verdict_by_sizes_is_what_loading_does_with_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the same model, in as much memory as each way to hold it takes."""
    monkeypatch.setattr(choices, "SMALL", 0)
    monkeypatch.setattr(forecasts, "SMALL", 0)
    write_random(tmp_path, hidden_size=256, intermediate_size=1024, num_hidden_layers=6)
    spec, request = local_spec(tmp_path), LoadRequest(target=str(tmp_path))
    files = PairFiles(Pairing(name="", target=spec), tmp_path, None)
    held = set()
    for free in range(300_500_000, 330_000_000, 1_500_000):
        monkeypatch.setattr("engine.machine.memory.free_bytes", lambda free=free: free)
        told, done = estimate([spec]), read_facts(files, request)
        room = done.memory_fit()
        if not told.memory_fit.context or not room.context:
            continue  # nothing is loaded, whatever it would be held in
        assert told.quantization == done.planned.quantization.replace("nf4", "q4")
        assert told.memory_fit.weights == pytest.approx(room.weights, rel=0.05, abs=300_000)
        held.add(told.quantization)
    assert len(held) >= 2
