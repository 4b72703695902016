"""A compiled step that fails its trial with a format is not planned with, and the page says why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from engine.backends.native import support
from engine.errors import InvalidRequest
from engine.loading.catalog import Catalog
from engine.loading.files import fetch_pair
from engine.loading.planning.plan import LoadPlan, plan_loading
from engine.loading.request import LoadRequest
from engine.local.engine import LocalEngine
from tests.support.checkpoints import write_random
from tests.support.gguf_files import all_in, write_gguf
from tests.support.loading import request_for

pytestmark = pytest.mark.usefixtures("library")

Distrust = Callable[[str], None]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A target and a draft as GGUF files in four bits."""
    root, found = tmp_path_factory.mktemp("trial"), []
    for name, layers in (("big", 2), ("small", 1)):
        write_random(
            root / name, hidden_size=64, head_dim=16, intermediate_size=96, num_hidden_layers=layers
        )
        found.append(write_gguf(root / name, root / f"{name}.gguf", all_in("Q4_0")))
    return found[0], found[1]


@pytest.fixture
def distrust(monkeypatch: pytest.MonkeyPatch) -> Distrust:
    """Makes the compiled step fail its trial with weights in this format."""
    return lambda failed: monkeypatch.setattr(support, "passes", lambda _, each: each != failed)


@pytest.fixture
def engine() -> Iterator[LocalEngine]:
    with closing(LocalEngine()) as made:
        yield made


def planned(request: LoadRequest) -> LoadPlan:
    return plan_loading(fetch_pair(request, Catalog((), ()), None), request)


def plan_of(engine: LocalEngine) -> LoadPlan:
    assert engine._pair is not None
    return engine._pair.plan


def test_auto_takes_what_can_be_trusted_and_plans_with_it(
    engine: LocalEngine, files: tuple[Path, Path], distrust: Distrust
) -> None:
    """It became int8 without a word: the plan's memory and notes stayed those of the file's blocks."""
    request = request_for(files[0])
    before = planned(request)
    distrust("q4_0")
    loaded = engine.load(request)
    plan = plan_of(engine)
    assert (before.target.quantization, loaded.quantization) == ("stored", "int8")
    assert plan.target.quantization == "int8" and loaded.compiled
    alone = planned(replace(request, quantization="int8"))
    assert plan.footprint == alone.footprint and plan.memory_fit.needed == alone.memory_fit.needed
    assert plan.footprint["target"] > before.footprint["target"]
    told = " ".join(loaded.notes)
    assert "weights directly" not in told and "rounded to int8" in told


def test_what_was_asked_for_by_name_is_refused_with_the_reason_and_the_old_pair_stays(
    engine: LocalEngine, files: tuple[Path, Path], distrust: Distrust
) -> None:
    loaded = engine.load(request_for(files[1]))
    distrust("q4_0")
    with pytest.raises(InvalidRequest, match="results for q4_0 weights depend on the batch"):
        engine.load(request_for(files[0], quantization="stored"))
    assert engine.loaded is loaded
