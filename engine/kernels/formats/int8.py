"""int8: weights with one scale per output channel, activations with one per row.

Weights are symmetric. Each row of activations is scaled by its largest absolute value and quantised to
unsigned bytes around a zero point, because oneDNN has fast kernels for unsigned activations only.
Source of the row-wise scheme: Dettmers et al. 2022 (LLM.int8), without its outlier split.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

WEIGHT_LEVELS = 127
ACTIVATION_LEVELS = (127, 63)
"""Steps on each side of zero that are tried, the finer first."""
CHUNK_ROWS = 1024
"""Weight rows that are quantised at once, so that float copies stay small."""
# Keeps a row of zeros from dividing by zero; far below any scale that matters.
_TINY = torch.tensor(1e-30)


@dataclass(frozen=True, slots=True)
class Int8Weight:
    """``values (out, in)`` int8 and ``scale (out,)`` float32: the weight is values * scale."""

    values: Tensor
    scale: Tensor

    def dequantise(self) -> Tensor:
        """Return float32 ``(out, in)``."""
        return self.values.float() * self.scale[:, None]


def quantise(weight: Tensor) -> Int8Weight:
    """Round ``weight (out, in)`` of any float dtype to the nearest of 255 steps per row."""
    values = torch.empty(weight.shape, dtype=torch.int8, device=weight.device)
    scale = torch.empty(weight.shape[0], device=weight.device)
    for start in range(0, weight.shape[0], CHUNK_ROWS):
        part = weight[start : start + CHUNK_ROWS].float()
        step = part.abs().amax(-1).div_(WEIGHT_LEVELS).add_(_TINY)
        scale[start : start + CHUNK_ROWS] = step
        values[start : start + CHUNK_ROWS] = (part / step[:, None]).round_()
    return Int8Weight(values, scale)


def quantise_rows(x: Tensor, levels: int) -> tuple[Tensor, Tensor]:
    """Return ``x (rows, in)`` as bytes around ``levels + 1``, and float32 scales ``(rows, 1)``."""
    scale = torch.add(_TINY, x.abs().amax(-1, keepdim=True).float(), alpha=1 / levels)
    # Truncation after adding a half rounds to the nearest; the result is 1 .. 2 * levels + 1.
    centre = _centre_on(x.device, levels)
    return torch.addcdiv(centre, x.float(), scale).to(torch.uint8), scale


@functools.cache
def _centre_on(device: torch.device, levels: int) -> Tensor:
    """Return the centre on ``device``: ``addcdiv`` takes no CPU scalar beside GPU tensors."""
    return torch.tensor(levels + 1.5, device=device)
