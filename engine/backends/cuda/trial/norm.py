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
    """A norm, and whether it adds a residual."""

    norm: Norm
    adds: bool

    @property
    def shape(self) -> str:
        return f"{len(self.norm.weight)}{', residual' if self.adds else ''}"

    def check(self, comparison: Comparison) -> Callable[[], object]:
        """See ``try_kernel``."""
        draw, weight = torch.Generator().manual_seed(0), self.norm.weight
        x, residual = torch.randn(2, MAX_ROWS, len(weight), generator=draw).to(weight.device, DTYPE)
        x = x * torch.logspace(-2, 2, MAX_ROWS, device=x.device)[:, None].to(DTYPE)

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
    before = [
        NormCase(layer.feed_forward.norm, False)
        for layer in model.layers
        if isinstance(layer.feed_forward, CudaExperts) and layer.feed_forward.norm is not None
    ]
    first = NormCase(model.norm, False)
    return list({each.shape: each for each in (first, *before, *after)}.values())
