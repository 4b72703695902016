"""Drawing tokens in one pass: ``noise.sample`` compiled.

torch makes a tensor of hashes, one of logarithms and one of quotients, for every token of the
vocabulary; here nearly all tokens have lost before their logarithm is needed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.kernels.native.library import Library


def sample(library: Library, weights: Tensor, keys: Sequence[int]) -> list[int]:
    """One token for each row of ``weights (rows, vocabulary)``, float32 on the CPU.

    ``keys``: for each row the number below 2**64 that is hashed with the tokens, as in ``noise``.
    """
    assert weights.dtype is torch.float32 and weights.device.type == "cpu"
    rows, vocabulary = weights.shape
    weights = weights.contiguous()
    tokens = (ctypes.c_int64 * rows)()
    library.sample(weights.data_ptr(), rows, vocabulary, (ctypes.c_uint64 * rows)(*keys), tokens)
    return list(tokens)
