"""Build the engine for a device. With ``rounds``, only this module knows the CUDA engine's interface."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from engine.backends.cuda.decoder import CudaDecoder
from engine.backends.cuda.state import DeviceState
from engine.backends.torch.decoder import TorchDecoder
from engine.kernels.torch.factory import kernels_for
from engine.models.base import Model, ModelInfo
from engine.models.sequence_state import SequenceState
from tools.gpu_bench.shapes import NAMES, Sizes
from tools.gpu_bench.weights import RandomWeights

KINDS = ("bf16", "int8", "nf4")
"""Weight formats, from wide to narrow."""


def make(sizes: Sizes, weights: RandomWeights, kind: str, context: int) -> Model:
    """Return a decoder of these sizes on the weights' device; on a CPU, one of torch operations."""
    architecture, device = sizes.architecture, weights.device
    info = ModelInfo(
        sizes.name, "random", architecture.vocabulary, context, sizes.parameters, kind,
        str(device), frozenset(),
    )  # fmt: skip
    if device.type == "cuda":
        return CudaDecoder(architecture, NAMES, weights, info, kind)
    kernels = kernels_for(kind, torch.bfloat16)
    return TorchDecoder(architecture, NAMES, weights, info, kernels)


def path(model: Model) -> str:
    """Return the executor's name for the report."""
    return "CUDA kernels" if isinstance(model, CudaDecoder) else "torch's operations"


def step_of(model: Model, state: SequenceState, tokens: Sequence[int]) -> Callable[[], object]:
    """Return a call that computes a step of ``tokens`` after the state and leaves the state unchanged."""
    if isinstance(model, CudaDecoder) and isinstance(state, DeviceState):
        # All its inputs are on the device, so it can be captured.
        decoder, device_state = model, state
        ids = torch.tensor(tokens, dtype=torch.long, device=decoder.device)

        def on_device() -> object:
            with torch.inference_mode():
                return decoder.predict(decoder.step(ids, device_state))

        return on_device

    def step() -> None:
        model.forward(tokens, state, last=len(tokens), final=False)
        state.commit(())

    return step
