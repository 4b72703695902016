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

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

import torch
from torch import Tensor

from engine.drafting.heads.base import HeadPlan, TargetShape
from engine.drafting.heads.block_layout import (
    CONFIDENCE,
    MARKOV,
    BlockShape,
    parameters,
    read_shape,
)
from engine.drafting.heads.products import Products
from engine.drafting.heads.stored import Stored
from engine.kernels.cpu.factory import Kernels, plain_embedding
from engine.kernels.cpu.linear import Linear
from engine.models.activations import Activation, activation
from engine.models.architecture import Architecture
from engine.models.hidden_states import Backbone, Tap, joined
from engine.models.rotation import rotations, side_by_side
from engine.models.weights import Layer, RmsNorm, TensorSource, load_layer, make_norm

_FIRST_ROOM = 256
_HEAD_ROWS = 16
"""As many as a target's output head takes at once."""


class ContextMemory:
    """Keys and values of all layers for the text, and behind them those of a block; grows as they come.

    keys, values (layers, kv_heads, room, head_dim) float32; turns (room, 1, head_dim / 2) complex.
    """

    def __init__(self, architecture: Architecture, device: torch.device) -> None:
        a = self._architecture = architecture
        self._device = device
        self.keys = torch.zeros(len(a.layers), a.kv_heads, 0, a.head_dim, device=device)
        self.values = self.keys.clone()
        self.turns = torch.zeros(0, 1, a.head_dim // 2, dtype=torch.complex64, device=device)

    def write_text(self, start: int, keys: Tensor, values: Tensor) -> None:
        """Stores (rows, layers, kv_heads, head_dim) of tokens from ``start`` on."""
        end = start + len(keys)
        self.keys[:, :, start:end] = keys.permute(1, 2, 0, 3)
        self.values[:, :, start:end] = values.permute(1, 2, 0, 3)

    def write_block(
        self, layer: int, start: int, keys: Tensor, values: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Stores (rows, kv_heads, head_dim) behind the text, which ends at ``start``; returns all.

        The next block, or the text once it is longer, overwrites them.
        """
        end = start + len(keys)
        self.keys[layer, :, start:end] = keys.transpose(0, 1)
        self.values[layer, :, start:end] = values.transpose(0, 1)
        return self.keys[layer, :, :end], self.values[layer, :, :end]

    def reserve(self, rows: int) -> None:
        """Makes room for ``rows`` in all, keeping what is there."""
        held, a = self.keys.shape[2], self._architecture
        if rows <= held:
            return
        room = max(_FIRST_ROOM, 1 << (rows - 1).bit_length())
        more = torch.zeros(len(a.layers), a.kv_heads, room - held, a.head_dim, device=self._device)
        self.keys = torch.cat([self.keys, more], dim=2)
        self.values = torch.cat([self.values, more], dim=2)
        rope = a.layers[0].rope
        assert rope is not None
        self.turns = rotations(rope, a.head_dim, room)[:, None].to(self._device)


@dataclass(frozen=True, slots=True, eq=False)
class MarkovHead:
    """``before`` (vocabulary, rank): W1; ``after``: the product with W2."""

    before: Tensor
    after: Linear

    def row(self, token: int) -> Tensor:
        """(1, rank)."""
        return self.before[token : token + 1].float()

    @torch.inference_mode()
    def bias(self, token: int) -> Tensor:
        """float32 (1, vocabulary): what ``token`` adds to the logits of the one behind it."""
        return self.after(self.row(token))


@dataclass(frozen=True, slots=True, eq=False)
class BlockHead:
    """See the module. ``context`` makes all layers' keys and values from the text's joined states."""

    shape: BlockShape
    fc: Linear
    hidden_norm: RmsNorm
    context: Linear
    key_norms: Tensor  # (layers, kv_heads, head_dim)
    layers: tuple[Layer, ...]
    activation: Activation
    norm: RmsNorm
    markov: MarkovHead | None
    confidence_weight: Tensor | None  # (1, inputs)
    confidence_bias: float
    device: torch.device

    kind: ClassVar[str] = "block"

    @property
    def taps(self) -> tuple[Tap, ...]:
        return joined(self.shape.read)

    @classmethod
    def plan(cls, stored: Stored, target: TargetShape) -> HeadPlan:
        """See ``Head``."""
        shape = read_shape(stored, target)
        a = shape.architecture
        return HeadPlan(
            cls.kind,
            stored,
            joined(shape.read),
            parameters(shape),
            layers=len(a.layers),
            kv_heads=a.kv_heads,
            head_dim=a.head_dim,
            shape=shape,
        )

    @classmethod
    def load(cls, plan: HeadPlan, products: Products) -> Self:
        """See ``Head``."""
        stored, shape = plan.stored, plan.shape
        assert isinstance(shape, BlockShape)
        a, kernels = shape.architecture, Kernels(products.linear, plain_embedding)
        sources = [partial(_tensor, stored, products, n) for n in range(len(a.layers))]
        layers = tuple(load_layer(a, a.layers[0], at, kernels) for at in sources)
        pairs = [_keys_values(a, at, "weight") for at in sources]
        biases = [_keys_values(a, at, "bias") for at in sources] if a.qkv_bias else None
        confidence = stored(CONFIDENCE[0]) if shape.confidence else None
        return cls(
            shape=shape,
            fc=products.linear(stored("fc.weight")),
            hidden_norm=make_norm(a, products.vector(stored("hidden_norm.weight"))),
            context=products.linear(torch.cat(pairs), torch.cat(biases) if biases else None),
            key_norms=torch.stack([_key_norm(a, layer) for layer in layers]),
            layers=layers,
            activation=activation(a.activation),
            norm=make_norm(a, products.vector(stored("norm.weight"))),
            markov=_markov(stored, products) if shape.rank else None,
            confidence_weight=None if confidence is None else products.vector(confidence),
            confidence_bias=float(stored(CONFIDENCE[1])) if shape.confidence else 0.0,
            device=products.device,
        )

    def new_memory(self) -> ContextMemory:
        return ContextMemory(self.shape.architecture, self.device)

    @torch.inference_mode()
    def read(self, target: Backbone, memory: ContextMemory, start: int, end: int) -> None:
        """Keeps the text's tokens ``start`` .. ``end - 1``, which the target has read."""
        a = self.shape.architecture
        memory.reserve(end + self.shape.block)
        states = [target.features(tap, start, end) for tap in self.shape.read]
        x = self.hidden_norm(self.fc(torch.cat(states, dim=1)))
        made = self.context(x).view(end - start, len(a.layers), 2, a.kv_heads, a.head_dim)
        keys = torch.rms_norm(made[:, :, 0], (a.head_dim,), None, a.epsilon) * self.key_norms
        keys = _turned(keys, memory.turns[start:end, None])
        memory.write_text(start, keys, made[:, :, 1])

    @torch.inference_mode()
    def states(self, target: Backbone, pending: int, memory: ContextMemory, start: int) -> Tensor:
        """(depth, hidden): a normed row for each token to be drafted behind ``pending``.

        ``start`` is the pending token's position; the text before it is in ``memory``.
        """
        shape, a = self.shape, self.shape.architecture
        turned = a.heads + a.kv_heads
        memory.reserve(start + shape.block)
        turns = memory.turns[start : start + shape.block]
        x = target.embed([pending, *[shape.mask] * (shape.block - 1)])
        for number, layer in enumerate(self.layers):
            qkv = layer.qkv(layer.attention_norm(x)).view(shape.block, -1, a.head_dim)
            assert layer.qk_norm is not None
            qk = torch.rms_norm(qkv[:, :turned], (a.head_dim,), None, a.epsilon) * layer.qk_norm
            qk = _turned(qk, turns)
            seen = memory.write_block(number, start, qk[:, a.heads :], qkv[:, turned:])
            x = x + layer.output(_attend(qk[:, : a.heads], *seen))
            gate, up = layer.gate_up(layer.mlp_norm(x)).chunk(2, dim=1)
            x = x + layer.down(self.activation(gate) * up)
        return self.norm(x[shape.first :])

    def logits(self, target: Backbone, states: Tensor) -> Tensor:
        """float32 (rows, vocabulary), without what the Markov head adds."""
        parts = [target.logits(part) for part in states.split(_HEAD_ROWS)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

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


def _turned(x: Tensor, turns: Tensor) -> Tensor:
    """Rotates the pairs of ``x (..., head_dim)``, which lie side by side."""
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * turns).flatten(-2)


def _attend(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Scaled queries (rows, heads, head_dim) that see everything -> (rows, heads * head_dim).

    keys, values (kv_heads, seen, head_dim). Not row-independent: a head only proposes.
    """
    rows, _, width = query.shape
    shared = len(keys)
    grouped = query.view(rows, shared, -1, width).transpose(0, 1).reshape(shared, -1, width)
    weights = torch.softmax(torch.bmm(grouped, keys.transpose(1, 2)), dim=-1)
    mixed = torch.bmm(weights, values).view(shared, rows, -1, width)
    return mixed.transpose(0, 1).reshape(rows, -1)


def _tensor(stored: Stored, products: Products, layer: int, name: str) -> Tensor:
    tensor = stored(f"layers.{layer}.{name}")
    return tensor if tensor.dim() > 1 else products.vector(tensor)


def _keys_values(a: Architecture, at: TensorSource, kind: str) -> Tensor:
    """Both in one tensor, keys in the order that turns quickly."""
    key = side_by_side(at(f"self_attn.k_proj.{kind}"), a.kv_heads, a.layers[0].rope)
    return torch.cat([key, at(f"self_attn.v_proj.{kind}")])


def _key_norm(a: Architecture, layer: Layer) -> Tensor:
    assert layer.qk_norm is not None
    return layer.qk_norm[a.heads :]


def _markov(stored: Stored, products: Products) -> MarkovHead:
    before, after = MARKOV
    return MarkovHead(stored(before).to(products.device), products.linear(stored(after)))
