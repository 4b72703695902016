"""What is planned of a request: as asked for, else as the catalog prefers, and where."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.backends.native import build
from engine.backends.native.decoder import NativeDecoder
from engine.backends.torch.decoder import TorchDecoder
from engine.errors import InvalidRequest
from engine.kernels.formats.block_formats import DRAFT_FORMAT
from engine.kernels.native.library import Library
from engine.loading.catalog import Catalog
from engine.loading.files import fetch_pair
from engine.loading.loader import load_planned
from engine.loading.planning.choices import Backend
from engine.loading.planning.model_plan import plan_model
from engine.loading.planning.plan import LoadPlan, plan_loading
from engine.loading.request import LoadRequest
from engine.loading.specs import ModelSpec, Pairing
from engine.machine import threads
from engine.machine.devices import Device
from engine.models.checkpoints.checkpoint import inspect
from tests.support.checkpoints import write_random
from tests.support.compilers import hide_compilers, write_program
from tests.support.loading import request_for
from tests.support.places import PIP

SMALL = LoadRequest(target="small")


def planned(request: LoadRequest, **preferred: str) -> LoadPlan:
    """``preferred``: what the catalog says of its only model, beside its ``folder``."""
    pairs: tuple[Pairing, ...] = ()
    if preferred:
        spec = ModelSpec(id="small", name="Small", path=Path(preferred.pop("folder")), **preferred)  # type: ignore[arg-type]
        pairs = (Pairing(id="small", name="Small", target=spec),)
    catalog = Catalog(tuple(pair.target for pair in pairs), pairs)
    return plan_loading(fetch_pair(request, catalog, None), request)


def test_the_catalog_may_say_how_a_model_is_loaded(pair: tuple[Path, Path]) -> None:
    """Unless somebody asks for another quantisation."""
    wide = LoadRequest(target="small", quantization="fp32")
    assert planned(SMALL, folder=str(pair[0]), quantization="int8").target.quantization == "int8"
    assert planned(wide, folder=str(pair[0]), quantization="int8").target.quantization == "fp32"


def test_a_cache_that_the_catalog_wants_narrow_is_so_where_the_machine_has_it(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One catalog serves all machines; who asks for it himself is told why not."""
    narrow = {"folder": str(pair[0]), "kv_cache_dtype": "fp8"}
    assert planned(SMALL, **narrow).target.kv_cache_dtype == "auto"
    with pytest.raises(InvalidRequest, match="model runs on the CPU"):
        planned(LoadRequest(target="small", kv_cache_dtype="fp8"), **narrow)
    monkeypatch.setattr("engine.loading.planning.facts.why_no_fp8_cache", lambda *_: None)
    plan = planned(SMALL, **narrow)
    assert (plan.target.kv_cache_dtype, plan.target.cached) == ("fp8", "fp8")


def test_a_shorter_context_may_be_asked_for(pair: tuple[Path, Path]) -> None:
    whole, short = planned(request_for(*pair)), planned(request_for(*pair, context=64))
    assert short.draft is not None
    assert (short.target.context, short.draft.context) == (64, 64)
    assert short.footprint["target"] < whole.footprint["target"]
    assert not any("The context is" in note for note in short.notes)


def test_what_may_be_used_goes_with_the_plan(
    pair: tuple[Path, Path], pair_heads: tuple[Path, ...]
) -> None:
    plan = planned(
        request_for(*pair, pair_heads, device="cpu", native=False, cuda_graphs=False, threads=1)
    )
    for device in (plan.device, plan.target.device, plan.draft and plan.draft.device):
        assert device and device.torch_device.type == "cpu"
        assert not device.native and not device.cuda_graphs and device.threads == 1
    assert plan.sizes.linear_factory.library is None
    assert plan.footprint.keys() == {"target", "draft", *(head.kind for head in plan.heads)}


def test_weights_that_a_core_has_in_its_cache_get_one_thread(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pip's step took 20 times as long beside a program that computed, because two threads met at each
    of its 60 barriers."""
    assert planned(request_for(*pair)).device.threads == 1
    monkeypatch.setattr(threads, "_CACHED", 0)
    assert planned(request_for(*pair)).device.threads is None
    assert planned(request_for(*pair, threads=1)).device.threads == 1


def test_without_a_compiler_a_note_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the model would be compiled, that is."""

    def told(**how: object) -> bool:
        plan = planned(request_for(PIP / "draft", device="cpu", **how))
        return any("foretoken compiler --fetch" in note for note in plan.notes)

    programs = hide_compilers(monkeypatch, tmp_path)
    assert told()
    assert not told(native=False)
    write_program(programs / "c++")
    assert not told()


@pytest.mark.parametrize("then", [True, False], ids=["built meanwhile", "gone meanwhile"])
def test_a_build_between_plan_and_load_changes_no_backend(
    library: Library, monkeypatch: pytest.MonkeyPatch, then: bool
) -> None:
    """Loading once looked again, and a target that was planned for torch had a compiled draft."""
    monkeypatch.setattr(build, "ready", lambda *_: None if then else library)
    plan = plan_model(inspect(PIP / "draft"), Device(torch.device("cpu")), "fp32")
    assert plan.backend is (Backend.TORCH if then else Backend.NATIVE)
    monkeypatch.setattr(build, "ready", lambda *_: library if then else None)
    assert isinstance(load_planned(plan), TorchDecoder if then else NativeDecoder)


def test_each_model_is_planned_for_the_quickest_backend_that_runs_it(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "ready", lambda *_: library)
    cpu, gpu = Device(torch.device("cpu")), Device(torch.device("cuda"), kernels=True)

    def backend(device: Device, dtype: str, folder: Path = PIP / "draft") -> Backend:
        return plan_model(inspect(folder), device, dtype).backend

    assert backend(cpu, "fp32") is Backend.NATIVE
    assert backend(replace(cpu, native=False), "fp32") is Backend.TORCH
    assert backend(gpu, "bf16") is Backend.CUDA
    assert backend(gpu, "fp32") is Backend.TORCH
    write_random(tmp_path)
    file = tmp_path / "config.json"
    file.write_text(
        json.dumps({**json.loads(file.read_text()), "architectures": ["GPT2LMHeadModel"]})
    )
    assert backend(cpu, "fp32", tmp_path) is Backend.TRANSFORMERS
    assert backend(gpu, "bf16", tmp_path) is Backend.TRANSFORMERS


def test_a_large_draft_alone_is_rounded_further(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its words are proposals; the target keeps the bits that it has alone."""
    monkeypatch.setattr(build, "ready", lambda *_: library)
    request = request_for(PIP / "target", PIP / "draft", device="cpu", quantization="fp32")
    small = planned(request)
    assert small.draft is not None and small.draft.rounded is None
    before = small.footprint["draft"]
    monkeypatch.setattr("engine.loading.planning.choices.SMALL", 0)
    plan = planned(request)
    assert plan.target.rounded is None and plan.draft is not None
    assert plan.draft.rounded == DRAFT_FORMAT
    wide, narrow = (load_planned(each) for each in (small.draft, plan.draft))
    tokens = list(range(8))
    ours, theirs = (m.forward(tokens, m.new_state(8), last=8) for m in (narrow, wide))
    assert 0 < torch.linalg.norm(ours - theirs) < 0.5 * torch.linalg.norm(theirs)
    assert plan.footprint["draft"] < before
