"""Randomness without state: every number is a hash of (seed, stream, position, token).

What is drawn at a position does not depend on how many draws came before, so a reply for a seed is
the same whether tokens were decoded one by one or verified in bursts. The hash is SplitMix64's
finaliser (Steele, Lea, Flood 2014), on int64 tensors with wrap-around.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum

import torch
from torch import Tensor

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1, _MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


class Stream(IntEnum):
    """Independent sources; draws for different purposes must never share one."""

    CHOICE = 1
    """The target's own sample; under coupled acceptance also the draft's."""
    DRAFT = 2
    ACCEPT = 3
    RESIDUAL = 4


def uniform(seed: int, stream: Stream, position: int) -> float:
    """A number in (0, 1)."""
    return ((_mix(_key(seed, stream, position)) >> 11) + 0.5) * 2.0**-53


def gumbel(seed: int, stream: Stream, positions: Sequence[int], vocabulary: int) -> Tensor:
    """Standard Gumbel noise for every token at every position: float64 (positions, vocabulary)."""
    keys = torch.tensor([_signed(_key(seed, stream, position)) for position in positions])
    x = keys[:, None] + torch.arange(1, vocabulary + 1) * _signed(_GOLDEN)
    x = (x ^ _shift(x, 30)) * _signed(_MIX_1)
    x = (x ^ _shift(x, 27)) * _signed(_MIX_2)
    x = x ^ _shift(x, 31)
    u = (_shift(x, 11).double() + 0.5) * 2.0**-53
    return u.log_().neg_().log_().neg_()


def argmax_sample(weights: Tensor, noise: Tensor) -> Tensor:
    """Samples each row of ``weights (rows, vocabulary)``, proportionally: int64 (rows,).

    The Gumbel-max trick: argmax(log w + g). Weights need not sum to one; zeros are never chosen.
    """
    return (weights.double().log() + noise.to(weights.device)).argmax(-1)


def _key(seed: int, stream: Stream, position: int) -> int:
    return _mix(_mix(_mix(seed & _MASK) ^ stream) ^ position)


def _mix(x: int) -> int:
    x = (x + _GOLDEN) & _MASK
    x = ((x ^ (x >> 30)) * _MIX_1) & _MASK
    x = ((x ^ (x >> 27)) * _MIX_2) & _MASK
    return x ^ (x >> 31)


def _signed(x: int) -> int:
    return x - (1 << 64) if x >> 63 else x


def _shift(x: Tensor, bits: int) -> Tensor:
    """Logical right shift; torch's own keeps the sign."""
    return (x >> bits) & int(math.ldexp(1, 64 - bits) - 1)
