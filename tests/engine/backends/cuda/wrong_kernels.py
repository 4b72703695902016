"""Kernels that are made wrong on purpose."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

KERNELS = {
    "bf16_gemm": ("engine.kernels.cuda.linear.streamed", 4),
    "int8_rows": ("engine.kernels.cuda.linear.streamed", 2),
    "int8_gemm": ("engine.kernels.cuda.linear.streamed", 6),
    "block_gemm": ("engine.kernels.cuda.linear.streamed", 7),
    "finish_rows": ("engine.kernels.cuda.linear.bulk_kernel", 5),
    "dequantise_blocks": ("engine.kernels.cuda.linear.blocks", 4),
    "normalise_rows": ("engine.kernels.cuda.linear.parts", 3),
    "take_in_rows": ("engine.kernels.cuda.recurrence_kernel", 8),
    "rope_and_store": ("engine.kernels.cuda.rotary_kernel", 4),
    "attend_splits": ("engine.kernels.cuda.attention_kernel", 6),
    "combine_parts": ("engine.kernels.cuda.attention_kernel", 5),
    "race_kernel": ("engine.kernels.cuda.sampling.acceptance", 7),
    "accept_kernel": ("engine.kernels.cuda.sampling.acceptance", 12),
    "times_kernel": ("engine.kernels.cuda.sampling.branches", 4),
    "grow_kernel": ("engine.kernels.cuda.sampling.branches", 5),
}
"""The module of each kernel, and which argument it writes."""


class WrongKernel:
    """Launches a kernel, then spoils what it wrote, or what it wrote of trees; ``launches`` counts."""

    def __init__(
        self, kernel: Any, result: int, spoil: Callable[[torch.Tensor], None], trees: bool
    ) -> None:
        self._kernel, self._result, self._spoil, self._trees = kernel, result, spoil, trees
        self.launches = 0

    def __getitem__(self, grid: Sequence[int]) -> Callable[..., None]:
        def launch(*arguments: Any, **named: Any) -> None:
            self._kernel[grid](*arguments, **named)
            if self._trees and not named.get("TREE", grid[-1] > 1):
                return
            self._spoil(arguments[self._result])
            self.launches += 1

        return launch


def spoil_values(result: torch.Tensor) -> None:
    """Make the last number wrong by a tenth of the largest."""
    last = result.view(-1)[-1:]
    if result.dtype.is_floating_point:
        last += 0.1 * result.abs().max() + 1e-3
    else:
        last.copy_(-last - 9)


def spoil_rows(result: torch.Tensor) -> None:
    """Change the last bit of the first number, unless the row is alone."""
    if len(result) > 1:
        size = {1: torch.int8, 2: torch.int16, 4: torch.int32}[result.element_size()]
        result.view(-1)[:1].view(size).bitwise_xor_(1)


def refuse(result: torch.Tensor) -> None:
    """Fail as a launch that needs more shared memory than there is."""
    from triton.runtime.errors import OutOfResources

    raise OutOfResources(200_000, 100_000, "shared memory")


def put_wrong(
    patch: pytest.MonkeyPatch,
    name: str,
    spoil: Callable[[torch.Tensor], None],
    trees: bool = False,
) -> WrongKernel:
    """Put a wrong kernel in the place of the right one; ``trees``: it is wrong in trees alone."""
    module, result = KERNELS[name]
    wrong = WrongKernel(getattr(importlib.import_module(module), name), result, spoil, trees)
    patch.setattr(f"{module}.{name}", wrong)
    return wrong
