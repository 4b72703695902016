"""Trace a head's operations into a program, which the compiled step runs in one call.

A program is a list of operations on float32 rows (see program.h), in the order in which they were traced.
The number of rows, their positions and their tokens are read when it runs.
"""

from __future__ import annotations

import ctypes as c
import weakref
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor

from engine.kernels.native import library as native
from engine.kernels.native import structures
from engine.kernels.native.library import LANES, Library, Matrix
from engine.kernels.native.structures import Op
from engine.kernels.operands import Candidates, Groups, Number, Rows, Tokens
from engine.kernels.torch.linear import Biased, Linear
from engine.values import MAX_STEP_ROWS

Probabilities = c.Array[c.c_float]

FUNCTIONS = {**native.GATES, "sigmoid": 5, "identity": 6}
"""Functions of ``activate``, as in program.h."""
_TABLES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}
_WIDE = 1024
"""The width of a row from which on threads divide its columns."""


class Unsupported(Exception):
    """The compiled step cannot run an operation; the message says why. The head then runs in torch."""


class Code(IntEnum):
    """Codes of operations, as in program.h."""

    TAKE = 0
    EMBED = 1
    LINEAR = 2
    NORM = 3
    ADD = 4
    ACTIVATE = 5
    CAP = 6
    STORE_KV = 7
    ATTEND = 8
    SAMPLE = 9
    GROUPS = 10
    CONVOLVE = 11
    RANK = 12
    KEEP = 13
    EXPERTS = 14


class Sees(IntEnum):
    """What a row of ``ATTEND`` sees, as in program.h."""

    STEP = 0
    CAUSAL = 1
    BEFORE = 2


class LayerCache:
    """Pointers to one layer's keys and values of a sequence, and to its rotations; see program.h."""

    def __init__(self) -> None:
        self.view = structures.LayerCache()

    def move(self, keys: Tensor, values: Tensor, rope: Tensor) -> None:
        """Point to keys (kv_heads, capacity / 16, head_dim, 16), values (kv_heads, capacity, head_dim),
        in float32 or bfloat16, and rope (capacity, head_dim / 2, 2)."""
        view = self.view
        view.keys, view.values = keys.data_ptr(), values.data_ptr()
        view.rotation, view.capacity = rope.data_ptr(), values.shape[1]
        view.bf16 = values.dtype == torch.bfloat16
        self.alive = keys, values, rope


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    """A layer's cache and heads; ``epsilon`` is that of its norms."""

    cache: LayerCache
    heads: int
    kv_heads: int
    epsilon: float


class ProgramTracer:
    """Records operations on float32 rows (rows, width).

    An operation returns the buffer that a run will write; inputs may be columns or rows of buffers. No
    operation changes a buffer of another. The number of rows that a run writes is that of the
    operation's input, and 1 if that has a single row, unless ``count`` or ``rows`` says otherwise.
    """

    def __init__(self, library: Library | None = None) -> None:
        """``library``: runs the program on its threads; None: the library of the first matrix."""
        self.one = Number(1)
        self.ops: list[Op] = []
        self.alive: list[object] = []  # what the operations point to
        self.library = library
        self._counts: dict[int, Number] = {}  # by the buffers' addresses
        # The last operation's count, if each thread computes its own rows.
        self._by_rows: Number | None = None

    def __len__(self) -> int:
        return len(self.ops)

    def pick(self, x: Tensor, number: Number) -> Tensor:
        """Return row ``number`` of ``x``: (1, width)."""
        return self.take(x, Rows(self.one, number))

    def take(self, table: Tensor, rows: Rows) -> Tensor:
        """Return the rows of ``table``, of any float dtype, at the positions of ``rows``."""
        op = Op(code=Code.TAKE, **_positions(rows), **_table(table))
        result = self._buffer(rows.most, table.shape[1], rows.count)
        self._record(op, rows.count, by_rows=True, to=result, alive=(table, rows))
        return result

    def keep(self, x: Tensor, table: Tensor, rows: Rows) -> None:
        """Write ``x`` to the rows of ``table``, float32, at the positions of ``rows``."""
        op = Op(code=Code.KEEP, **_positions(rows), to=table.data_ptr(), to_stride=table.stride(0))
        self._record(op, rows.count, x=x, alive=(table, rows))

    def embed(
        self,
        table: Linear | Tensor | None,
        tokens: Tokens,
        first: int = 0,
        rows: Rows | None = None,
    ) -> Tensor:
        """Return the rows of ``tokens[first]`` and those after it, or one row without ``rows``.

        ``table`` must not be None here.
        """
        count, most = (self.one, 1) if rows is None else (rows.count, rows.most)
        op = Op(code=Code.EMBED, tokens=tokens.address_of(first))
        if isinstance(table, Matrix):
            self._use(table)
            op.matrix, width = table.pointer, table.inputs
        else:
            _check(isinstance(table, Tensor), "a table is not compiled")
            assert isinstance(table, Tensor)
            _set(op, _table(table))
            width = table.shape[1]
        result = self._buffer(most, width, count)
        self._record(op, count, by_rows=True, to=result, alive=(table, tokens))
        return result

    def linear(
        self,
        linear: Linear,
        x: Tensor,
        count: Number | None = None,
        candidates: Candidates | None = None,
    ) -> Tensor:
        """Return ``linear`` of the first ``count`` rows of ``x``; None: of all.

        Where ``candidates`` are trimmed when it runs, a row begins with their outputs, and has no others.
        """
        matrix, bias = _matrix_and_bias(linear)
        self._use(matrix)
        _check(x.shape[1] == matrix.inputs, "a linear layer takes rows of another width")
        assert len(x) == 1 or x.is_contiguous()
        count = self._count(x) if count is None else count
        result = self._buffer(len(x), matrix.outputs, count)
        op = Op(code=Code.LINEAR, matrix=matrix.pointer, bias=_vector(bias, matrix.outputs))
        op.trimmed = None if candidates is None else candidates.address
        self._record(op, count, x=x, to=result, alive=(matrix, bias, candidates))
        return result

    def norm(
        self,
        x: Tensor,
        epsilon: float,
        *,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        scale: float = 1.0,
    ) -> Tensor:
        """Return the RMS norm, times ``scale`` and ``weight``, plus ``bias``."""
        width = x.shape[1]
        _check(width % LANES == 0, f"a norm over {width} numbers is no whole vectors")
        op = Op(code=Code.NORM, scale=scale, epsilon=epsilon)
        op.weight, op.bias = _vector(weight, width), _vector(bias, width)
        result = self._like(x)
        self._record(op, self._count(x), by_rows=True, x=x, to=result, alive=(weight, bias))
        return result

    def add(self, x: Tensor, y: Tensor, scale: float = 1.0) -> Tensor:
        """Return ``x + scale * y``; a narrower ``y`` is added to each part of ``x`` as wide."""
        result, parts = self._like(x), x.shape[1] // y.shape[1]
        for part, to in zip(x.chunk(parts, dim=1), result.chunk(parts, dim=1), strict=True):
            self._elementwise(Op(code=Code.ADD, scale=scale), part, to, second=y)
        return result

    def activate(self, function: str, x: Tensor, times: Tensor | None = None) -> Tensor:
        """Return ``function`` of ``x``, multiplied by ``times`` if that is given."""
        _check(function in FUNCTIONS, f"{function} is not compiled")
        return self._elementwise(
            Op(code=Code.ACTIVATE, choice=FUNCTIONS[function]), x, second=times
        )

    def multiply(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the elementwise product."""
        return self.activate("identity", x, times=y)

    def cap(self, x: Tensor, limit: float) -> Tensor:
        """Return ``limit`` tanh(x / limit)."""
        return self._elementwise(Op(code=Code.CAP, scale=limit), x)

    def join(self, *parts: Tensor) -> Tensor:
        """Return ``parts`` concatenated along their columns."""
        widths = [part.shape[1] for part in parts]
        _check(all(width % LANES == 0 for width in widths), "joined rows are no whole vectors")
        count = self._count(parts[0])
        result = self._buffer(len(parts[0]), sum(widths), count)
        for part, to in zip(parts, result.split(widths, dim=1), strict=True):
            op = Op(code=Code.ACTIVATE, choice=FUNCTIONS["identity"])
            self._record(op, count, by_rows=True, x=part, to=to)
        return result

    def store_kv(
        self, keys: Tensor, values: Tensor, heads: Attention, norm: Tensor | None, rows: Rows
    ) -> None:
        """Store keys, normed by ``norm (kv_heads, head_dim)`` and rotated, and values."""
        op = Op(code=Code.STORE_KV)
        self._with_heads(op, keys, heads.kv_heads, heads, norm, rows, second=values)

    def attention(
        self,
        queries: Tensor,
        heads: Attention,
        norm: Tensor | None,
        rows: Rows,
        sees: Sees,
        window: int | None,
    ) -> Tensor:
        """Return attention of scaled queries, normed and rotated as keys are, over the stored positions.

        ``window``: positions up to its own that a row sees; None: all.
        """
        op, result = Op(code=Code.ATTEND, choice=sees, window=window or 0), self._like(queries)
        self._with_heads(op, queries, heads.heads, heads, norm, rows, to=result)
        return result

    def mixture(self, experts: structures.Experts, x: Tensor, *alive: object) -> Tensor:
        """Return the mixture of normed ``x (rows, hidden)``. ``alive``: what ``experts`` points to."""
        assert x.is_contiguous() and len(x) <= MAX_STEP_ROWS
        op, result = Op(code=Code.EXPERTS, experts=c.addressof(experts)), self._like(x)
        self._record(op, self._count(x), x=x, to=result, alive=(experts, *alive))
        return result

    def sample(
        self,
        logits: Tensor,
        tokens: Tokens,
        probabilities: Probabilities,
        at: int,
        numbers: Tensor | Candidates | None = None,
        draws: structures.Draws | None = None,
    ) -> None:
        """Write a token of one row to ``tokens[at + 1]``, and its probability to ``probabilities[at]``.

        It is the most likely token, or drawn by the key at ``at`` if ``draws`` has keys when it runs.
        ``numbers`` int64: the token id of each logit, or the candidates that ``linear`` had; None: its
        index.
        """
        op = Op(code=Code.SAMPLE, offset=at)
        if isinstance(numbers, Candidates):
            op.numbers, op.trimmed = numbers.ids.ctypes.data, numbers.address
        elif numbers is not None:
            op.numbers = numbers.data_ptr()
        op.chosen = tokens.address_of(at + 1)
        op.probability = c.addressof(probabilities) + at * c.sizeof(c.c_float)
        op.draws = None if draws is None else c.addressof(draws)
        self._record(op, self.one, x=logits, alive=(numbers, tokens, probabilities, draws))

    def convolve(self, x: Tensor, factors: Tensor, base: Tensor, group: int) -> Tensor:
        """Return the sum of each row of ``x`` and those before it, one for each tap, times their factors.

        ``base`` (taps, width), plus ``factors`` (rows, taps * width / group), one for ``group`` columns.
        """
        _check(group % LANES == 0, f"groups of {group} columns are no whole vectors")
        op = Op(
            code=Code.CONVOLVE, choice=len(base), window=group, weight=_vector(base, base.numel())
        )
        result = self._like(x)
        self._record(op, self._count(x), x=x, second=factors, to=result, alive=(base,))
        return result

    def rank_candidates(
        self, logits: Tensor, context: Tensor, table: Tensor, candidates: Candidates, count: int
    ) -> Tensor:
        """Return a row that begins with the ``count`` highest ``logits`` plus products with ``context``.

        A token's is that of its row in ``table``. These tokens become the candidates.
        """
        op = Op(code=Code.RANK, offset=logits.shape[1], window=count, **_table(table))
        op.weight, op.chosen = context.data_ptr(), candidates.ids.ctypes.data
        op.trimmed = candidates.address
        result, alive = self._like(logits), (context, table, candidates)
        self._record(op, self.one, second=logits, to=result, alive=alive)
        op.width = table.shape[1]
        return result

    def choose_groups(self, scores: Tensor, groups: Groups) -> None:
        """Make the groups with the highest ``scores (1, groups)`` the candidates of later operations."""
        _check(groups.size % LANES == 0, f"groups of {groups.size} tokens are no whole panels")
        op = Op(code=Code.GROUPS, choice=groups.kept, window=groups.size // LANES)
        op.tokens, op.chosen = groups.ordering.ctypes.data, groups.ids.ctypes.data
        op.trimmed = groups.address
        self._record(op, self.one, x=scores, alive=(groups,))

    def _buffer(self, rows: int, width: int, count: Number) -> Tensor:
        """Return zeros whose rows are padded to whole vectors."""
        result = torch.zeros(rows, -(-width // LANES) * LANES)[:, :width]
        self._counts[result.untyped_storage().data_ptr()] = count
        return result

    def _like(self, x: Tensor) -> Tensor:
        return self._buffer(len(x), x.shape[1], self._count(x))

    def _count(self, x: Tensor) -> Number:
        return self.one if len(x) == 1 else self._counts[x.untyped_storage().data_ptr()]

    def _use(self, matrix: Matrix) -> None:
        assert isinstance(matrix.library, Library)
        self.library = self.library or matrix.library

    def _elementwise(
        self, op: Op, x: Tensor, to: Tensor | None = None, second: Tensor | None = None
    ) -> Tensor:
        result = self._like(x) if to is None else to
        op.by_columns = x.shape[1] >= _WIDE
        self._record(op, self._count(x), by_rows=not op.by_columns, x=x, second=second, to=result)
        return result

    def _with_heads(
        self,
        op: Op,
        x: Tensor,
        count: int,
        heads: Attention,
        norm: Tensor | None,
        rows: Rows,
        second: Tensor | None = None,
        to: Tensor | None = None,
    ) -> None:
        """Record an operation on ``x``, which has ``count`` heads side by side."""
        width = x.shape[1] // count
        _check(width % LANES == 0, f"heads of {width} numbers are no whole vectors")
        op.heads, op.kv_heads, op.epsilon = count, heads.kv_heads, heads.epsilon
        op.cache, op.weight = c.addressof(heads.cache.view), _vector(norm, x.shape[1])
        _set(op, _positions(rows))
        self._record(op, rows.count, x=x, second=second, to=to, alive=(heads, norm, rows))
        op.width = width

    def _record(
        self,
        op: Op,
        count: Number,
        *,
        by_rows: bool = False,
        x: Tensor | None = None,
        second: Tensor | None = None,
        to: Tensor | None = None,
        alive: tuple[object, ...] = (),
    ) -> None:
        """Append ``op``. ``by_rows``: each thread computes its own rows, from the same rows of ``x``."""
        if by_rows and self._by_rows is count:
            self.ops[-1].barrier = 0
        self._by_rows = count if by_rows else None
        op.barrier, op.rows = 1, count.address
        if to is not None:
            op.width, op.to, op.to_stride = to.shape[1], to.data_ptr(), to.stride(0)
        if x is not None:
            op.width, op.source, op.source_stride = x.shape[1], x.data_ptr(), x.stride(0)
        if second is not None:
            op.second, op.second_stride = second.data_ptr(), second.stride(0)
        self.ops.append(op)
        self.alive += [count, x, second, to, *alive]


class Program:
    """Traced operations, ready to run. For one caller at a time."""

    def __init__(self, tracer: ProgramTracer) -> None:
        """Raises Unsupported if there is neither a library nor a matrix."""
        library = tracer.library
        if library is None:
            raise Unsupported("nothing is multiplied")
        ops = (Op * len(tracer))(*tracer.ops)
        self._run, self._alive = library.run, tracer.alive
        self._pointer = library.new_program(ops, len(tracer), library.pool)
        if not self._pointer:
            raise MemoryError("no memory for the buffers of a head")
        weakref.finalize(self, library.free_program, self._pointer).atexit = False

    def run(self, first: int, end: int) -> None:
        """Run operations ``first`` .. ``end - 1``, counted in the order in which they were traced."""
        self._run(self._pointer, first, end)


def _matrix_and_bias(linear: Linear) -> tuple[Matrix, Tensor | None]:
    inner, bias = (linear.linear, linear.bias) if isinstance(linear, Biased) else (linear, None)
    if not isinstance(inner, Matrix):
        raise Unsupported("a linear layer is not compiled")
    return inner, bias


def _check(supported: bool, reason: str) -> None:
    if not supported:
        raise Unsupported(reason)


def _set(op: Op, fields: dict[str, Any]) -> None:
    for name, value in fields.items():
        setattr(op, name, value)


def _positions(rows: Rows) -> dict[str, Any]:
    return {"start": rows.start.address, "offset": rows.offset}


def _vector(values: Tensor | None, count: int) -> int | None:
    """Return the address of ``count`` numbers, or None without ``values``."""
    if values is None:
        return None
    plain = values.dtype == torch.float32 and values.device.type == "cpu"
    plain = plain and values.is_contiguous() and values.numel() == count
    _check(plain, "a vector is not float32 in one piece")
    return values.data_ptr()


def _table(table: Tensor) -> dict[str, Any]:
    plain = table.dtype in _TABLES and table.device.type == "cpu" and table.stride(1) == 1
    _check(plain, f"a table is in {table.dtype} on {table.device}")
    return {
        "source": table.data_ptr(),
        "source_stride": table.stride(0),
        "choice": _TABLES[table.dtype],
    }
