"""What is said of models before their download, on a machine with a GPU: what their load will do."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.kernels.native.library import Library
from engine.loading.catalog import Catalog, load_catalog, local_spec
from engine.loading.files import fetch_pair
from engine.loading.inventory import Inventory, choose_file
from engine.loading.planning import placement
from engine.loading.planning.expected import expected
from engine.loading.planning.forecast import estimate, forecast
from engine.loading.planning.plan import plan_loading
from engine.loading.request import LoadRequest
from engine.loading.specs import ModelSpec
from engine.machine import device_memory, devices, memory
from engine.machine.devices import Device
from tests.support.checkpoints import write_random
from tests.support.gguf_files import all_in, write_gguf
from tests.support.places import ROOT

GB = 1_000_000_000
CATALOG = load_catalog(ROOT / "model_catalog.yaml")
SIZES = {"hidden_size": 256, "intermediate_size": 512, "head_dim": 64, "vocab_size": 512}


class Machine:
    """A GPU with the kernels and main memory, with so many free bytes as far as planning asks."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.gpu, self.host, self.held = 10**10, 2 * 10**10, 0
        device = Device(torch.device("cuda"), kernels=True)
        patch.setattr(devices, "choose", lambda *_, **__: device)
        patch.setattr(devices, "has_driver", lambda: True)
        patch.setattr(device_memory, "gpu_free_bytes", self.free_bytes)
        patch.setattr(device_memory, "gpu_held_bytes", lambda _: self.held)
        patch.setattr(memory, "free_bytes", lambda: self.host)
        patch.setattr(placement, "_bandwidth", lambda _: 40.0)

    def free_bytes(self, device: torch.device) -> int | None:
        return self.gpu if device.type == "cuda" else None


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, library: Library) -> Machine:
    return Machine(monkeypatch)


def as_in_the_catalog(spec: ModelSpec) -> ModelSpec:
    """Return ``spec`` as if nothing but the catalog's numbers were known."""
    file = f"{spec.path.stem}-Q8_0.gguf" if spec.path and spec.is_gguf else ""
    return replace(spec, path=None, repository="maker/model", file=file)


@pytest.mark.parametrize("gguf", [False, True], ids=["folder", "gguf"])
@pytest.mark.parametrize("split", [False, True], ids=["whole", "split"])
def test_before_a_download_is_said_what_the_card_the_command_and_the_load_say_after_it(
    machine: Machine, tmp_path: Path, gguf: bool, split: bool
) -> None:
    """The page judged by main memory, on a machine whose GPU loads."""
    write_random(tmp_path / "m", **SIZES, num_hidden_layers=6, max_position_embeddings=65536)
    path = (
        write_gguf(tmp_path / "m", tmp_path / "m.gguf", all_in("Q8_0")) if gguf else tmp_path / "m"
    )
    spec = local_spec(path)
    request = LoadRequest(target=str(path), quantization="auto" if gguf else "bf16", context=32768)
    files = fetch_pair(request, Catalog((), ()), None)
    plan = plan_loading(files, request)
    if split:  # graphs of rounds take 37 MB more than those of passes
        machine.gpu = plan.memory_fit.needed - 37_000_000 - plan.memory_fit.kv // 3
        plan = plan_loading(files, request)
    here = forecast(files.pairing, request, lambda one: one.path)
    before = estimate([as_in_the_catalog(spec)], request=request)
    where = f"with {6 - plan.target.host_layers} of 6 layers on the GPU"
    assert before.where == here.where == (where if split else "on the GPU")
    assert before.quantization == here.quantization == plan.target.quantization
    assert here.notes == tuple(note for note in plan.notes if note.startswith("Of the 6 layers"))
    assert len(before.notes) == len(here.notes) == split
    assert (here.context, here.memory_fit.context) == (32768, plan.memory_fit.context)
    assert (plan.target.host_layers > 0) == split
    assert before.memory_fit.context == pytest.approx(here.memory_fit.context, rel=0.03)
    assert before.memory_fit.weights == pytest.approx(here.memory_fit.weights, rel=0.03)


def test_the_memory_of_the_loaded_pair_counts_for_its_successor_but_not_beside_it(
    machine: Machine, tmp_path: Path
) -> None:
    write_random(tmp_path / "m", **SIZES, num_hidden_layers=2)
    files = fetch_pair(request := LoadRequest(target=str(tmp_path / "m")), Catalog((), ()), None)
    machine.gpu, machine.held = 10**9, 3 * 10**9
    instead, beside = (
        forecast(files.pairing, request, lambda one: one.path, beside=beside)
        for beside in (False, True)
    )
    assert (instead.memory_fit.free, beside.memory_fit.free) == (4 * 10**9, 10**9)
    assert plan_loading(files, request).memory_fit.free == 10**9  # a load frees it first


@pytest.mark.parametrize(
    ("name", "gpu", "where", "kind"),
    [
        ("qwen3-8b", 11.5, "on the GPU", "stored"),
        ("qwen3-14b", 11.5, "on the GPU", "stored"),
        ("qwen3-8b", 7.2, "on the GPU", "stored"),
        ("gpt-oss-20b", 11.5, "with 17 of 24 layers on the GPU", "stored"),
        ("qwen3-30b-a3b", 11.5, "with 26 of 48 layers on the GPU", "stored"),
        ("qwen3-8b:safetensors", 11.5, "on the GPU", "int8"),
        ("qwen3-8b:safetensors", 7.2, "on the GPU", "nf4"),
    ],
)
def test_where_models_of_the_catalog_run_on_cards_of_8_and_12_gb(
    machine: Machine, name: str, gpu: float, where: str, kind: str
) -> None:
    machine.gpu = int(gpu * GB)
    found = estimate([CATALOG.model(name)])
    assert (found.where, found.quantization) == (where, kind)
    assert found.memory_fit.context >= 4096
    assert any("a pass reads" in note for note in found.notes) is ("layers" in where)


def test_what_is_expected_of_a_file_has_its_bytes_and_its_weights() -> None:
    for spec in (one for model in CATALOG.models for one in model.files if one.is_gguf):
        found = expected(spec)
        if found is None or "q1_0" in found.block_formats:
            continue
        numbers = sum(
            math.prod(info.shape) for info in found.tensors.values() if len(info.shape) == 2
        )
        assert numbers == pytest.approx(spec.parameters, rel=0.05), spec.id
        assert found.name == spec.name and found.is_gguf


def test_a_gpu_makes_room_for_the_four_bit_file_but_not_for_narrower_ones() -> None:
    """The GPU has no kernels for their blocks."""
    spec = CATALOG.model("qwen3-30b-a3b")
    room = 14 * GB
    assert choose_file(spec, lambda _: None, room).format == "Q2_K"
    assert choose_file(spec, lambda _: None, room, 12 * GB).format == "Q4_K_M"
    assert choose_file(spec, lambda _: None, room, 2 * GB).format == "Q2_K"


def test_a_draft_that_would_be_left_out_is_not_chosen(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nor one that costs the target its place on the GPU."""
    target, draft = CATALOG.model("qwen3-14b"), CATALOG.model("qwen3-0.6b")
    inventory = Inventory(CATALOG, tmp_path)
    machine.gpu = int(11.5 * GB)
    for gpu, chosen in ((None, True), (504.0, True), (2000.0, False)):
        monkeypatch.setattr(placement, "gpu_bandwidth", lambda _, gpu=gpu: gpu)
        assert inventory._has_room(target, draft) is chosen
        (note,) = estimate([target, draft]).notes
        assert ("Qwen3 0.6B does not draft" in note) is not chosen
        assert ("9.2 ms at the measured 40.0 GB/s" in note) is True
    machine.gpu = 16 * GB
    assert inventory._has_room(target, draft) and not estimate([target, draft]).notes
