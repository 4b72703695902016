"""NF4: bitsandbytes' 4-bit format, and products with it that are row-independent.

64 consecutive weights share one scale (their largest absolute value); each is an index into 16
quantiles of a normal distribution. Two indices in a byte, the first in the high half. Source: Dettmers
et al. 2023 (QLoRA); bitsandbytes' ``functional.py`` for the layout. What is kept here has its scales in
bf16, as bitsandbytes' CPU kernel wants them.

``Nf4Fused``
    bitsandbytes' C kernel for processors with AVX-512 BF16, called directly: the Python package is
    neither imported nor needed beyond that one file. Measured (docs/log): same bits for 1..256 rows.
``Nf4Panels``
    Anywhere, any shape: dequantises blocks of rows to bf16 and multiplies those. Panels are kept while
    a budget lasts, the rest is dequantised in every call.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.kernels.cpu.linear import (
    BlockedLinear,
    Linear,
    is_row_independent,
    make_linear,
    make_unpacked,
)

BLOCK = 64
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
PANEL_ROWS = 1024
CACHE_BYTES = 256_000_000
"""Dequantised panels kept for one model: a small one is then as fast as in bf16."""
LANES = 32
"""Outputs that the fused kernel computes side by side."""


@dataclass(frozen=True, slots=True)
class Nf4Weight:
    """A weight of ``shape`` (out, in): ``packed`` uint8 (out * in / 2,) and ``absmax`` bf16 per block.

    Blocks run through the flattened weight, so they keep to one row only where ``in`` is a multiple
    of 64. An odd number of weights is padded with one zero.
    """

    packed: Tensor
    absmax: Tensor
    shape: tuple[int, int]


def quantise(weight: Tensor) -> Nf4Weight:
    """The nearest codes for ``weight (out, in)`` of any float dtype."""
    flat = weight.reshape(-1)
    count = flat.numel()
    packed = torch.empty(-(-count // 2), dtype=torch.uint8, device=flat.device)
    absmax = torch.empty(-(-count // BLOCK), dtype=torch.bfloat16, device=flat.device)
    borders = _BORDERS.to(flat.device)
    for start in range(0, count, CHUNK):
        part = flat[start : start + CHUNK].float()
        blocks = F.pad(part, (0, -len(part) % BLOCK)).view(-1, BLOCK)
        peak = blocks.abs().amax(-1, keepdim=True)
        absmax[start // BLOCK : start // BLOCK + len(blocks)] = peak[:, 0]
        # A block of zeros: 0 * inf would be NaN, and NaN the last code.
        scaled = blocks * torch.where(peak > 0, 1 / peak, 0.0)
        code = torch.bucketize(scaled, borders).to(torch.uint8).view(-1, 2)
        half = (code[:, 0] << 4) | code[:, 1]
        packed[start // 2 : (start + len(part) + 1) // 2] = half[: (len(part) + 1) // 2]
    return Nf4Weight(packed, absmax, (weight.shape[0], weight.shape[1]))


def dequantise(
    packed: Tensor, absmax: Tensor, count: int, dtype: torch.dtype = torch.bfloat16
) -> Tensor:
    """The first ``count`` weights, flat, in ``dtype``; products are rounded once."""
    result = torch.empty(count, dtype=dtype, device=packed.device)
    quantiles = code_on(packed.device)
    for start in range(0, count, CHUNK):
        stop = min(start + CHUNK, count)
        codes = unpack(packed[start // 2 : -(-stop // 2)])
        values = F.pad(quantiles[codes.int()], (0, -len(codes) % BLOCK)).view(-1, BLOCK)
        scale = absmax[start // BLOCK : -(-stop // BLOCK)].float()
        result[start:stop] = (values * scale[:, None]).view(-1)[: stop - start]
    return result


@functools.cache
def code_on(device: torch.device) -> Tensor:
    """``CODE`` there, copied once: a captured graph may not wait for the host's memory."""
    return CODE.to(device)


def rounded(weight: Nf4Weight) -> Tensor:
    """What the kernels multiply by, float32 ``(out, in)``: codes rounded to bf16, times their scales."""
    out, width = weight.shape
    codes = code_on(weight.packed.device).bfloat16().float()
    values = codes[unpack(weight.packed).int()][: out * width]
    scales = weight.absmax.float().repeat_interleave(BLOCK)[: out * width]
    return (values * scales).view(out, width)


def unpack(packed: Tensor) -> Tensor:
    """Bytes ``(n,)`` to indices ``(2 * n,)`` uint8, the high half first."""
    return torch.stack([packed >> 4, packed & 15], dim=-1).view(-1)


class Nf4Reference:
    """The plain product of what the kernels mean: bf16 codes, scales and inputs, sums in float32."""

    def __init__(self, weight: Nf4Weight) -> None:
        self.product = BlockedLinear(rounded(weight))

    def __call__(self, x: Tensor) -> Tensor:
        return self.product(x.bfloat16().float()).bfloat16().to(x.dtype)


class PanelBudget:
    """How many bytes of dequantised panels may still be kept; shared by one model's weights."""

    def __init__(self, room: int = CACHE_BYTES) -> None:
        self.room = room

    def take(self, count: int) -> bool:
        """Whether ``count`` bytes were left; they are taken then. Mutates the budget."""
        if count > self.room:
            return False
        self.room -= count
        return True


class Nf4Panels:
    """Dequantise, then multiply: blocks of 1024 outputs, kept in bf16 while the budget lasts.

    Which panels are kept is settled at once and for good: a panel's product takes one path always.
    """

    def __init__(self, weight: Nf4Weight, budget: PanelBudget) -> None:
        self.weight = weight
        out, width = weight.shape
        self.dtype = (
            torch.bfloat16 if torch.ops.mkldnn._is_mkldnn_bf16_supported() else torch.float32
        )
        self.kept: list[Linear | None] = []
        for start in range(0, out, PANEL_ROWS):
            size = min(PANEL_ROWS, out - start) * width * self.dtype.itemsize
            self.kept.append(make_linear(self._panel(start)) if budget.take(size) else None)

    def __call__(self, x: Tensor) -> Tensor:
        inputs = x.to(self.dtype)
        parts = [
            (kept or make_unpacked(self._panel(index * PANEL_ROWS)))(inputs)
            for index, kept in enumerate(self.kept)
        ]
        return torch.cat(parts, dim=-1).to(x.dtype)

    def _panel(self, start: int) -> Tensor:
        """Rows ``start`` to ``start + PANEL_ROWS``; PANEL_ROWS whole rows are whole blocks and bytes."""
        out, width = self.weight.shape
        rows = min(PANEL_ROWS, out - start)
        first = start * width
        packed = self.weight.packed[first // 2 :]
        absmax = self.weight.absmax[first // BLOCK :]
        return dequantise(packed, absmax, rows * width, self.dtype).view(rows, width)


class Nf4Fused:
    """bitsandbytes' CPU kernel: decodes in registers, so that only half a byte a weight is read.

    Takes inputs and gives outputs in bf16, sums in float32. Needs ``in`` to be a multiple of 64;
    outputs are padded to whole groups of 32.
    """

    def __init__(self, weight: Nf4Weight) -> None:
        kernel = fused_kernel()
        assert kernel is not None
        self.kernel = kernel
        self.out, self.width = weight.shape
        self.padded = self.out + -self.out % LANES
        self.packed = _interleaved(weight, self.padded)
        absmax = weight.absmax.view(self.out, self.width // BLOCK)
        self.absmax = F.pad(absmax, (0, 0, 0, self.padded - self.out)).t().contiguous()
        self._weights = self.packed.data_ptr(), self.absmax.data_ptr()

    def __call__(self, x: Tensor) -> Tensor:
        inputs = x.bfloat16().contiguous()
        rows = inputs.shape[0]
        result = torch.empty(rows, self.padded, dtype=torch.bfloat16)
        packed, absmax = self._weights
        self.kernel(
            rows, self.padded, self.width, inputs.data_ptr(), packed, absmax,
            result.data_ptr(), BLOCK, self.width, self.padded,
        )  # fmt: skip
        return result[:, : self.out].to(x.dtype)


class Nf4Embedding:
    """Rows of a quantised table."""

    def __init__(self, weight: Nf4Weight, dtype: torch.dtype) -> None:
        self.weight, self.dtype = weight, dtype
        _, width = weight.shape
        # Rows of whole blocks can be looked up; other widths occur in tests only.
        self.table = None if width % BLOCK == 0 else _whole(weight).to(dtype)

    def __call__(self, ids: Tensor) -> Tensor:
        """``ids (rows,)`` -> ``(rows, hidden)`` in the dtype the model computes in."""
        if self.table is not None:
            return self.table[ids]
        out, width = self.weight.shape
        packed = self.weight.packed.view(out, width // 2)[ids].view(-1)
        absmax = self.weight.absmax.view(out, width // BLOCK)[ids].view(-1)
        return dequantise(packed, absmax, len(ids) * width, self.dtype).view(-1, width)


def make_nf4(weight: Nf4Weight, budget: PanelBudget) -> Linear:
    """The fastest product for ``weight`` that is row-independent on this machine."""
    return Nf4Fused(weight) if _fuses(weight) else Nf4Panels(weight, budget)


@functools.cache
def fused_kernel() -> Any:
    """bitsandbytes' C function, or None: not installed, or the processor lacks AVX-512 BF16."""
    found = importlib.util.find_spec("bitsandbytes")
    if found is None or found.origin is None:
        return None
    for file in sorted(Path(found.origin).parent.glob("libbitsandbytes_cpu.*")):
        try:
            library = ctypes.CDLL(str(file))
            if library.has_avx512bf16_cpu() != 1:
                return None
            kernel = library.gemv_4bit_inference_cpu_nf4_bf16
        except (OSError, AttributeError):  # another version, or a library it needs is absent
            return None
        size, pointer = ctypes.c_int64, ctypes.c_void_p
        # rows, out, in; input, weight, absmax, result; block, strides of input and result
        kernel.argtypes = [*[size] * 3, *[pointer] * 4, *[size] * 3]
        kernel.restype = None
        return kernel
    return None


_row_independent: dict[tuple[int, int], bool] = {}


def _fuses(weight: Nf4Weight) -> bool:
    """Whether the fused kernel takes this shape and gives the reference's product; tried once each."""
    _, width = weight.shape
    if weight.shape not in _row_independent:
        _row_independent[weight.shape] = (
            width % BLOCK == 0
            and fused_kernel() is not None
            and is_row_independent(Nf4Fused(weight), _first_rows(weight))
            and _is_right(width)
        )
    return _row_independent[weight.shape]


def _first_rows(weight: Nf4Weight) -> Tensor:
    """Some of it in bf16: what a trial of a product needs. Each row has whole blocks."""
    out, width = weight.shape
    rows = min(out, LANES)
    return dequantise(weight.packed, weight.absmax, rows * width).view(rows, width)


@functools.cache
def _is_right(width: int) -> bool:
    """Whether the fused kernel means what the reference means, on a small weight of this width."""
    generator = torch.Generator().manual_seed(0)
    weight = quantise(torch.randn(40, width, generator=generator))
    x = torch.randn(5, width, generator=generator).bfloat16()
    found, expected = Nf4Fused(weight)(x).float(), Nf4Reference(weight)(x).float()
    return bool((found - expected).norm() < 1e-2 * expected.norm())


def _interleaved(weight: Nf4Weight, padded: int) -> Tensor:
    """The fused kernel's layout: pairs of inputs of 32 outputs side by side, halves in one byte.

    As bitsandbytes' ``_convert_weight_packed_for_cpu``: (groups of 32 outputs, in / 2, 32), where byte j
    holds the pair (output j / 2, input j % 2) low, and the same of output 16 + j / 2 high.
    """
    out, width = weight.shape
    result = torch.empty(padded // LANES, width // 2, LANES, dtype=torch.uint8)
    rows = weight.packed.view(out, width // 2)
    step = max(CHUNK // width // LANES, 1)
    for first in range(0, len(result), step):
        part = rows[first * LANES : (first + step) * LANES]
        part = F.pad(part, (0, 0, 0, -len(part) % LANES), value=0x77)  # two zeros
        codes = unpack(part.reshape(-1)).view(-1, LANES, width // 2, 2).transpose(1, 2)
        low, high = codes.reshape(-1, width // 2, 2 * LANES).chunk(2, dim=-1)
        result[first : first + step] = (high << 4) | low
    return result.view(padded, width // 2)


def _whole(weight: Nf4Weight) -> Tensor:
    out, width = weight.shape
    return dequantise(weight.packed, weight.absmax, out * width).view(out, width)
