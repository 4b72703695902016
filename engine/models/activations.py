"""Activation functions by transformers' names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.errors import ModelError
from engine.values import MAX_ROWS

Activation = Callable[[Tensor], Tensor]

ACTIVATIONS: Mapping[str, Activation] = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_pytorch_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
}


def by_rows(function: Activation) -> Activation:
    """Return ``function``, row by row, so that a row's bits do not depend on the rows beside it.

    On the CPU torch divides all numbers of a tensor among its threads, across rows, and computes the last
    few of each thread by scalar code, whose exp and tanh differ from the vector code's in the last bit.
    """

    def row_by_row(x: Tensor) -> Tensor:
        """``x (rows, ...)``."""
        if x.device.type != "cpu" or not len(x):
            return function(x)
        return torch.cat([function(row) for row in x.split(1)])

    return row_by_row


def in_16_rows(function: Activation, x: Tensor) -> Tensor:
    """Return ``function(x)`` of ``x (rows, ...)``, computed with 16 rows on a GPU if there are fewer.

    There torch divides a reduction among threads by the number of rows, which changes its order.
    """
    rows = len(x)
    if x.device.type == "cpu" or rows >= MAX_ROWS:
        return function(x)
    return function(torch.cat([x, x.new_zeros(MAX_ROWS - rows, *x.shape[1:])]))[:rows]


def soft_cap(logits: Tensor, cap: float | None) -> Tensor:
    """Return ``cap * tanh(logits / cap)``, row by row; ``logits`` if there is no cap."""
    return logits if cap is None else cap * by_rows(torch.tanh)(logits / cap)


def activation(name: str) -> Activation:
    """Return the function called ``name``. Raises ModelError for an unknown name."""
    if name in ACTIVATIONS:
        return ACTIVATIONS[name]
    raise ModelError(
        f"The activation {name!r} in config.json is not supported; supported are "
        f"{', '.join(ACTIVATIONS)}. Choose another model."
    )
