"""Make a head's linear layers: float32 rows in and out, weights in the narrowest fast format.

A head only proposes, so its arithmetic need not be exact: like a draft model, it may be quantised though
its target is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from engine.backends.native import build
from engine.kernels.cuda.linear.bulk import BulkLinear
from engine.kernels.cuda.linear.dispatch import convert_weight
from engine.kernels.formats.block_formats import DRAFT_FORMAT
from engine.kernels.formats.blocks import Stacked, widen
from engine.kernels.native import library as native
from engine.kernels.native.library import Library
from engine.kernels.torch.factory import Kernels, plain_embedding
from engine.kernels.torch.linear import Biased, Linear, make_linear
from engine.machine.devices import Device
from engine.models.architecture import LayerSpec

CACHED = 2_000_000
"""The most weights of a matrix that stays in the processor's caches. Larger matrices are read from memory
in each step, so they are rounded further; see ``loading.planning.choices.draft_rounding``."""

LEAST_INT8 = 8_000_000
"""Weights of a matrix that a GPU multiplies sooner in int8 than in bf16. It reads a byte a weight less,
but rounds the rows in a launch of its own (see docs/log/cuda.md)."""


@dataclass(frozen=True, slots=True)
class LinearFactory:
    """Make linear layers in ``kind``: int8, bf16 or fp32. int8 needs ``library``, the compiled step.

    ``triton``: whether a GPU's kernels multiply bf16, and int8 in place of that where it is quicker.
    """

    kind: str
    device: torch.device
    library: Library | None = None
    triton: bool = False

    @classmethod
    def choose(cls, dtype: str, place: Device, *, triton: bool = False) -> LinearFactory:
        """Return the factory for ``place`` and a target that computes in ``dtype``, fp32 or bf16.

        ``triton``: whether the target runs on the kernels of a GPU.
        """
        device = place.torch_device
        library = build.ready(place.threads) if device.type == "cpu" and place.native else None
        if library is not None and "int8" in library.kinds:
            return cls("int8", device, library)
        return cls(dtype, device, library, triton)

    def linear(self, weight: Stacked, bias: Tensor | None = None) -> Linear:
        """Return the layer that multiplies by ``weight (out, in)`` and adds ``bias (out,)``."""
        linear = self._linear(weight)
        return linear if bias is None else Biased(linear, self.vector(bias))

    def kernels(self, spec: LayerSpec, hidden: int) -> Kernels:
        """Return what makes the layers of ``spec``: compiled ones have all experts in one matrix."""
        library, mixture = self.library, spec.feed_forward
        widths = hidden, mixture.intermediate
        if library is None or not native.supports(library, self.kind, widths):
            return Kernels(
                self.linear, plain_embedding, lambda weight: make_linear(self.vector(weight))
            )
        exact = partial(native.Matrix, library, native.Kind.FP32)
        return Kernels(self.linear, plain_embedding, exact, stacked=True)

    def vector(self, values: Tensor) -> Tensor:
        """Return ``values`` in float32 on the head's device."""
        return values.to(self.device, torch.float32)

    def _linear(self, weight: Stacked) -> Linear:
        parts = weight if isinstance(weight, tuple) else (weight,)
        inputs = parts[0].shape[1]
        if self.library is not None and native.supports(self.library, self.kind, (inputs,)):
            many = inputs * sum(map(len, parts)) > CACHED
            rounded = DRAFT_FORMAT if many else None
            return native.Matrix(self.library, self.library.kinds[self.kind], weight, rounded)
        wide = widen(weight)
        if self.kind == "bf16" and self.triton:
            kind = "int8" if wide.numel() >= LEAST_INT8 else "bf16"
            return BulkLinear(convert_weight(kind, wide.to(self.device), self.device))
        if self.kind == "bf16":
            narrow = make_linear(wide.to(self.device, torch.bfloat16))
            return lambda x: narrow(x.to(torch.bfloat16)).float()
        return make_linear(wide.to(self.device, torch.float32))
