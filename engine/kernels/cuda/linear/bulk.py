"""Linear layers of many rows, for prompts: cuBLAS, over a part of the weight dequantised at a time.

Arithmetic limits these, not memory, so dequantising to bf16 costs little. The order of cuBLAS's sums
depends on the number of rows, so decoding and verification never use this.
"""

from __future__ import annotations

import logging

import torch
from torch import Tensor

from engine.kernels.cuda import STREAMED_ROWS
from engine.kernels.cuda.linear.dispatch import Weight, make_linear
from engine.kernels.cuda.linear.fusion import PLAIN, Fusion, finish_sums, normalise
from engine.kernels.formats.int8 import Int8Weight
from engine.machine.devices import loses_gpu, ran_out

log = logging.getLogger(__name__)

PART = 8192
"""Outputs dequantised at once: some tens of megabytes."""


class BulkLinear:
    """A linear layer for any number of rows: ``streamed`` up to ``STREAMED_ROWS``, and cuBLAS beyond.

    Of many rows, only int8 gives the bits of ``streamed``. ``refused``: why cuBLAS does not multiply
    int8 here, so that ``streamed`` does; "" if it does, or was not asked.
    """

    def __init__(self, weight: Weight, fusion: Fusion = PLAIN) -> None:
        self.streamed, self.weight, self.fusion = make_linear(weight, fusion), weight, fusion
        self.refused = ""

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        if len(x) <= STREAMED_ROWS:
            return self.streamed(x, residual)
        if isinstance(self.weight, Int8Weight):
            return self._int8(x, self.weight, residual)
        inputs = x if self.fusion.norm is None else normalise(x, self.fusion.norm)
        return finish_sums(
            _float_sums(inputs.bfloat16(), self.weight), self.fusion, residual, x.dtype
        )

    def _int8(self, x: Tensor, weight: Int8Weight, residual: Tensor | None) -> Tensor:
        """Multiply exact integer sums by the scales of outputs and rows."""
        from engine.kernels.cuda.linear.streamed import quantise_rows

        if not self.refused:
            values, scales = quantise_rows(x.contiguous(), self.fusion)
            sums = self._integer_sums(values, weight.values)
            if sums is not None:
                return finish_sums(sums, self.fusion, residual, x.dtype, scales, weight.scale)
        residuals = [None] * len(x) if residual is None else residual.split(STREAMED_ROWS)
        return torch.cat(list(map(self.streamed, x.split(STREAMED_ROWS), residuals)))

    def _integer_sums(self, values: Tensor, weight: Tensor) -> Tensor | None:
        """Return the product by cuBLAS: int32 (rows, out); None if it refuses."""
        try:
            return torch._int_mm(values, weight.t())
        except RuntimeError as error:  # for sizes that are no multiples of 8, or without a reason
            if ran_out(error) or loses_gpu(error):
                raise
            why = (str(error).splitlines() or [type(error).__name__])[0]
            self.refused = f"prompts without cuBLAS, slower: {why}"
            log.warning("int8: %s", self.refused)
            return None


def _float_sums(inputs: Tensor, weight: Weight) -> Tensor:
    """Multiply bf16 rows and weights; return (rows, out) bf16, summed in float32."""
    if isinstance(weight, tuple):
        return torch.cat([_float_sums(inputs, part) for part in weight], 1)
    if isinstance(weight, Tensor):
        return inputs @ weight.t()
    from engine.kernels.cuda.linear.blocks import dequantise

    assert not isinstance(weight, Int8Weight)
    outputs = weight.shape[0]
    sums = torch.empty(len(inputs), outputs, dtype=torch.bfloat16, device=inputs.device)
    for start in range(0, outputs, PART):
        stop = min(start + PART, outputs)
        torch.mm(inputs, dequantise(weight, start, stop).t(), out=sums[:, start:stop])
    return sums
