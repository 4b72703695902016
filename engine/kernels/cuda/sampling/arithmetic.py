"""Noise with the same bits on every device, and in torch.

It consists of additions, multiplications and divisions, which IEEE 754 defines exactly. Kernels that
use it are compiled with ``enable_fp_fusion=False``, so that no product is fused into a sum. The
hardware's ``lg2`` is not used: it differs between GPUs and is wrong near 1, where winners are.

The noise is float32, and float64 in ``engine.noise``: consumer GPUs (sm_86, 89, 120) do 64 float32
operations in the time of one float64. The hash is the same, and the noise differs by about 3e-7, so a
drawn token differs only where two times of the race are that close.
"""

from __future__ import annotations

import triton
import triton.language as tl

_GOLDEN, _ALL_ONES = tl.constexpr(0x9E3779B97F4A7C15), tl.constexpr((1 << 52) - 1)
_UNIT, _ONE, _LOWEST = tl.constexpr(2.0**-52), tl.constexpr(0x3F800000), tl.constexpr(0x3F400000)


@triton.jit
def mix(x: tl.tensor) -> tl.tensor:
    """Apply SplitMix64's finaliser; uint64."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB
    return x ^ (x >> 31)


@triton.jit
def noise_key(seed: tl.tensor, stream: tl.tensor, position: tl.tensor) -> tl.tensor:
    """Return the key of (seed int64, stream, position int64), as ``engine.noise`` chains it: uint64."""
    key = mix(seed.to(tl.uint64) + _GOLDEN)
    key = mix((key ^ stream) + _GOLDEN)
    return mix((key ^ position.to(tl.uint64)) + _GOLDEN)


@triton.jit
def uniform(key: tl.tensor) -> tl.tensor:
    """Return a float64 in (0, 1)."""
    return ((mix(key + _GOLDEN) >> 12).to(tl.float64) + 0.5) * _UNIT


@triton.jit
def exponential(key: tl.tensor, tokens: tl.tensor) -> tl.tensor:
    """Return exponential noise of each token under one position's key: float32."""
    bits = (mix(key + (tokens + 1).to(tl.uint64) * _GOLDEN) >> 12).to(tl.int64)
    u = (bits.to(tl.float32) + 0.5) * _UNIT
    complement = ((bits ^ _ALL_ONES).to(tl.float32) + 0.5) * _UNIT
    # u = 2^k (1 + f) with f in [-0.25, 0.5). Near 1, where the winners are, f is taken from the
    # complement: 1 - u would have only its first bits.
    raw = u.to(tl.int32, bitcast=True) + (_ONE - _LOWEST)
    near = complement < 0.25
    k = tl.where(near, 0, (raw >> 23) - 127)
    f = ((raw & 0x7FFFFF) + _LOWEST).to(tl.float32, bitcast=True) - 1.0
    f = tl.where(near, -complement, f)
    # log(1 + f) = 2 artanh(s), s = f / (2 + f), |s| <= 0.2
    s = tl.div_rn(f, f + 2.0)
    z = s * s
    series = ((z * (2 / 9) + 2 / 7) * z + 2 / 5) * z + 2 / 3
    return -(k.to(tl.float32) * 0.6931471805599453 + (s * 2.0 + s * z * series))
