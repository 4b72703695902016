"""What a pair would take, before it is loaded: as loading reckons it, and by the catalog elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import ModelError
from engine.loading.catalog import load_catalog
from engine.loading.files import fetch_pair
from engine.loading.fit import LONGEST_CONTEXT
from engine.loading.forecast import forecast
from engine.loading.plan import plan_loading
from engine.loading.request import LoadRequest
from engine.loading.specs import ModelSpec, Pairing
from tests.support.places import ROOT


def nowhere(spec: ModelSpec) -> Path | None:
    return spec.path


def test_a_pair_that_is_here_is_reckoned_as_loading_reckons_it() -> None:
    catalog, request = load_catalog(ROOT / "model_catalog.yaml"), LoadRequest(target="pip")
    plan = plan_loading(fetch_pair(request, catalog, None), request)
    found = forecast(catalog.pair("pip"), request, nowhere)
    assert found.roles == ("target", "draft", "medusa", "eagle3", "mlp", "lstm", "block")
    assert (found.held, found.context) == (plan.target.quantization, plan.wanted)
    assert (found.room.weights, found.room.kv) == (plan.room.weights, plan.room.kv)
    parts = sum(model.weights + model.kv for model in found.room.models)
    assert parts + found.room.work == found.room.needed


def test_less_context_takes_less_and_only_of_the_caches() -> None:
    catalog, request = load_catalog(ROOT / "model_catalog.yaml"), LoadRequest(target="pip")
    whole, half = (forecast(catalog.pair("pip"), request, nowhere, n) for n in (10**9, 512))
    assert (whole.context, half.context) == (whole.longest, 512)
    assert half.room.weights == whole.room.weights
    assert half.room.kv * whole.context == whole.room.kv * 512


def test_what_is_not_here_is_reckoned_by_the_catalog_or_not_at_all() -> None:
    catalog = load_catalog(ROOT / "model_catalog.yaml")
    found = forecast(catalog.pair("qwen3-8b"), LoadRequest(target="qwen3-8b"), nowhere)
    assert (found.roles, found.held, found.longest) == (("target", "draft"), "", LONGEST_CONTEXT)
    assert found.room.models[0].weights == 2 * catalog.model("qwen3-8b").parameters
    ghost = Pairing(name="Ghost", target=ModelSpec(id="g", name="Ghost", repository="a/b"))
    with pytest.raises(ModelError, match="Download it first"):
        forecast(ghost, LoadRequest(target="g"), nowhere)
