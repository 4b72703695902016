"""Every kernel compiled for devices that need not be there: it fits, and nothing spills."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

from engine.kernels.cpu.nf4 import CODE
from engine.kernels.cuda.tiles import MOST_SPLITS, Kind, choose_tile

pytest.importorskip("triton")

from engine.kernels.cuda.float_product import bf16_product
from engine.kernels.cuda.int8_product import int8_product, int8_rows
from engine.kernels.cuda.nf4_product import DECODE, nf4_product
from engine.kernels.cuda.products import REGISTERS
from tests.engine.kernels.cuda.compiled import compile_kernel, resources

ARCHITECTURES = (80, 86, 89, 90, 120)
LEAST_SHARED = 99 * 1024
"""Bytes of shared memory that every one of them gives a program."""
TYPES = {
    "x": "*bf16", "weight": "*bf16", "norm": "*bf16", "bias": "*bf16", "residual": "*bf16",
    "result": "*bf16", "partial": "*fp32", "squares": "*fp32", "arrivals": "*i32",
    "values": "*i8", "scales": "*fp32", "weight_scales": "*fp32", "packed": "*u8", "absmax": "*bf16",
    "rows": "i32", "outputs": "i32", "width": "i32", "span": "i32", "epsilon": "fp32",
}  # fmt: skip
KERNELS: dict[Kind, tuple[Any, dict[str, str]]] = {
    "bf16": (bf16_product, {}),
    "int8": (int8_product, {"weight": "*i8", "partial": "*i32"}),
    "nf4": (nf4_product, {}),
}

architectures = pytest.mark.parametrize("architecture", ARCHITECTURES)
kinds = pytest.mark.parametrize("kind", KERNELS)


def check(
    kernel: Any, types: dict[str, str], constants: dict[str, Any], architecture: int,
    record: Any, **options: int,
) -> None:  # fmt: skip
    """Compiles, writes what it takes into the report, and fails if it is too much."""
    signature = {
        name: "constexpr" if name in constants else (TYPES | types)[name]
        for name in kernel.arg_names
    }
    compiled = compile_kernel(kernel, signature, constants, architecture, **options)
    taken = resources(compiled)
    record("resources", str(taken))
    print(kernel.__name__, architecture, taken)
    assert taken.stack == taken.local == 0
    assert taken.shared <= LEAST_SHARED


@architectures
@kinds
def test_nothing_spills(kind: Kind, architecture: int, record_property: Any) -> None:
    """With the most that can stand around a product, and the most splits: what takes most registers."""
    kernel, types = KERNELS[kind]
    tile = choose_tile(4096, 4096, kind)
    constants = {
        "COLUMNS": tile.columns, "DEPTH": tile.depth, "SPLITS": MOST_SPLITS, "GATED": True
    }  # fmt: skip
    if kind == "nf4":
        constants["codes"] = None
    check(
        kernel, types, constants, architecture, record_property,
        num_warps=tile.warps, num_stages=tile.stages,
        maxnreg=REGISTERS[tile.warps],
    )  # fmt: skip


@kinds
def test_nothing_spills_where_nothing_stands_around(kind: Kind, record_property: Any) -> None:
    kernel, types = KERNELS[kind]
    tile = choose_tile(128256, 4096, kind)
    constants = {
        "COLUMNS": tile.columns, "DEPTH": tile.depth, "SPLITS": tile.splits, "GATED": False,
        "bias": None, "residual": None,
    }  # fmt: skip
    constants |= {"norm": None} if kind != "int8" else {}
    constants |= {"codes": None} if kind == "nf4" else {}
    check(
        kernel, types, constants, 90, record_property,
        num_warps=tile.warps, num_stages=tile.stages, maxnreg=REGISTERS[tile.warps],
    )  # fmt: skip


@architectures
def test_quantising_rows_does_not_spill(architecture: int, record_property: Any) -> None:
    check(int8_rows, {}, {"DEPTH": 1024}, architecture, record_property)


def test_the_assembler_decodes_every_byte() -> None:
    """Reads the instructions as PTX defines them; the interpreter cannot run them."""
    bytes_ = np.arange(256, dtype=np.uint8)
    words = np.stack([bytes_, np.roll(bytes_, 1), bytes_[::-1], bytes_ ^ 0x5A], axis=-1)
    outputs = run(DECODE.value, words.copy().view(np.uint32)[:, 0])
    codes = CODE.bfloat16().view(torch.int16).numpy().view(np.uint16)
    for part, index in (((0, 1), words >> 4), ((2, 3), words & 15)):
        found = np.stack([outputs[f"${n}"] for n in part], axis=-1).astype(np.uint32)
        assert np.array_equal(found.view(np.uint16), codes[index])


def run(assembly: str, word: np.ndarray) -> dict[str, np.ndarray]:
    """Registers after ``assembly``, given ``word`` in $4, lane by lane."""
    registers = {"$4": word.astype(np.uint64)}
    for name, target, *sources in (
        re.split(r"[,\s]+", line.strip().rstrip(";"))
        for line in assembly.strip().splitlines()
        if line.strip().endswith(";") and not line.strip().startswith(".reg")
    ):
        values = [registers[s] if s in registers else np.uint64(int(s, 0)) for s in sources]
        registers[target] = OPERATIONS[name](*values).astype(np.uint64)
    return registers


def _prmt(a: Any, b: Any, selector: Any) -> Any:
    """Byte i of the result is byte ``selector[i]`` of (a, b); no selector here asks for its sign."""
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


OPERATIONS = {
    "and.b32": lambda a, b: a & b,
    "shr.b32": lambda a, b: a >> b,
    "prmt.b32": _prmt,
    "lop3.b32": _lop3,
}
