"""The compiled step's matrices, and how it is built."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.backends.native import build
from engine.kernels.formats import int8, nf4
from engine.kernels.native.library import Kind, Library, Matrix
from engine.kernels.torch import int8 as int8_linear
from engine.machine import compilers

SHAPES = [(16, 16), (40, 64), (100, 1040), (4096, 256), (256, 448)]
ODD = [*SHAPES, (24, 77)]
"""Outputs and inputs: one panel, half panels, more than one chunk, those of the embedded model. The odd
one's inputs fill no whole group of sixteen; only floats are multiplied with such."""


def made(kind: Kind, shape: tuple[int, int], library: Library) -> tuple[Matrix, Tensor, Tensor]:
    """Return a matrix, its float weight, and sixteen rows."""
    if kind in (Kind.INT8, Kind.PAIRS) and kind not in library.kinds.values():
        pytest.skip("this processor has no such instructions")
    if kind is Kind.NF4:  # whole groups
        shape = shape[0], shape[1] + -shape[1] % nf4.GROUP
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(shape, generator=generator)
    return Matrix(library, kind, weight), weight, torch.randn(16, shape[1], generator=generator)


@pytest.mark.parametrize("shape", ODD)
def test_fp32_matmuls_are_those_of_float64_within_rounding(
    shape: tuple[int, int], library: Library
) -> None:
    matrix, weight, x = made(Kind.FP32, shape, library)
    exact = (x.double() @ weight.double().T).float()
    assert (matrix(x) - exact).norm() < 1e-6 * exact.norm()


@pytest.mark.parametrize(
    ("kind", "dtype"), [(Kind.BF16, torch.bfloat16), (Kind.FP16, torch.float16)]
)
@pytest.mark.parametrize("shape", ODD)
def test_matmuls_in_16_bits_round_the_weight_alone(
    kind: Kind, dtype: torch.dtype, shape: tuple[int, int], library: Library
) -> None:
    matrix, weight, x = made(kind, shape, library)
    exact = (x.double() @ weight.to(dtype).double().T).float()
    assert (matrix(x) - exact).norm() < 1e-6 * exact.norm()
    assert torch.equal(matrix.rows(range(3)), weight[:3].to(dtype).float())


@pytest.mark.parametrize("shape", SHAPES)
def test_matmuls_of_pairs_round_both(shape: tuple[int, int], library: Library) -> None:
    matrix, weight, x = made(Kind.PAIRS, shape, library)
    exact = (x.bfloat16().double() @ weight.bfloat16().double().T).float()
    assert (matrix(x) - exact).norm() < 1e-6 * exact.norm()


@pytest.mark.parametrize("shape", SHAPES)
def test_int8_matmuls_have_the_bits_of_the_reference(
    shape: tuple[int, int], library: Library
) -> None:
    matrix, weight, x = made(Kind.INT8, shape, library)
    x[3] = 0
    x[4] *= 1e4
    assert torch.equal(matrix(x), int8_linear.Int8Reference(int8.quantise(weight))(x))


@pytest.mark.parametrize("shape", SHAPES)
def test_nf4_matmuls_are_those_of_the_widened_weight(
    shape: tuple[int, int], library: Library
) -> None:
    matrix, weight, x = made(Kind.NF4, shape, library)
    held = nf4.quantise(weight)
    wide = nf4.dequantise(held.packed, held.absmax, weight.numel(), torch.float64)
    exact = (x.double() @ wide.view(weight.shape).T).float()
    assert (matrix(x) - exact).norm() < 1e-6 * exact.norm()


def test_nf4_in_parts_of_groups_is_refused(library: Library) -> None:
    with pytest.raises(ValueError, match="multiple of 64"):
        Matrix(library, Kind.NF4, torch.zeros(16, 96))


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_row_has_the_bits_it_has_alone(
    kind: Kind, shape: tuple[int, int], library: Library
) -> None:
    matrix, _, x = made(kind, shape, library)
    # With a bias there is something that a compiler could fuse for some numbers of rows alone.
    matrix.set_bias(torch.randn(shape[0], generator=torch.Generator().manual_seed(1)))
    alone = torch.cat([matrix(row) for row in x.split(1)])
    for rows in range(1, 17):
        assert torch.equal(matrix(x[:rows]), alone[:rows]), rows
        assert torch.equal(matrix(x[16 - rows :]), alone[16 - rows :]), rows


@pytest.mark.parametrize("kind", Kind)
def test_the_number_of_threads_changes_nothing(kind: Kind, library: Library) -> None:
    matrix, weight, x = made(kind, (100, 1040), library)
    for threads in (1, 3, 7):
        other = Library(build.build(), threads)
        assert torch.equal(Matrix(other, kind, weight)(x), matrix(x)), threads


@pytest.mark.parametrize("kind", Kind)
def test_a_bias_is_added_to_every_row(kind: Kind, library: Library) -> None:
    matrix, _, x = made(kind, (40, 64), library)
    without, bias = matrix(x), torch.randn(40)
    matrix.set_bias(bias)
    assert torch.allclose(matrix(x), without + bias, rtol=0, atol=1e-4)


def test_it_is_built_once_and_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    path = build.build()
    monkeypatch.setattr(build.subprocess, "Popen", never)
    assert build.build() == build.built() == path


def never(*_: object, **__: object) -> None:
    raise AssertionError("the compiler was asked again")


def test_a_compiler_that_refuses_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(build, "FLAGS", ("--no-such-flag",))
    monkeypatch.setattr(build, "_path", lambda *_: tmp_path / "made" / "library.so")
    with pytest.raises(compilers.BuildError, match="could not compile"):
        build.build()
    assert [each.name for each in (tmp_path / "made").iterdir()] == ["library.lock"]


def test_of_two_that_build_at_once_one_waits_for_the_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each compiled all of it, as the test processes of a new machine did."""
    both, runs = threading.Barrier(2), []

    def run(commands: Iterable[Sequence[str]], environment: object) -> None:
        with suppress(threading.BrokenBarrierError):
            both.wait(0.5)
        runs.append(list(commands))
        for command in runs[-1]:
            Path(command[command.index("-o") + 1]).touch()

    monkeypatch.setattr(build, "_run", run)
    monkeypatch.setattr(build, "_path", lambda *_: tmp_path / "library.so")
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: build.build(), range(2)))
    assert len(runs) == 2  # one compiled its objects, and linked them


def test_a_folder_that_takes_nothing_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It once ended a command with a traceback."""
    (tmp_path / "taken").write_text("")
    monkeypatch.setattr(build, "_path", lambda *_: tmp_path / "taken" / "library.so")
    with pytest.raises(build.BuildError, match=r"cannot be saved in .*taken: File exists"):
        build.build()


def test_what_is_built_behind_is_told_when_it_is_there(library: Library) -> None:
    """Also if another process built it since the caller looked: a pair once stayed in torch."""
    told = threading.Event()
    build.build_in_background(told.set)
    assert told.wait(60)


def test_a_file_that_is_no_library_is_left_aside(tmp_path: Path) -> None:
    broken = tmp_path / "library.so"
    broken.write_bytes(b"not a library")
    assert build.load(broken) is None
