"""A compiled step that proves of no use once weights are there: the plan is made anew, and says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.backends.native.decoder import NativeDecoder
from engine.errors import OutOfMemory
from engine.loading.catalog import Catalog
from engine.loading.files import fetch_pair
from engine.loading.planning.plan import LoadPlan, plan_loading
from engine.loading.request import LoadRequest
from engine.local.engine import LocalEngine
from tests.support.checkpoints import write_random
from tests.support.gguf_files import all_in, write_gguf
from tests.support.loading import request_for

pytestmark = pytest.mark.usefixtures("library")

Distrust = Callable[..., None]


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
    """Makes the compiled step of models of these names fail its trial."""
    forward = NativeDecoder.forward

    def careless(self: NativeDecoder, tokens: Any, cache: Any, *, last: int) -> torch.Tensor:
        off = 1e-6 * len(tokens) if self.info.name in names else 0
        return forward(self, tokens, cache, last=last) + off

    names: set[str] = set()
    monkeypatch.setattr(NativeDecoder, "forward", careless)
    return names.add


@pytest.fixture
def engine() -> Iterator[LocalEngine]:
    with closing(LocalEngine()) as made:
        yield made


def planned(request: LoadRequest) -> LoadPlan:
    return plan_loading(fetch_pair(request, Catalog((), ()), None), request)


def plan_of(engine: LocalEngine) -> LoadPlan:
    assert engine._pair is not None
    return engine._pair.plan


@pytest.mark.parametrize("asked", ["auto", "stored"])
def test_the_plan_is_what_is_loaded(
    engine: LocalEngine, files: tuple[Path, Path], distrust: Distrust, asked: str
) -> None:
    """It became int8 without a word: the plan's memory and notes stayed those of the file's blocks."""
    request = request_for(files[0], quantization=asked)
    before = planned(request)
    distrust("big")
    loaded = engine.load(request)
    plan = plan_of(engine)
    assert (before.target.quantization, loaded.quantization) == ("stored", "int8")
    assert plan.target.quantization == "int8" and not loaded.compiled
    assert not plan.waits_for_native
    alone = planned(replace(request, native=False, quantization="int8"))
    assert plan.footprint == alone.footprint and plan.room.needed == alone.room.needed
    assert plan.footprint["target"] > before.footprint["target"]
    told = " ".join(loaded.notes)
    assert "as the file has them" not in told
    assert "rounded again to int8" in told
    assert "big gives a token other numbers when others stand beside it" in told
    assert "held in int8. Choose fp32" in told


def test_a_draft_alone_may_have_to_do_without_it(
    engine: LocalEngine, files: tuple[Path, Path], distrust: Distrust
) -> None:
    before = planned(request_for(*files))
    distrust("small")
    loaded = engine.load(request_for(*files))
    plan = plan_of(engine)
    assert loaded.compiled and plan.target == before.target
    assert plan.draft is not None and plan.draft.library is None
    assert plan.draft.quantization == "int8"
    assert plan.footprint["target"] == before.footprint["target"]
    assert plan.footprint["draft"] > before.footprint["draft"]
    (note,) = (note for note in loaded.notes if "other numbers" in note)
    assert "small" in note and "fp32" not in note


def test_what_does_not_fit_then_is_refused_and_the_old_pair_stays(
    engine: LocalEngine,
    files: tuple[Path, Path],
    distrust: Distrust,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded = engine.load(request_for(files[1]))
    distrust("big")
    needed = planned(request_for(files[0])).room.needed
    monkeypatch.setattr("engine.loading.planning.fit.free_bytes", lambda: needed)
    with pytest.raises(OutOfMemory, match="big needs"):
        engine.load(request_for(files[0]))
    assert engine.loaded is loaded
