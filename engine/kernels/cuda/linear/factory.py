"""Linear layers and embeddings of torch's executor on a GPU: its products run in the kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.kernels.cuda.linear.bulk import BulkLinear
from engine.kernels.cuda.linear.dispatch import (
    Weight,
    convert_weight,
    embedding_of,
)
from engine.kernels.formats.blocks import Stacked
from engine.kernels.torch.factory import Embedding, Kernels
from engine.kernels.torch.linear import Linear
from engine.kernels.torch.linear import make_linear as make_exact


def kernels_on(quantization: str, device: torch.device) -> tuple[Kernels, list[BulkLinear]]:
    """Return what makes a model's layers, and the list of all products that it has made."""
    made: list[BulkLinear] = []
    last: list[tuple[Stacked, Weight]] = []

    def converted(weight: Stacked) -> Weight:
        """Convert a weight once if it is asked for twice in a row, as a tied embedding is."""
        if not last or last[0][0] is not weight:
            last[:] = [(weight, convert_weight(quantization, weight, device))]
        return last[0][1]

    def linear(weight: Stacked) -> BulkLinear:
        made.append(BulkLinear(converted(weight)))
        return made[-1]

    def embedding(table: Stacked) -> Embedding:
        return embedding_of(converted(table))

    def exact(weight: Tensor) -> Linear:
        return make_exact(weight.to(device, torch.float32))

    return Kernels(linear, embedding, exact), made
