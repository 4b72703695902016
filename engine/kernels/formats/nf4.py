"""NF4: bitsandbytes' 4-bit format.

64 consecutive weights, a group, share one scale (their largest absolute value); each is an index into 16
quantiles of a normal distribution. Two indices in a byte, the first in the high half. Source: Dettmers
et al. 2023 (QLoRA); bitsandbytes' ``functional.py`` for the layout. Here the scales are bf16.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

GROUP = 64
"""Weights that share a scale."""
# The 16 quantiles, from bitsandbytes (create_normal_map with offset 0.9677083).
CODE = torch.tensor(
    [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
     -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
     0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
     0.7229568362236023, 1.0]
)  # fmt: skip
_BORDERS = (CODE[1:] + CODE[:-1]) / 2

CHUNK = 2**22
"""Weights that are quantised or dequantised at once, so that float copies stay small."""


@dataclass(frozen=True, slots=True)
class Nf4Weight:
    """A weight of ``shape`` (out, in): ``packed`` uint8 (out * in / 2,) and ``absmax`` bf16 per group.

    Groups run through the flattened weight, so they keep to one row only where ``in`` is a multiple
    of 64. An odd number of weights is padded with one zero.
    """

    packed: Tensor
    absmax: Tensor
    shape: tuple[int, int]


def quantise(weight: Tensor) -> Nf4Weight:
    """Quantise ``weight (out, in)`` of any float dtype to the nearest codes."""
    flat = weight.reshape(-1)
    count = flat.numel()
    packed = torch.empty(-(-count // 2), dtype=torch.uint8, device=flat.device)
    absmax = torch.empty(-(-count // GROUP), dtype=torch.bfloat16, device=flat.device)
    borders = _BORDERS.to(flat.device)
    for start in range(0, count, CHUNK):
        part = flat[start : start + CHUNK].float()
        groups = F.pad(part, (0, -len(part) % GROUP)).view(-1, GROUP)
        peak = groups.abs().amax(-1, keepdim=True)
        absmax[start // GROUP : start // GROUP + len(groups)] = peak[:, 0]
        # A group of zeros: 0 * inf would be NaN, and NaN the last code.
        scaled = groups * torch.where(peak > 0, 1 / peak, 0.0)
        code = torch.bucketize(scaled, borders).to(torch.uint8).view(-1, 2)
        half = (code[:, 0] << 4) | code[:, 1]
        packed[start // 2 : (start + len(part) + 1) // 2] = half[: (len(part) + 1) // 2]
    return Nf4Weight(packed, absmax, (weight.shape[0], weight.shape[1]))


def dequantise(
    packed: Tensor, absmax: Tensor, count: int, dtype: torch.dtype = torch.bfloat16
) -> Tensor:
    """Return the first ``count`` weights, flat, each rounded once to ``dtype``."""
    result = torch.empty(count, dtype=dtype, device=packed.device)
    for start in range(0, count, CHUNK):
        stop = min(start + CHUNK, count)
        scales = absmax[start // GROUP : -(-stop // GROUP)].float()
        result[start:stop] = _values(packed[start // 2 : -(-stop // 2)], scales)[: stop - start]
    return result


def _values(packed: Tensor, scales: Tensor) -> Tensor:
    """Return two float32 weights for each byte; ``scales`` are float32, one per group."""
    values = _pairs_on(packed.device).index_select(0, packed.int()).view(torch.float32)
    groups = F.pad(values, (0, -len(values) % GROUP)).view(-1, GROUP)
    return (groups * scales[:, None]).view(-1)


@functools.cache
def _pairs_on(device: torch.device) -> Tensor:
    """Return float64 (256,): for each byte its two float32 codes, which one lookup then reads."""
    codes = unpack(torch.arange(256, dtype=torch.uint8))
    return CODE[codes.int()].view(torch.float64).to(device)


@functools.cache
def code_on(device: torch.device) -> Tensor:
    """Return ``CODE`` on ``device``, copied once: a captured graph may not wait for host memory."""
    return CODE.to(device)


def unpack(packed: Tensor) -> Tensor:
    """Return the indices ``(..., 2 * n)`` uint8 in bytes ``(..., n)``, the high half first."""
    return torch.stack([packed >> 4, packed & 15], dim=-1).flatten(-2)
