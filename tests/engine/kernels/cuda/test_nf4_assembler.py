"""The assembler that decodes NF4, run by PTX's definitions, because the interpreter cannot run it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

from engine.kernels.formats.nf4 import CODE

pytest.importorskip("triton")

from engine.kernels.cuda.linear.nf4 import DECODE


@pytest.mark.parametrize("scale", [1.0, 0.0173, 3.9e-4, 0.0])
def test_every_byte_is_decoded(scale: float) -> None:
    bytes_ = np.arange(256, dtype=np.uint8)
    words = np.stack([bytes_, np.roll(bytes_, 1), bytes_[::-1], bytes_ ^ 0x5A], axis=-1)
    factor = torch.tensor([scale]).bfloat16()
    half = int(factor.view(torch.int16)) & 0xFFFF
    outputs = run(DECODE.value, words.copy().view(np.uint32)[:, 0], half << 16 | half)
    weights = CODE.bfloat16() * factor
    codes = weights.view(torch.int16).numpy().view(np.uint16)
    for part, index in (((0, 1), words >> 4), ((2, 3), words & 15)):
        found = np.stack([outputs[f"${n}"] for n in part], axis=-1).astype(np.uint32)
        assert np.array_equal(found.view(np.uint16), codes[index])


def run(assembly: str, word: np.ndarray, scales: int) -> dict[str, np.ndarray]:
    """Return the registers after ``assembly``, given $4 ``word`` and $5 ``scales``, lane by lane."""
    registers = {"$4": word.astype(np.uint64), "$5": np.full(word.shape, scales, np.uint64)}
    for name, target, *sources in (
        re.split(r"[,\s]+", line.strip().rstrip(";"))
        for line in assembly.strip().splitlines()
        if line.strip().endswith(";") and not line.strip().startswith(".reg")
    ):
        values = [registers[s] if s in registers else np.uint64(int(s, 0)) for s in sources]
        registers[target] = OPERATIONS[name](*values).astype(np.uint64)
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
    assert int(table) == 0xCA  # a ? b : c
    return (a & b) | (~a & c)


def _fma(a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c of the bf16 pairs in each word; c is -0.0, so the product is rounded once."""
    assert np.all(c == 0x80008000)
    product = _pairs(a) * _pairs(b) + _pairs(c)
    return product.bfloat16().view(torch.int16).numpy().view(np.uint32)[..., 0].astype(np.uint64)


def _pairs(words: Any) -> torch.Tensor:
    """Return the two bf16 of each word in float32: (lanes, 2)."""
    halves = np.atleast_1d(words).astype(np.uint32)[:, None].view(np.int16)
    return torch.from_numpy(halves).view(torch.bfloat16).float()


OPERATIONS = {
    "mov.b32": lambda a: a,
    "fma.rn.bf16x2": _fma,
    "and.b32": lambda a, b: a & b,
    "shr.b32": lambda a, b: a >> b,
    "prmt.b32": _prmt,
    "lop3.b32": _lop3,
}
