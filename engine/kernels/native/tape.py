"""Programs for the compiled step: what a head computes, written down once and run in one call.

A tape is a list of plain operations on float32 rows (see tape.h), recorded in the order in which they
run. How many rows there are, where they stand and which tokens they belong to is read when they run.
"""

from __future__ import annotations

import ctypes as c
import weakref
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor

from engine.kernels.cpu.linear import Biased, Linear
from engine.kernels.native import library as native
from engine.kernels.native.library import LANES, Library, Matrix, Op

Number = c.c_int32
"""A number that is told before a run."""
Tokens = c.Array[c.c_int64]
Likely = c.Array[c.c_float]

FUNCTIONS = {**native.GATES, "sigmoid": 4, "identity": 5}
"""What ``activate`` applies, as in tape.h."""
_TABLES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}
_WIDE = 1024
"""Numbers of a row from which on threads share the row."""


class Unfit(Exception):
    """What was to be recorded cannot run here, and why not. It then runs in torch."""


class Code(IntEnum):
    """As in tape.h."""

    TAKE = 0
    EMBED = 1
    PRODUCT = 2
    NORM = 3
    ADD = 4
    ACTIVATE = 5
    CAP = 6
    REMEMBER = 7
    ATTEND = 8
    CHOOSE = 9


class Store:
    """Where one layer's keys and values of a sequence lie, and its rotations; see tape.h."""

    def __init__(self) -> None:
        self.view = native.Store()

    def move(self, keys: Tensor, values: Tensor, turns: Tensor) -> None:
        """To tensors that outlive this: float32 keys (kv_heads, room / 16, head_dim, 16), values
        (kv_heads, room, head_dim), turns (room, head_dim / 2, 2)."""
        view = self.view
        view.keys, view.values = keys.data_ptr(), values.data_ptr()
        view.rotation, view.room = turns.data_ptr(), values.shape[1]


@dataclass(frozen=True, slots=True, eq=False)
class Where:
    """``rows`` at positions from ``start + ahead`` on."""

    rows: Number
    start: Number
    ahead: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Heads:
    """A layer's attention; ``epsilon`` is that of its norms."""

    store: Store
    heads: int
    kv_heads: int
    epsilon: float


class Tape:
    """Records operations. Rows are tensors (rows, width) that ``room`` made, or columns of such.

    Wherever ``rows`` is not given, it is one.
    """

    def __init__(self, library: Library) -> None:
        self.library = library
        self.one = Number(1)
        self.ops: list[Op] = []
        self.kept: list[object] = []
        self._shared: Number | None = None  # the last operation's rows, if threads shared these

    def __len__(self) -> int:
        return len(self.ops)

    def done(self) -> Program:
        return Program(self)

    def room(self, rows: int, width: int) -> Tensor:
        """Zeros; every row begins, and ends, with a whole vector."""
        return torch.zeros(rows, -(-width // LANES) * LANES)[:, :width]

    def take(self, table: Tensor, to: Tensor, where: Where) -> None:
        """Rows of ``table``, of any float dtype: those with the numbers of the positions."""
        op = Op(code=Code.TAKE, **_place(where), **_table(table, to.shape[1]))
        self._record(op, where.rows, by_rows=True, to=to, kept=(table, where))

    def embed(
        self,
        table: Matrix | Tensor,
        tokens: Tokens,
        to: Tensor,
        *,
        first: int = 0,
        rows: Number | None = None,
    ) -> None:
        """The rows of ``tokens[first]`` and those behind it."""
        op = Op(code=Code.EMBED, tokens=c.addressof(tokens) + first * c.sizeof(c.c_int64))
        if isinstance(table, Matrix):
            _check(table.inputs == to.shape[1], "an embedding has another width")
            op.matrix = table.pointer
        else:
            _set(op, _table(table, to.shape[1]))
        self._record(op, rows, by_rows=True, to=to, kept=(table, tokens))

    def product(
        self, linear: Linear, x: Tensor, to: Tensor | None = None, *, rows: Number | None = None
    ) -> Tensor:
        """``linear`` of ``x``, which takes all of its rows' numbers; to new rows, unless told."""
        matrix, bias = _panels(linear)
        _check(x.shape[1] == matrix.inputs, "a product takes rows of another width")
        assert len(x) == 1 or x.is_contiguous()
        result = self.room(len(x), matrix.outputs) if to is None else to
        op = Op(code=Code.PRODUCT, matrix=matrix.pointer, bias=_vector(bias, matrix.outputs))
        self._record(op, rows, x=x, to=result, kept=(matrix, bias))
        return result

    def norm(
        self,
        x: Tensor,
        to: Tensor,
        epsilon: float,
        *,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        scale: float = 1.0,
        rows: Number | None = None,
    ) -> None:
        """RMS norm, times ``scale``."""
        width = x.shape[1]
        _check(width % LANES == 0, f"a norm over {width} numbers is no whole vectors")
        op = Op(code=Code.NORM, scale=scale, epsilon=epsilon)
        op.weight, op.bias = _vector(weight, width), _vector(bias, width)
        self._record(op, rows, by_rows=True, x=x, to=to, kept=(weight, bias))

    def add(
        self, x: Tensor, y: Tensor, to: Tensor, *, scale: float = 1.0, rows: Number | None = None
    ) -> None:
        """``x`` and ``scale`` times ``y``."""
        self._each(Op(code=Code.ADD, scale=scale), x, to, rows, second=y)

    def activate(
        self,
        function: str,
        x: Tensor,
        to: Tensor,
        *,
        times: Tensor | None = None,
        rows: Number | None = None,
    ) -> None:
        """``function`` of ``x``, multiplied by ``times`` if that is given."""
        _check(function in FUNCTIONS, f"{function} is not compiled")
        op = Op(code=Code.ACTIVATE, choice=FUNCTIONS[function])
        self._each(op, x, to, rows, second=times)

    def cap(self, x: Tensor, to: Tensor, limit: float, *, rows: Number | None = None) -> None:
        """``limit`` tanh(x / limit)."""
        self._each(Op(code=Code.CAP, scale=limit), x, to, rows)

    def remember(
        self, keys: Tensor, values: Tensor, heads: Heads, norm: Tensor | None, where: Where
    ) -> None:
        """Stores keys, normed by ``norm (kv_heads, head_dim)`` and turned, and values."""
        op = Op(code=Code.REMEMBER)
        self._attention(op, keys, heads.kv_heads, heads, norm, where, second=values)

    def attend(
        self,
        queries: Tensor,
        to: Tensor,
        heads: Heads,
        norm: Tensor | None,
        where: Where,
        *,
        causal: bool,
    ) -> None:
        """Scaled queries, normed and turned likewise, against what is stored.

        Each sees all up to itself if ``causal``, else up to the last row.
        """
        op = Op(code=Code.ATTEND, choice=causal)
        self._attention(op, queries, heads.heads, heads, norm, where, to=to)

    def choose(
        self,
        logits: Tensor,
        tokens: Tokens,
        likely: Likely,
        at: int,
        numbers: Tensor | None = None,
        draws: native.Draws | None = None,
    ) -> None:
        """A token of one row to ``tokens[at + 1]``, its probability to ``likely[at]``.

        The likeliest, or one drawn by the key at ``at`` where ``draws`` holds keys when it runs.
        ``numbers`` int64: what the tokens are called; None: as they are counted.
        """
        op = Op(code=Code.CHOOSE, numbers=None if numbers is None else numbers.data_ptr(), ahead=at)
        op.chosen = c.addressof(tokens) + (at + 1) * c.sizeof(c.c_int64)
        op.probability = c.addressof(likely) + at * c.sizeof(c.c_float)
        op.draws = None if draws is None else c.addressof(draws)
        self._record(op, None, x=logits, kept=(numbers, tokens, likely, draws))

    def _each(
        self, op: Op, x: Tensor, to: Tensor, rows: Number | None, second: Tensor | None = None
    ) -> None:
        """Number by number."""
        op.across = x.shape[1] >= _WIDE
        self._record(op, rows, by_rows=not op.across, x=x, second=second, to=to)

    def _attention(
        self,
        op: Op,
        x: Tensor,
        count: int,
        heads: Heads,
        norm: Tensor | None,
        where: Where,
        second: Tensor | None = None,
        to: Tensor | None = None,
    ) -> None:
        """``x`` holds ``count`` heads."""
        width = x.shape[1] // count
        _check(width % LANES == 0, f"heads of {width} numbers are no whole vectors")
        op.heads, op.kv_heads, op.epsilon = count, heads.kv_heads, heads.epsilon
        op.store, op.weight = c.addressof(heads.store.view), _vector(norm, x.shape[1])
        _set(op, _place(where))
        self._record(op, where.rows, x=x, second=second, to=to, kept=(heads, norm, where))
        op.width = width

    def _record(
        self,
        op: Op,
        rows: Number | None,
        *,
        by_rows: bool = False,
        x: Tensor | None = None,
        second: Tensor | None = None,
        to: Tensor | None = None,
        kept: tuple[object, ...] = (),
    ) -> None:
        """``by_rows``: a row of the result comes from the same row, and each thread has its rows."""
        count = self.one if rows is None else rows  # a number that is still 0 is false
        if by_rows and self._shared is count:
            self.ops[-1].barrier = 0
        self._shared = count if by_rows else None
        op.barrier, op.rows = 1, c.addressof(count)
        if to is not None:
            op.width, op.to, op.to_stride = to.shape[1], to.data_ptr(), to.stride(0)
        if x is not None:
            op.width, op.source, op.source_stride = x.shape[1], x.data_ptr(), x.stride(0)
        if second is not None:
            op.second, op.second_stride = second.data_ptr(), second.stride(0)
        self.ops.append(op)
        self.kept += [count, x, second, to, *kept]


class Program:
    """What was recorded, ready to run. For one caller at a time."""

    def __init__(self, tape: Tape) -> None:
        library = tape.library
        ops = (Op * len(tape))(*tape.ops)
        self._run, self._kept = library.run, tape.kept
        self._pointer = library.new_tape(ops, len(tape), library.pool)
        if not self._pointer:
            raise MemoryError("no memory for the buffers of a head")
        weakref.finalize(self, library.free_tape, self._pointer)

    def run(self, first: int, end: int) -> None:
        """Operations ``first`` .. ``end - 1``, by their numbers in the order of recording."""
        self._run(self._pointer, first, end)


def matrix_of(linear: Linear) -> Matrix:
    """What a product multiplies by. Raises Unfit for one that is not compiled."""
    return _panels(linear)[0]


def _panels(linear: Linear) -> tuple[Matrix, Tensor | None]:
    inner, bias = (linear.linear, linear.bias) if isinstance(linear, Biased) else (linear, None)
    if not isinstance(inner, Matrix):
        raise Unfit("a product is not compiled")
    return inner, bias


def _check(fits: bool, otherwise: str) -> None:
    if not fits:
        raise Unfit(otherwise)


def _set(op: Op, fields: dict[str, Any]) -> None:
    for name, value in fields.items():
        setattr(op, name, value)


def _place(where: Where) -> dict[str, Any]:
    return {"start": c.addressof(where.start), "ahead": where.ahead}


def _vector(values: Tensor | None, count: int) -> int | None:
    """Where ``count`` numbers lie that a tape reads as they are."""
    if values is None:
        return None
    ready = values.dtype == torch.float32 and values.device.type == "cpu"
    ready = ready and values.is_contiguous() and values.numel() == count
    _check(ready, "a vector is not float32 in one piece")
    return values.data_ptr()


def _table(table: Tensor, width: int) -> dict[str, Any]:
    ready = table.dtype in _TABLES and table.device.type == "cpu" and table.stride(1) == 1
    _check(ready and table.shape[1] == width, f"a table is in {table.dtype} on {table.device}")
    return {
        "source": table.data_ptr(),
        "source_stride": table.stride(0),
        "choice": _TABLES[table.dtype],
    }
