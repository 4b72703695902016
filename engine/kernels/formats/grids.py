"""Grids: the values that indices stand for in the formats IQ1, IQ2 and IQ3, from the package ``gguf``."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

IN_GRIDS = ("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s")
"""Formats whose codes are such indices."""


@functools.cache
def grid_of(format: str) -> Tensor:
    """Return uint8 ``(indices, inputs of one)``, and for four inputs also ``(inputs, indices)``, flat.

    They are the values, but 8 (value + 1) in IQ1, where a shift of 1/8 is added to -1, 0 or 1.
    """
    # Imported here: a machine that never reads such a file need not have it.
    from gguf import quants

    kind = getattr(quants, format.upper())
    kind.init_grid()
    values = torch.from_numpy(kind.grid[0, 0])
    if format.startswith("iq1"):
        values = 8 * (values + 1)
    parts = [values, values.T] if values.shape[1] == 4 else [values]
    return torch.cat([part.flatten() for part in parts]).to(torch.uint8)
