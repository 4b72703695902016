"""Try the norms that are launches of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.backends.cuda.decoder import CudaDecoder
from engine.backends.cuda.feed_forward import CudaExperts
from engine.backends.cuda.trial.findings import Comparison
from engine.kernels.cuda.linear.dispatch import DTYPE
from engine.kernels.cuda.linear.fusion import Norm, normalise
from engine.kernels.cuda.references import normalise_reference
from engine.values import MAX_ROWS


@dataclass(frozen=True, slots=True)
class NormCase:
    """A norm of rows in ``dtype``, and whether it adds a residual."""

    norm: Norm
    adds: bool = False
    dtype: torch.dtype = DTYPE

    @property
    def shape(self) -> str:
        wide = "" if self.dtype == DTYPE else ", float32"
        return f"{len(self.norm.weight)}{wide}{', residual' if self.adds else ''}"

    def check(self, comparison: Comparison) -> Callable[[], object]:
        """See ``try_kernel``."""
        draw, weight = torch.Generator().manual_seed(0), self.norm.weight
        x, residual = torch.randn(2, MAX_ROWS, len(weight), generator=draw).to(
            weight.device, self.dtype
        )
        x = x * torch.logspace(-2, 2, MAX_ROWS, device=x.device)[:, None].to(self.dtype)

        def run(rows: slice) -> Tensor:
            return normalise(x[rows], self.norm, residual[rows] if self.adds else None)

        whole = run(slice(None))
        comparison.rows_are_alike(run, whole)
        comparison.near(whole, normalise_reference(x, self.norm, residual if self.adds else None))
        return lambda: run(slice(None))


def norm_cases(model: CudaDecoder) -> list[NormCase]:
    """Return the norms of the model that differ in what their launch depends on."""
    adds = model.architecture.residual_scale == 1
    after = [
        NormCase(norm, adds)
        for layer in model.layers
        for norm in (layer.mixer_after, layer.feed_forward_after)
        if norm is not None
    ]
    found = [NormCase(model.norm), *after]
    for layer in model.layers:
        experts = layer.feed_forward
        if isinstance(experts, CudaExperts):
            found += [] if experts.norm is None else [NormCase(experts.norm)]
            if experts.norms is not None:
                found.append(NormCase(experts.norms.experts_after, False, torch.float32))
        if layer.own_input is not None:
            found.append(NormCase(layer.own_input.after, True))
    if model.own is not None:
        found.append(NormCase(model.own.norm))
    return list({each.shape: each for each in reversed(found)}.values())
