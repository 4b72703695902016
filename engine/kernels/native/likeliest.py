"""The likeliest token of each row of logits, and how likely any token is, without a softmax over all.

At temperature 0 this is all that judging a round needs. In torch it is a softmax, a maximum and an
indexing of tensors; for small vocabularies the calls cost more than what they compute.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.kernels.native.library import Library


@dataclass(frozen=True, slots=True)
class Likeliest:
    """What ``of`` found.

    tokens       the first with the largest logit, for each row
    _logits      (rows, width) float32
    _peaks       the largest logit of each row
    _masses      the sum of e^(logit - peak) of each row; 0 where no logit is a number
    """

    tokens: list[int]
    _logits: Tensor
    _peaks: ctypes.Array[ctypes.c_float]
    _masses: ctypes.Array[ctypes.c_float]

    def chances(self, places: Iterable[tuple[int, int]]) -> list[float]:
        """The probabilities of some (row, token), 0 for a token that the logits do not reach."""
        start, (stride, _), width = (
            self._logits.data_ptr(),
            self._logits.stride(),
            self._logits.shape[1],
        )
        found = []
        for row, token in places:
            mass = self._masses[row]
            if not mass or token >= width:
                found.append(0.0)
                continue
            logit = ctypes.c_float.from_address(start + 4 * (row * stride + token)).value
            found.append(math.exp(logit - self._peaks[row]) / mass)
        return found


def of(library: Library, logits: Tensor) -> Likeliest:
    """``logits (rows, width)``: float32 on the CPU, the numbers of a row side by side."""
    assert logits.dtype is torch.float32 and logits.stride(1) == 1
    rows, width = logits.shape
    tokens = (ctypes.c_int64 * rows)()
    peaks, masses = (ctypes.c_float * rows)(), (ctypes.c_float * rows)()
    library.likeliest(logits.data_ptr(), rows, width, logits.stride(0), tokens, peaks, masses)
    return Likeliest(list(tokens), logits, peaks, masses)
