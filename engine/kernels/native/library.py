"""The compiled step as Python calls it: functions with their types, and matrices."""

from __future__ import annotations

import ctypes as c
import functools
import itertools
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, BinaryIO, cast

import torch
from torch import Tensor

from engine.kernels.formats import Q4, int8, nf4
from engine.kernels.formats.block_formats import LAYOUTS, NATIVE_FORMATS, SCALES, Layout
from engine.kernels.formats.blocks import (
    IN_GRIDS,
    Blocks,
    ReorderedRows,
    Stacked,
    Weight,
    grid_of,
)
from engine.kernels.native.weight_cache import CachedWeights
from engine.machine.threads import default as default_threads
from engine.values import MAX_ROWS

ROWS = MAX_ROWS
LANES = 16
"""Numbers of a vector, as in vector.h."""


class Kind(IntEnum):
    """Kinds of a matrix's weights, as in rows.h."""

    FP32 = 0
    BF16 = 1
    INT8 = 2
    PAIRS = 3
    """bf16 weights for rows that are rounded to bf16 too."""
    NF4 = 4
    FP16 = 5
    """Only for tensors that a checkpoint has in float16."""


BLOCKS = {name: 16 + number for number, name in enumerate(NATIVE_FORMATS)}
"""Kinds of weights in blocks by format, numbered as in rows.h and blocks.h."""
MAX_PARTS = 4
"""Parts of a matrix, as in rows.h."""
KINDS = {
    "fp32": (Kind.FP32,),
    "bf16": (Kind.PAIRS, Kind.BF16),
    "int8": (Kind.INT8,),
    "nf4": (Kind.NF4,),
}
"""Kinds for each ``--quantization``; the first that the processor has instructions for is used."""
UNITS = {"nf4": nf4.GROUP, Q4: LAYOUTS["q4_1"].inputs}
"""Inputs of a group in formats where that is more than a vector."""
GATES = {"silu": 0, "gelu": 1, "gelu_pytorch_tanh": 2, "relu": 3, "quick_gelu": 4}
"""Activations as in structures.h, by transformers' names."""


class LinearLibrary:
    """The functions for matrices in one compiled library, and its thread pool."""

    def __init__(self, path: Path, threads: int | None = None) -> None:
        """``threads``: None is one for each physical core. Raises OSError."""
        self.path, self.threads = path, threads
        functions = c.CDLL(str(path))
        has = _typed(functions.foretoken_has, "i", "i")
        self.kinds = {
            name: kind for name, kinds in KINDS.items() for kind in reversed(kinds) if has(kind)
        }
        """Kinds by the names of ``--quantization``."""
        self.new_matrix = _typed(functions.foretoken_matrix, "p", "ppiip")
        self.pack = _typed(functions.foretoken_pack, None, "ppippii")
        self.load = _typed(functions.foretoken_load, "i", "ppinQppii")
        self.bias = _typed(functions.foretoken_bias, None, "pp")
        # Keeps the GIL, so that nothing looks a grid up while it is set.
        self.set_grid = _typed(c.PyDLL(str(path)).foretoken_set_grid, None, "ipi")
        self.multiply = _typed(functions.foretoken_multiply, None, "pppiiip")
        self.rows = _typed(functions.foretoken_rows, None, "ppip")
        self.image_bytes = _typed(functions.foretoken_image_bytes, "Q", "p")
        self.save_images = _typed(functions.foretoken_save_images, "i", "pin")
        self.free_matrix = _typed(functions.foretoken_free_matrix, None, "p")
        self._new_pool = _typed(functions.foretoken_pool, "p", "i")

    @property
    def pairs_bf16(self) -> bool:
        """Whether bf16 weights are multiplied in pairs, by rows that are rounded to bf16 too."""
        return self.kinds.get("bf16") is Kind.PAIRS

    @functools.cached_property
    def pool(self) -> int:
        """The threads, which start when they are first needed.

        They are never freed: decoders refer to them, and they end with the process.
        """
        if self.threads is None:
            self.threads = default_threads()
        return self._new_pool(self.threads)


class Library(LinearLibrary):
    """All functions: for matrices, decoders and programs."""

    def __init__(self, path: Path, threads: int | None = None) -> None:
        super().__init__(path, threads)
        functions = c.CDLL(str(path))
        brief = c.PyDLL(str(path))  # keeps the GIL: releasing it takes longer than these functions
        self.new_decoder = _typed(functions.foretoken_decoder, "p", "pp")
        self.free_decoder = _typed(functions.foretoken_free_decoder, None, "p")
        self.experts_read = _typed(brief.foretoken_experts_read, "i", "p")
        self.forward = _typed(functions.foretoken_forward, None, "pp")
        self.draft = _typed(functions.foretoken_draft, "i", "ppiipppfpp")
        self.top_k = _typed(brief.foretoken_top_k, None, "piip")
        self.sample_logits = _typed(brief.foretoken_sample_logits, None, "piiqppp")
        self.sample_weights = _typed(brief.foretoken_sample_weights, None, "piipp")
        self.new_program = _typed(functions.foretoken_program, "p", "pip")
        self.free_program = _typed(functions.foretoken_free_program, None, "p")
        self.run = _typed(functions.foretoken_run, None, "pii")


def supports(library: LinearLibrary, weights: str, inputs: Iterable[int]) -> bool:
    """Return whether the library multiplies by the format ``weights`` with rows of each of ``inputs``."""
    return weights in library.kinds and has_whole_groups(weights, inputs)


def has_whole_groups(weights: str, inputs: Iterable[int]) -> bool:
    """Return whether rows of each of ``inputs`` are whole groups in the format ``weights``."""
    unit = UNITS.get(weights, LANES)
    return not any(width % unit for width in inputs)


class Matrix:
    """A weight packed in panels; a ``Linear`` for float32 rows."""

    def __init__(
        self,
        library: LinearLibrary,
        kind: Kind,
        weight: Stacked,
        rounded: str | None = None,
        cache: CachedWeights | None = None,
    ) -> None:
        """Copy ``weight (out, in)``, or parts of it one below the other, some rows at a time.

        Tensors, of any float dtype, are stored in ``kind``. If that is fp32, tensors of 16 bits stay so:
        half the bytes, the same numbers. Blocks stay as they are. ``rounded``: a block format for all
        weights that are smaller in it; None: nothing. ``cache``: what may have the packed weight. Raises
        KeyError for unknown blocks, and ValueError if a row is not whole groups, or a part but the last
        not whole panels.
        """
        parts = weight if isinstance(weight, tuple) else (weight,)
        kinds = [_kind(kind, part, rounded) for part in parts]
        self.inputs = int(parts[0].shape[1])
        self.outputs = sum(len(part) for part in parts)
        _check_parts(parts, kinds)
        _give_grids(library, parts)
        self.kind, self.kinds, self.library = kind, tuple(kinds), library
        runs = [
            (kind, sum(len(part) for _, part in run))
            for kind, run in itertools.groupby(
                zip(kinds, parts, strict=True), key=lambda pair: pair[0]
            )
        ]
        if len(runs) > MAX_PARTS:
            raise ValueError(
                f"{len(runs)} kinds of weights in one matrix; {MAX_PARTS} are possible"
            )
        key = None if cache is None else _key(kinds, parts)
        mapped = None if cache is None or key is None else cache.find(key)
        numbers = c.c_int * len(runs)
        pointer = library.new_matrix(
            numbers(*(kind for kind, _ in runs)),
            numbers(*(count for _, count in runs)),
            len(runs),
            self.inputs,
            mapped,
        )
        if not pointer:
            raise MemoryError("no memory for a weight")
        self.pointer = pointer
        # Not at the process's end, where threads still save it or compute with it.
        weakref.finalize(self, library.free_matrix, pointer).atexit = False
        self._alive = None if mapped is None else cache
        if mapped is None:
            self._fill(kinds, parts)
            if cache is not None and key is not None:
                cache.add(key, self)

    def _fill(self, kinds: Sequence[int], parts: Sequence[Weight]) -> None:
        first = 0
        for part_kind, part in zip(kinds, parts, strict=True):
            if not self._load(part, first):
                for rows, start in _pieces(part_kind, part, first):
                    self._pack(part_kind, rows, start)
            first += len(part)

    def _load(self, part: Weight, first: int) -> bool:
        """Load ``part`` from its file as outputs from ``first`` on; return False where it cannot be.

        It cannot if the file is truncated or has scales that are not finite: reading it piece by piece
        then raises the reason.
        """
        if not isinstance(part, Blocks) or isinstance(part.data, Tensor | ReorderedRows):
            return False
        halves = (c.c_int * 2)(*(*SCALES.get(part.format, ()), -1, -1)[:2])
        scales = _scales(part)
        with part.data.opened() as (file, start):
            result = self.library.load(
                self.pointer, self.library.pool, BLOCKS[part.format], _handle(file), start, halves,
                None if scales is None else scales.data_ptr(), first, len(part),
            )  # fmt: skip
        return result == _LOADED

    def _pack(self, kind: int, part: Weight, first: int) -> None:
        """Pack ``part``, all at once, as outputs from ``first`` on."""
        source_kind, rows, scales = _prepare(kind, part)
        self.library.pack(
            self.pointer, self.library.pool, source_kind, rows.data_ptr(),
            None if scales is None else scales.data_ptr(), first, len(part),
        )  # fmt: skip

    def set_bias(self, bias: Tensor) -> None:
        """Add ``bias (out,)`` to every result from now on."""
        wide = bias.float().contiguous()  # lives until it is copied
        self.library.bias(self.pointer, wide.data_ptr())

    def rows(self, numbers: Sequence[int]) -> Tensor:
        """Return rows of the stored weight: float32 ``(numbers, in)``."""
        ids = (c.c_int64 * len(numbers))(*numbers)
        result = torch.empty(len(numbers), self.inputs)
        self.library.rows(self.pointer, ids, len(numbers), result.data_ptr())
        return result

    def __call__(self, x: Tensor) -> Tensor:
        """Map float32 ``(rows, in)`` to float32 ``(rows, out)``."""
        return self.part(x, 0, self.outputs)

    def part(self, x: Tensor, first: int, outputs: int) -> Tensor:
        """Do the same for some outputs from ``first`` on, which must begin a panel."""
        assert first % LANES == 0 <= first <= first + outputs <= self.outputs
        x = x.contiguous()
        result = torch.empty(len(x), outputs)
        for row in range(0, len(x), ROWS):
            self.library.multiply(
                self.pointer, self.library.pool, x[row].data_ptr(), min(ROWS, len(x) - row), first,
                outputs, result[row].data_ptr(),
            )  # fmt: skip
        return result


def _pieces(kind: int, part: Weight, first: int) -> Iterator[tuple[Weight, int]]:
    """Yield some outputs after the other, whole panels, and their places from ``first`` on.

    So what is read or converted on the way stays small.
    """
    count = int8.CHUNK_ROWS
    if isinstance(part, Blocks) and kind in BLOCKS.values():
        panel = part.nbytes * LANES // len(part)
        count = LANES * max(1, _PIECE_BYTES // panel)
    for rows in part.in_parts(count) if isinstance(part, Blocks) else part.split(count):
        yield rows, first
        first += len(rows)


_PIECE_BYTES = 16_000_000
"""Bytes of blocks that are read and packed at once: little beside a model, and enough that threads, which
wait for each other after each piece, do so rarely."""
_LOADED = 0
"""``LoadResult::LOADED`` of stored_rows.h."""
_NARROW = {torch.bfloat16: Kind.BF16, torch.float16: Kind.FP16}
_DTYPES = {Kind.FP32: torch.float32, Kind.FP16: torch.float16}


def _kind(kind: Kind, part: Weight, rounded: str | None) -> int:
    """Return how ``part`` is stored in a matrix whose tensors are stored in ``kind``."""
    if rounded is not None and _takes_more(part, LAYOUTS[rounded]):
        return BLOCKS[rounded]
    if isinstance(part, Blocks):
        return BLOCKS[part.format]
    return _NARROW.get(part.dtype, kind) if kind is Kind.FP32 else kind


def _takes_more(part: Weight, layout: Layout) -> bool:
    """Return whether rows of ``part`` are whole blocks of ``layout`` and take more bytes otherwise."""
    outputs, inputs = part.shape
    blocks, rest = divmod(inputs, layout.inputs)
    return not rest and part.nbytes > outputs * blocks * layout.size


def _key(kinds: Sequence[int], parts: Sequence[Weight]) -> str | None:
    """Return what identifies a matrix among those of its model; None if not all of it lies in files."""
    places = []
    for kind, part in zip(kinds, parts, strict=True):
        if not isinstance(part, Blocks) or isinstance(part.data, Tensor):
            return None
        places.append((kind, part.format, *part.shape, part.scale, *part.data.place))
    return repr(places)


def _give_grids(library: LinearLibrary, parts: Sequence[Weight]) -> None:
    """Hand over the grids that the parts' formats look values up in. Repeated calls change nothing."""
    for format in {part.format for part in parts if isinstance(part, Blocks)} & set(IN_GRIDS):
        grid = grid_of(format)
        library.set_grid(BLOCKS[format], grid.data_ptr(), grid.numel() // 4)


def _check_parts(parts: Sequence[Weight], kinds: Sequence[int]) -> None:
    """Raise ValueError if the parts do not fit together."""
    inputs = int(parts[0].shape[1])
    if any(part.shape[1] != inputs for part in parts):
        raise ValueError("the parts of a matrix have other numbers of inputs")
    if Kind.NF4 in kinds and inputs % nf4.GROUP:
        raise ValueError(f"{inputs} inputs are no multiple of {nf4.GROUP}")
    if any(len(part) % LANES for part in parts[:-1]):
        raise ValueError(f"a part of a matrix has no multiple of {LANES} outputs")


def _prepare(kind: int, weight: Weight) -> tuple[int, Tensor, Tensor | None]:
    """Return the kind, rows and scales that ``Part::pack`` stores in ``kind``."""
    if isinstance(weight, Blocks):
        return BLOCKS[weight.format], weight.data[:].contiguous(), _scales(weight)
    if kind in BLOCKS.values():
        return Kind.FP32, weight.float().contiguous(), None
    if kind is Kind.INT8:
        quantised = int8.quantise(weight)
        return kind, quantised.values, quantised.scale
    if kind is Kind.NF4:
        codes = nf4.quantise(weight)
        return kind, codes.packed, codes.absmax
    return kind, weight.to(_DTYPES.get(Kind(kind), torch.bfloat16)).contiguous(), None


def _scales(blocks: Blocks) -> Tensor | None:
    """Return the factor of each row; None for 1."""
    return None if blocks.scale == 1 else torch.full((len(blocks),), blocks.scale)


def _handle(file: BinaryIO) -> int:
    """Return the system's handle of an open file."""
    if sys.platform == "win32":
        import msvcrt

        return msvcrt.get_osfhandle(file.fileno())
    return file.fileno()


_TYPES = {
    "p": c.c_void_p,
    "i": c.c_int,
    "n": c.c_ssize_t,
    "q": c.c_int64,
    "Q": c.c_uint64,
    "f": c.c_float,
}
"""C types by the letters of ``struct``; p is any pointer."""


def _typed(function: Any, result: str | None, arguments: str) -> Callable[..., int]:
    """Declare the types of a C function, as letters of ``_TYPES``, and return it."""
    function.restype = None if result is None else _TYPES[result]
    function.argtypes = [_TYPES[each] for each in arguments]
    return cast("Callable[..., int]", function)
