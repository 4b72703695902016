"""Trace a head's operations once; the compiled step then runs all in one call."""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable, Iterator
from typing import TypeVar

import torch
from torch import Tensor

from engine.backends import operations
from engine.backends.native import layers
from engine.backends.operations import Draft
from engine.kernels.native import structures
from engine.kernels.native.library import LANES, ROWS, Matrix
from engine.kernels.native.program import (
    Attention,
    LayerCache,
    Program,
    ProgramTracer,
    Sees,
    Unsupported,
)
from engine.kernels.operands import Candidates, Groups, Number, Rows, Tokens
from engine.kernels.torch.linear import Linear
from engine.models import architecture
from engine.models.architecture import Architecture, Experts
from engine.models.hidden_states import AuxLayer, Backbone, EmbeddingAndHead
from engine.models.rotation import cosines
from engine.models.weights import ExpertsWeights
from engine.noise import Draws

R = TypeVar("R")


class TracedOperations(ProgramTracer):
    """See ``Operations``. Each raises Unsupported for what is not compiled."""

    chunk = ROWS

    def __init__(self, target: Backbone) -> None:
        super().__init__()
        self._target = target

    def aux_hidden_states(self, aux_layer: AuxLayer, rows: Rows) -> Tensor:
        return self.take(self._target.aux_buffer(aux_layer), rows)

    def new_table(self, aux_layer: AuxLayer) -> Tensor:
        return operations.table_like(self._target.aux_buffer(aux_layer))

    def embed(
        self,
        table: Linear | Tensor | None,
        tokens: Tokens,
        first: int = 0,
        rows: Rows | None = None,
    ) -> Tensor:
        own = self._of_target().embedding if table is None else table
        return super().embed(own, tokens, first, rows)

    def target_logits(
        self, states: Tensor, count: Number, candidates: Candidates | None = None
    ) -> Tensor:
        target = self._of_target()
        logits = self.linear(target.head, states, count, candidates)
        if target.scale != 1:
            logits = self.add(logits, logits, target.scale - 1)
        return logits if target.cap is None else self.cap(logits, target.cap)

    def group_logits(self, output: Linear, x: Tensor, scores: Tensor, groups: Groups) -> Tensor:
        self.choose_groups(scores, groups)
        return self.linear(output, x, candidates=groups)

    def new_memory(self, architecture: Architecture, device: torch.device) -> TracedMemory:
        return TracedMemory(architecture)

    def remember(
        self, keys_values: Tensor, memory: operations.Memory, norms: Tensor, rows: Rows
    ) -> None:
        assert isinstance(memory, TracedMemory)
        a = memory.attention
        parts = keys_values.split(a.kv_heads * a.head_dim, dim=1)
        for keys, values, norm, cache in zip(
            parts[::2], parts[1::2], norms, memory.caches, strict=True
        ):
            self.store_kv(
                keys, values, Attention(cache, a.heads, a.kv_heads, memory.epsilon), norm, rows
            )

    def attend(
        self, qkv: Tensor, memory: operations.Memory, layer: int, norms: Tensor | None, rows: Rows
    ) -> Tensor:
        assert isinstance(memory, TracedMemory)
        a = memory.attentions[layer]
        heads = Attention(memory.caches[layer], a.heads, a.kv_heads, memory.epsilon)
        sizes = [count * a.head_dim for count in (a.heads, a.kv_heads, a.kv_heads)]
        queries, keys, values = qkv.split(sizes, dim=1)
        query_norms, key_norms = (
            (None, None) if norms is None else norms.split([a.heads, a.kv_heads])
        )
        self.store_kv(keys, values, heads, key_norms, rows)
        sees = Sees.CAUSAL if a.causal else Sees.STEP
        return self.attention(queries, heads, query_norms, rows, sees, a.window)

    def attend_to_target(
        self,
        queries: Tensor,
        attention: architecture.Attention,
        epsilon: float,
        norms: Tensor | None,
        rows: Rows,
    ) -> Tensor:
        target, rope, width = self._of_target(), attention.rope, attention.head_dim
        assert rope is not None
        keys, values = self._target.kv_buffers(attention.window is not None)
        table = target.rotations.get((rope, width))
        if table is None:
            table = cosines(rope, width, values.shape[1])
        cache = LayerCache()
        cache.move(keys, values, table)
        heads = Attention(cache, attention.heads, attention.kv_heads, epsilon)
        return self.attention(queries, heads, norms, rows, Sees.BEFORE, attention.window)

    def experts(self, spec: Experts, weights: ExpertsWeights, x: Tensor) -> Tensor:
        if not all(
            isinstance(each, Matrix) for each in (weights.router, weights.gate_up, weights.down)
        ):
            raise Unsupported("the experts are not compiled")
        return self.mixture(layers.experts(weights, spec), x, weights)

    def unroll(
        self,
        most: int,
        read: Callable[[], R],
        steps: Callable[[Tokens, R], Iterator[Tensor]],
        target_ids: Tensor | Candidates | None = None,
    ) -> Draft:
        return TracedDraft(self, most, read, steps, target_ids)

    def round_drafter(self, head: operations.RoundHead) -> None:
        return None

    def _of_target(self) -> EmbeddingAndHead:
        if self._target.embedding_and_head is None:
            raise Unsupported("the target's embedding and output head are not compiled")
        return self._target.embedding_and_head


class TracedMemory:
    """See ``Memory``. ``caches`` have the addresses of each layer's keys and values for programs.

    keys (layers, kv_heads, room / 16, head_dim, 16), values (layers, kv_heads, room, head_dim) float32.
    """

    def __init__(self, architecture: Architecture) -> None:
        self.attentions, self.epsilon = architecture.attentions, architecture.epsilon
        self.attention = self.attentions[0]
        self.caches = [LayerCache() for _ in architecture.layers]
        self.clear()

    def clear(self) -> None:
        a, layers = self.attention, len(self.caches)
        self.keys = torch.zeros(layers, a.kv_heads, 0, a.head_dim, LANES)
        self.values = torch.zeros(layers, a.kv_heads, 0, a.head_dim)

    def reserve(self, rows: int) -> None:
        reserved = self.values.shape[2]
        if rows <= reserved:
            return
        a, room = self.attention, operations.room_for(rows)
        outer, more = (len(self.caches), a.kv_heads), room - reserved
        keys = torch.zeros(*outer, more // LANES, a.head_dim, LANES)
        self.keys = torch.cat([self.keys, keys], dim=2)
        self.values = torch.cat([self.values, torch.zeros(*outer, more, a.head_dim)], dim=2)
        assert a.rope is not None
        self.rope = cosines(a.rope, a.head_dim, room)
        for cache, keys, values in zip(self.caches, self.keys, self.values, strict=True):
            cache.move(keys, values, self.rope)


class TracedDraft:
    """See ``Draft``."""

    draws = True

    def __init__(
        self,
        tracer: ProgramTracer,
        most: int,
        read: Callable[[], R],
        steps: Callable[[Tokens, R], Iterator[Tensor]],
        target_ids: Tensor | Candidates | None,
    ) -> None:
        self.chain = Tokens(most + 1)
        self._candidates = target_ids if isinstance(target_ids, Candidates) else None
        self._probabilities, self._draws = (c.c_float * most)(), structures.Draws()
        self._begin, inputs = 0, read()
        self._read_end = len(tracer)
        self._logits: list[Tensor] = []
        self._ends: list[int] = []
        for step, logits in enumerate(steps(self.chain, inputs)):
            tracer.sample(logits, self.chain, self._probabilities, step, target_ids, self._draws)
            self._logits.append(logits)
            self._ends.append(len(tracer))
        self._program = Program(tracer)

    def read(self) -> None:
        self._program.run(0, self._read_end)

    def begin(self, pending: int, *, read: bool = True) -> None:
        self.chain[0], self._begin = pending, 0 if read else self._read_end

    def write(
        self, depth: int, draws: Draws | None = None, floor: float = 0.0
    ) -> tuple[list[int], list[float]]:
        self._draws.keys, self._draws.floor, self._draws.count = None, floor, 0
        if draws is not None:
            keys = (c.c_uint64 * depth)(*draws.keys)
            self._draws.keys = c.addressof(keys)
            self._draws.sampling = structures.Sampling.of(draws.sampling)
        self._program.run(self._begin, self._ends[depth - 1])
        count = self._draws.count
        return self.chain[1 : count + 1], self._probabilities[:count]

    def logits(self, step: int) -> Tensor:
        begin = self._ends[step - 1] if step else self._begin
        self._program.run(begin, self._ends[step] - 1)
        logits, candidates = self._logits[step], self._candidates
        if candidates is None or not candidates.trimmed:
            return logits
        ids = candidates.chosen
        wide = torch.full_like(logits, float("-inf"))
        wide[0, torch.from_numpy(ids)] = logits[0, : len(ids)]
        return wide

    def all_logits(self, depth: int) -> Tensor:
        self.write(depth)
        rows = self._logits[:depth]
        return rows[0] if depth == 1 else torch.cat(rows)
