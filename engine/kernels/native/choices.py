"""A token for each row of logits, and how likely any token is, without a softmax over all.

This is all that judging a round needs, and drafting a token, where nothing is added to the logits and
their distribution is not truncated. In torch it is a division, a softmax, a choice and an indexing of
tensors; for small vocabularies the calls cost more than what they compute.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.kernels.native.library import Library
from engine.noise import Draws

Numbers = ctypes.Array[ctypes.c_float]


@dataclass(frozen=True, slots=True)
class Choices:
    """What ``likeliest`` or ``drawn`` found.

    _library     where they were found
    tokens       one for each row
    _logits      (rows, width) float32
    _sharpness   what logits are multiplied with: 1 / temperature
    _peaks       the largest logit of each row
    _masses      the sum of e^(sharpness * (logit - peak)) of each row; 0 where no logit is a number
    """

    _library: Library
    tokens: list[int]
    _logits: Tensor
    _sharpness: float
    _peaks: Numbers
    _masses: Numbers

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
            found.append(math.exp((logit - self._peaks[row]) * self._sharpness) / mass)
        return found

    def likeliest(self, row: int, count: int) -> tuple[tuple[int, float], ...]:
        """The first ``count`` tokens of a row with their probabilities, the likeliest first."""
        tokens = first_places(self._library, self._logits[row], count)
        return tuple(zip(tokens, self.chances((row, token) for token in tokens), strict=True))


def reads(logits: Tensor) -> bool:
    """Whether the functions below take these: float32 on the CPU, the logits of a row side by side."""
    near = logits.device.type == "cpu" and logits.stride(-1) == 1
    return near and logits.dtype is torch.float32


def likeliest(library: Library, logits: Tensor) -> Choices:
    """The first token with the largest logit, for each row of ``logits (rows, width)``."""
    assert reads(logits)
    rows, width = logits.shape
    tokens, peaks, masses = _room(rows)
    library.likeliest(logits.data_ptr(), rows, width, logits.stride(0), tokens, peaks, masses)
    return Choices(library, list(tokens), logits, 1.0, peaks, masses)


def drawn(library: Library, logits: Tensor, draws: Draws) -> Choices:
    """A token for each row of ``logits (rows, width)``, drawn as by ``sampling.sample``."""
    assert reads(logits)
    rows, width = logits.shape
    tokens, peaks, masses = _room(rows)
    sharpness, keys = 1 / draws.temperature, (ctypes.c_uint64 * rows)(*draws.keys)
    library.drawn(
        logits.data_ptr(), rows, width, logits.stride(0), sharpness, keys,
        tokens, peaks, masses,
    )  # fmt: skip
    return Choices(library, list(tokens), logits, sharpness, peaks, masses)


def first_places(library: Library, row: Tensor, count: int) -> list[int]:
    """The places of the ``count`` largest numbers of ``row (width,)``, the largest first, the first of
    equals before the others; ``row`` is as ``reads`` has it."""
    places = (ctypes.c_int64 * count)()
    library.first_places(row.data_ptr(), row.shape[0], count, places)
    return [place for place in places if place >= 0]


def _room(rows: int) -> tuple[ctypes.Array[ctypes.c_int64], Numbers, Numbers]:
    return (ctypes.c_int64 * rows)(), (ctypes.c_float * rows)(), (ctypes.c_float * rows)()
