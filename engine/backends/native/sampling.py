"""Sample a token from each row of logits in one compiled pass, without a softmax over the vocabulary.

A round needs no more if nothing is added to the logits. torch needs four calls, and a dozen to truncate,
which for small vocabularies cost more than what they compute.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.kernels.native.library import Library
from engine.kernels.native.structures import Sampling
from engine.noise import Draws

Numbers = ctypes.Array[ctypes.c_float]


@dataclass(frozen=True, slots=True)
class SampledTokens:
    """The result of ``greedy`` or ``sample``.

    _library     the compiled library
    tokens       one for each row
    _logits      (rows, width) float32
    _sharpness   1 / temperature
    _peaks       the largest logit of each row
    _masses      the sum of e^(sharpness * (logit - peak)) of each row; 0 where no logit is a number
    _least       the least logit of each row that can be drawn
    """

    _library: Library
    tokens: list[int]
    _logits: Tensor
    _sharpness: float
    _peaks: Numbers
    _masses: Numbers
    _least: Numbers

    def probabilities(self, places: Iterable[tuple[int, int]]) -> list[float]:
        """Return the probability of each (row, token); 0 for a token beyond the logits."""
        logits, probabilities = self._logits, []
        start, stride, width = logits.data_ptr(), logits.stride(0), logits.shape[1]
        for row, token in places:
            mass = self._masses[row]
            at = start + 4 * (row * stride + token)
            logit = ctypes.c_float.from_address(at).value if token < width else -math.inf
            if not mass or logit < self._least[row]:
                probabilities.append(0.0)
                continue
            peak = self._peaks[row]
            probabilities.append(math.exp((logit - peak) * self._sharpness) / mass)
        return probabilities

    def top_tokens(self, row: int, count: int) -> tuple[tuple[int, float], ...]:
        """Return the ``count`` most probable tokens of a row with their probabilities, none at 0."""
        tokens = top_indices(self._library, self._logits[row], count)
        chances = self.probabilities((row, token) for token in tokens)
        return tuple((token, p) for token, p in zip(tokens, chances, strict=True) if p)


def supports(logits: Tensor) -> bool:
    """Return whether ``logits`` are float32 on the CPU with contiguous rows, as needed below."""
    contiguous = logits.device.type == "cpu" and logits.stride(-1) == 1
    return contiguous and logits.dtype is torch.float32


def greedy(library: Library, logits: Tensor) -> SampledTokens:
    """Take the first token with the largest logit of each row of ``logits (rows, width)``."""
    assert supports(logits)
    rows, width = logits.shape
    tokens, peaks, masses, least = _room(rows)
    library.greedy(logits.data_ptr(), rows, width, logits.stride(0), tokens, peaks, masses)
    return SampledTokens(library, list(tokens), logits, 1.0, peaks, masses, least)


def sample(library: Library, logits: Tensor, draws: Draws) -> SampledTokens:
    """Draw a token for each row of ``logits (rows, width)``, with the noise of ``draws``."""
    assert supports(logits)
    rows, width = logits.shape
    tokens, peaks, masses, least = _room(rows)
    values, keys = Sampling.of(draws.sampling), (ctypes.c_uint64 * rows)(*draws.keys)
    library.sample_logits(
        logits.data_ptr(), rows, width, logits.stride(0), ctypes.byref(values), keys,
        tokens, peaks, masses, least,
    )  # fmt: skip
    return SampledTokens(library, list(tokens), logits, values.sharpness, peaks, masses, least)


def top_indices(library: Library, row: Tensor, count: int) -> list[int]:
    """Return the indices of the ``count`` largest numbers of ``row (width,)``, largest first.

    Of equal numbers the first comes first. ``row`` must be as ``supports`` says.
    """
    places = (ctypes.c_int64 * count)()
    library.top_k(row.data_ptr(), row.shape[0], count, places)
    return [place for place in places if place >= 0]


def draw(library: Library, weights: Tensor, keys: Sequence[int]) -> list[int]:
    """Draw one token for each row of ``weights (rows, vocabulary)``, float32 on the CPU.

    This is ``noise.sample`` compiled. ``keys``: for each row the number below 2**64 that is hashed with
    the token ids. torch would make three tensors over the vocabulary; here nearly all tokens are ruled
    out before their logarithm is needed.
    """
    assert weights.dtype is torch.float32 and weights.device.type == "cpu"
    rows, vocabulary = weights.shape
    weights = weights.contiguous()
    tokens = (ctypes.c_int64 * rows)()
    library.sample_weights(
        weights.data_ptr(), rows, vocabulary, (ctypes.c_uint64 * rows)(*keys), tokens
    )
    return list(tokens)


def _room(rows: int) -> tuple[ctypes.Array[ctypes.c_int64], Numbers, Numbers, Numbers]:
    numbers = ctypes.c_float * rows
    return (ctypes.c_int64 * rows)(), numbers(), numbers(), numbers(*[-math.inf] * rows)
