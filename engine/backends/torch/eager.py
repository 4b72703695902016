"""Compute a head's operations in torch, each when it is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Generic, TypeVar

import torch
from torch import Tensor

from engine.backends import operations
from engine.backends.operations import Draft
from engine.backends.torch.experts import mix
from engine.kernels.operands import Candidates, Groups, Number, Rows, Tokens
from engine.kernels.torch.linear import Linear
from engine.models.activations import ACTIVATIONS, by_rows, in_16_rows
from engine.models.architecture import Architecture, Attention, Experts
from engine.models.hidden_states import AuxLayer, Backbone
from engine.models.rotation import rotations
from engine.models.rounds import RoundDrafter
from engine.models.weights import ExpertsWeights
from engine.noise import Draws
from engine.values import MAX_ROWS

R = TypeVar("R")

_FUNCTIONS = {**ACTIVATIONS, "sigmoid": torch.sigmoid}


class EagerArithmetic:
    """See ``Arithmetic``. Gradients flow through all of it."""

    def linear(self, linear: Linear, x: Tensor, count: Number | None = None) -> Tensor:
        return linear(x if count is None else x[: count.value])

    def norm(
        self,
        x: Tensor,
        epsilon: float,
        *,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        scale: float = 1.0,
    ) -> Tensor:
        wide = x if weight is None else x.to(weight.dtype)
        normed = torch.rms_norm(wide, x.shape[-1:], weight, epsilon)
        if scale != 1:
            normed = normed * scale
        return (normed if bias is None else normed + bias).to(x.dtype)

    def add(self, x: Tensor, y: Tensor, scale: float = 1.0) -> Tensor:
        width = y.shape[-1]
        if width == x.shape[-1]:
            return torch.add(x, y, alpha=scale)
        return torch.add(x.unflatten(-1, (-1, width)), y[..., None, :], alpha=scale).flatten(-2)

    def activate(self, function: str, x: Tensor, times: Tensor | None = None) -> Tensor:
        result = _FUNCTIONS[function](x)
        return result if times is None else result * times

    def multiply(self, x: Tensor, y: Tensor) -> Tensor:
        return x * y

    def join(self, *parts: Tensor) -> Tensor:
        return torch.cat(parts, dim=-1)


class RowArithmetic(EagerArithmetic):
    """See ``Arithmetic``. No row's bits depend on the rows beside it."""

    def norm(
        self,
        x: Tensor,
        epsilon: float,
        *,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        scale: float = 1.0,
    ) -> Tensor:
        norm = partial(super().norm, epsilon=epsilon, weight=weight, bias=bias, scale=scale)
        return in_16_rows(norm, x)

    def activate(self, function: str, x: Tensor, times: Tensor | None = None) -> Tensor:
        result = by_rows(_FUNCTIONS[function])(x)
        return result if times is None else result * times


class EagerOperations(EagerArithmetic):
    """See ``Operations``."""

    chunk = 512

    def __init__(self, target: Backbone) -> None:
        self._target = target

    def aux_hidden_states(self, aux_layer: AuxLayer, rows: Rows) -> Tensor:
        return self._target.aux_hidden_states(aux_layer, rows.first, rows.first + rows.count.value)

    def new_table(self, aux_layer: AuxLayer) -> Tensor:
        return operations.table_like(self._target.aux_buffer(aux_layer))

    def keep(self, x: Tensor, table: Tensor, rows: Rows) -> None:
        table[rows.first : rows.first + len(x)] = x

    def take(self, table: Tensor, rows: Rows) -> Tensor:
        return table[rows.first : rows.first + rows.count.value]

    def pick(self, x: Tensor, number: Number) -> Tensor:
        return x[number.value : number.value + 1]

    def embed(
        self, table: Tensor | None, tokens: Tokens, first: int = 0, rows: Rows | None = None
    ) -> Tensor:
        ids = tokens[first : first + (1 if rows is None else rows.count.value)]
        if table is None:
            return self._target.embed(ids)
        return table[torch.tensor(ids, device=table.device)].float()

    def target_logits(
        self, states: Tensor, count: Number, candidates: Candidates | None = None
    ) -> Tensor:
        parts = [self._target.logits(part) for part in states[: count.value].split(MAX_ROWS)]
        logits = parts[0] if len(parts) == 1 else torch.cat(parts)
        return logits if candidates is None else among(candidates, logits)

    def convolve(self, x: Tensor, factors: Tensor, base: Tensor, group: int) -> Tensor:
        taps, rows = len(base), len(x)
        by_group = base.view(taps, -1, group) + factors.reshape(rows, taps, -1, 1)
        groups = x.view(rows, -1, group)
        result = torch.zeros_like(groups)
        for tap in range(min(taps, rows)):
            result[tap:] += by_group[tap:, tap] * groups[: rows - tap]
        return result.flatten(1)

    def rank_candidates(
        self, logits: Tensor, context: Tensor, table: Tensor, candidates: Candidates, count: int
    ) -> Tensor:
        tokens = torch.topk(logits[0], count).indices
        wide = torch.full_like(logits, float("-inf"))
        wide[0, tokens] = logits[0, tokens] + table[tokens].float() @ context[0]
        return wide

    def group_logits(self, output: Linear, x: Tensor, scores: Tensor, groups: Groups) -> Tensor:
        best = torch.topk(scores[0], groups.kept).indices
        logits = self.of_groups(output, x, best, groups)
        wide = logits.new_full((1, len(groups.ordering)), float("-inf"))
        wide[0, groups.on(x.device).view(groups.count, -1)[best]] = logits
        return wide

    def of_groups(self, output: Linear, x: Tensor, best: Tensor, groups: Groups) -> Tensor:
        """Return the outputs (kept, tokens of a group) of the groups ``best (kept,)`` for one row."""
        return self.linear(output, x).view(groups.count, -1)[best]

    def new_memory(self, architecture: Architecture, device: torch.device) -> operations.Memory:
        return EagerMemory(architecture, device)

    def remember(
        self, keys_values: Tensor, memory: operations.Memory, norms: Tensor, rows: Rows
    ) -> None:
        assert isinstance(memory, EagerMemory)
        start, end = rows.start.value, rows.start.value + len(keys_values)
        keys, values = memory.split(keys_values)
        keys = torch.rms_norm(keys, keys.shape[-1:], None, memory.epsilon) * norms
        keys = _apply_rope(keys, memory.rope[start:end, None])
        memory.keys[:, :, start:end] = keys.permute(1, 2, 0, 3)
        memory.values[:, :, start:end] = values.permute(1, 2, 0, 3)

    def attend(
        self, qkv: Tensor, memory: operations.Memory, layer: int, norms: Tensor | None, rows: Rows
    ) -> Tensor:
        assert isinstance(memory, EagerMemory)
        start, end = rows.first, rows.first + len(qkv)
        spec, rotation = memory.attentions[layer], memory.rope[start:end]
        query, key, value = split_qkv(qkv, spec, norms, rotation, memory.epsilon)
        keys, values = memory.keys[layer, :, :end], memory.values[layer, :, :end]
        keys[:, start:], values[:, start:] = key.transpose(0, 1), value.transpose(0, 1)
        return _attend(query, keys, values, causal=spec.causal, window=spec.window)

    def attend_to_target(
        self,
        queries: Tensor,
        attention: Attention,
        epsilon: float,
        norms: Tensor | None,
        rows: Rows,
    ) -> Tensor:
        position = rows.first
        assert attention.rope is not None and attention.shared_with is not None
        rotation = rotations(attention.rope, attention.head_dim, 1, position)[:, None]
        query, _, _ = split_qkv(queries, attention, norms, rotation.to(queries.device), epsilon)
        keys, values = self._target.keys_values(attention.window is not None)
        first = 0 if attention.window is None else max(position - attention.window + 1, 0)
        return _attend(query, keys[:, first:], values[:, first:], causal=False)

    def experts(self, spec: Experts, weights: ExpertsWeights, x: Tensor) -> Tensor:
        return mix(self, spec, weights, x)[0]

    def unroll(
        self,
        most: int,
        read: Callable[[], R],
        steps: Callable[[Tokens, R], Iterator[Tensor]],
        target_ids: Tensor | Candidates | None = None,
    ) -> Draft:
        # All logits are computed here, so a token's number is its index.
        return EagerDraft(
            most, read, steps, None if isinstance(target_ids, Candidates) else target_ids
        )

    def round_drafter(self, head: operations.RoundHead) -> RoundDrafter | None:
        return None


class EagerMemory:
    """See ``Memory``.

    keys, values (layers, kv_heads, room, head_dim) float32; rope (room, 1, head_dim / 2) complex.
    Rows are overwritten, so rejected drafts need no removal.
    """

    def __init__(self, architecture: Architecture, device: torch.device) -> None:
        self.attentions, self.epsilon = architecture.attentions, architecture.epsilon
        self.attention = self.attentions[0]
        self._layers, self._device = len(self.attentions), device
        self.clear()

    def clear(self) -> None:
        self.keys = self._room(0)
        self.values = self.keys.clone()

    def reserve(self, rows: int) -> None:
        reserved, rope = self.keys.shape[2], self.attention.rope
        if rows <= reserved:
            return
        room = operations.room_for(rows)
        more = self._room(room - reserved)
        self.keys = torch.cat([self.keys, more], dim=2)
        self.values = torch.cat([self.values, more], dim=2)
        assert rope is not None
        self.rope = rotations(rope, self.attention.head_dim, room)[:, None].to(self._device)

    def _room(self, rows: int) -> Tensor:
        a = self.attention
        return torch.zeros(self._layers, a.kv_heads, rows, a.head_dim, device=self._device)

    def split(self, keys_values: Tensor) -> tuple[Tensor, Tensor]:
        """Split rows with keys and values of all layers: two (rows, layers, kv_heads, head_dim)."""
        a = self.attention
        keys, values = keys_values.view(-1, self._layers, 2, a.kv_heads, a.head_dim).unbind(2)
        return keys, values


class EagerDraft(Generic[R]):
    """See ``Draft``."""

    draws = False

    def __init__(
        self,
        most: int,
        read: Callable[[], R],
        steps: Callable[[Tokens, R], Iterator[Tensor]],
        target_ids: Tensor | None,
    ) -> None:
        self.chain = Tokens(most + 1)
        self._read, self._steps = read, steps
        self._target_ids = None if target_ids is None else target_ids.tolist()
        self._inputs: R
        self._remaining: Iterator[Tensor] = iter(())

    @torch.inference_mode()
    def read(self) -> None:
        self._inputs = self._read()

    @torch.inference_mode()
    def begin(self, pending: int, *, read: bool = True) -> None:
        self.chain[0] = pending
        if read:
            self._inputs = self._read()
        self._remaining = self._steps(self.chain, self._inputs)

    @torch.inference_mode()
    def write(
        self, depth: int, draws: Draws | None = None, floor: float = 0.0
    ) -> tuple[list[int], list[float]]:
        assert draws is None
        probabilities: list[Tensor] = []
        joint = 1.0
        for step in range(depth):
            p, token = torch.softmax(self.logits(step), dim=-1).max(dim=-1)
            number, ids = int(token), self._target_ids
            self.chain[step + 1] = number if ids is None else ids[number]
            probabilities.append(p)
            if floor:
                joint *= float(p)
                if joint < floor:
                    break
        return self.chain[1 : len(probabilities) + 1], torch.cat(probabilities).tolist()

    @torch.inference_mode()
    def logits(self, step: int) -> Tensor:
        return next(self._remaining)

    def all_logits(self, depth: int) -> Tensor:
        rows = [self.logits(step) for step in range(depth)]
        return rows[0] if depth == 1 else torch.cat(rows)


def among(candidates: Candidates, logits: Tensor) -> Tensor:
    """Return ``logits (rows, vocabulary)``, -inf for all but ``candidates``."""
    if not candidates.trimmed:
        return logits
    ids = torch.from_numpy(candidates.chosen).to(logits.device)
    wide = torch.full_like(logits, float("-inf"))
    wide[:, ids] = logits[:, ids]
    return wide


def split_qkv(
    qkv: Tensor, spec: Attention, norms: Tensor | None, rotation: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values (rows, heads, head_dim), queries and keys normed and rotated.

    norms (heads + kv_heads, head_dim); rotation (rows, 1, head_dim / 2), complex.
    """
    by_head = qkv.view(len(qkv), -1, spec.head_dim)
    kv_heads = spec.kv_heads if spec.shared_with is None else 0
    qk, value = by_head.split((spec.heads + kv_heads, kv_heads), dim=1)
    if norms is not None and not spec.qk_norm_after_rope:
        qk = in_16_rows(partial(_norm_qk, spec=spec, epsilon=epsilon), qk.float()) * norms
    if rotation is not None:
        qk = _apply_rope(qk.float(), rotation)
    if norms is not None and spec.qk_norm_after_rope:
        qk = in_16_rows(partial(_norm_qk, spec=spec, epsilon=epsilon), qk.float()) * norms
    query, key = qk.to(qkv.dtype).split((spec.heads, kv_heads), dim=1)
    if spec.value_norm:
        norm = partial(torch.rms_norm, normalized_shape=(spec.head_dim,), eps=epsilon)
        value = in_16_rows(norm, value.float()).to(qkv.dtype)
    return query, key, value


def _norm_qk(qk: Tensor, spec: Attention, epsilon: float) -> Tensor:
    """Return queries and keys ``(rows, heads, head_dim)``, each head normed or all of a kind together."""
    if not spec.qk_norm_across_heads:
        return torch.rms_norm(qk, (spec.head_dim,), None, epsilon)
    parts = qk.tensor_split([spec.heads], dim=1)
    return torch.cat([torch.rms_norm(each, each.shape[1:], None, epsilon) for each in parts], dim=1)


def _apply_rope(x: Tensor, rope: Tensor) -> Tensor:
    """Rotate the interleaved pairs of ``x (..., head_dim)``."""
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * rope).flatten(-2)


def _attend(
    query: Tensor, keys: Tensor, values: Tensor, *, causal: bool, window: int | None = None
) -> Tensor:
    """Return attention (rows, heads * head_dim) of the last rows' scaled queries (rows, heads, head_dim).

    keys, values (kv_heads, seen, head_dim). A row sees ``window`` positions up to itself. Not
    row-independent: a head only proposes.
    """
    rows, heads, width = query.shape
    shared, seen, _ = keys.shape
    grouped = query.view(rows, shared, -1, width).permute(1, 2, 0, 3).reshape(shared, -1, width)
    scores = torch.bmm(grouped, keys.transpose(1, 2))  # (kv_heads, group * rows, seen)
    if (causal and rows > 1) or window is not None:
        places = torch.arange(seen, device=query.device)
        own = places[seen - rows :, None]
        unseen = places > (own if causal else seen)
        if window is not None:
            unseen = unseen | (places <= own - window)
        scores = scores.masked_fill(unseen.repeat(heads // shared, 1), float("-inf"))
    attended = torch.bmm(torch.softmax(scores, dim=-1), values)
    return attended.view(shared, -1, rows, width).permute(2, 0, 1, 3).reshape(rows, -1)
