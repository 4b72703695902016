"""MXFP4 as safetensors checkpoints have it (gpt-oss), rearranged to GGUF's blocks without losing a bit.

Both have 16 bytes of codes and an exponent for 32 inputs. In safetensors a byte holds two neighbouring
inputs, the first in its lower half; in GGUF it holds inputs k and k + 16 of the block.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.kernels.formats.blocks import Blocks


def to_blocks(codes: Tensor, exponents: Tensor) -> Blocks:
    """Return ``codes (..., outputs, groups, 16)`` and ``exponents (..., outputs, groups)`` as a matrix.

    Both are uint8. Leading axes, such as experts, are rows above each other.
    """
    groups = exponents.shape[-1]
    inputs = torch.stack([codes & 15, codes >> 4], dim=-1).view(-1, groups, 32)
    halves = inputs[..., :16] | inputs[..., 16:] << 4
    data = torch.cat([exponents.reshape(-1, groups, 1), halves], dim=-1).flatten(1)
    return Blocks("mxfp4", (len(data), groups * 32), data)
