"""EAGLE-3 (Li et al. 2025, arXiv 2503.01840): one decoder layer that reads the target's hidden states.

Row i of the layer stands at the position of token i. Its input is the embedding of token i + 1 beside a
state of token i, and it predicts token i + 2. The state is ``fc`` of three of the target's hidden states
where the target has read token i, and the layer's own output of row i - 1 where it has not. The head's
output may cover only the target's most frequent tokens: token j of the draft is token j + ``d2t[j]`` of
the target. ``eagle3_layout`` describes how heads are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Protocol, Self

import torch
from torch import Tensor

from engine.backends.layer_decoder import attention, feed_forward, norm
from engine.backends.linear_factory import LinearFactory
from engine.backends.operations import Draft, Memory, Operations
from engine.drafting.heads.base import HeadPlan, TargetShape, count_parameters
from engine.drafting.heads.eagle3_layout import (
    EMBEDDING,
    FC_NORM,
    HEAD,
    TARGETS,
    Eagle3HeadShape,
    read_shape,
)
from engine.drafting.heads.layers import joined_states, layer_source, load_layers
from engine.drafting.heads.stored import Stored
from engine.errors import ModelError
from engine.kernels.operands import Candidates, Number, Rows, Tokens
from engine.kernels.torch.linear import Linear
from engine.models.hidden_states import AuxLayer, distinct
from engine.models.weights import Layer, RmsNorm, make_norm
from engine.values import MAX_DEPTH


@dataclass(frozen=True, slots=True, eq=False)
class Eagle3Head:
    """See the module. The layer's ``mixer_norm`` norms embeddings, ``hidden_norm`` states.

    ``targets`` (draft vocabulary,): the target's token of each draft token; None if they are the same.
    ``embedding`` (vocabulary, hidden) as stored; None if it is the target's.
    """

    shape: Eagle3HeadShape
    fc_norm: RmsNorm | None
    fc: Linear
    hidden_norm: RmsNorm
    layer: Layer
    norm: RmsNorm
    output: Linear
    targets: Tensor | None
    embedding: Tensor | None
    device: torch.device

    kind: ClassVar[str] = "eagle3"

    @property
    def aux_layers(self) -> tuple[AuxLayer, ...]:
        return distinct(self.shape.read)

    @classmethod
    def plan(cls, stored: Stored, target: TargetShape) -> HeadPlan:
        """See ``HeadInFolder``."""
        shape = read_shape(stored, target)
        count, own = count_parameters(stored.shapes), shape.architecture.attentions
        return HeadPlan(cls.kind, stored, distinct(shape.read), count, shape, own)

    @classmethod
    def load(cls, plan: HeadPlan, linears: LinearFactory) -> Self:
        """See ``Head``."""
        stored, shape = plan.stored, plan.shape
        assert isinstance(shape, Eagle3HeadShape)
        a, device = shape.architecture, linears.device
        (layer,) = load_layers(a, [layer_source(stored, shape.prefix, linears)], linears)

        def read_norm(name: str) -> RmsNorm:
            return make_norm(a, linears.vector(stored(name)))

        return cls(
            shape=shape,
            fc_norm=read_norm(FC_NORM) if shape.norm_before_fc else None,
            fc=linears.linear(stored("fc.weight")),
            hidden_norm=read_norm(f"{shape.prefix}hidden_norm.weight"),
            layer=layer,
            norm=read_norm("norm.weight"),
            output=linears.linear(stored(HEAD)),
            targets=_targets(stored, shape, device),
            embedding=stored(EMBEDDING).to(device) if EMBEDDING in stored.shapes else None,
            device=device,
        )

    def read(self, ops: Operations, memory: Memory, behind: Tokens, rows: Rows) -> Tensor:
        """Return the layer's output (rows, hidden) where the target has read the tokens at ``rows``.

        ``behind`` are the tokens one position later. Writes the rows' keys and values.
        """
        states = joined_states(ops, self.shape.read, rows)
        if self.fc_norm is not None:
            states = norm(ops, self.fc_norm, states)
        return self._layer(ops, memory, behind, 0, ops.linear(self.fc, states), rows)

    def draft(
        self, ops: Operations, memory: Memory, end: Number, chain: Tokens, state: Tensor
    ) -> Iterator[Tensor]:
        """Yield the logits (1, draft vocabulary) of each token after ``chain[0]``.

        ``state (1, hidden)`` is the layer's output at position ``end - 1``. Later positions read the
        layer's own output.
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
        """Return the layer's output for ``state (rows, hidden)`` and the tokens from ``first`` on."""
        embedded = ops.embed(self.embedding, tokens, first, rows)
        normed = norm(ops, self.hidden_norm, state)
        both = ops.join(norm(ops, self.layer.mixer_norm, embedded), normed)
        residual = normed if self.shape.norm_before_residual else state
        spec = self.shape.architecture.layers[0]
        x = ops.add(residual, attention(ops, spec.attention, self.layer, both, memory, 0, rows))
        x = feed_forward(ops, spec.feed_forward.activation, self.layer, x)
        return norm(ops, self.norm, x) if self.shape.norm_output else x

    def new_memory(self, ops: Operations) -> Memory:
        """Return the memory of one sequence's keys and values."""
        return ops.new_memory(self.shape.architecture, self.device)

    def on_target(self, logits: Tensor) -> Tensor:
        """Return ``logits`` over the target's vocabulary, -inf for tokens that the head cannot draft."""
        if self.targets is None:
            return logits
        wide = logits.new_full((len(logits), self.shape.vocabulary), float("-inf"))
        return wide.index_copy_(1, self.targets, logits)


class RowHead(Protocol):
    """A head with a row for each token that the target has read; see ``Eagle3Head``'s methods."""

    @property
    def targets(self) -> Tensor | None: ...
    @property
    def draft(self) -> Callable[..., Iterator[Tensor]]: ...
    def read(self, ops: Operations, memory: Memory, behind: Tokens, rows: Rows) -> Tensor: ...
    def new_memory(self, ops: Operations) -> Memory: ...


class Eagle3Draft:
    """Drafts for one sequence: a row for each token that the target has read, then a draft."""

    def __init__(
        self, head: RowHead, ops: Operations, candidates: Candidates | None = None
    ) -> None:
        """``candidates``: the tokens that ``head.draft`` chooses among, if it takes them."""
        self._chunk, self.memory = ops.chunk, head.new_memory(ops)
        self._count, self._start, self._last, self._end = (Number() for _ in range(4))
        self._behind = Tokens(ops.chunk)
        rows = Rows(self._count, self._start, most=ops.chunk)
        memory, behind, last = self.memory, self._behind, self._last  # a cycle would keep all alive
        draft = partial(head.draft, ops, memory, self._end)
        self.draft = ops.unroll(
            MAX_DEPTH,
            lambda: ops.pick(head.read(ops, memory, behind, rows), last),
            draft if candidates is None else partial(draft, candidates=candidates),
            head.targets if candidates is None else candidates,
        )

    def read(self, behind: Sequence[int], start: int) -> None:
        """Make rows from ``start`` on of the target's states; ``behind[i]`` is token start + i + 1."""
        for offset in range(0, len(behind), self._chunk):
            self._place(behind[offset : offset + self._chunk], start + offset)
            self.draft.read()

    def begin(self, behind: Sequence[int], start: int) -> Draft:
        """Make rows as ``read`` does; return a draft after the last of ``behind``."""
        before = max(0, len(behind) - self._chunk)
        self.read(behind[:before], start)
        self._place(behind[before:], start + before)
        self.draft.begin(behind[-1])
        return self.draft

    def close(self) -> None:
        self.memory.clear()

    def _place(self, behind: Sequence[int], start: int) -> None:
        """Set the operands of the next rows."""
        count = len(behind)
        self._behind[:count] = list(behind)
        self._count.value, self._start.value = count, start
        self._last.value, self._end.value = count - 1, start + count
        self.memory.reserve(start + count + MAX_DEPTH)


def _targets(stored: Stored, shape: Eagle3HeadShape, device: torch.device) -> Tensor | None:
    """Read ``d2t``. Raises ModelError where it leaves the target's vocabulary or repeats a token."""
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
