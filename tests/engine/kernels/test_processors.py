"""Matmuls as other processors compute them: compiled with their flags, or run in an emulator.

All must give what the formats mean, and a row the bits it has alone; ``test_block_linear`` and
``test_native`` say the same of the processor at hand.
"""

from __future__ import annotations

import platform
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.backends.native import build
from engine.kernels.formats import int8
from engine.kernels.formats.block_formats import LAYOUTS, NATIVE_FORMATS
from engine.kernels.formats.blocks import IN_GRIDS, grid_of
from engine.kernels.native.library import BLOCKS, ROWS, Kind, LinearLibrary, Matrix
from engine.kernels.torch import int8 as int8_linear
from tests.support.block_matrices import random_blocks, rounded_rows

OUTPUTS = 40
EMULATOR, CROSS = shutil.which("qemu-aarch64"), shutil.which("aarch64-linux-gnu-g++")


def width_of(format: str) -> int:
    return 256 + LAYOUTS[format].inputs


def some_rows(width: int) -> Tensor:
    return torch.randn(ROWS, width, generator=torch.Generator().manual_seed(4))


def check(format: str, looked_up: Tensor, by_count: list[Tensor]) -> None:
    """``by_count``: the results of the first 1, 2, ... rows. Raises AssertionError."""
    blocks = random_blocks(format, OUTPUTS, width_of(format))
    wide, seen = blocks.dequantise(), rounded_rows(some_rows(width_of(format)), format)
    assert torch.equal(looked_up, wide)
    size = seen.abs() @ wide.double().abs().T
    assert ((by_count[-1] - seen @ wide.double().T).abs() <= 4e-7 * size).all()
    assert all(torch.equal(found, by_count[-1][: len(found)]) for found in by_count)


@pytest.fixture(scope="module", params=["haswell", "x86-64"])
def older(request: pytest.FixtureRequest) -> LinearLibrary:
    """Libraries for AVX2, and for any 64-bit PC; both run on a processor with AVX2."""
    if platform.machine() not in ("x86_64", "AMD64") or not torch.cpu._is_avx2_supported():
        pytest.skip("this processor does not run them")
    return LinearLibrary(build.build(build.LINEAR, request.param), 2)


@pytest.mark.parametrize("format", NATIVE_FORMATS)
def test_blocks_on_older_processors(format: str, older: LinearLibrary) -> None:
    width = width_of(format)
    matrix = Matrix(older, Kind.FP32, random_blocks(format, OUTPUTS, width))
    x = some_rows(width)
    check(format, matrix.rows(range(OUTPUTS)), [matrix(x[:count]) for count in range(1, ROWS + 1)])


def test_int8_on_older_processors(older: LinearLibrary) -> None:
    weight = torch.randn(OUTPUTS, 1040, generator=torch.Generator().manual_seed(0))
    matrix, x = Matrix(older, Kind.INT8, weight), some_rows(1040)
    expected = int8_linear.Int8Reference(int8.quantise(weight))(x)
    for count in range(1, ROWS + 1):
        assert torch.equal(matrix(x[:count]), expected[:count]), count


@pytest.mark.parametrize("kind", [Kind.FP32, Kind.BF16, Kind.NF4])
def test_floats_on_older_processors(kind: Kind, older: LinearLibrary) -> None:
    weight = torch.randn(OUTPUTS, 1024, generator=torch.Generator().manual_seed(0))
    matrix, x = Matrix(older, kind, weight), some_rows(1024)
    whole = matrix(x)
    exact = x.double() @ matrix.rows(range(OUTPUTS)).double().T
    assert (whole - exact).norm() < 1e-6 * exact.norm()
    assert all(torch.equal(matrix(x[:count]), whole[:count]) for count in range(1, ROWS + 1))


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile a program for ARM with dot-product instructions, as phones and Apple's computers have."""
    if EMULATOR is None or CROSS is None:
        pytest.skip("install g++-aarch64-linux-gnu and qemu-user to run what ARM computes")
    made = tmp_path_factory.mktemp("arm") / "linear"
    emulated = Path(__file__).with_name("emulated_linear.cpp")
    sources = [build.SOURCE / build.LINEAR[0], emulated]
    flags = [flag for flag in build.FLAGS if flag not in ("-O3", "-fPIC")]
    subprocess.run(
        [CROSS, *flags, "-O1", "-static", "-march=armv8.2-a+dotprod", *sources, "-o", made],
        check=True, capture_output=True,
    )  # fmt: skip
    return made


@pytest.mark.exhaustive  # 20 s of compiling; where ARM is the processor, all tests of products are its
@pytest.mark.parametrize("format", NATIVE_FORMATS)
def test_blocks_on_arm(format: str, arm: Path) -> None:
    width = width_of(format)
    blocks, x = random_blocks(format, OUTPUTS, width), some_rows(width)
    grid = grid_of(format).numpy().tobytes() if format in IN_GRIDS else b""
    sizes = blocks.data.shape[1], len(grid) // 4
    head = struct.pack("5i", BLOCKS[format], OUTPUTS, width, *sizes)
    given = head + grid + blocks.data.numpy().tobytes() + x.numpy().tobytes()
    assert EMULATOR is not None
    said = subprocess.run([EMULATOR, arm], input=given, capture_output=True, check=True).stdout
    numbers = torch.frombuffer(bytearray(said), dtype=torch.float32)
    parts = [count * OUTPUTS for count in range(1, ROWS + 1)]
    *by_count, looked_up = numbers.split([*parts, OUTPUTS * width])
    check(format, looked_up.view(OUTPUTS, width), [part.view(-1, OUTPUTS) for part in by_count])
