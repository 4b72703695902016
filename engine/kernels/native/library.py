"""The compiled step as Python sees it: functions with their types, and matrices."""

from __future__ import annotations

import ctypes as c
import functools
import logging
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from pathlib import Path

import torch
from torch import Tensor

from engine.kernels.cpu import int8, nf4
from engine.kernels.native import build
from engine.kernels.native.structures import Op, Shape, Step
from engine.machine.threads import default as default_threads
from engine.request import MAX_ROWS

log = logging.getLogger(__name__)

ROWS = MAX_ROWS
LANES = 16
"""Numbers of a vector, as in vector.h."""


class Kind(IntEnum):
    """How a matrix keeps its weights, as in matrix.h."""

    FP32 = 0
    BF16 = 1
    INT8 = 2
    PAIRS = 3
    """bf16 weights for rows that are rounded to bf16 too."""
    NF4 = 4


KINDS = {
    "fp32": (Kind.FP32,),
    "bf16": (Kind.PAIRS, Kind.BF16),
    "int8": (Kind.INT8,),
    "nf4": (Kind.NF4,),
}
"""What ``--quantization`` asks for: the first that the processor has instructions for."""
GATES = {"silu": 0, "gelu": 1, "gelu_pytorch_tanh": 2, "relu": 3}
"""As in decoder.h, by transformers' names."""


class Library:
    """The functions of one compiled file, and the threads that they run on."""

    def __init__(self, path: Path, threads: int | None = None) -> None:
        """``threads``: None is one for each physical core. Raises OSError."""
        self.threads = threads
        found = c.CDLL(str(path))
        brief = c.PyDLL(str(path))  # keeps Python's lock: to hand it over takes longer than these
        pointer, number = c.c_void_p, c.c_int
        has = _typed(found.foretoken_has, number, number)
        self.kinds = {
            name: kind for name, kinds in KINDS.items() for kind in reversed(kinds) if has(kind)
        }
        """By the names of ``--quantization``."""
        self.new_matrix = _typed(found.foretoken_matrix, pointer, number, number, number)
        self.pack = _typed(found.foretoken_pack, None, pointer, pointer, pointer, number, number)
        self.bias = _typed(found.foretoken_bias, None, pointer, pointer)
        self.multiply = _typed(
            found.foretoken_multiply, None, pointer, pointer, pointer, number, pointer
        )
        self.rows = _typed(found.foretoken_rows, None, pointer, pointer, number, pointer)
        self.free_matrix = _typed(found.foretoken_free_matrix, None, pointer)
        self.new_decoder = _typed(found.foretoken_decoder, pointer, c.POINTER(Shape), pointer)
        self.free_decoder = _typed(found.foretoken_free_decoder, None, pointer)
        self.forward = _typed(found.foretoken_forward, None, pointer, c.POINTER(Step))
        self.continue_ = _typed(
            found.foretoken_continue, number,
            pointer, c.POINTER(Step), number, number, c.c_float, pointer, c.c_float, pointer, pointer,
        )  # fmt: skip
        self.likeliest = _typed(
            brief.foretoken_likeliest, None,
            pointer, number, number, c.c_int64, pointer, pointer, pointer,
        )  # fmt: skip
        self.drawn = _typed(
            brief.foretoken_drawn, None,
            pointer, number, number, c.c_int64, c.c_float, pointer, pointer, pointer, pointer,
        )  # fmt: skip
        self.sample = _typed(
            brief.foretoken_sample, None, pointer, number, number, pointer, pointer
        )
        self.new_program = _typed(found.foretoken_program, pointer, c.POINTER(Op), number, pointer)
        self.free_program = _typed(found.foretoken_free_program, None, pointer)
        self.run = _typed(found.foretoken_run, None, pointer, number, number)
        self._new_pool = _typed(found.foretoken_pool, pointer, number)

    @functools.cached_property
    def pool(self) -> int:
        """The threads, which begin when they are first needed.

        Never freed: decoders of any age refer to them, and they end with the process.
        """
        if self.threads is None:
            self.threads = default_threads()
        return self._new_pool(self.threads)


def takes(library: Library, weights: str, inputs: Iterable[int]) -> bool:
    """Whether matrices in the format ``weights`` multiply here, by rows of so many ``inputs``."""
    return weights in library.kinds and fits(weights, inputs)


def fits(weights: str, inputs: Iterable[int]) -> bool:
    """Whether rows of so many ``inputs`` are whole groups in the format ``weights``."""
    unit = nf4.GROUP if weights == "nf4" else LANES
    return not any(width % unit for width in inputs)


def make_matrix(library: Library, weights: str, weight: Tensor) -> Matrix:
    """The product with ``weight (out, in)`` in the format ``weights``, which the library ``takes``.

    A weight stored in bf16 stays so where fp32 is asked for: half the bytes, the same numbers.
    """
    kind = library.kinds[weights]
    as_stored = kind is Kind.FP32 and weight.dtype == torch.bfloat16
    return Matrix(library, Kind.BF16 if as_stored else kind, weight)


class Matrix:
    """A weight in panels; ``Linear`` for float32 rows."""

    def __init__(self, library: Library, kind: Kind, weight: Tensor) -> None:
        """Copies ``weight (out, in)`` of any float dtype, a part at a time.

        Raises ValueError for NF4 where ``in`` is no multiple of 64: each row has whole groups.
        """
        self.outputs, self.inputs = weight.shape
        if kind is Kind.NF4 and self.inputs % nf4.GROUP:
            raise ValueError(f"{self.inputs} inputs are no multiple of {nf4.GROUP}")
        self.kind, self.library = kind, library
        self.pointer = _made(library.new_matrix(kind, self.outputs, self.inputs))
        weakref.finalize(self, library.free_matrix, self.pointer)
        for start in range(0, self.outputs, int8.CHUNK_ROWS):
            part = weight[start : start + int8.CHUNK_ROWS]
            rows, scales = _held(kind, part)
            library.pack(
                self.pointer,
                rows.data_ptr(),
                None if scales is None else scales.data_ptr(),
                start,
                len(part),
            )

    def set_bias(self, bias: Tensor) -> None:
        """Adds ``bias (out,)`` to every result from now on."""
        wide = bias.float().contiguous()  # lives until it is copied
        self.library.bias(self.pointer, wide.data_ptr())

    def rows(self, numbers: Sequence[int]) -> Tensor:
        """Rows of the weight as they are held: float32 ``(numbers, in)``."""
        ids = (c.c_int64 * len(numbers))(*numbers)
        result = torch.empty(len(numbers), self.inputs)
        self.library.rows(self.pointer, ids, len(numbers), result.data_ptr())
        return result

    def __call__(self, x: Tensor) -> Tensor:
        """float32 ``(rows, in)`` -> float32 ``(rows, out)``."""
        x = x.contiguous()
        result = torch.empty(len(x), self.outputs)
        for given, made in zip(x.split(ROWS), result.split(ROWS), strict=True):
            self.library.multiply(
                self.pointer, self.library.pool, given.data_ptr(), len(given), made.data_ptr()
            )
        return result


def _held(kind: Kind, weight: Tensor) -> tuple[Tensor, Tensor | None]:
    """Some rows of a weight as ``Matrix::pack`` reads them, and their scales."""
    if kind is Kind.INT8:
        whole = int8.quantise(weight)
        return whole.values, whole.scale
    if kind is Kind.NF4:
        halves = nf4.quantise(weight)
        return halves.packed, halves.absmax
    dtype = torch.float32 if kind is Kind.FP32 else torch.bfloat16
    return weight.to(dtype).contiguous(), None


@functools.cache
def load(path: Path, threads: int | None = None) -> Library | None:
    """The library in ``path``, on ``threads``; None where this system will not load it."""
    try:
        return Library(path, threads)
    except OSError as error:
        log.warning("The compiled step in %s cannot be loaded: %s", path, error)
        return None


def ready(threads: int | None = None) -> Library | None:
    """The library, if it has been built. Whether it may be used, ``devices.Place.native`` says.

    One for each number of ``threads``, for they are made once.
    """
    path = build.built()
    return None if path is None else load(path, threads)


def build_behind(done: Callable[[], None]) -> None:
    """Builds the library on a thread of its own, unless it is there; calls ``done`` if it then is.

    It may be there already, built by somebody else since the caller looked.
    """
    threading.Thread(target=_build, args=(done,), name="build", daemon=True).start()


def _build(done: Callable[[], None]) -> None:
    try:
        path = build.build()
    except build.BuildError as error:
        log.info("%s", error)
        return
    if load(path) is not None:
        done()


def _typed(function: object, result: object, *arguments: object) -> Callable[..., int]:
    function.restype, function.argtypes = result, arguments  # type: ignore[attr-defined]
    return function  # type: ignore[return-value]


def _made(pointer: int | None) -> int:
    if not pointer:
        raise MemoryError("no memory for a weight")
    return pointer
