"""Block drafters: DFlash and DFlash2 (arXiv 2602.06036, z-lab/dflash), DSpark (deepseek-ai/DeepSpec).

One pass drafts a whole block: the pending token, and mask tokens after it at the positions of the drafted
ones, go through a few layers of Qwen3's form. In each layer every row sees the whole block, and keys and
values of the text before it. These are computed from the target's hidden states of the text: ``fc``
joins those of several layers, and their norm takes the place of the layer's input. So the text's keys and
values do not depend on drafts, and are kept. Embedding and output head are the target's.

In DFlash row i predicts the token at its own position. In DSpark it predicts the next one, row 0
included, and a Markov head adds W2 W1[token] to its logits, for the token before the predicted one, which
must be drawn first. DSpark's confidence head predicts from a row's state, and that token's row of W1, how
likely the token drawn there is to be accepted.

In DFlash2 convolutions around attention and MLP let a row see those before it in the block, by factors
that are computed from the row. Its selector chooses among the likeliest tokens of each row: it adds to a
logit the product of B[token] with A[token before] times a projection of the row's state.

Checked against the sources named above, not against published weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

import torch
from torch import Tensor

from engine.backends.layer_decoder import attention, mlp, norm
from engine.backends.linear_factory import LinearFactory
from engine.backends.operations import Draft, Memory, Operations
from engine.drafting.heads.base import HeadPlan, TargetShape
from engine.drafting.heads.block_layout import (
    CONFIDENCE,
    CONVOLUTIONS,
    MARKOV,
    SELECTOR,
    BlockShape,
    parameters,
    read_shape,
)
from engine.drafting.heads.layers import joined_states, layer_source, load_layers
from engine.drafting.heads.stored import Stored
from engine.kernels.operands import Candidates, Number, Rows, Tokens
from engine.kernels.torch.linear import Linear
from engine.models.architecture import Attention
from engine.models.hidden_states import AuxLayer, distinct
from engine.models.rotation import interleave
from engine.models.weight_loading import TensorSource, make_norm
from engine.models.weights import ExpertsWeights, Layer, RmsNorm


@dataclass(frozen=True, slots=True, eq=False)
class MarkovHead:
    """``before`` (vocabulary, rank): W1; ``after``: the linear layer of W2."""

    before: Tensor
    after: Linear

    def row(self, token: int) -> Tensor:
        """Return W1[token]: (1, rank)."""
        return self.before[token : token + 1].float()


@dataclass(frozen=True, slots=True, eq=False)
class Convolution:
    """``base`` (2, taps, hidden): of inputs and outputs; ``factors``: hidden -> what is added to both."""

    base: Tensor
    factors: Linear
    group: int

    def around(self, ops: Operations, inner: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """Return ``inner`` of convolved ``x (rows, hidden)``, convolved."""
        before, behind = ops.linear(self.factors, x).chunk(2, dim=1)
        result = inner(ops.convolve(x, before, self.base[0], self.group))
        return ops.convolve(result, behind, self.base[1], self.group)


@dataclass(frozen=True, slots=True, eq=False)
class Selector:
    """``before``, ``behind`` (vocabulary, rank): A and B; ``state``: hidden -> rank; ``kept`` tokens."""

    before: Tensor
    behind: Tensor
    state: Linear
    kept: int


@dataclass(frozen=True, slots=True, eq=False)
class BlockHead:
    """A ``Head``, see the module. ``context`` computes all layers' keys and values of the text."""

    shape: BlockShape
    fc: Linear
    hidden_norm: RmsNorm
    context: Linear
    key_norms: Tensor  # (layers, kv_heads, head_dim)
    layers: tuple[Layer, ...]
    norm: RmsNorm
    markov: MarkovHead | None
    confidence_weight: Tensor | None  # (1, inputs)
    confidence_bias: float
    convolutions: tuple[tuple[Convolution, Convolution], ...]  # of each layer's attention and MLP
    selector: Selector | None
    device: torch.device

    kind: ClassVar[str] = "block"

    @property
    def aux_layers(self) -> tuple[AuxLayer, ...]:
        return distinct(self.shape.read)

    @classmethod
    def plan(cls, stored: Stored, target: TargetShape) -> HeadPlan:
        shape = read_shape(stored, target)
        aux_layers = distinct(shape.read)
        return HeadPlan(
            cls.kind, stored, aux_layers, parameters(shape), shape, shape.architecture.attentions,
            steps=shape.depth,
        )  # fmt: skip

    @classmethod
    def load(cls, plan: HeadPlan, linears: LinearFactory) -> Self:
        stored, shape = plan.stored, plan.shape
        assert isinstance(shape, BlockShape)
        a, own = shape.architecture, shape.architecture.layers[0].attention
        sources = [layer_source(stored, f"layers.{n}.", linears) for n in range(len(a.layers))]
        layers = load_layers(a, sources, linears)
        pairs = [_keys_values(own, source, "weight") for source in sources]
        biases = [_keys_values(own, source, "bias") for source in sources] if own.qkv_bias else None
        confidence = stored(CONFIDENCE[0]) if shape.confidence else None
        return cls(
            shape=shape,
            fc=linears.linear(stored("fc.weight")),
            hidden_norm=make_norm(a, linears.vector(stored("hidden_norm.weight"))),
            context=linears.linear(torch.cat(pairs), torch.cat(biases) if biases else None),
            key_norms=torch.stack([_key_norm(own, layer) for layer in layers]),
            layers=layers,
            norm=make_norm(a, linears.vector(stored("norm.weight"))),
            markov=_markov(stored, linears) if shape.rank else None,
            confidence_weight=None if confidence is None else linears.vector(confidence),
            confidence_bias=float(stored(CONFIDENCE[1])) if shape.confidence else 0.0,
            convolutions=tuple(
                _convolutions(stored, shape, f"layers.{n}.", linears)
                for n in range(len(a.layers) if shape.taps else 0)
            ),
            selector=_selector(stored, shape, linears) if shape.kept else None,
            device=linears.device,
        )

    def new_memory(self, ops: Operations) -> Memory:
        """Return the memory of a text and a block after it, which the next rows overwrite."""
        return ops.new_memory(self.shape.architecture, self.device)

    def read(self, ops: Operations, memory: Memory, rows: Rows) -> None:
        """Store keys and values of the text's tokens at ``rows``, which the target has read."""
        x = ops.linear(self.fc, joined_states(ops, self.shape.read, rows))
        keys_values = ops.linear(self.context, norm(ops, self.hidden_norm, x))
        ops.remember(keys_values, memory, self.key_norms, rows)

    def states(self, ops: Operations, memory: Memory, block: Tokens, rows: Rows) -> Tensor:
        """Return a normed row for each token to be drafted: (depth, hidden).

        ``block`` is the pending token, then masks; ``memory`` holds the text before ``rows``.
        """
        x = ops.embed(None, block, 0, rows)
        specs = self.shape.architecture.layers
        for index, (spec, layer) in enumerate(zip(specs, self.layers, strict=True)):
            mixer = partial(
                attention, ops, spec.attention, layer, memory=memory, index=index, rows=rows
            )
            activation, weights = spec.feed_forward.activation, layer.feed_forward
            assert not isinstance(weights, ExpertsWeights)
            inner = partial(mlp, ops, activation, weights)
            if self.convolutions:
                of_attention, of_mlp = self.convolutions[index]
                mixer = partial(of_attention.around, ops, mixer)
                inner = partial(of_mlp.around, ops, inner)
            x = ops.add(x, mixer(norm(ops, layer.mixer_norm, x)))
            x = ops.add(x, inner(norm(ops, layer.feed_forward_norm, x)))
        return norm(ops, self.norm, x)[self.shape.first :]

    @property
    def independent(self) -> bool:
        """True if no row's logits depend on the tokens drawn before."""
        return self.markov is None and self.selector is None

    def new_candidates(self) -> Candidates | None:
        """Return what the selector chooses among; None without one."""
        return None if self.selector is None else Candidates(self.shape.architecture.vocabulary)

    def rows(
        self,
        ops: Operations,
        chain: Tokens,
        logits: Tensor,
        states: Tensor,
        depth: Number,
        candidates: Candidates | None,
    ) -> Iterator[Tensor]:
        """Yield the rows of ``logits (depth, vocabulary)``, with what Markov head or selector add.

        ``states`` are those that the logits come from, ``candidates`` are ``new_candidates``.
        """
        selector = self.selector
        projected = () if selector is None else ops.linear(selector.state, states, depth).split(1)
        for step, row in enumerate(logits.split(1)):
            if self.markov is not None:
                before = ops.embed(self.markov.before, chain, step)
                yield ops.add(row, ops.linear(self.markov.after, before))
            elif selector is not None and candidates is not None:
                context = ops.multiply(ops.embed(selector.before, chain, step), projected[step])
                yield ops.rank_candidates(row, context, selector.behind, candidates, selector.kept)
            else:
                yield row

    @torch.inference_mode()
    def confidence(self, state: Tensor, before: int) -> float:
        """Return the predicted chance that the token drawn from ``state (1, hidden)`` is accepted.

        ``before`` is the token before it. 1.0 without a confidence head.
        """
        if self.confidence_weight is None:
            return 1.0
        x = state
        if self.markov is not None and self.shape.confidence > state.shape[1]:
            x = torch.cat([state, self.markov.row(before)], dim=1)
        return float(torch.sigmoid((x * self.confidence_weight).sum() + self.confidence_bias))


class _Pass:
    """The computation for one sequence. It holds no reference to the draft that runs it.

    ``states`` (depth, hidden) and ``logits`` (depth, vocabulary): see ``BlockDraft``.
    """

    states: Tensor
    logits: Tensor

    def __init__(self, head: BlockHead, ops: Operations) -> None:
        self._head, self._ops = head, ops
        self.memory = head.new_memory(ops)
        self.count, self.start, self.end, self.depth = (Number() for _ in range(4))
        self.tokens = Tokens(head.shape.block, head.shape.mask)
        self.candidates = head.new_candidates()

    def read(self) -> None:
        rows = Rows(self.count, self.start, most=self._ops.chunk)
        self._head.read(self._ops, self.memory, rows)

    def steps(self, chain: Tokens, _: None) -> Iterator[Tensor]:
        head, ops, size = self._head, self._ops, self._head.shape.block
        rows = Rows(Number(size), self.end, most=size)
        self.states = head.states(ops, self.memory, self.tokens, rows)
        self.logits = ops.target_logits(self.states, self.depth)
        yield from head.rows(ops, chain, self.logits, self.states, self.depth, self.candidates)


class BlockDraft:
    """Drafts for one sequence: keys and values of its text, and a pass over a block after it."""

    spreads = False

    def __init__(self, head: BlockHead, ops: Operations) -> None:
        self._chunk, self._block = ops.chunk, head.shape.block
        self._pass = _Pass(head, ops)
        steps = self._pass
        self.draft = ops.unroll(head.shape.depth, steps.read, steps.steps, steps.candidates)
        self.steps = head.shape.depth
        self.drafter = ops.round_drafter(self)

    @property
    def memory(self) -> Memory:
        return self._pass.memory

    @property
    def states(self) -> Tensor:
        """The normed rows (depth, hidden) of the last draft, once its first step is done."""
        return self._pass.states

    @property
    def logits(self) -> Tensor:
        """The logits (depth, vocabulary) of ``states``, without what Markov head or selector add."""
        return self._pass.logits

    def read(self, start: int, end: int) -> None:
        """Store the text's tokens ``start`` .. ``end - 1``, which the target has read."""
        for first in range(start, end, self._chunk):
            self._place(first, min(first + self._chunk, end))
            self.draft.read()

    def begin(self, start: int, end: int, pending: int, depth: int) -> Draft:
        """Store tokens as ``read`` does; return a draft of ``depth`` tokens after ``pending``.

        ``pending`` is at position ``end``.
        """
        before = max(start, end - self._chunk)
        self.read(start, before)
        self._place(before, end)
        self._pass.tokens[0], self._pass.depth.value = pending, depth
        self.draft.begin(pending, read=before < end)
        return self.draft

    def places(self, device: torch.device) -> list[Tensor]:
        """See ``RoundHead``."""
        return [self._pass.end.on(device)]

    def place(self, start: Tensor, emitted: Tensor, accepted: Tensor) -> None:
        """See ``RoundHead``. The next pass overwrites rows after the accepted ones."""
        operands, device = self._pass, start.device
        operands.count.value = len(emitted)
        operands.start.on(device).copy_(start)
        operands.end.on(device).copy_(start + accepted + 1)

    def begin_round(self, depth: int, pending: Tensor) -> None:
        """See ``RoundHead``."""
        self._pass.depth.value = depth
        self._pass.tokens.on(pending.device)[:1].copy_(pending)

    def on_target(self, logits: Tensor) -> Tensor:
        """Return ``logits``, which are over the target's vocabulary."""
        return logits

    def close(self) -> None:
        self.memory.clear()

    def _place(self, start: int, end: int) -> None:
        """Set the operands of the next rows."""
        operands = self._pass
        operands.count.value, operands.start.value, operands.end.value = end - start, start, end
        operands.memory.reserve(end + self._block)


def _keys_values(spec: Attention, source: TensorSource, kind: str) -> Tensor:
    """Return the weights of keys and values in one tensor, with interleaved rotary pairs of keys."""
    key = interleave(source(f"self_attn.k_proj.{kind}"), spec.kv_heads, spec.rope)
    return torch.cat([key, source(f"self_attn.v_proj.{kind}")])


def _key_norm(spec: Attention, layer: Layer) -> Tensor:
    assert layer.attention.qk_norm is not None
    return layer.attention.qk_norm[spec.heads :]


def _convolutions(
    stored: Stored, shape: BlockShape, prefix: str, linears: LinearFactory
) -> tuple[Convolution, Convolution]:
    first, second = (
        Convolution(
            linears.vector(stored(f"{prefix}{name}base_kernel")),
            linears.linear(stored(f"{prefix}{name}kernel_projection.weight")),
            shape.group,
        )
        for name in CONVOLUTIONS
    )
    return first, second


def _selector(stored: Stored, shape: BlockShape, linears: LinearFactory) -> Selector:
    before, behind, state = map(stored, SELECTOR)
    device = linears.device
    return Selector(before.to(device), behind.to(device), linears.linear(state), shape.kept)


def _markov(stored: Stored, linears: LinearFactory) -> MarkovHead:
    before, after = MARKOV
    return MarkovHead(stored(before).to(linears.device), linears.linear(stored(after)))
