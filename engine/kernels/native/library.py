"""The compiled step as Python sees it: functions with their types, and matrices."""

from __future__ import annotations

import ctypes as c
import functools
import itertools
import operator
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from engine.kernels.formats import Q4, int8, nf4
from engine.kernels.formats.block_formats import LAYOUTS, MULTIPLIED, ROUNDED, SCALES, Layout
from engine.kernels.formats.blocks import Blocks, Stacked, Weight
from engine.kernels.native.structures import Op, Shape, Step
from engine.machine.threads import default as default_threads
from engine.values import MAX_ROWS

ROWS = MAX_ROWS
MOST_ROWS = 4 * ROWS
"""Of one step, as in rows.h."""
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
    FP16 = 5
    """Only for tensors that come so."""


BLOCKS = {name: 16 + number for number, name in enumerate(MULTIPLIED)}
"""Kinds of weights in blocks, by their formats; numbers as in rows.h and blocks.h."""
PARTS = 4
"""That a matrix may have, as in rows.h."""
KINDS = {
    "fp32": (Kind.FP32,),
    "bf16": (Kind.PAIRS, Kind.BF16),
    "int8": (Kind.INT8,),
    "nf4": (Kind.NF4,),
}
"""What ``--quantization`` asks for: the first that the processor has instructions for."""
UNITS = {"nf4": nf4.GROUP, Q4: LAYOUTS["q4_1"].inputs}
"""Inputs that lie together in a format, where they are more than a vector's."""
GATES = {"silu": 0, "gelu": 1, "gelu_pytorch_tanh": 2, "relu": 3}
"""As in structures.h, by transformers' names."""


class Products:
    """The functions of one compiled file that multiply, and the threads that they run on."""

    def __init__(self, path: Path, threads: int | None = None) -> None:
        """``threads``: None is one for each physical core. Raises OSError."""
        self.path, self.threads = path, threads
        found = c.CDLL(str(path))
        pointer, number = c.c_void_p, c.c_int
        has = _typed(found.foretoken_has, number, number)
        self.kinds = {
            name: kind for name, kinds in KINDS.items() for kind in reversed(kinds) if has(kind)
        }
        """By the names of ``--quantization``."""
        self.new_matrix = _typed(found.foretoken_matrix, pointer, pointer, pointer, number, number)
        self.pack = _typed(
            found.foretoken_pack, None, pointer, pointer, number, pointer, pointer, number, number
        )
        self.take = _typed(
            found.foretoken_take, number,
            pointer, pointer, number, c.c_ssize_t, c.c_uint64, pointer, pointer, number, number,
        )  # fmt: skip
        self.bias = _typed(found.foretoken_bias, None, pointer, pointer)
        self.multiply = _typed(
            found.foretoken_multiply, None, pointer, pointer, pointer, number, pointer
        )
        self.rows = _typed(found.foretoken_rows, None, pointer, pointer, number, pointer)
        self.free_matrix = _typed(found.foretoken_free_matrix, None, pointer)
        self._new_pool = _typed(found.foretoken_pool, pointer, number)

    @property
    def pairs_bf16(self) -> bool:
        """Whether bf16 weights are multiplied in pairs, by rows that are rounded to bf16 too."""
        return self.kinds.get("bf16") is Kind.PAIRS

    @functools.cached_property
    def pool(self) -> int:
        """The threads, which begin when they are first needed.

        Never freed: decoders of any age refer to them, and they end with the process.
        """
        if self.threads is None:
            self.threads = default_threads()
        return self._new_pool(self.threads)


class Library(Products):
    """All of it: products, decoders and programs."""

    def __init__(self, path: Path, threads: int | None = None) -> None:
        """As ``Products``."""
        super().__init__(path, threads)
        found = c.CDLL(str(path))
        brief = c.PyDLL(str(path))  # keeps Python's lock: to hand it over takes longer than these
        pointer, number = c.c_void_p, c.c_int
        self.new_decoder = _typed(found.foretoken_decoder, pointer, c.POINTER(Shape), pointer)
        self.free_decoder = _typed(found.foretoken_free_decoder, None, pointer)
        self.forward = _typed(found.foretoken_forward, None, pointer, c.POINTER(Step))
        self.continue_ = _typed(
            found.foretoken_continue, number,
            pointer, c.POINTER(Step), number, number, pointer,
            c.c_float, pointer, c.c_float, pointer, pointer,
        )  # fmt: skip
        self.greedy = _typed(
            brief.foretoken_greedy, None,
            pointer, number, number, c.c_int64, pointer, pointer, pointer,
        )  # fmt: skip
        self.first_places = _typed(
            brief.foretoken_first_places, None, pointer, number, number, pointer
        )
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


def takes(library: Products, weights: str, inputs: Iterable[int]) -> bool:
    """Return whether matrices in the format ``weights`` multiply here, by rows of so many ``inputs``."""
    return weights in library.kinds and fits(weights, inputs)


def fits(weights: str, inputs: Iterable[int]) -> bool:
    """Return whether rows of so many ``inputs`` are whole groups in the format ``weights``."""
    unit = UNITS.get(weights, LANES)
    return not any(width % unit for width in inputs)


def make_matrix(
    library: Products, weights: str, weight: Stacked, rounded: str | None = None
) -> Matrix:
    """The product with ``weight (out, in)``, or with parts one below the other.

    Tensors are held in the format ``weights``, which the library ``takes``; what is in blocks as it is.
    ``rounded``: see ``Matrix``.
    """
    return Matrix(library, library.kinds[weights], weight, rounded)


class Matrix:
    """A weight in panels; ``Linear`` for float32 rows."""

    def __init__(
        self, library: Products, kind: Kind, weight: Stacked, rounded: str | None = None
    ) -> None:
        """Copies ``weight (out, in)``, or parts of it one below the other, some rows at a time.

        Tensors, of any float dtype, are held in ``kind``; one of 16 bits where that is fp32 stays so:
        half the bytes, the same numbers. Blocks stay as they are; those of ``ROUNDED`` are held in int8.
        ``rounded``: ``DRAFTING`` for all that takes more bytes than that, None for nothing.
        Raises KeyError for other blocks, and ValueError where a row is not whole groups, or a part but
        the last not whole panels.
        """
        parts = weight if isinstance(weight, tuple) else (weight,)
        kinds = [_kind(kind, part, rounded) for part in parts]
        self.inputs = int(parts[0].shape[1])
        self.outputs = sum(len(part) for part in parts)
        _check_parts(parts, kinds)
        self.kind, self.kinds, self.library = kind, tuple(kinds), library
        runs = [
            (key, sum(len(part) for _, part in run))
            for key, run in itertools.groupby(
                zip(kinds, parts, strict=True), key=operator.itemgetter(0)
            )
        ]
        if len(runs) > PARTS:
            raise ValueError(f"{len(runs)} kinds of weights in one matrix; {PARTS} are possible")
        self.pointer = _made(
            library.new_matrix(
                (c.c_int * len(runs))(*(key for key, _ in runs)),
                (c.c_int * len(runs))(*(count for _, count in runs)),
                len(runs),
                self.inputs,
            )
        )
        weakref.finalize(self, library.free_matrix, self.pointer)
        first = 0
        for key, part in zip(kinds, parts, strict=True):
            if not self._take(part, first):
                self._pack_pieces(key, part, first)
            first += len(part)

    def _take(self, part: Weight, first: int) -> bool:
        """Whether ``part``, from its file, became the outputs from ``first`` on.

        Not where the file holds what it should not: whoever takes it piece by piece says what.
        """
        if (
            not isinstance(part, Blocks)
            or isinstance(part.data, Tensor)
            or part.format not in MULTIPLIED
        ):
            return False
        halves = (c.c_int * 2)(*(*SCALES.get(part.format, ()), -1, -1)[:2])
        scales = _scales(part)
        with part.data.opened() as (file, start):
            taken = self.library.take(
                self.pointer, self.library.pool, BLOCKS[part.format], _handle(file), start, halves,
                None if scales is None else scales.data_ptr(), first, len(part),
            )  # fmt: skip
        return taken == _ALL

    def _pack_pieces(self, kind: int, part: Weight, first: int) -> None:
        """``part`` becomes the outputs from ``first`` on."""
        for rows in _in_pieces(kind, part):
            self._pack(kind, rows, first)
            first += len(rows)

    def _pack(self, kind: int, part: Weight, first: int) -> None:
        """Likewise, all of it at once."""
        given, rows, scales = _held(kind, part)
        to = None if scales is None else scales.data_ptr()
        pool = self.library.pool
        self.library.pack(self.pointer, pool, given, rows.data_ptr(), to, first, len(part))

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


def _in_pieces(kind: int, part: Weight) -> Iterator[Weight]:
    """Some outputs after the other, whole panels, so that what is read or made on the way stays small."""
    if not isinstance(part, Blocks):
        yield from part.split(int8.CHUNK_ROWS)
    elif kind in BLOCKS.values() and part.format in MULTIPLIED:
        panel = part.nbytes * LANES // len(part)
        yield from part.in_parts(LANES * max(1, _PIECE_BYTES // panel))
    else:
        yield from part.in_parts(int8.CHUNK_ROWS)


_PIECE_BYTES = 16_000_000
"""Of blocks that are read and packed at once: little beside a model, and enough that all threads need not
meet often, who wait for each other on a busy machine."""
_ALL = 0
"""Rows were taken, as in stored.h."""
_NARROW = {torch.bfloat16: Kind.BF16, torch.float16: Kind.FP16}
_DTYPES = {Kind.FP32: torch.float32, Kind.FP16: torch.float16}


def _kind(kind: Kind, part: Weight, rounded: str | None) -> int:
    """How ``part`` is held where tensors are held in ``kind``."""
    if rounded is not None and _takes_more(part, LAYOUTS[rounded]):
        return BLOCKS[rounded]
    if isinstance(part, Blocks):
        return Kind.INT8 if part.format in ROUNDED else BLOCKS[part.format]
    return _NARROW.get(part.dtype, kind) if kind is Kind.FP32 else kind


def _takes_more(part: Weight, layout: Layout) -> bool:
    """Return whether rows of ``part`` are whole blocks of ``layout`` and take more bytes otherwise."""
    outputs, inputs = part.shape
    blocks, rest = divmod(inputs, layout.inputs)
    in_int8 = isinstance(part, Blocks) and part.format in ROUNDED
    held = outputs * inputs if in_int8 else part.nbytes
    return not rest and held > outputs * blocks * layout.size


def _check_parts(parts: Sequence[Weight], kinds: Sequence[int]) -> None:
    """Raises ValueError."""
    inputs = int(parts[0].shape[1])
    if any(part.shape[1] != inputs for part in parts):
        raise ValueError("the parts of a matrix have other numbers of inputs")
    if Kind.NF4 in kinds and inputs % nf4.GROUP:
        raise ValueError(f"{inputs} inputs are no multiple of {nf4.GROUP}")
    if any(len(part) % LANES for part in parts[:-1]):
        raise ValueError(f"a part of a matrix has no multiple of {LANES} outputs")


def _held(kind: int, weight: Weight) -> tuple[int, Tensor, Tensor | None]:
    """The kind that some rows of a weight come in, what ``Part::pack`` reads, and their scales."""
    in_blocks = kind in BLOCKS.values()
    if isinstance(weight, Blocks) and in_blocks and weight.format in MULTIPLIED:
        return BLOCKS[weight.format], weight.data[:].contiguous(), _scales(weight)
    numbers = weight.dequantise() if isinstance(weight, Blocks) else weight
    if in_blocks:
        return Kind.FP32, numbers.float().contiguous(), None
    if kind is Kind.INT8:
        whole = int8.quantise(numbers)
        return kind, whole.values, whole.scale
    if kind is Kind.NF4:
        halves = nf4.quantise(numbers)
        return kind, halves.packed, halves.absmax
    return kind, numbers.to(_DTYPES.get(Kind(kind), torch.bfloat16)).contiguous(), None


def _scales(blocks: Blocks) -> Tensor | None:
    """What multiplies each row; None for 1."""
    return None if blocks.scale == 1 else torch.full((len(blocks),), blocks.scale)


def _handle(file: BinaryIO) -> int:
    """What the system itself calls an open file."""
    if sys.platform == "win32":
        import msvcrt

        return msvcrt.get_osfhandle(file.fileno())
    return file.fileno()


def _typed(function: object, result: object, *arguments: object) -> Callable[..., int]:
    function.restype, function.argtypes = result, arguments  # type: ignore[attr-defined]
    return function  # type: ignore[return-value]


def _made(pointer: int | None) -> int:
    if not pointer:
        raise MemoryError("no memory for a weight")
    return pointer
