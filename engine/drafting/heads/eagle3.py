"""EAGLE-3 (Li et al. 2025, arXiv 2503.01840): a decoder layer that reads the target's hidden states.

Row i of the layer stands at the position of token i. Its input is the embedding of token i + 1 beside a
state of token i, and it predicts token i + 2. The state is ``fc`` of three of the target's hidden states
where the target has read token i, and the layer's own output of row i - 1 where it has not. The head's
output may cover only the target's most frequent tokens: token j of the draft is token j + ``d2t[j]`` of
the target. ``eagle3_layout`` describes how heads are stored.

P-EAGLE (arXiv 2602.01469) drafts in one pass: rows where the target has not read have a mask token, and
the state that ``fc`` makes of ``mask_hidden``. There may be more layers above the first, as in any
decoder.
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
from engine.backends.torch.eager import EagerArithmetic
from engine.drafting.heads.base import HeadPlan, TargetShape, count_parameters
from engine.drafting.heads.eagle3_layout import (
    EMBEDDING,
    FC_NORM,
    HEAD,
    MASK_STATE,
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
from engine.models.weight_loading import make_norm
from engine.models.weights import Layer, RmsNorm
from engine.values import MAX_DEPTH


@dataclass(frozen=True, slots=True, eq=False)
class Eagle3Head:
    """A ``Head``, see the module.

    The first layer's ``mixer_norm`` norms embeddings, ``hidden_norm`` states.
    ``targets`` (draft vocabulary,): the target's token of each draft token; None if they are the same.
    ``embedding`` (vocabulary, hidden) as stored; None if it is the target's. ``mask_state`` (1, hidden):
    what P-EAGLE has for a state where there is none; None in other heads.
    """

    shape: Eagle3HeadShape
    aux_norms: tuple[RmsNorm, ...]
    fc_norm: RmsNorm | None
    fc: Linear
    hidden_norm: RmsNorm
    layers: tuple[Layer, ...]
    norm: RmsNorm
    output: Linear
    targets: Tensor | None
    embedding: Tensor | None
    mask_state: Tensor | None
    device: torch.device

    kind: ClassVar[str] = "eagle3"

    @property
    def steps(self) -> int:
        """The most tokens of a draft."""
        return self.shape.steps

    @property
    def aux_layers(self) -> tuple[AuxLayer, ...]:
        return distinct(self.shape.read)

    @classmethod
    def plan(cls, stored: Stored, target: TargetShape) -> HeadPlan:
        shape = read_shape(stored, target)
        count, own = count_parameters(stored.shapes), shape.architecture.attentions
        return HeadPlan(
            cls.kind, stored, distinct(shape.read), count, shape, own, steps=shape.steps
        )

    @classmethod
    def load(cls, plan: HeadPlan, linears: LinearFactory) -> Self:
        stored, shape = plan.stored, plan.shape
        assert isinstance(shape, Eagle3HeadShape)
        a, device = shape.architecture, linears.device
        sources = [layer_source(stored, prefix, linears) for prefix in shape.prefixes]

        def read_norm(name: str) -> RmsNorm:
            return make_norm(a, linears.vector(stored(name)))

        aux_norms = tuple(map(read_norm, shape.norms))
        fc_norm = read_norm(FC_NORM) if shape.norm_before_fc else None
        fc = linears.linear(stored("fc.weight"))
        return cls(
            shape=shape,
            aux_norms=aux_norms,
            fc_norm=fc_norm,
            fc=fc,
            hidden_norm=read_norm(f"{shape.prefixes[0]}hidden_norm.weight"),
            layers=load_layers(a, sources, linears),
            norm=read_norm("norm.weight"),
            output=linears.linear(stored(HEAD)),
            targets=_targets(stored, shape, device),
            embedding=stored(EMBEDDING).to(device) if EMBEDDING in stored.shapes else None,
            mask_state=None
            if shape.mask is None
            else _mask_state(linears.vector(stored(MASK_STATE)), aux_norms, fc_norm, fc),
            device=device,
        )

    def read(self, ops: Operations, memory: Memory, behind: Tokens, rows: Rows) -> Tensor:
        """Return the layers' output (rows, hidden) where the target has read the tokens at ``rows``.

        ``behind`` are the tokens one position later. Writes the rows' keys and values.
        """
        states = joined_states(ops, self.shape.read, rows, self.aux_norms)
        states = ops.linear(self.fc, norm(ops, self.fc_norm, states))
        return self._layers(ops, memory, behind, 0, states, rows)

    def draft(
        self, ops: Operations, memory: Memory, end: Number, chain: Tokens, state: Tensor
    ) -> Iterator[Tensor]:
        """Yield the logits (1, draft vocabulary) of each token after ``chain[0]``.

        ``state (1, hidden)`` is the layers' output at position ``end - 1``. Later positions read the
        layers' own output, or all at once the mask's state.
        """
        one = Number(1)
        yield self._logits(ops, state)
        if self.mask_state is not None:
            count = self.steps - 1
            rows = Rows(Number(count), end, most=count)
            state = ops.embed(self.mask_state, Tokens(count), 0, rows)
            masks = Tokens(count, self.shape.mask or 0)
            yield from self._logits(ops, self._layers(ops, memory, masks, 0, state, rows)).split(1)
            return
        for step in range(1, self.steps):
            state = self._layers(ops, memory, chain, step, state, Rows(one, end, step - 1))
            yield self._logits(ops, state)

    def _logits(self, ops: Operations, state: Tensor) -> Tensor:
        normed = state if self.shape.norm_output else norm(ops, self.norm, state)
        return ops.linear(self.output, normed)

    def _layers(
        self, ops: Operations, memory: Memory, tokens: Tokens, first: int, state: Tensor, rows: Rows
    ) -> Tensor:
        """Return the layers' output for ``state (rows, hidden)`` and the tokens from ``first`` on."""
        embedded = ops.embed(self.embedding, tokens, first, rows)
        x = normed = norm(ops, self.hidden_norm, state)
        normed = ops.join(norm(ops, self.layers[0].mixer_norm, embedded), normed)
        if not self.shape.norm_before_residual:
            x = state
        specs = self.shape.architecture.layers
        for index, (spec, layer) in enumerate(zip(specs, self.layers, strict=True)):
            normed = norm(ops, layer.mixer_norm, x) if index else normed
            x = ops.add(x, attention(ops, spec.attention, layer, normed, memory, index, rows))
            x = feed_forward(ops, spec.feed_forward, layer, x)
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
    def steps(self) -> int: ...
    @property
    def draft(self) -> Callable[..., Iterator[Tensor]]: ...
    def read(self, ops: Operations, memory: Memory, behind: Tokens, rows: Rows) -> Tensor: ...
    def on_target(self, logits: Tensor) -> Tensor: ...
    def new_memory(self, ops: Operations) -> Memory: ...


class Eagle3Draft:
    """Drafts for one sequence: a row for each token that the target has read, then a draft."""

    spreads = False

    def __init__(
        self, head: RowHead, ops: Operations, candidates: Candidates | None = None
    ) -> None:
        """``candidates``: the tokens that ``head.draft`` chooses among, if it takes them."""
        self._chunk, self.memory = ops.chunk, head.new_memory(ops)
        self.steps, self.on_target = head.steps, head.on_target
        self._count, self._start, self._last, self._end = (Number() for _ in range(4))
        self._behind = Tokens(ops.chunk)
        rows = Rows(self._count, self._start, most=ops.chunk)
        memory, behind, last = self.memory, self._behind, self._last  # a cycle would keep all alive
        draft = partial(head.draft, ops, memory, self._end)
        self.draft = ops.unroll(
            head.steps,
            lambda: ops.pick(head.read(ops, memory, behind, rows), last),
            draft if candidates is None else partial(draft, candidates=candidates),
            head.targets if candidates is None else candidates,
        )
        self.drafter = ops.round_drafter(self)

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

    def places(self, device: torch.device) -> list[Tensor]:
        """See ``RoundHead``."""
        return [self._end.on(device)]

    def place(self, start: Tensor, emitted: Tensor, accepted: Tensor) -> None:
        """See ``RoundHead``. Rows after the accepted ones are overwritten later."""
        self._count.value = len(emitted)
        self._behind.on(emitted.device)[: len(emitted)].copy_(emitted)
        self._start.on(start.device).copy_(start)
        self._last.on(start.device).copy_(accepted)
        self._end.on(start.device).copy_(start + accepted + 1)

    def begin_round(self, depth: int, pending: Tensor) -> None:
        """Do nothing: the chain and ``place`` have set all operands."""

    def close(self) -> None:
        self.memory.clear()

    def _place(self, behind: Sequence[int], start: int) -> None:
        """Set the operands of the next rows."""
        count = len(behind)
        self._behind[:count] = list(behind)
        self._count.value, self._start.value = count, start
        self._last.value, self._end.value = count - 1, start + count
        self.memory.reserve(start + count + MAX_DEPTH)


def _mask_state(
    states: Tensor, aux_norms: Sequence[RmsNorm], fc_norm: RmsNorm | None, fc: Linear
) -> Tensor:
    """Return what ``fc`` makes of ``mask_hidden`` as of the target's hidden states: (1, hidden)."""
    ops, states = EagerArithmetic(), states.view(1, -1)
    if aux_norms:
        parts = states.chunk(len(aux_norms), dim=1)
        states = torch.cat(
            [norm(ops, own, part) for own, part in zip(aux_norms, parts, strict=True)], dim=1
        )
    return fc(norm(ops, fc_norm, states))


def _targets(stored: Stored, shape: Eagle3HeadShape, device: torch.device) -> Tensor | None:
    """Read ``d2t``. Raises ModelError where it leaves the target's vocabulary or repeats a token."""
    if TARGETS not in stored.shapes:
        return None
    offsets = stored(TARGETS).long()
    targets = offsets + torch.arange(len(offsets))
    inside = (targets >= 0) & (targets < shape.vocabulary)
    if len(targets.unique()) < len(targets) or not bool(inside.all()):
        raise ModelError(
            f"In {stored.folder}, {TARGETS} should map each of {len(targets):,} draft "
            f"tokens to a different token of the target's {shape.vocabulary:,}. Download "
            "the head again."
        )
    return targets.to(device)
