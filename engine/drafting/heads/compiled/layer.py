"""A decoder layer on a tape, for heads that have layers of their own."""

from __future__ import annotations

from torch import Tensor

from engine.kernels.native.library import ROWS
from engine.kernels.native.tape import Heads, Number, Store, Tape, Where
from engine.models.architecture import Architecture
from engine.models.weights import Layer, RmsNorm


class Block:
    """Records one layer. Its buffers are shared by all places where it is recorded."""

    def __init__(
        self,
        tape: Tape,
        architecture: Architecture,
        layer: Layer,
        store: Store,
        most: int = ROWS,
        *,
        causal: bool,
    ) -> None:
        """``most`` rows at once; ``causal``: they do not see the ones behind them."""
        self._tape, self._layer, self._causal = tape, layer, causal
        a = self._architecture = architecture
        self._heads = Heads(store, a.heads, a.kv_heads, a.epsilon)
        self.qkv = tape.room(most, (a.heads + 2 * a.kv_heads) * a.head_dim)
        self.attended = tape.room(most, a.heads * a.head_dim)
        self.mixed, self.normed = (tape.room(most, a.hidden) for _ in range(2))
        self.gates = tape.room(most, 2 * a.intermediate)
        self.active = tape.room(most, a.intermediate)

    def record(self, x: Tensor, residual: Tensor, to: Tensor, where: Where) -> None:
        """``to``: ``residual`` and what the layer adds to it for ``x``, its attention's normed input."""
        tape, layer, rows = self._tape, self._layer, where.rows
        tape.product(layer.qkv, x, self.qkv, rows=rows)
        self._attend(where)
        tape.product(layer.output, self.attended, self.mixed, rows=rows)
        tape.add(residual, self.mixed, to, rows=rows)
        norm(tape, layer.mlp_norm, to, self.normed, rows)
        tape.product(layer.gate_up, self.normed, self.gates, rows=rows)
        gate, up = self.gates.chunk(2, dim=1)
        tape.activate(self._architecture.activation, gate, self.active, times=up, rows=rows)
        tape.product(layer.down, self.active, self.mixed, rows=rows)
        tape.add(to, self.mixed, to, rows=rows)

    def _attend(self, where: Where) -> None:
        a, tape, weight = self._architecture, self._tape, self._layer.qk_norm
        sizes = [heads * a.head_dim for heads in (a.heads, a.kv_heads, a.kv_heads)]
        queries, keys, values = self.qkv.split(sizes, dim=1)
        ours, theirs = (None, None) if weight is None else weight.split([a.heads, a.kv_heads])
        tape.remember(keys, values, self._heads, theirs, where)
        tape.attend(queries, self.attended, self._heads, ours, where, causal=self._causal)


def norm(tape: Tape, weights: RmsNorm, x: Tensor, to: Tensor, rows: Number | None = None) -> None:
    """``weights(x)``."""
    tape.norm(x, to, weights.epsilon, weight=weights.weight, rows=rows)
