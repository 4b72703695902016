"""GGUF's blocks, and NF4, as planes: codes, scales and minimums apart, aligned for the loads of a GPU.

In most formats a weight is ``scale * code + low``, where a group of 16 or 32 inputs shares scale and low,
so one kernel multiplies by all of them. Codes count from the middle of their range, so that lows are
small: scales and lows are rounded to bf16. Sources: ggml's ``ggml-common.h`` and ``ggml-quants.c``.

A word of four bytes has the lower four bits of eight codes, those of inputs 0 and 1, 4 and 5, 2 and 3, 6
and 7: masked by 0x000f000f, a shifted word is then two neighbours of even or odd inputs in a pair of
bf16. Upper bits lie in a plane of their own. NF4 keeps
bitsandbytes' bytes, whose codes are places in a table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.kernels.formats import nf4
from engine.kernels.formats.block_formats import LAYOUTS
from engine.kernels.formats.blocks import Blocks
from engine.kernels.formats.nf4 import Nf4Weight

_CHUNK = 1 << 24
"""Weights that are rearranged at once, so that temporaries stay small."""


@dataclass(frozen=True, slots=True)
class Form:
    """``bits`` of a code: 4, 5, 6 or 8. ``group`` inputs share a scale, and a low with ``lows``.
    ``table``: codes are NF4's."""

    bits: int
    group: int
    lows: bool = False
    table: bool = False

    @property
    def middle(self) -> int:
        """The stored code whose weight is low; those of 8 bits have a sign."""
        return 0 if self.bits == 8 else 1 << (self.bits - 1)


@dataclass(frozen=True, slots=True, eq=False)
class BlockPlanes:
    """``shape`` (outputs, inputs) weights.

    ``codes`` uint8 (outputs, inputs / 2), int8 (outputs, inputs) for 8 bits. ``high``: upper bits, uint8
    (outputs, inputs / 8) for 5 bits, int16 for 6. ``scales`` and ``lows`` bf16 (inputs / group, outputs).
    """

    form: Form
    shape: tuple[int, int]
    codes: Tensor
    high: Tensor | None
    scales: Tensor
    lows: Tensor | None

    @classmethod
    def empty(cls, form: Form, shape: tuple[int, int], device: torch.device) -> BlockPlanes:
        """Return planes to be filled."""
        outputs, inputs = shape

        def plane(dtype: torch.dtype, *shape: int) -> Tensor:
            return torch.empty(shape, dtype=dtype, device=device)

        wide, scales = form.bits == 8, (inputs // form.group, outputs)
        high = {5: torch.uint8, 6: torch.int16}.get(form.bits)
        return cls(
            form,
            shape,
            plane(torch.int8, outputs, inputs)
            if wide
            else plane(torch.uint8, outputs, inputs // 2),
            None if high is None else plane(high, outputs, inputs // 8),
            plane(torch.bfloat16, *scales),
            plane(torch.bfloat16, *scales) if form.lows else None,
        )

    def outputs(self, part: slice) -> BlockPlanes:
        """Return some outputs."""
        codes = self.codes[part]
        return replace(
            self,
            shape=(len(codes), self.shape[1]),
            codes=codes,
            high=None if self.high is None else self.high[part],
            scales=self.scales[:, part],
            lows=None if self.lows is None else self.lows[:, part],
        )

    def dequantise(self, index: Tensor | slice = slice(None), *, exact: bool = False) -> Tensor:
        """Return some outputs, or all, as the kernels multiply by them: bf16 (outputs, inputs).

        The kernels round NF4's codes to bf16 before the scale; ``exact`` rounds once, at the end.
        """
        high = None if self.high is None else self.high[index]
        scales = self.scales[:, index].t().float()
        if self.form.table:
            table = nf4.code_on(self.codes.device)
            table = table if exact else table.bfloat16().float()
            numbers = table[nf4.unpack(self.codes[index]).int()]
        else:
            numbers = _codes(self.form, self.codes[index], high).float() - self.form.middle
        groups = numbers.unflatten(1, (-1, self.form.group))
        weights: Tensor = groups * scales[..., None]
        if self.lows is not None:
            weights += self.lows[:, index].t().float()[..., None]
        return weights.flatten(1).bfloat16()


def to_planes(blocks: Blocks, device: torch.device) -> BlockPlanes:
    """Rearrange ``blocks`` of a format in ``FORMS`` on ``device``; scales are rounded to bf16."""
    form = FORMS[blocks.format]
    planes = BlockPlanes.empty(form, blocks.shape, device)
    rows, start = max(1, _CHUNK // blocks.shape[1]), 0
    for part in blocks.in_parts(rows):
        stop = start + len(part)
        codes, scales, lows = read_blocks(part.format, part.data[:].to(device), blocks.scale)
        low, high = pack_codes(form, codes)
        planes.codes[start:stop] = low
        if planes.high is not None and high is not None:
            planes.high[start:stop] = high
        planes.scales[:, start:stop] = scales.t()
        if planes.lows is not None and lows is not None:
            planes.lows[:, start:stop] = lows.t()
        start = stop
    return planes


def nf4_planes(weight: Nf4Weight) -> BlockPlanes:
    """Return ``weight``, whose rows are whole groups, in planes. Codes share its memory."""
    outputs, _ = weight.shape
    scales = weight.absmax.view(outputs, -1).t().contiguous()
    return BlockPlanes(NF4, weight.shape, weight.packed.view(outputs, -1), None, scales, None)


def join_planes(parts: Sequence[BlockPlanes]) -> BlockPlanes:
    """Return planes of one form and width as one matrix, the outputs of the first above the next."""

    def joined(planes: Sequence[Tensor | None], dimension: int) -> Tensor | None:
        held = [plane for plane in planes if plane is not None]
        return torch.cat(held, dimension) if held else None

    return replace(
        parts[0],
        shape=(sum(part.shape[0] for part in parts), parts[0].shape[1]),
        codes=torch.cat([part.codes for part in parts]),
        high=joined([part.high for part in parts], 0),
        scales=torch.cat([part.scales for part in parts], 1),
        lows=joined([part.lows for part in parts], 1),
    )


def bits_in_planes(format: str) -> float:
    """Return the bits of a weight of ``format`` in planes, scales included."""
    form = FORMS[format]
    return form.bits + (32 if form.lows else 16) / form.group


def read_blocks(
    format: str, data: Tensor, factor: float = 1.0
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return what uint8 ``data (outputs, bytes)`` stands for, times ``factor``, on its device.

    Codes are uint8 (int8 of 8 bits) (outputs, inputs). Scales, and lows if the form has them, are
    float32 (outputs, groups).
    """
    outputs, blocks = len(data), data.reshape(-1, LAYOUTS[format].size)
    codes, scales, *least = _READERS[format](blocks)
    lows = None
    if least:
        lows = (least[0] + FORMS[format].middle * scales).reshape(outputs, -1) * factor
    return codes.reshape(outputs, -1), scales.reshape(outputs, -1) * factor, lows


def pack_codes(form: Form, codes: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return ``codes (outputs, inputs)`` as the first two planes of ``BlockPlanes``."""
    if form.bits == 8:
        return _swapped(codes), None
    pairs = _swapped(codes & 15, 2).unflatten(1, (-1, 2))
    low = pairs[..., 0] | pairs[..., 1] << 4
    if form.bits == 4:
        return low, None
    upper = form.bits - 4
    fields = (codes >> 4).unflatten(1, (-1, 2, 4)).transpose(2, 3)  # inputs 0, 4, 1, 5, 2, 6, 3, 7
    high = (fields.flatten(1).unflatten(1, (-1, 8 // upper)) << _shifts(upper, codes)).sum(-1)
    high = high.to(torch.uint8)
    return low, high.view(torch.int16) if upper == 2 else high


def _codes(form: Form, low: Tensor, high: Tensor | None) -> Tensor:
    """Return the codes in planes, in order: uint8 or int8 (outputs, inputs).

    No index comes from the host, so a graph may capture it.
    """
    if form.bits == 8:
        return _swapped(low)
    codes = _swapped(torch.stack([low & 15, low >> 4], -1).flatten(1), 2)
    if high is None:
        return codes
    upper = form.bits - 4
    fields = high.view(torch.uint8)[..., None] >> _shifts(upper, low) & (1 << upper) - 1
    upper_bits: Tensor = fields.flatten(1).unflatten(1, (-1, 4, 2)).transpose(2, 3).flatten(1)
    return codes | upper_bits << 4


def _swapped(codes: Tensor, each: int = 1) -> Tensor:
    """Swap the second and third of every four parts of ``each`` codes; its own inverse."""
    swapped: Tensor = codes.unflatten(1, (-1, 2, 2, each)).transpose(2, 3).flatten(1)
    return swapped


def _shifts(upper: int, like: Tensor) -> Tensor:
    """Return where a byte has its fields of ``upper`` bits."""
    return torch.arange(0, 8, upper, device=like.device, dtype=torch.uint8)


# Functions by format: from uint8 (blocks, bytes of one) to codes (blocks, inputs of one), scales and, in
# formats that store it, the weight of code 0 (blocks, groups).


def _q4_0(blocks: Tensor) -> tuple[Tensor, ...]:
    return _halves(blocks[:, 2:]), _half(blocks, 0)


def _q4_1(blocks: Tensor) -> tuple[Tensor, ...]:
    return _halves(blocks[:, 4:]), _half(blocks, 0), _half(blocks, 2)


def _q5_0(blocks: Tensor) -> tuple[Tensor, ...]:
    return _halves(blocks[:, 6:]) | _bits(blocks[:, 2:6]) << 4, _half(blocks, 0)


def _q5_1(blocks: Tensor) -> tuple[Tensor, ...]:
    codes = _halves(blocks[:, 8:]) | _bits(blocks[:, 4:8]) << 4
    return codes, _half(blocks, 0), _half(blocks, 2)


def _q8_0(blocks: Tensor) -> tuple[Tensor, ...]:
    return blocks[:, 2:].view(torch.int8), _half(blocks, 0)


def _q4_k(blocks: Tensor) -> tuple[Tensor, ...]:
    return _quarters(blocks[:, 16:]), *_six_bits(blocks)


def _q5_k(blocks: Tensor) -> tuple[Tensor, ...]:
    shifts = torch.arange(8, device=blocks.device, dtype=torch.uint8)[:, None]
    fifth = (blocks[:, None, 16:48] >> shifts & 1).flatten(1)
    return _quarters(blocks[:, 48:]) | fifth << 4, *_six_bits(blocks)


def _q6_k(blocks: Tensor) -> tuple[Tensor, ...]:
    low = blocks[:, :128].reshape(-1, 2, 1, 64)  # of each 128 inputs
    low = torch.cat([low & 15, low >> 4], 2).flatten(1)
    shifts = torch.arange(0, 8, 2, device=blocks.device, dtype=torch.uint8)[:, None]
    high = (blocks[:, 128:192].reshape(-1, 2, 1, 32) >> shifts & 3).flatten(1)
    scales = blocks[:, 192:208].contiguous().view(torch.int8).float()
    return low | high << 4, scales * _half(blocks, 208)


def _mxfp4(blocks: Tensor) -> tuple[Tensor, ...]:
    """Codes are twice the numbers, around 16, so that they are linear; the scale is half as large."""
    numbers = torch.tensor(_FP4, dtype=torch.uint8, device=blocks.device)
    exponents = blocks[:, :1].int()  # 2^(e - 128) by its bits: a GPU's exp2 may be off by one
    bits = torch.where(exponents < 2, 0x200000 << exponents, (exponents - 1) << 23)
    return numbers[_halves(blocks[:, 1:]).int()], bits.int().view(torch.float32)


_FP4 = [16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4]


def _halves(packed: Tensor) -> Tensor:
    """Return the lower half bytes of each block, then the upper ones."""
    return torch.cat([packed & 15, packed >> 4], 1)


def _quarters(packed: Tensor) -> Tensor:
    """Return 256 half bytes of 128 bytes: of each 32 bytes the lower ones, then the upper ones."""
    return torch.stack([_halves(part) for part in packed.split(32, 1)], 1).flatten(1)


def _bits(packed: Tensor) -> Tensor:
    """Return the bits of each byte, the lowest first."""
    shifts = torch.arange(8, device=packed.device, dtype=torch.uint8)
    return (packed[..., None] >> shifts & 1).flatten(1)


def _half(blocks: Tensor, at: int) -> Tensor:
    """Return the float16 at byte ``at`` of each block: float32 (blocks, 1)."""
    return blocks[:, at : at + 2].contiguous().view(torch.float16).float()


def _six_bits(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Return the eight scales and minimums that begin a K block; see ``block_rounding``."""
    first, second, third = blocks[:, 4:16].split(4, 1)
    scales = torch.cat([first & 63, third & 15 | first >> 6 << 4], 1)
    minimums = torch.cat([second & 63, third >> 4 | second >> 6 << 4], 1)
    return scales.float() * _half(blocks, 0), minimums.float() * -_half(blocks, 2)


_READERS: dict[str, Callable[[Tensor], tuple[Tensor, ...]]] = {
    "q4_0": _q4_0, "q4_1": _q4_1, "q5_0": _q5_0, "q5_1": _q5_1, "q8_0": _q8_0, "q4_k": _q4_k,
    "q5_k": _q5_k, "q6_k": _q6_k, "mxfp4": _mxfp4,
}  # fmt: skip
FORMS = {
    "q4_0": Form(4, 32), "q4_1": Form(4, 32, lows=True), "q5_0": Form(5, 32),
    "q5_1": Form(5, 32, lows=True), "q8_0": Form(8, 32), "q4_k": Form(4, 32, lows=True),
    "q5_k": Form(5, 32, lows=True), "q6_k": Form(6, 16), "mxfp4": Form(5, 32),
}  # fmt: skip
"""By format of GGUF: those that planes can hold."""
NF4 = Form(4, nf4.GROUP, table=True)
