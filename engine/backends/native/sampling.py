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
from engine.kernels.native.structures import Drawn, Sampling
from engine.noise import Draws


@dataclass(frozen=True, slots=True)
class SampledTokens:
    """The result of ``sample``.

    _library     the compiled library
    tokens       one for each row
    _logits      (rows, width) float32
    _sharpness   1 / temperature
    _drawn       each row's token, its largest and least logit that can be drawn, and the sum of
                 e^(sharpness * (logit - peak)) of all these; 0 where no logit is a number
    """

    _library: Library
    tokens: list[int]
    _logits: Tensor
    _sharpness: float
    _drawn: ctypes.Array[Drawn]

    def probabilities(self, places: Iterable[tuple[int, int]]) -> list[float]:
        """Return the probability of each (row, token); 0 for a token beyond the logits."""
        logits, probabilities = self._logits, []
        start, stride, width = logits.data_ptr(), logits.stride(0), logits.shape[1]
        for row, token in places:
            drawn = self._drawn[row]
            at = start + 4 * (row * stride + token)
            logit = ctypes.c_float.from_address(at).value if token < width else -math.inf
            kept = drawn.exp_sum and logit >= drawn.least
            weight = math.exp((logit - drawn.peak) * self._sharpness) if kept else 0.0
            probabilities.append(weight / (drawn.exp_sum or 1.0))
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


def sample(library: Library, logits: Tensor, draws: Draws | None) -> SampledTokens:
    """Draw a token for each row of ``logits (rows, width)``, with the noise of ``draws``; without, take
    the first token with the largest logit."""
    assert supports(logits)
    rows, width = logits.shape
    drawn, values, keys = (Drawn * rows)(), Sampling(sharpness=1.0), None
    if draws is not None:
        values, keys = Sampling.of(draws.sampling), (ctypes.c_uint64 * rows)(*draws.keys)
    library.sample_logits(
        logits.data_ptr(), rows, width, logits.stride(0), ctypes.byref(values), keys, drawn
    )
    tokens = [each.index for each in drawn]
    return SampledTokens(library, tokens, logits, values.sharpness, drawn)


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
