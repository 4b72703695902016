"""Randomness without state: every number is a hash of (seed, stream, position, token).

What is drawn at a position does not depend on how many draws came before, so a reply for a seed is
the same whether tokens were decoded one by one or verified in bursts. The hash is SplitMix64's
finaliser (Steele, Lea, Flood 2014), on int64 tensors with wrap-around.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

import torch
from torch import Tensor

from engine.values.sampling import Sampling

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1, _MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_PART = 1 << 16
"""Numbers drawn at once: larger buffers cost more in page faults than in arithmetic."""


class Stream(IntEnum):
    """Independent sources; draws for different purposes must never share one."""

    CHOICE = 1
    """The target's own sample; under coupled acceptance also the draft's."""
    DRAFT = 2
    ACCEPT = 3
    RESIDUAL = 4


@dataclass(frozen=True, slots=True)
class Draws:
    """How tokens are drawn at some positions: from which distribution, and the key of the noise."""

    sampling: Sampling
    keys: tuple[int, ...]


def uniform(seed: int, stream: Stream, position: int) -> float:
    """Return a number in (0, 1)."""
    # 52 bits and a half are exact in float64; 53 would round up to 1 once in a long while.
    return ((_mix(key(seed, stream, position)) >> 12) + 0.5) * 2.0**-52


def exponential(seed: int, stream: Stream, positions: Sequence[int], vocabulary: int) -> Tensor:
    """Return exponential noise for every token at every position: float64 (positions, vocabulary)."""
    bits = random_bits(seed, stream, positions, vocabulary)
    return bits.double().add_(0.5).mul_(2.0**-52).log_().neg_()


def random_bits(seed: int, stream: Stream, positions: Sequence[int], vocabulary: int) -> Tensor:
    """Return the hash all noise is made of: int64 (positions, vocabulary), 52 random bits each."""
    keys = [_signed(key(seed, stream, position)) for position in positions]
    x = torch.tensor(keys, dtype=torch.long)[:, None] + _steps(vocabulary)
    x.bitwise_xor_(_shift(x, 30)).mul_(_signed(_MIX_1))
    x.bitwise_xor_(_shift(x, 27)).mul_(_signed(_MIX_2))
    x.bitwise_xor_(_shift(x, 31))
    return _shift(x, 12)


def sample(weights: Tensor, seed: int, stream: Stream, positions: Sequence[int]) -> Tensor:
    """Draw a token for each row of ``weights (rows, vocabulary)``, proportionally: int64 (rows,).

    A race of exponential clocks: argmin(E / w). It is the Gumbel-max trick, argmax(log w + g) with
    g = -log E, without its two further logarithms. Weights need not sum to one; a zero never wins
    against anything else. Row i is drawn at ``positions[i]`` and does not depend on the others.
    """
    rows, vocabulary = weights.shape
    size = max(_PART // vocabulary, 1)
    drawn = []
    for at in range(0, rows, size):
        noise = exponential(seed, stream, positions[at : at + size], vocabulary)
        drawn.append(noise.to(weights.device).div_(weights[at : at + size]).argmin(-1))
    return torch.cat(drawn)


def ranking(weights: Tensor, seed: int, stream: Stream, position: int, count: int) -> list[int]:
    """Return the first ``count`` tokens of ``sample``'s race at ``position``, first to last.

    ``weights (1, vocabulary)``; tokens of weight zero do not run.
    """
    times = exponential(seed, stream, [position], weights.shape[1]).to(weights.device).div_(weights)
    running = int((weights > 0).sum())
    found: list[int] = times[0].topk(min(count, running), largest=False).indices.tolist()
    return found


def place_in_draft(start: int, index: int) -> int:
    """Return the place of the noise for token ``index`` of a draft after ``start`` tokens, which no other
    draft has.

    Block verification accepts by the coins of all drafted tokens, and by the tokens behind those that it
    accepts: what is drawn and judged there later must not be so with the same noise.
    """
    return start + (index << 32)


def key(seed: int, stream: Stream, position: int) -> int:
    return _mix(_mix(_mix(seed & _MASK) ^ stream) ^ position)


def _mix(x: int) -> int:
    x = (x + _GOLDEN) & _MASK
    x = ((x ^ (x >> 30)) * _MIX_1) & _MASK
    x = ((x ^ (x >> 27)) * _MIX_2) & _MASK
    return x ^ (x >> 31)


@lru_cache(maxsize=4)
def _steps(vocabulary: int) -> Tensor:
    """Return what each token adds to a position's key."""
    return torch.arange(1, vocabulary + 1) * _signed(_GOLDEN)


def _signed(x: int) -> int:
    return x - (1 << 64) if x >> 63 else x


def _shift(x: Tensor, bits: int) -> Tensor:
    """Return a logical right shift; torch's own keeps the sign."""
    return (x >> bits).bitwise_and_((1 << (64 - bits)) - 1)
