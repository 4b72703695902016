"""Penalties for tokens that were seen before, by one formula for every device."""

from __future__ import annotations

import torch
from torch import Tensor

Setting = Tensor | float


def penalised(
    logits: Tensor, times: Tensor, repetition: Setting, presence: Setting, frequency: Setting
) -> Tensor:
    """Return the ``logits`` of tokens in the text after penalties.

    ``times``: occurrences in the output, of the same shape.
    """
    logits = torch.where(logits > 0, logits / repetition, logits * repetition)
    return logits - torch.where(times > 0, presence + frequency * times, 0.0)
