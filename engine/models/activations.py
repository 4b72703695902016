"""The functions that gates use, by transformers' names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

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


def activation(name: str) -> Activation:
    """The function called ``name``. Raises ModelError for one that is not known."""
    if name in ACTIVATIONS:
        return ACTIVATIONS[name]
    raise ModelError(
        f"The model's activation is {name!r} (config.json); known here are {', '.join(ACTIVATIONS)}. "
        "With another one it would say something else. Use a model with one of these."
    )
