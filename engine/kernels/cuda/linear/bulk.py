"""Linear layers of many rows, for prompts: cuBLAS, over a part of the weight dequantised at a time.

Arithmetic limits these, not memory, so dequantising to bf16 costs little. The order of cuBLAS's sums
depends on the number of rows, so decoding and verification never use this.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.kernels.cuda import STREAMED_ROWS
from engine.kernels.cuda.linear.fusion import FusedLinear, Fusion, normalise
from engine.kernels.formats import nf4
from engine.kernels.formats.int8 import Int8Weight
from engine.kernels.formats.nf4 import GROUP, Nf4Weight

PART = 8192
"""Outputs dequantised at once: some tens of megabytes. That many rows are whole groups and bytes."""
LEAST_INTEGER_ROWS = 17
"""Least rows of cuBLAS's int8 product; its other sizes must be multiples of 8."""
COLUMNS = 1024
"""Outputs that one program finishes."""


class BulkLinear:
    """A linear layer for any number of rows: ``streamed`` up to ``STREAMED_ROWS``, and cuBLAS beyond.

    Of many rows, only int8 gives the bits of ``streamed``.
    """

    def __init__(
        self, streamed: FusedLinear, weight: Tensor | Int8Weight | Nf4Weight, fusion: Fusion
    ) -> None:
        self.streamed, self.weight, self.fusion = streamed, weight, fusion

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        if len(x) <= STREAMED_ROWS:
            return self.streamed(x, residual)
        if isinstance(self.weight, Int8Weight):
            return self._int8(x, self.weight, residual)
        inputs = x if self.fusion.norm is None else normalise(x, self.fusion.norm)
        return self._finish(_float_sums(inputs.bfloat16(), self.weight), residual, x.dtype)

    def _int8(self, x: Tensor, weight: Int8Weight, residual: Tensor | None) -> Tensor:
        """Multiply exact integer sums by the scales of outputs and rows."""
        from engine.kernels.cuda.linear.streamed import quantise_rows

        values, scales = quantise_rows(x.contiguous(), self.fusion)
        if len(x) >= LEAST_INTEGER_ROWS and not any(size % 8 for size in weight.values.shape):
            sums = torch._int_mm(values, weight.values.t())
        else:  # exact below 2**53
            sums = (values.double() @ weight.values.double().t()).int()
        return self._finish(sums, residual, x.dtype, scales, weight.scale)

    def _finish(
        self, sums: Tensor, residual: Tensor | None, dtype: torch.dtype,
        scales: Tensor | None = None, weight_scales: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Return ``sums (rows, out)`` with scales, bias, gate and residual, rounded once to ``dtype``."""
        from engine.kernels.cuda.linear.bulk_kernel import finish_rows

        bias, gated = self.fusion.bias, self.fusion.gated
        if scales is None and bias is None and residual is None and not gated:
            return sums.to(dtype)
        rows, outputs = len(sums), sums.shape[1] // 2 if gated else sums.shape[1]
        result = torch.empty(rows, outputs, dtype=dtype, device=sums.device)
        finish_rows[(rows, -(-outputs // COLUMNS))](
            sums, scales, weight_scales, bias, None if residual is None else residual.contiguous(),
            result, outputs, GATED=gated, COLUMNS=COLUMNS, enable_fp_fusion=False,
        )  # fmt: skip
        return result


def _float_sums(inputs: Tensor, weight: Tensor | Nf4Weight) -> Tensor:
    """Multiply bf16 rows and weights; return (rows, out) bf16, summed in float32."""
    if isinstance(weight, Tensor):
        return inputs @ weight.t()
    outputs = weight.shape[0]
    sums = torch.empty(len(inputs), outputs, dtype=torch.bfloat16, device=inputs.device)
    for start in range(0, outputs, PART):
        stop = min(start + PART, outputs)
        torch.mm(inputs, _bf16_rows(weight, start, stop).t(), out=sums[:, start:stop])
    return sums


def _bf16_rows(weight: Nf4Weight, start: int, stop: int) -> Tensor:
    """Return outputs ``start`` to ``stop`` in bf16; ``start`` is a multiple of ``PART``."""
    width = weight.shape[1]
    packed, absmax = weight.packed[start * width // 2 :], weight.absmax[start * width // GROUP :]
    count = (stop - start) * width
    if count % 2:
        return nf4.dequantise(packed, absmax, count).view(-1, width)
    from engine.kernels.cuda.linear.nf4 import dequantise

    return dequantise(packed, absmax, count).view(-1, width)
