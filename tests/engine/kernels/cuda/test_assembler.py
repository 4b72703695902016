"""The assembler that decodes weights, run by PTX's definitions, because the interpreter cannot run it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

from engine.kernels.formats.block_planes import Form, pack_codes
from engine.kernels.formats.nf4 import CODE

pytest.importorskip("triton")

from engine.kernels.cuda.linear import blocks, nf4


@pytest.mark.parametrize("scale", [1.0, 0.0173, 3.9e-4, 0.0])
def test_every_byte_of_nf4_is_decoded(scale: float) -> None:
    bytes_ = np.arange(256, dtype=np.uint8)
    words = np.stack([bytes_, np.roll(bytes_, 1), bytes_[::-1], bytes_ ^ 0x5A], axis=-1)
    outputs = run(nf4.DECODE.value, {"$4": words.copy().view(np.uint32)[:, 0], "$5": twice(scale)})
    weights = CODE.bfloat16() * torch.tensor([scale]).bfloat16()
    codes = weights.view(torch.int16).numpy().view(np.uint16)
    for part, index in (((0, 1), words >> 4), ((2, 3), words & 15)):
        assert np.array_equal(halves(outputs, *part).view(np.uint16), codes[index])


@pytest.mark.parametrize("bits", [4, 5, 6])
@pytest.mark.parametrize(("scale", "low"), [(1.0, 0.0), (0.0173, -0.262), (-3.9e-4, 0.017)])
def test_every_code_of_blocks_is_decoded_in_its_place(bits: int, scale: float, low: float) -> None:
    """From planes, as they are loaded: eight codes in a word, with their upper bits."""
    codes = some_codes(bits, 8)
    words, upper = pack_codes(Form(bits, 32), codes)
    given = {"$4": as_words(words), "$5": twice(scale), "$7": twice(low)}
    if upper is not None:  # as the kernel repeats it for four bytes
        given["$9"] = as_words(upper.repeat_interleave(4 // upper.element_size(), dim=1))
    outputs = run(getattr(blocks, f"DECODE_{bits}").value, given)
    expected = decoded(codes.int() - (1 << (bits - 1)), scale, low)
    for part, first in (((0, 1), 0), ((2, 3), 1)):
        assert np.array_equal(halves(outputs, *part).view(np.uint16), expected[:, first::2])


@pytest.mark.parametrize(("scale", "low"), [(1.0, 0.0), (0.0173, 0.0), (-3.9e-4, 0.0)])
def test_every_signed_byte_of_blocks_is_decoded_in_its_place(scale: float, low: float) -> None:
    codes = (some_codes(8, 4).int() - 128).to(torch.int8)
    words, _ = pack_codes(Form(8, 32), codes)
    given = {"$2": as_words(words), "$3": twice(scale), "$5": twice(low)}
    outputs = run(blocks.DECODE_8.value, given)
    assert np.array_equal(halves(outputs, 0, 1).view(np.uint16), decoded(codes, scale, low))


def some_codes(bits: int, each: int) -> torch.Tensor:
    """Return rows of ``each`` codes in which every code is in every place: uint8."""
    codes = torch.arange(1 << bits, dtype=torch.uint8)
    generator = torch.Generator().manual_seed(bits)
    mixed = [codes[torch.randperm(len(codes), generator=generator)] for _ in range(each)]
    return torch.stack(mixed, dim=1)


def decoded(codes: torch.Tensor, scale: float, low: float) -> np.ndarray:
    """Return the bits of scale * code + low in bf16, rounded once."""
    factor, added = (float(torch.tensor(value).bfloat16()) for value in (scale, low))
    return bits_of(codes.double().numpy() * factor + added)


def twice(value: float) -> np.ndarray:
    """Return a word with ``value`` as bf16 in both halves."""
    half = int(bits_of(np.array([float(torch.tensor(value).bfloat16())]))[0])
    return np.array([half << 16 | half], np.uint64)


def as_words(plane: torch.Tensor) -> np.ndarray:
    return plane.contiguous().numpy().view(np.uint32)[:, 0]


def halves(outputs: dict[str, np.ndarray], *numbers: int) -> np.ndarray:
    """Return these outputs side by side, uint32, whose halves are neighbours."""
    return np.stack([outputs[f"${number}"] for number in numbers], axis=-1).astype(np.uint32)


def bits_of(values: np.ndarray) -> np.ndarray:
    """Round float64 to bf16 once, to nearest even: its bits, uint16. No infinities, no subnormals."""
    fraction, exponent = np.frexp(values)
    rounded = np.ldexp(np.rint(fraction * 256), exponent - 8)
    return (rounded.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def run(assembly: str, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the registers after ``assembly``, lane by lane."""
    registers = {name: value.astype(np.uint64) for name, value in given.items()}
    for name, target, *sources in (
        re.split(r"[,\s]+", line.strip().rstrip(";"))
        for line in assembly.strip().splitlines()
        if line.strip().endswith(";") and not line.strip().startswith(".reg")
    ):
        values = [registers[s] if s in registers else np.uint64(int(s, 0)) for s in sources]
        result = np.asarray(OPERATIONS[name](*values)).astype(np.uint64)
        registers[target] = result & np.uint64(0xFFFFFFFF)
    return registers


def _prmt(a: Any, b: Any, selector: Any) -> Any:
    """Return byte ``selector[i]`` of (a, b) as byte i; no selector here replicates a sign."""
    eight = a | (b << np.uint64(32))
    result = np.zeros_like(selector + eight)
    for i in range(4):
        which = (selector >> np.uint64(4 * i)) & np.uint64(15)
        assert np.all(which < 8)
        result |= ((eight >> (which * np.uint64(8))) & np.uint64(255)) << np.uint64(8 * i)
    return result


def _lop3(a: Any, b: Any, c: Any, table: Any) -> Any:
    """Return the bits of ``table``: at 4 a + 2 b + c, for each place of the three words."""
    result = np.zeros_like(a + b + c)
    for index in range(8):
        if int(table) >> index & 1:
            terms = [each if index >> at & 1 else ~each for at, each in ((2, a), (1, b), (0, c))]
            result |= terms[0] & terms[1] & terms[2]
    return result


def _fma(a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c of the bf16 pairs in each word, rounded once."""
    total = _pairs(a) * _pairs(b) + _pairs(c)
    bits = bits_of(total).astype(np.uint64)
    return bits[:, 0] | bits[:, 1] << np.uint64(16)


def _pairs(words: Any) -> np.ndarray:
    """Return the two bf16 of each word in float64: (lanes, 2)."""
    halves = np.atleast_1d(words).astype(np.uint32)[:, None].view(np.uint16)
    return (halves.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


OPERATIONS = {
    "mov.b32": lambda a: a,
    "fma.rn.bf16x2": _fma,
    "and.b32": lambda a, b: a & b,
    "shr.b32": lambda a, b: a >> b,
    "shl.b32": lambda a, b: a << b,
    "mul.lo.u32": lambda a, b: a * b,
    "prmt.b32": _prmt,
    "lop3.b32": _lop3,
}
