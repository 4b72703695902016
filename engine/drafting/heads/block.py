"""Block drafters: DFlash (arXiv 2602.06036, z-lab/dflash) and DSpark (deepseek-ai/DeepSpec).

One pass drafts a whole block: the pending token and mask tokens behind it, at the positions they will
have in the text, go through a few layers of Qwen3's form. In every layer each of them sees all of the
block, and the target's hidden states of the text before: several layers' states, joined by ``fc`` and
normed, stand in for the layer's input where keys and values of that text are made. So keys and values
of the text are the same whatever is drafted, and are kept. Embedding and output head are the target's.

In DFlash row i names the token in its own place. In DSpark it names the one behind, row 0 included, and
a Markov head adds to its logits what the token before it makes likely, W2 W1[token]; that token is known
only once it is drawn. DSpark's confidence head guesses from a row's state, and that token's row of W1,
whether what is drawn there will be accepted.

Checked against the sources named above, not against published weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

import torch
from torch import Tensor

from engine.backends.linear_factory import LinearFactory
from engine.backends.operations import Draft, Memory, Operations
from engine.drafting.heads.base import HeadPlan, TargetShape
from engine.drafting.heads.block_layout import (
    CONFIDENCE,
    MARKOV,
    BlockShape,
    parameters,
    read_shape,
)
from engine.drafting.heads.decoder_layer import decoder_layer, norm
from engine.drafting.heads.stored import Stored
from engine.kernels.operands import Number, Rows, Tokens
from engine.kernels.torch.factory import Kernels, plain_embedding
from engine.kernels.torch.linear import Linear
from engine.models.activations import activation
from engine.models.architecture import Attention
from engine.models.hidden_states import AuxLayer, joined
from engine.models.rotation import interleave
from engine.models.weights import Layer, RmsNorm, TensorSource, load_layer, make_norm


@dataclass(frozen=True, slots=True, eq=False)
class MarkovHead:
    """``before`` (vocabulary, rank): W1; ``after``: the product with W2."""

    before: Tensor
    after: Linear

    def row(self, token: int) -> Tensor:
        """(1, rank)."""
        return self.before[token : token + 1].float()


@dataclass(frozen=True, slots=True, eq=False)
class BlockHead:
    """See the module. ``context`` makes all layers' keys and values from the text's joined states."""

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
    device: torch.device

    kind: ClassVar[str] = "block"

    @property
    def aux_layers(self) -> tuple[AuxLayer, ...]:
        return joined(self.shape.read)

    @classmethod
    def plan(cls, stored: Stored, target: TargetShape) -> HeadPlan:
        """See ``Head``."""
        shape = read_shape(stored, target)
        attentions = shape.architecture.attentions
        return HeadPlan(
            cls.kind,
            stored,
            joined(shape.read),
            parameters(shape),
            layers=len(attentions),
            kv_heads=attentions[0].kv_heads,
            head_dim=attentions[0].head_dim,
            shape=shape,
        )

    @classmethod
    def load(cls, plan: HeadPlan, linears: LinearFactory) -> Self:
        """See ``Head``."""
        stored, shape = plan.stored, plan.shape
        assert isinstance(shape, BlockShape)
        a, kernels = shape.architecture, Kernels(linears.linear, plain_embedding)
        sources = [partial(_tensor, stored, linears, n) for n in range(len(a.layers))]
        layers = tuple(load_layer(a, a.layers[0], at, kernels) for at in sources)
        own, mlp = a.layers[0].attention, a.layers[0].feed_forward
        pairs = [_keys_values(own, at, "weight") for at in sources]
        biases = [_keys_values(own, at, "bias") for at in sources] if own.qkv_bias else None
        activation(mlp.activation)  # refuses one that is not known
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
            device=linears.device,
        )

    def new_memory(self, ops: Operations) -> Memory:
        """For the text, and behind it a block, which the next one or the text overwrites."""
        return ops.new_memory(self.shape.architecture, self.device)

    def read(self, ops: Operations, memory: Memory, rows: Rows) -> None:
        """Keeps keys and values of the text's tokens at ``rows``, which the target has read."""
        x = ops.linear(
            self.fc,
            ops.join(*(ops.aux_hidden_states(aux_layer, rows) for aux_layer in self.shape.read)),
        )
        made = ops.linear(self.context, norm(ops, self.hidden_norm, x))
        ops.remember(made, memory, self.key_norms, self.shape.architecture.epsilon, rows)

    def states(self, ops: Operations, memory: Memory, block: Tokens, rows: Rows) -> Tensor:
        """(depth, hidden): a normed row for each token to be drafted.

        ``block`` is the pending token and masks behind it; the text before ``rows`` is in ``memory``.
        """
        x = ops.embed(None, block, 0, rows)
        for number, layer in enumerate(self.layers):
            normed = norm(ops, layer.mixer_norm, x)
            x = decoder_layer(
                ops, self.shape.architecture, layer, normed, x, memory, number, rows, causal=False
            )
        return norm(ops, self.norm, x)[self.shape.first :]

    def rows(self, ops: Operations, chain: Tokens, logits: Tensor) -> Iterator[Tensor]:
        """``logits`` (depth, vocabulary) row by row, with what the Markov head adds behind a token."""
        for step, row in enumerate(logits.split(1)):
            if self.markov is None:
                yield row
            else:
                before = ops.embed(self.markov.before, chain, step)
                yield ops.add(row, ops.linear(self.markov.after, before))

    @torch.inference_mode()
    def confidence(self, state: Tensor, before: int) -> float:
        """How likely the token drawn from ``state (1, hidden)`` behind ``before`` is accepted.

        1.0 of a head that does not guess.
        """
        if self.confidence_weight is None:
            return 1.0
        x = state
        if self.markov is not None and self.shape.confidence > state.shape[1]:
            x = torch.cat([state, self.markov.row(before)], dim=1)
        return float(torch.sigmoid((x * self.confidence_weight).sum() + self.confidence_bias))


class _Pass:
    """What is computed for one sequence. Nothing here leads back to what runs it.

    ``states`` (depth, hidden) and ``logits`` (depth, vocabulary): see ``BlockDraft``.
    """

    states: Tensor
    logits: Tensor

    def __init__(self, head: BlockHead, ops: Operations) -> None:
        self._head, self._ops = head, ops
        self.memory = head.new_memory(ops)
        self.count, self.start, self.end, self.depth = (Number() for _ in range(4))
        self.tokens = Tokens(head.shape.block, head.shape.mask)

    def read(self) -> None:
        rows = Rows(self.count, self.start, most=self._ops.chunk)
        self._head.read(self._ops, self.memory, rows)

    def steps(self, chain: Tokens, _: None) -> Iterator[Tensor]:
        head, ops, size = self._head, self._ops, self._head.shape.block
        rows = Rows(Number(size), self.end, most=size)
        self.states = head.states(ops, self.memory, self.tokens, rows)
        self.logits = ops.target_logits(self.states, self.depth)
        yield from head.rows(ops, chain, self.logits)


class BlockDraft:
    """What drafts for one sequence: keys and values of its text, and a pass over a block behind it."""

    def __init__(self, head: BlockHead, ops: Operations) -> None:
        self._chunk, self._block = ops.chunk, head.shape.block
        self._pass = _Pass(head, ops)
        self.draft = ops.unroll(head.shape.depth, self._pass.read, self._pass.steps)

    @property
    def memory(self) -> Memory:
        return self._pass.memory

    @property
    def states(self) -> Tensor:
        """(depth, hidden): the normed rows of the last draft, once its first step is done."""
        return self._pass.states

    @property
    def logits(self) -> Tensor:
        """(depth, vocabulary): theirs, without what the Markov head adds."""
        return self._pass.logits

    def read(self, start: int, end: int) -> None:
        """Keeps the text's tokens ``start`` .. ``end - 1``, which the target has read."""
        for part in range(start, end, self._chunk):
            self._place(part, min(part + self._chunk, end))
            self.draft.read()

    def begin(self, start: int, end: int, pending: int, depth: int) -> Draft:
        """Keeps them likewise; ``depth`` tokens behind ``pending``, which stands at ``end``."""
        before = max(start, end - self._chunk)
        self.read(start, before)
        self._place(before, end)
        self._pass.tokens[0], self._pass.depth.value = pending, depth
        self.draft.begin(pending, read=before < end)
        return self.draft

    def close(self) -> None:
        self.memory.clear()

    def _place(self, start: int, end: int) -> None:
        made = self._pass
        made.count.value, made.start.value, made.end.value = end - start, start, end
        made.memory.reserve(end + self._block)


def _tensor(stored: Stored, linears: LinearFactory, layer: int, name: str) -> Tensor:
    tensor = stored(f"layers.{layer}.{name}")
    return tensor if tensor.dim() > 1 else linears.vector(tensor)


def _keys_values(spec: Attention, at: TensorSource, kind: str) -> Tensor:
    """Return both in one tensor, with interleaved rotary pairs of keys."""
    key = interleave(at(f"self_attn.k_proj.{kind}"), spec.kv_heads, spec.rope)
    return torch.cat([key, at(f"self_attn.v_proj.{kind}")])


def _key_norm(spec: Attention, layer: Layer) -> Tensor:
    assert layer.attention.qk_norm is not None
    return layer.attention.qk_norm[spec.heads :]


def _markov(stored: Stored, linears: LinearFactory) -> MarkovHead:
    before, after = MARKOV
    return MarkovHead(stored(before).to(linears.device), linears.linear(stored(after)))
