"""Where auto plans a model on a machine whose GPU has no kernels: there, or on the CPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.backends.native import build
from engine.errors import InvalidRequest, OutOfMemory
from engine.loading.catalog import Catalog
from engine.loading.compile_first import for_blocks
from engine.loading.files import fetch_pair
from engine.loading.planning.choices import Backend
from engine.loading.planning.plan import LoadPlan, plan_loading
from engine.loading.request import LoadRequest
from engine.machine import device_memory, devices, memory
from engine.machine.devices import Facts
from tests.support.checkpoints import write_random
from tests.support.gguf_files import all_in, write_gguf
from tests.support.loading import request_for

OLD = Facts(True, True, 1, "GTX 1660", (7, 5), triton=True, built_for=("sm_75",))
NO_TRITON = Facts(True, True, 1, "RTX 3060", (8, 6), built_for=("sm_86",))


class Machine:
    """A GPU without kernels and main memory with so many free bytes, as far as planning asks."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path) -> None:
        self.facts, self.gpu, self.host = OLD, 10**10, 10**10
        patch.setattr(devices, "look", lambda: self.facts)
        patch.setattr(device_memory, "gpu_free_bytes", self.free_bytes)
        patch.setattr(memory, "free_bytes", lambda: self.host)
        self.folder = folder / "model"
        sizes: dict[str, Any] = {"hidden_size": 64, "head_dim": 16, "intermediate_size": 96}
        write_random(self.folder, **sizes, num_hidden_layers=3, max_position_embeddings=16384)
        self.file = write_gguf(self.folder, folder / "m.gguf", all_in("Q8_0"))

    def free_bytes(self, device: torch.device) -> int | None:
        return self.gpu if device.type == "cuda" else None

    def plan(self, path: Path, earlier: LoadPlan | None = None, **settings: Any) -> LoadPlan:
        request = request_for(path, **settings)
        return plan_loading(fetch_pair(request, Catalog((), ()), None), request, earlier)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    build.build()
    return Machine(monkeypatch, tmp_path)


@pytest.mark.parametrize("facts", [OLD, NO_TRITON], ids=["old", "no triton"])
def test_blocks_that_the_gpu_would_widen_stay_as_they_are_on_the_cpu(
    machine: Machine, facts: Facts
) -> None:
    """It refused files whose weights in fp32 did not fit, and never tried the CPU."""
    machine.facts = facts
    plan = machine.plan(machine.file)
    assert (plan.device.torch_device.type, plan.target.backend) == ("cpu", Backend.NATIVE)
    assert plan.target.quantization == "stored"
    lacks = devices.decide("cuda", facts).lacks
    assert plan.notes[0].startswith(f"{plan.target.checkpoint.name} runs on the CPU: {lacks}, and ")
    assert (
        "would widen its blocks to" in plan.notes[0] and "choose the device cuda" in plan.notes[0]
    )
    assert not any("runs with PyTorch operations" in note for note in plan.notes)
    again = machine.plan(machine.file, earlier=plan)
    assert (again.device, again.notes) == (plan.device, plan.notes)
    asked = machine.plan(machine.file, device="cuda")
    assert asked.device.is_gpu and asked.target.backend is Backend.TORCH
    assert any("runs with PyTorch operations" in note for note in asked.notes)
    assert machine.plan(machine.file, gpu_layers=3).device.is_gpu
    assert machine.plan(machine.folder).device.is_gpu  # nothing is gained
    assert for_blocks(LoadRequest(target="")).torch_device.type == "cpu"
    assert for_blocks(LoadRequest(target="", device="cuda")).is_gpu


def test_the_step_is_compiled_first_for_a_device_that_was_remembered(machine: Machine) -> None:
    """A CPU chosen for an earlier load counted as auto: beside a GPU with kernels nothing was compiled,
    and the weights of a GGUF file were rounded once more."""
    with_kernels = replace(NO_TRITON, triton=True)
    gone = Facts(built_with_cuda=False, has_driver=False)
    for wanted, facts, found in (
        ("cpu", with_kernels, "cpu"), ("auto", with_kernels, "cuda"), ("cuda", OLD, "cuda"),
        ("cuda", gone, "cpu"),
    ):  # fmt: skip
        machine.facts = facts
        request = LoadRequest(target="", device=wanted, remembered=frozenset({"device"}))
        assert for_blocks(request).torch_device.type == found


def test_what_the_gpu_does_not_have_or_hold_is_planned_on_the_cpu(machine: Machine) -> None:
    int8 = machine.plan(machine.folder, quantization="int8")
    assert not int8.device.is_gpu and "do not have this format" in int8.notes[0]
    with pytest.raises(InvalidRequest, match=r"on this GPU\. Choose fp32, or the device cpu\."):
        machine.plan(machine.folder, quantization="int8", device="cuda")
    with pytest.raises(InvalidRequest, match="they do not run on this GPU"):
        machine.plan(machine.folder, kv_cache_dtype="fp8")  # the CPU has it no more
    machine.gpu = 10**6
    small = machine.plan(machine.folder)
    assert not small.device.is_gpu and "it does not fit there" in small.notes[0]
    with pytest.raises(OutOfMemory) as told:
        machine.plan(machine.folder, device="cuda")
    assert (
        "free on the GPU. The weights alone do not fit. To load it, choose the CPU (--device cpu), "
        in (str(told.value))
    )
    machine.host = 10**6
    with pytest.raises(OutOfMemory, match="free on the GPU"):
        machine.plan(machine.folder)
