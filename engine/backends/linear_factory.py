"""Make a head's linear layers: float32 rows in and out, weights in the narrowest fast format.

A head only proposes, so its arithmetic need not be exact: like a draft model, it may be quantised though
its target is not.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.backends.native import build
from engine.kernels.formats.block_formats import DRAFT_FORMAT
from engine.kernels.formats.blocks import Stacked, widen
from engine.kernels.native import library as native
from engine.kernels.native.library import Library
from engine.kernels.torch.linear import Biased, Linear, make_linear
from engine.machine.devices import Device

CACHED = 2_000_000
"""The most weights of a matrix that stays in the processor's caches. Larger matrices are read from memory
in each step, so they are rounded further; see ``loading.planning.choices.draft_rounding``."""


@dataclass(frozen=True, slots=True)
class LinearFactory:
    """Make linear layers in ``kind``: int8, bf16 or fp32. int8 needs ``library``, the compiled step."""

    kind: str
    device: torch.device
    library: Library | None = None

    @classmethod
    def choose(cls, dtype: str, place: Device) -> LinearFactory:
        """Return the factory for ``place`` and a target that computes in ``dtype``, fp32 or bf16."""
        device = place.device
        library = build.ready(place.threads) if device.type == "cpu" and place.native else None
        if library is not None and "int8" in library.kinds:
            return cls("int8", device, library)
        return cls(dtype, device, library)

    def linear(self, weight: Stacked, bias: Tensor | None = None) -> Linear:
        """Return the layer that multiplies by ``weight (out, in)`` and adds ``bias (out,)``."""
        linear = self._linear(widen(weight))
        return linear if bias is None else Biased(linear, self.vector(bias))

    def vector(self, values: Tensor) -> Tensor:
        """Return ``values`` in float32 on the head's device."""
        return values.to(self.device, torch.float32)

    def _linear(self, weight: Tensor) -> Linear:
        if self.library is not None and native.supports(self.library, self.kind, weight.shape[1:]):
            rounded = DRAFT_FORMAT if weight.numel() > CACHED else None
            return native.make_matrix(self.library, self.kind, weight, rounded)
        if self.kind == "bf16":
            return _Narrow(make_linear(weight.to(self.device, torch.bfloat16)))
        return make_linear(weight.to(self.device, torch.float32))


@dataclass(frozen=True, slots=True)
class _Narrow:
    """A bf16 layer for float32 rows."""

    linear: Linear

    def __call__(self, x: Tensor) -> Tensor:
        return self.linear(x.to(torch.bfloat16)).float()
