"""What a folder becomes on each kind of machine, and what people are told. Nothing runs here."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.backends.cuda.decoder import CudaDecoder
from engine.backends.torch.decoder import TorchDecoder
from engine.errors import InvalidRequest
from engine.loading.planning.choices import (
    Backend,
    check_kv_cache,
    choose_backend,
    choose_quantization,
    draft_quantization,
    packs,
    quantization_note,
    quantizations,
    why_no_fp8_cache,
)
from engine.local.engine import LocalEngine
from engine.machine import devices
from engine.machine.devices import Device
from engine.models.checkpoints.checkpoint import inspect
from tests.support.checkpoints import write_random
from tests.support.loading import load_model, request_for

CPU = torch.device("cpu")
KERNELS = Device(torch.device("cuda"), kernels=True)
NO_TRITON = Device(torch.device("cuda"))
OLD = Device(torch.device("cuda"), bf16=False)
AMPERE = Device(torch.device("cuda"), kernels=True, fp8=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_random(tmp_path / "model")
    return tmp_path / "model"


def test_where_the_kernels_run_all_formats_but_fp32_go_through_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tensors lie on the CPU, as the device says here: loading launches nothing."""
    pytest.importorskip("triton")
    device = Device(CPU, kernels=True)
    monkeypatch.setattr(devices, "choose", lambda *_, **__: device)
    for dtype in ("bf16", "int8", "nf4"):
        model = load_model(folder, quantization=dtype)
        assert isinstance(model, CudaDecoder) and model.info.quantization == dtype
    assert isinstance(load_model(folder, quantization="fp32"), TorchDecoder)


def test_on_a_gpu_weights_are_narrow_and_a_draft_narrower(folder: Path) -> None:
    found = inspect(folder)
    assert choose_quantization(found, "auto", KERNELS) == "bf16"
    assert quantizations(found, KERNELS) == ("bf16", "int8", "nf4")
    assert draft_quantization(found, "bf16", KERNELS) == "bf16"  # its layers are small
    large = replace(found, parameters=found.layers * 10**7)
    assert [draft_quantization(large, kind, KERNELS) for kind in ("bf16", "nf4", "fp32")] == [
        "int8", "nf4", "fp32"
    ]  # fmt: skip
    assert not packs(found, KERNELS)
    assert quantization_note("nf4", found, KERNELS) is None
    assert "cannot compute with fp32 weights, only with bf16, int8, nf4, stored" in (
        quantization_note("fp32", found, KERNELS) or ""
    )


@pytest.mark.parametrize(("device", "dtype"), [(NO_TRITON, "bf16"), (OLD, "fp32")])
def test_without_the_kernels_torch_runs_what_the_gpu_multiplies(
    folder: Path, device: Device, dtype: str
) -> None:
    found = inspect(folder)
    assert choose_quantization(found, "auto", device) == dtype
    assert quantizations(found, device) == (("bf16",) if device.bf16 else ())
    told = "bf16 or fp32" if device.bf16 else "fp32"
    with pytest.raises(
        InvalidRequest, match=rf"do not run on this GPU\. Choose {told}, or the device cpu"
    ):
        choose_quantization(found, "int8", device)


def test_a_model_that_the_kernels_cannot_run_says_why(folder: Path) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "head_dim": 1024}))
    found = inspect(folder)
    assert "heads have size 1024" in (quantization_note("bf16", found, KERNELS) or "")
    assert choose_quantization(found, "nf4", KERNELS) == "nf4"
    assert choose_backend(found, "nf4", KERNELS) is Backend.TORCH


@pytest.mark.parametrize(
    ("device", "kind", "words"),
    [
        (Device(CPU), "bf16", "model runs on the CPU"),
        (NO_TRITON, "bf16", "do not run on this GPU"),
        (AMPERE, "nf4", "compute capability 8.9"),
        (KERNELS, "fp32", "have no fp32. Choose bf16"),
    ],
    ids=str,
)
def test_a_cache_in_fp8_is_refused_with_the_reason_where_nothing_reads_it(
    folder: Path, device: Device, kind: str, words: str
) -> None:
    found = inspect(folder)
    with pytest.raises(InvalidRequest, match=r"kv_cache_dtype is 'fp8', but .*Choose auto") as told:
        check_kv_cache(found, kind, "fp8", device)
    assert words in str(told.value) and told.value.field == "kv_cache_dtype"
    assert check_kv_cache(found, kind, "auto", device) == "auto"


def test_a_cache_in_fp8_needs_the_kernels_to_run_the_model(folder: Path) -> None:
    assert check_kv_cache(inspect(folder), "int8", "fp8", KERNELS) == "fp8"
    file = folder / "config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps({**config, "head_dim": 1024}))
    assert "heads have size 1024" in (why_no_fp8_cache(inspect(folder), "bf16", KERNELS) or "")
    file.write_text(json.dumps({**config, "architectures": ["GPT2LMHeadModel"]}))
    told = why_no_fp8_cache(inspect(folder), "bf16", KERNELS)
    assert told is not None and "GPT2LMHeadModel runs through transformers" in told


def test_what_a_place_has_to_say_is_in_the_report_of_loading(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device(CPU, notes=("2 GPUs are here; one is used.",))
    monkeypatch.setattr(devices, "choose", lambda *_, **__: device)
    with closing(LocalEngine()) as engine:
        loaded = engine.load(request_for(folder, quantization="fp32"))
        assert device.notes[0] in loaded.notes
