"""Recurrent mixers on the device: between the linear layer before them and the one after.

What they keep of a sequence is in ``Memories``. Nothing here asks the device, so a captured round may
have them. ``engine/backends/torch`` has the same formulas row by row.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.kernels.cuda.linear.fusion import Norm, normalise
from engine.kernels.cuda.recurrence import KEPT_ROWS, LayerMemory, Memories, Recurrence, take_in
from engine.models.activations import by_rows
from engine.models.architecture import Architecture, GatedDeltaNet, Mamba2, ShortConvolution
from engine.models.weights import (
    GatedDeltaWeights,
    Mamba2Weights,
    MixerWeights,
    ShortConvolutionWeights,
)

_silu = by_rows(F.silu)


@dataclass(frozen=True, slots=True)
class _GatedDelta:
    weights: GatedDeltaWeights
    layer: Recurrence
    norm: Norm
    gates: slice

    def __call__(self, inputs: Tensor, memory: LayerMemory, memories: Memories) -> Tensor:
        result = take_in(self.layer, inputs, memory, memories)
        normed = normalise(result.flatten(0, 1), self.norm).view(len(inputs), -1)
        return (normed * _silu(inputs[:, self.gates].float())).to(inputs.dtype)


@dataclass(frozen=True, slots=True)
class _Mamba:
    weights: Mamba2Weights
    layer: Recurrence
    norm: Norm  # of a group, without a weight

    def __call__(self, inputs: Tensor, memory: LayerMemory, memories: Memories) -> Tensor:
        result = take_in(self.layer, inputs, memory, memories).flatten(1)
        gated = result * _silu(inputs[:, : result.shape[1]].float())
        normed = normalise(gated.view(-1, len(self.norm.weight)), self.norm)
        return (normed.view_as(gated) * self.weights.norm).to(inputs.dtype)


@dataclass(frozen=True, slots=True)
class _Convolution:
    weights: ShortConvolutionWeights

    def __call__(self, inputs: Tensor, memory: LayerMemory, memories: Memories) -> Tensor:
        taps = self.weights.convolution.unbind()
        rows, before = len(inputs), len(taps) - 1
        tree, back = memories.tree, torch.arange(-before, 1, device=inputs.device)
        places = memories.length + back[:-1]
        kept = memory.rows[places % KEPT_ROWS] * (places >= 0)[:, None]
        first, last, values = torch.cat([kept, inputs]).float().chunk(3, dim=1)
        window = first * values
        total = torch.zeros_like(window[:rows])
        windows = window.unfold(0, len(taps), 1)  # (rows, width, taps)
        if tree is not None:
            depths = tree[0, :rows, None] + back
            ancestors = tree[1 : 1 + rows].gather(1, depths.clamp_min(0))
            windows = window[before + torch.where(depths < 0, depths, ancestors)].transpose(1, 2)
        for tap, factors in enumerate(taps):
            total = total + windows[..., tap] * factors
        return (last[before:] * total).to(inputs.dtype)


CudaRecurrence = _GatedDelta | _Mamba | _Convolution
"""A recurrent mixer. ``weights``: with linear layers that it does not use.

A call returns its rows (rows, values) for ``inputs (rows, width)``, those of its first linear layer, in
the step that ``memories`` have begun, in their dtype. It does not keep ``inputs``.
"""


def load(architecture: Architecture, spec: object, weights: MixerWeights) -> CudaRecurrence:
    """Return the mixer with ``weights``."""
    epsilon = architecture.epsilon
    match weights, spec:
        case GatedDeltaWeights(), GatedDeltaNet():
            keys = spec.key_heads * spec.key_dim
            layer = Recurrence(
                weights.convolution, None, weights.decay, weights.decay_bias, None,
                first=0, query=0, key=keys, value=2 * keys, rate=spec.channels + spec.values,
                key_heads=spec.key_heads, tiled=spec.tiled,
            )  # fmt: skip
            gates = slice(spec.channels, spec.channels + spec.values)
            return _GatedDelta(weights, layer, Norm(weights.norm, epsilon), gates)
        case Mamba2Weights(), Mamba2():
            layer = Recurrence(
                weights.convolution, weights.convolution_bias, weights.decay, weights.step_bias,
                weights.skip, first=spec.values, query=spec.values + spec.groups * spec.state,
                key=spec.values, value=0, rate=spec.values + spec.channels, key_heads=spec.groups,
            )  # fmt: skip
            ones = torch.ones_like(weights.norm[: spec.values // spec.groups])
            return _Mamba(weights, layer, Norm(ones, epsilon))
        case ShortConvolutionWeights(), ShortConvolution():
            return _Convolution(weights)
    raise TypeError(f"{type(spec).__name__} has weights of another mixer")


def new_memories(architecture: Architecture, device: torch.device) -> Memories | None:
    """Return what a sequence without rows has; None for a model without recurrent layers."""
    shapes = dict[int, tuple[tuple[int, ...], int]]()
    for index, layer in enumerate(architecture.layers):
        match layer.mixer:
            case GatedDeltaNet() as spec:
                shape = spec.value_heads, spec.key_dim, spec.value_dim
                width = spec.channels + spec.values + 2 * spec.value_heads
            case Mamba2() as spec:
                shape = spec.heads, spec.state, spec.head_dim
                width = spec.values + spec.channels + spec.heads
            case ShortConvolution() as spec:
                shape, width = (0, 0, 0), 3 * spec.width
            case _:
                continue
        shapes[index] = shape, width
    return Memories(shapes, device) if shapes else None
