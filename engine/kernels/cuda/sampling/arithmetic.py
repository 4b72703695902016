"""Noise and exponentials with the same bits on every device, and in torch.

They consist of additions, multiplications and divisions, which IEEE 754 defines exactly. Kernels that use
them are compiled with ``enable_fp_fusion=False``, so that no product is fused into a sum. The hardware's
``lg2`` and ``ex2`` are not used: they differ between GPUs, and near 1, where winners of the exponential
race are, ``lg2`` has hardly a correct digit.

The noise is float32, and float64 in ``engine.noise``: consumer GPUs (sm_86, 89, 120) do 64 float32
operations in the time of one float64. The hash is the same, and the noise differs by about 3e-7, so a
drawn token differs only where two times of the race are that close.
"""

from __future__ import annotations

import triton
import triton.language as tl

_GOLDEN = tl.constexpr(0x9E3779B97F4A7C15)
_MIX_1 = tl.constexpr(0xBF58476D1CE4E5B9)
_MIX_2 = tl.constexpr(0x94D049BB133111EB)
_ALL_ONES = tl.constexpr((1 << 52) - 1)
_UNIT = tl.constexpr(2.0**-52)
_ONE = tl.constexpr(0x3F800000)
_LOWEST = tl.constexpr(0x3F400000)
_LN_2 = tl.constexpr(0.6931471805599453)
_THIRD, _FIFTH = tl.constexpr(2 / 3), tl.constexpr(2 / 5)
_SEVENTH, _NINTH = tl.constexpr(2 / 7), tl.constexpr(2 / 9)
_LOG2_E = tl.constexpr(1.4426950408889634)
# ln 2 in two parts: whole multiples of the first are exact (Cody, Waite 1980).
_LN_2_HIGH, _LN_2_LOW = tl.constexpr(0.693359375), tl.constexpr(-2.12194440054690581e-4)
_C2, _C3, _C4 = tl.constexpr(1 / 2), tl.constexpr(1 / 6), tl.constexpr(1 / 24)
_C5, _C6, _C7 = tl.constexpr(1 / 120), tl.constexpr(1 / 720), tl.constexpr(1 / 5040)
_TINY = tl.constexpr(-87.0)


@triton.jit
def mix(x: tl.tensor) -> tl.tensor:
    """Apply SplitMix64's finaliser; uint64."""
    x = (x ^ (x >> 30)) * _MIX_1
    x = (x ^ (x >> 27)) * _MIX_2
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
    k = (raw >> 23) - 127
    f = ((raw & 0x7FFFFF) + _LOWEST).to(tl.float32, bitcast=True) - 1.0
    near = complement < 0.25
    k = tl.where(near, 0, k)
    f = tl.where(near, -complement, f)
    # log(1 + f) = 2 artanh(s), s = f / (2 + f), |s| <= 0.2
    s = tl.div_rn(f, f + 2.0)
    z = s * s
    series = ((z * _NINTH + _SEVENTH) * z + _FIFTH) * z + _THIRD
    return -(k.to(tl.float32) * _LN_2 + (s * 2.0 + s * z * series))


@triton.jit
def exp(x: tl.tensor) -> tl.tensor:
    """Return e^x for float32 ``x <= 0``; 0 below -87, where subnormal numbers are near."""
    clamped = tl.where(x > _TINY, x, 0.0)
    n = tl.floor(clamped * _LOG2_E + 0.5)
    r = (clamped - n * _LN_2_HIGH) - n * _LN_2_LOW
    series = ((((r * _C7 + _C6) * r + _C5) * r + _C4) * r + _C3) * r + _C2
    scale = ((n.to(tl.int32) + 127) << 23).to(tl.float32, bitcast=True)
    result = ((series * (r * r) + r) + 1.0) * scale
    # Rounding must not lift a weight above that of the most likely token, which is 1.
    return tl.where(x > _TINY, tl.minimum(result, 1.0), 0.0)
