"""The one place of this bench that knows how the engine is built for a device."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

from engine.bench.gpu.shapes import NAMES, Sizes
from engine.bench.gpu.weights import RandomWeights
from engine.kernels.cpu.factory import kernels_for
from engine.models.base import Cache, Model, ModelInfo
from engine.models.decoder import Decoder

KINDS = ("bf16", "int8", "nf4")
_CUDA_DECODER = "engine.models.cuda.decoder"


def has_cuda_decoder() -> bool:
    """Whether this version has a decoder that runs the kernels of engine/kernels/cuda."""
    try:
        return importlib.util.find_spec(_CUDA_DECODER) is not None
    except ModuleNotFoundError:  # not even the package
        return False


def runs_kernels(device: torch.device) -> bool:
    """Whether that decoder is taken there: on a GPU, and where Triton interprets its kernels."""
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    return has_cuda_decoder() and (device.type == "cuda" or interpreted)


def kinds(device: torch.device) -> tuple[str, ...]:
    """How weights can be held there, from wide to narrow."""
    return KINDS if device.type == "cpu" or has_cuda_decoder() else KINDS[:1]


def make(sizes: Sizes, weights: RandomWeights, kind: str, context: int) -> Model:
    """A decoder of these sizes on the weights' device. Elsewhere torch's operations."""
    architecture, device = sizes.architecture, weights.device
    info = ModelInfo(
        sizes.name, "random", architecture.vocabulary, context, sizes.parameters, kind,
        str(device), frozenset(),
    )  # fmt: skip
    if runs_kernels(device):
        decoder: Any = importlib.import_module(_CUDA_DECODER)
        made: Model = decoder.CudaDecoder(architecture, NAMES, weights, info, kind)
        return made
    kernels = kernels_for(kind, torch.bfloat16)
    return Decoder(architecture, NAMES, weights, info, kernels)


def path(model: Model) -> str:
    """What computes, for the report."""
    return "CUDA kernels" if hasattr(model, "step") else "torch's operations"


def step_of(model: Model, cache: Cache, tokens: Sequence[int]) -> Callable[[], object]:
    """A step with ``tokens`` at the cache's length, which stays: to be timed, and captured if it can."""
    own: Any = model
    if hasattr(own, "step"):  # everything it needs is on the device, so a graph may hold it
        ids = torch.tensor(tokens, dtype=torch.long, device=own.device)
        static = getattr(cache, "static", cache)

        def on_device() -> object:
            with torch.inference_mode():
                return own.logits(own.step(ids, static))

        return on_device
    length = cache.length

    def step() -> None:
        model.forward(tokens, cache, last=len(tokens))
        cache.crop(length)

    return step
