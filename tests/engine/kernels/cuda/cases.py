"""Random linear layers with their inputs, and checks of their results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from engine.kernels.cuda.kv_cache import StaticKVCache
from engine.kernels.cuda.linear.dispatch import Weight
from engine.kernels.cuda.linear.fusion import FusedLinear, Fusion, Norm
from engine.kernels.cuda.linear.tiles import Kind, Tile
from engine.kernels.cuda.references import linear_reference
from engine.kernels.formats import int8, nf4
from engine.kernels.formats.block_planes import FORMS, BlockPlanes, nf4_planes, pack_codes

FORMATS: dict[Kind, str] = {
    "blocks4": "q4_k", "blocks5": "mxfp4", "blocks6": "q6_k", "blocks8": "q8_0"
}  # fmt: skip
"""A format of blocks for each width of codes; those with lows, and with offsets."""
KINDS: tuple[Kind, ...] = ("bf16", "int8", "nf4", *FORMATS)
GROUPED: tuple[Kind, ...] = ("nf4", *FORMATS)
"""Kinds whose rows are whole groups."""
CLASSES = {"bf16": "Bf16Linear", "int8": "Int8Linear"}
# Small tiles, so that small weights have several, and several splits; depths are the smallest there are.
DEPTHS: dict[Kind, int] = {"bf16": 16, "int8": 32}


@dataclass(frozen=True)
class Case:
    kind: Kind
    weight: Weight
    fusion: Fusion
    tile: Tile
    width: int
    out: int

    def product(self, device: torch.device, tile: Tile | None) -> FusedLinear:
        """Return the kernel's linear layer on ``device``; without ``tile``, with the engine's own."""
        from engine.kernels.cuda.linear import streamed

        made: FusedLinear = getattr(streamed, CLASSES.get(self.kind, "BlockLinear"))(
            weight_on(device, self.weight), fusion_on(device, self.fusion), tile
        )
        return made

    def reference(self) -> FusedLinear:
        return linear_reference(self.weight, self.fusion)

    def rows(self, count: int, dtype: torch.dtype, seed: int = 2) -> torch.Tensor:
        """Return rows of very different magnitudes: (count, width)."""
        x = torch.randn(count, self.width, generator=torch.Generator().manual_seed(seed))
        return (x * torch.logspace(-2, 2, count)[:, None]).to(dtype)

    def residual(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        generator = torch.Generator().manual_seed(3)
        return torch.randn(count, self.out, generator=generator).to(dtype)


def weight_on(device: torch.device, weight: Weight) -> Weight:
    if isinstance(weight, int8.Int8Weight):
        return int8.Int8Weight(weight.values.to(device), weight.scale.to(device))
    if isinstance(weight, BlockPlanes):
        planes = {
            name: None if (plane := getattr(weight, name)) is None else plane.to(device)
            for name in ("codes", "high", "scales", "lows")
        }
        return replace(weight, **planes)
    assert isinstance(weight, torch.Tensor)
    return weight.to(device)


def random_planes(format: str, outputs: int, width: int, seed: int = 0) -> BlockPlanes:
    """Return any codes, under scales that make a sum of ``width`` of them about 1."""
    generator = torch.Generator().manual_seed(seed)
    form = FORMS[format]
    sign = form.bits == 8
    codes = torch.randint(1 << form.bits, (outputs, width), generator=generator) - 128 * sign
    low, high = pack_codes(form, codes.to(torch.int8 if sign else torch.uint8))
    scales = torch.rand(width // form.group, outputs, generator=generator)
    scales = (scales * width**-0.5 / (1 << form.bits - 1)).bfloat16()
    lows = (torch.rand(scales.shape, generator=generator) * -(width**-0.5)).bfloat16()
    kept = lows if form.lows else None
    return BlockPlanes(form, (outputs, width), low, high, scales, kept)


def fusion_on(device: torch.device, fusion: Fusion) -> Fusion:
    norm = fusion.norm and Norm(fusion.norm.weight.to(device), fusion.norm.epsilon)
    return Fusion(norm, None if fusion.bias is None else fusion.bias.to(device), fusion.gated)


def small_tile(kind: Kind, width: int, splits: int) -> Tile:
    """Return a tile with at most ``splits`` splits of whole steps, none empty."""
    depth = DEPTHS.get(kind, 64)
    steps = -(-width // depth)
    each = -(-steps // splits)
    return Tile(16, depth, -(-steps // each), each * depth, 4, 2)


def make(
    kind: Kind, out: int, width: int, splits: int,
    *, norm: bool = False, bias: bool = False, gated: bool = False, seed: int = 0,
) -> Case:  # fmt: skip
    """Return a linear layer with ``out`` results; ``GROUPED`` kinds need a ``width`` of whole groups."""
    generator = torch.Generator().manual_seed(seed)
    outputs = 2 * out if gated else out
    fusion = Fusion(
        Norm((1 + 0.1 * torch.randn(width, generator=generator)).bfloat16(), 1e-5)
        if norm
        else None,
        torch.randn(outputs, generator=generator).bfloat16() if bias else None,
        gated,
    )
    if kind in FORMATS:
        weight: Weight = random_planes(FORMATS[kind], outputs, width, seed)
    else:
        floats = torch.randn(outputs, width, generator=generator) * width**-0.5
        quantise: dict[Kind, Callable[[torch.Tensor], Weight]] = {
            "bf16": torch.Tensor.bfloat16, "int8": int8.quantise,
            "nf4": lambda floats: nf4_planes(nf4.quantise(floats)),
        }  # fmt: skip
        weight = quantise[kind](floats)
    return Case(kind, weight, fusion, small_tile(kind, width, splits), width, out)


def near(found: torch.Tensor, expected: torch.Tensor, *, normed: bool = False) -> bool:
    """Return whether another order of sums and one rounding can explain the difference.

    ``normed``: a norm rounded the inputs to bf16 first, a few of them perhaps the other way.
    """
    found, expected = found.cpu(), expected.cpu()
    step = 2**-7 if expected.dtype == torch.bfloat16 else 2**-15
    size = expected.float().abs().amax(-1, keepdim=True)
    error = (found.float() - expected.float()).abs()
    return found.dtype == expected.dtype and bool(
        (error <= step * expected.float().abs() + (2**-12 if normed else 2**-15) * size).all()
    )


def check_cache(cache: StaticKVCache) -> None:
    """Expect a length that the cache holds and finite numbers, also in stale rows."""
    assert 0 <= int(cache.length) <= cache.capacity
    for slot in cache.slots:
        assert all(
            bool(part.float().isfinite().all()) for part in slot.tensors
        )  # fp8 has no isfinite
