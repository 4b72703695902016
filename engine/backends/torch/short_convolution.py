"""The gated short convolution of LFM2 in torch (Liquid AI 2025, arXiv 2511.23404).

A linear layer gives B, C and x of each row. The result is C times the convolution of B * x over the last
rows. All but the linear layers is elementwise, in float32, so a row's bits depend on nothing beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.backends.torch.recurrence import RecurrentState
from engine.models.architecture import ShortConvolution
from engine.models.weights import ShortConvolutionWeights


@dataclass(frozen=True, slots=True)
class Past:
    """The convolution's last inputs: ``rows`` (kernel - 1, width), float32."""

    rows: Tensor

    @classmethod
    def empty(cls, spec: ShortConvolution, device: torch.device) -> Past:
        return cls(torch.zeros(spec.kernel - 1, spec.width, device=device))

    @property
    def bytes(self) -> int:
        return self.rows.nbytes

    def after(self, row: Tensor) -> Past:
        """Return the last inputs after ``row (width,)``."""
        return Past(torch.cat([self.rows[1:], row[None]]))


def mix(
    weights: ShortConvolutionWeights,
    spec: ShortConvolution,
    x: Tensor,
    state: RecurrentState[Past],
    _epsilon: float,
    *,
    final: bool,
) -> Tensor:
    """Return the mixer's result (rows, hidden) for normed ``x``, and apply its rows to ``state``.

    Nothing in it is normed.
    """
    before, after, values = weights.inputs(x).float().chunk(3, dim=1)
    inputs = before * values
    window = torch.cat([state.tip.rows, inputs])  # (kernel - 1 + rows, width)
    convolved = torch.zeros_like(inputs)
    for tap in range(spec.kernel):
        convolved = convolved + window[tap : tap + len(x)] * weights.convolution[tap]
    for row in inputs:
        state.append(row, final=final)
    return weights.output((after * convolved).to(x.dtype))
