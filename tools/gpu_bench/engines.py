"""The one place of this bench that knows how the engine is built for a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from engine.backends.cuda.decoder import CudaDecoder
from engine.backends.cuda.state import DeviceState
from engine.backends.torch.decoder import TorchDecoder
from engine.kernels.cuda.availability import runs_kernels
from engine.kernels.torch.factory import kernels_for
from engine.models.base import Model, ModelInfo
from engine.models.sequence_state import SequenceState
from tools.gpu_bench.shapes import NAMES, Sizes
from tools.gpu_bench.weights import RandomWeights

KINDS = ("bf16", "int8", "nf4")


def kinds(device: torch.device) -> tuple[str, ...]:
    """How weights can be held there, from wide to narrow."""
    return KINDS if device.type == "cpu" or runs_kernels(device) else KINDS[:1]


def make(sizes: Sizes, weights: RandomWeights, kind: str, context: int) -> Model:
    """A decoder of these sizes on the weights' device. Elsewhere torch's operations."""
    architecture, device = sizes.architecture, weights.device
    info = ModelInfo(
        sizes.name, "random", architecture.vocabulary, context, sizes.parameters, kind,
        str(device), frozenset(),
    )  # fmt: skip
    if runs_kernels(device):
        return CudaDecoder(architecture, NAMES, weights, info, kind)
    kernels = kernels_for(kind, torch.bfloat16)
    return TorchDecoder(architecture, NAMES, weights, info, kernels)


def path(model: Model) -> str:
    """What computes, for the report."""
    return "CUDA kernels" if isinstance(model, CudaDecoder) else "torch's operations"


def step_of(model: Model, state: SequenceState, tokens: Sequence[int]) -> Callable[[], object]:
    """A step with ``tokens`` behind the state, which stays: to be timed, and captured if it can."""
    if isinstance(model, CudaDecoder) and isinstance(state, DeviceState):
        # Everything it needs is on the device, so a graph may hold it.
        own, there = model, state
        ids = torch.tensor(tokens, dtype=torch.long, device=own.device)

        def on_device() -> object:
            with torch.inference_mode():
                return own.predict(own.step(ids, there))

        return on_device

    def step() -> None:
        model.forward(tokens, state, last=len(tokens), final=False)
        state.commit(())

    return step
