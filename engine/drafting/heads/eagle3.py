"""EAGLE-3 (Li et al. 2025, arXiv 2503.01840): one decoder layer that reads the target's hidden states.

Row i of the layer stands where token i stands. It takes the embedding of token i + 1 beside a state of
token i, and names token i + 2. The state is fc of three of the target's hidden states where the target
has read token i; where it has not, it is what the layer itself put out one row earlier. The head's
output may cover only the target's most frequent tokens: ``d2t`` tells how far draft token j lies from
target token j. How heads are stored is said in ``eagle3_layout``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

import torch
from torch import Tensor

from engine.backends.linear_factory import LinearFactory
from engine.backends.operations import Draft, Memory, Operations
from engine.drafting.heads.base import HeadPlan, TargetShape
from engine.drafting.heads.decoder_layer import decoder_layer, norm
from engine.drafting.heads.eagle3_layout import (
    EMBEDDING,
    FC_NORM,
    HEAD,
    TARGETS,
    Eagle3HeadShape,
    read_shape,
)
from engine.drafting.heads.stored import Stored
from engine.errors import ModelError
from engine.kernels.operands import Number, Rows, Tokens
from engine.kernels.torch.factory import Kernels, plain_embedding
from engine.kernels.torch.linear import Linear
from engine.models.activations import activation
from engine.models.hidden_states import AuxLayer, joined
from engine.models.weights import Layer, RmsNorm, load_layer, make_norm
from engine.values import MAX_DEPTH


@dataclass(frozen=True, slots=True, eq=False)
class Eagle3Head:
    """See the module. ``input_norms`` (2, hidden): weights for the embedding and for the state.

    ``targets`` (draft vocabulary,): its tokens as the target's, None if they are.
    """

    shape: Eagle3HeadShape
    fc_norm: RmsNorm | None
    fc: Linear
    input_norms: Tensor
    layer: Layer
    norm: RmsNorm
    output: Linear
    targets: Tensor | None
    embedding: Tensor | None
    device: torch.device

    kind: ClassVar[str] = "eagle3"

    @property
    def aux_layers(self) -> tuple[AuxLayer, ...]:
        return joined(self.shape.read)

    @classmethod
    def plan(cls, stored: Stored, target: TargetShape) -> HeadPlan:
        """See ``Head``."""
        shape = read_shape(stored, target)
        a = shape.architecture.layers[0].attention
        own = {"layers": 1, "kv_heads": a.kv_heads, "head_dim": a.head_dim}
        return HeadPlan(cls.kind, stored, joined(shape.read), stored.parameters, **own, shape=shape)

    @classmethod
    def load(cls, plan: HeadPlan, linears: LinearFactory) -> Self:
        """See ``Head``."""
        stored, shape = plan.stored, plan.shape
        assert isinstance(shape, Eagle3HeadShape)
        a, at = shape.architecture, partial(_tensor, stored, linears, shape.prefix)
        kernels = Kernels(linears.linear, plain_embedding)
        activation(a.layers[0].feed_forward.activation)  # refuses one that is not known

        def norm(name: str) -> RmsNorm:
            return make_norm(a, linears.vector(stored(name)))

        return cls(
            shape=shape,
            fc_norm=norm(FC_NORM) if shape.norm_before_fc else None,
            fc=linears.linear(stored("fc.weight")),
            input_norms=torch.stack([at("input_layernorm.weight"), at("hidden_norm.weight")]),
            layer=load_layer(a, a.layers[0], at, kernels),
            norm=norm("norm.weight"),
            output=linears.linear(stored(HEAD)),
            targets=_targets(stored, shape, linears.device),
            embedding=_embedding(stored, linears.device),
            device=linears.device,
        )

    def read(self, ops: Operations, memory: Memory, behind: Tokens, rows: Rows) -> Tensor:
        """What the layer puts out (rows, hidden) where the target has read the tokens at ``rows``.

        ``behind`` are the tokens one further on each. Writes the rows' keys and values.
        """
        states = ops.join(
            *(ops.aux_hidden_states(aux_layer, rows) for aux_layer in self.shape.read)
        )
        if self.fc_norm is not None:
            states = norm(ops, self.fc_norm, states)
        return self._layer(ops, memory, behind, 0, ops.linear(self.fc, states), rows)

    def draft(
        self, ops: Operations, memory: Memory, end: Number, chain: Tokens, state: Tensor
    ) -> Iterator[Tensor]:
        """Logits (1, draft vocabulary) of each token behind ``chain[0]``.

        ``state (1, hidden)`` is what the layer put out at position ``end - 1``. From there on it
        reads its own states.
        """
        one = Number(1)
        for step in range(MAX_DEPTH):
            if step:
                state = self._layer(ops, memory, chain, step, state, Rows(one, end, step - 1))
            normed = state if self.shape.norm_output else norm(ops, self.norm, state)
            yield ops.linear(self.output, normed)

    def _layer(
        self, ops: Operations, memory: Memory, tokens: Tokens, first: int, state: Tensor, rows: Rows
    ) -> Tensor:
        """What the layer puts out for ``state (rows, hidden)`` and the tokens from ``first`` on."""
        a = self.shape.architecture
        of_token, of_state = self.input_norms
        embedded = ops.embed(self.embedding, tokens, first, rows)
        normed = ops.norm(state, a.epsilon, weight=of_state)
        both = ops.join(ops.norm(embedded, a.epsilon, weight=of_token), normed)
        residual = normed if self.shape.norm_before_residual else state
        x = decoder_layer(ops, a, self.layer, both, residual, memory, 0, rows, causal=True)
        return norm(ops, self.norm, x) if self.shape.norm_output else x

    def new_memory(self, ops: Operations) -> Memory:
        """For the layer's rows of one sequence."""
        return ops.new_memory(self.shape.architecture, self.device)

    def on_target(self, logits: Tensor) -> Tensor:
        """(rows, vocabulary of the target): minus infinity for what the head cannot say."""
        if self.targets is None:
            return logits
        wide = logits.new_full((len(logits), self.shape.vocabulary), float("-inf"))
        return wide.index_copy_(1, self.targets, logits)


class Eagle3Draft:
    """What drafts for one sequence: a row for each token that the target has read, then a draft."""

    def __init__(self, head: Eagle3Head, ops: Operations) -> None:
        self._chunk, self.memory = ops.chunk, head.new_memory(ops)
        self._count, self._start, self._last, self._end = (Number() for _ in range(4))
        self._behind = Tokens(ops.chunk)
        rows = Rows(self._count, self._start, most=ops.chunk)
        memory, behind, last = self.memory, self._behind, self._last  # a cycle would keep all alive
        self.draft = ops.unroll(
            MAX_DEPTH,
            lambda: ops.pick(head.read(ops, memory, behind, rows), last),
            partial(head.draft, ops, memory, self._end),
            head.targets,
        )

    def read(self, behind: Sequence[int], start: int) -> None:
        """Makes rows from ``start`` on from the target's states; ``behind[i]`` is token start + i + 1."""
        for part in range(0, len(behind), self._chunk):
            self._place(behind[part : part + self._chunk], start + part)
            self.draft.read()

    def begin(self, behind: Sequence[int], start: int) -> Draft:
        """Reads likewise; a draft behind the last of these rows."""
        before = max(0, len(behind) - self._chunk)
        self.read(behind[:before], start)
        self._place(behind[before:], start + before)
        self.draft.begin(behind[-1])
        return self.draft

    def close(self) -> None:
        self.memory.clear()

    def _place(self, behind: Sequence[int], start: int) -> None:
        count = len(behind)
        self._behind[:count] = list(behind)
        self._count.value, self._start.value = count, start
        self._last.value, self._end.value = count - 1, start + count
        self.memory.reserve(start + count + MAX_DEPTH)


def _embedding(stored: Stored, device: torch.device) -> Tensor | None:
    """(vocabulary, hidden) as stored, or None for a head that uses its target's."""
    return stored(EMBEDDING).to(device) if EMBEDDING in stored.shapes else None


def _tensor(stored: Stored, linears: LinearFactory, prefix: str, name: str) -> Tensor:
    tensor = stored(prefix + name)
    return tensor if tensor.dim() > 1 else linears.vector(tensor)


def _targets(stored: Stored, shape: Eagle3HeadShape, device: torch.device) -> Tensor | None:
    """Raises ModelError where ``d2t`` leads out of the target's vocabulary, or twice to one token."""
    if TARGETS not in stored.shapes:
        return None
    offsets = stored(TARGETS).long()
    targets = offsets + torch.arange(len(offsets))
    inside = (targets >= 0) & (targets < shape.vocabulary)
    if len(targets.unique()) < len(targets) or not bool(inside.all()):
        raise ModelError(
            f"In {stored.folder}, {TARGETS} should lead from each of {len(targets):,} draft tokens to "
            f"one of the target's {shape.vocabulary:,}, each to its own. Download the head again."
        )
    return targets.to(device)
