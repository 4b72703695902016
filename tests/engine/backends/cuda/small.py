"""Models small enough for Triton's interpreter, which takes some ten milliseconds for every program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from engine.backends.cuda.decoder import CudaDecoder
from engine.backends.torch.decoder import TorchDecoder
from engine.loading.planning.model_plan import plan_model
from engine.machine.devices import Device
from engine.models.checkpoints.checkpoint import inspect
from engine.models.checkpoints.tensors import open_tensors
from engine.models.families import FAMILIES
from engine.models.tensor_shapes import Names
from tests.support.checkpoints import VOCABULARY, write_random, write_tokenizer
from tests.support.loading import load_model

CONTEXT = 64
SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
}
"""Rows are whole groups, so that NF4 has its kernel."""


def write_pair(target: Path, draft: Path, **sizes: Any) -> None:
    """Write a target, and a draft with slightly different weights."""
    model = write_random(target, **(sizes or SIZES))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.02 * torch.randn(weight.shape, generator=generator))
    write_tokenizer(draft)
    model.save_pretrained(draft)


def load(
    folder: Path, dtype: str = "bf16", context: int = CONTEXT, kv_cache_dtype: str = "auto"
) -> CudaDecoder:
    model = load_model(folder, quantization=dtype, context=context, kv_cache_dtype=kv_cache_dtype)
    assert isinstance(model, CudaDecoder)
    return model


def load_reference(folder: Path, context: int = CONTEXT) -> TorchDecoder:
    """Load the same model as torch operations in float32 on the CPU."""
    checkpoint, cpu = inspect(folder), torch.device("cpu")
    architecture = FAMILIES[checkpoint.architecture](checkpoint, context)
    info = load_info(folder, context)
    tensors = open_tensors(checkpoint, torch.float32, cpu)
    return TorchDecoder(architecture, Names.among(checkpoint.tensors), tensors, info)


def load_info(folder: Path, context: int) -> Any:
    from engine.loading.loader import _info

    plan = plan_model(inspect(folder), Device(torch.device("cpu")), "fp32", context=context)
    return _info(plan, plan.context)


def tokens(count: int, seed: int = 3) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(VOCABULARY, (count,), generator=generator).tolist()
