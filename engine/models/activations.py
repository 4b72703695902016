"""The functions that gates use, by transformers' names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.errors import ModelError

Activation = Callable[[Tensor], Tensor]

ACTIVATIONS: Mapping[str, Activation] = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_pytorch_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
}


def by_rows(function: Activation) -> Activation:
    """``function``, of each number alone, so that a row's bits do not depend on the rows beside it.

    torch's threads share out all numbers of a tensor on the CPU, wherever a row ends, and the last few of
    each share are computed by other code than vectors are: exp and tanh differ there in their last bit.
    """

    def each(x: Tensor) -> Tensor:
        """``(rows, ...)`` to the same."""
        if x.device.type != "cpu" or not len(x):
            return function(x)
        return torch.cat([function(row) for row in x.split(1)])

    return each


def activation(name: str) -> Activation:
    """The function called ``name``. Raises ModelError for one that is not known."""
    if name in ACTIVATIONS:
        return ACTIVATIONS[name]
    raise ModelError(
        f"The model's activation is {name!r} (config.json); known here are {', '.join(ACTIVATIONS)}. "
        "With another one it would say something else. Use a model with one of these."
    )
