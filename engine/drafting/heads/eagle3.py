"""EAGLE-3 (Li et al. 2025, arXiv 2503.01840): one decoder layer that reads the target's hidden states.

Row i of the layer stands where token i stands. It takes the embedding of token i + 1 beside a state of
token i, and names token i + 2. The state is fc of three of the target's hidden states where the target
has read token i; where it has not, it is what the layer itself put out one row earlier. The head's
output may cover only the target's most frequent tokens: ``d2t`` tells how far draft token j lies from
target token j.

Two published layouts are read, which differ in names alone: SafeAILab's (``midlayer.``, a Llama's
config.json with ``draft_vocab_size``) and that of speculators (``layers.0.``, the layer's configuration
under ``transformer_layer_config``). An embedding that is not in the file is the target's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from engine.drafting.heads.base import HeadPlan, TargetShape, check_fits
from engine.drafting.heads.layers import read_layers
from engine.drafting.heads.products import Products
from engine.drafting.heads.stored import Stored
from engine.errors import IncompatiblePair, ModelError
from engine.kernels.cpu.factory import Kernels, plain_embedding
from engine.kernels.cpu.linear import Linear
from engine.models.activations import Activation, activation
from engine.models.architecture import Architecture
from engine.models.hidden_states import Backbone, Tap, entering, joined
from engine.models.rotation import rotations
from engine.models.weights import Layer, RmsNorm, layer_shapes, load_layer, make_norm

_EMBEDDING, _HEAD, _FC_NORM = "embed_tokens.weight", "lm_head.weight", "input_norm.weight"
_TARGETS, _MARKED = "d2t", "t2d"
_ATTENTION, _CONTEXT = 32, 2048
"""Transformers' defaults, which speculators leave out of a ``transformer_layer_config``."""
_FIRST_ROOM = 256


@dataclass(frozen=True, slots=True)
class _Shape:
    """What config.json and the tensors' shapes say.

    ``read`` are the taps as ``fc`` takes them. ``architecture.vocabulary`` counts the draft's tokens.
    """

    architecture: Architecture
    prefix: str
    read: tuple[Tap, ...]
    vocabulary: int  # of the target
    norm_before_residual: bool
    norm_before_fc: bool
    norm_output: bool


class Memory:
    """Keys and values of the layer's rows for one sequence; grows as they come.

    keys, values (kv_heads, room, head_dim); turns (room, 1, head_dim / 2), complex.
    """

    def __init__(self, architecture: Architecture, device: torch.device) -> None:
        self._architecture, self._device = architecture, device
        empty = torch.zeros(architecture.kv_heads, 0, architecture.head_dim, device=device)
        self.keys, self.values = empty, empty
        self.turns = torch.zeros(0, 1, architecture.head_dim // 2, dtype=torch.complex64)

    def write(self, start: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Stores (rows, kv_heads, head_dim) from ``start`` on, and returns all that they may see.

        Rows that stood there are overwritten, so what was drafted and rejected needs no removal.
        """
        end = start + len(keys)
        self.keys[:, start:end] = keys.transpose(0, 1)
        self.values[:, start:end] = values.transpose(0, 1)
        return self.keys[:, :end], self.values[:, :end]

    def reserve(self, rows: int) -> None:
        """Makes room for ``rows`` in all, keeping what is there."""
        held, a = self.keys.shape[1], self._architecture
        if rows <= held:
            return
        room = max(_FIRST_ROOM, 1 << (rows - 1).bit_length())
        shape = a.kv_heads, room - held, a.head_dim
        more = torch.zeros(shape, device=self._device)
        self.keys = torch.cat([self.keys, more], dim=1)
        self.values = torch.cat([self.values, more], dim=1)
        rope = a.layers[0].rope
        assert rope is not None
        self.turns = rotations(rope, a.head_dim, room)[:, None].to(self._device)


@dataclass(frozen=True, slots=True, eq=False)
class Eagle3Head:
    """See the module. ``input_norms`` (2, hidden): weights for the embedding and for the state.

    ``targets`` (draft vocabulary,), and as ``numbers``: its tokens as the target's, None if they are.
    """

    shape: _Shape
    fc_norm: RmsNorm | None
    fc: Linear
    input_norms: Tensor
    layer: Layer
    activation: Activation
    norm: RmsNorm
    output: Linear
    targets: Tensor | None
    numbers: tuple[int, ...] | None
    embedding: Tensor | None
    device: torch.device

    kind: ClassVar[str] = "eagle3"

    @property
    def taps(self) -> tuple[Tap, ...]:
        return joined(self.shape.read)

    @classmethod
    def plan(cls, stored: Stored, target: TargetShape) -> HeadPlan:
        """See ``Head``."""
        shape = _shape(stored, target)
        a = shape.architecture
        own = {"layers": 1, "kv_heads": a.kv_heads, "head_dim": a.head_dim}
        return HeadPlan(cls.kind, stored, joined(shape.read), stored.parameters, **own, shape=shape)

    @classmethod
    def load(cls, plan: HeadPlan, products: Products) -> Self:
        """See ``Head``."""
        stored, shape = plan.stored, plan.shape
        assert isinstance(shape, _Shape)
        a, at = shape.architecture, partial(_tensor, stored, products, shape.prefix)
        kernels = Kernels(products.linear, plain_embedding)
        targets = _targets(stored, shape, products.device)

        def norm(name: str) -> RmsNorm:
            return make_norm(a, products.vector(stored(name)))

        return cls(
            shape=shape,
            fc_norm=norm(_FC_NORM) if shape.norm_before_fc else None,
            fc=products.linear(stored("fc.weight")),
            input_norms=torch.stack([at("input_layernorm.weight"), at("hidden_norm.weight")]),
            layer=load_layer(a, a.layers[0], at, kernels),
            activation=activation(a.activation),
            norm=norm("norm.weight"),
            output=products.linear(stored(_HEAD)),
            targets=targets,
            numbers=None if targets is None else tuple(targets.tolist()),
            embedding=_embedding(stored, products.device),
            device=products.device,
        )

    def new_memory(self) -> Memory:
        return Memory(self.shape.architecture, self.device)

    @torch.inference_mode()
    def fuse(self, target: Backbone, start: int, end: int) -> Tensor:
        """(end - start, hidden): the states of tokens that the target has read."""
        x = torch.cat([target.features(tap, start, end) for tap in self.shape.read], dim=1)
        return self.fc(x if self.fc_norm is None else self.fc_norm(x))

    @torch.inference_mode()
    def extend(
        self, target: Backbone, tokens: Sequence[int], states: Tensor, memory: Memory, start: int
    ) -> Tensor:
        """Runs the layer on rows from ``start`` on, each of which sees itself and all before it.

        Row ``start + i`` has ``tokens[i]``, the one behind it, and ``states[i]`` (rows, hidden), as
        ``fuse`` gives them or as this gave them for the row before. Writes their keys and values.
        """
        a, rows = self.shape.architecture, len(tokens)
        memory.reserve(start + rows)
        both = torch.stack([self._embed(target, tokens), states], dim=1)  # (rows, 2, hidden)
        both = torch.rms_norm(both, (a.hidden,), None, a.epsilon) * self.input_norms
        x = both[:, 1] if self.shape.norm_before_residual else states
        qkv = self.layer.qkv(both.flatten(1)).view(rows, a.heads + 2 * a.kv_heads, a.head_dim)
        turned = a.heads + a.kv_heads
        qk = qkv[:, :turned]
        if self.layer.qk_norm is not None:
            qk = torch.rms_norm(qk, (a.head_dim,), None, a.epsilon) * self.layer.qk_norm
        pairs = torch.view_as_complex(qk.unflatten(2, (-1, 2)).contiguous())
        qk = torch.view_as_real(pairs * memory.turns[start : start + rows]).flatten(2)
        seen = memory.write(start, qk[:, a.heads :], qkv[:, turned:])
        x = x + self.layer.output(_attend(qk[:, : a.heads], *seen))
        gate, up = self.layer.gate_up(self.layer.mlp_norm(x)).chunk(2, dim=1)
        x = x + self.layer.down(self.activation(gate) * up)
        return self.norm(x) if self.shape.norm_output else x

    @torch.inference_mode()
    def logits(self, states: Tensor) -> Tensor:
        """float32 (rows, draft vocabulary), for what ``extend`` returned."""
        return self.output(states if self.shape.norm_output else self.norm(states))

    def on_target(self, logits: Tensor) -> Tensor:
        """(rows, vocabulary of the target): minus infinity for what the head cannot say."""
        if self.targets is None:
            return logits
        wide = logits.new_full((len(logits), self.shape.vocabulary), float("-inf"))
        return wide.index_copy_(1, self.targets, logits)

    def token(self, drafted: int) -> int:
        """The target's number of a draft token."""
        return drafted if self.numbers is None else self.numbers[drafted]

    def _embed(self, target: Backbone, tokens: Sequence[int]) -> Tensor:
        if self.embedding is None:
            return target.embed(tokens)
        return self.embedding[torch.tensor(tokens, device=self.device)].float()


def _attend(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Scaled queries (rows, heads, head_dim) of the last rows -> (rows, heads * head_dim).

    keys, values (kv_heads, seen, head_dim). Not row-independent: a head only proposes.
    """
    rows, heads, width = query.shape
    shared, seen, _ = keys.shape
    grouped = query.view(rows, shared, -1, width).permute(1, 2, 0, 3).reshape(shared, -1, width)
    scores = torch.bmm(grouped, keys.transpose(1, 2))  # (kv_heads, group * rows, seen)
    if rows > 1:
        future = torch.ones(rows, seen, dtype=torch.bool, device=query.device)
        future = future.triu(seen - rows + 1).repeat(heads // shared, 1)
        scores = scores.masked_fill(future, float("-inf"))
    mixed = torch.bmm(torch.softmax(scores, dim=-1), values)
    return mixed.view(shared, -1, rows, width).permute(2, 0, 1, 3).reshape(rows, -1)


def _embedding(stored: Stored, device: torch.device) -> Tensor | None:
    """(vocabulary, hidden) as stored, or None for a head that uses its target's."""
    return stored(_EMBEDDING).to(device) if _EMBEDDING in stored.shapes else None


def _tensor(stored: Stored, products: Products, prefix: str, name: str) -> Tensor:
    tensor = stored(prefix + name)
    return tensor if tensor.dim() > 1 else products.vector(tensor)


def _targets(stored: Stored, shape: _Shape, device: torch.device) -> Tensor | None:
    """Raises ModelError where ``d2t`` leads out of the target's vocabulary, or twice to one token."""
    if _TARGETS not in stored.shapes:
        return None
    offsets = stored(_TARGETS).long()
    targets = offsets + torch.arange(len(offsets))
    inside = (targets >= 0) & (targets < shape.vocabulary)
    if len(targets.unique()) < len(targets) or not bool(inside.all()):
        raise ModelError(
            f"In {stored.folder}, {_TARGETS} should lead from each of {len(targets):,} draft tokens to "
            f"one of the target's {shape.vocabulary:,}, each to its own. Download the head again."
        )
    return targets.to(device)


# -- what the files say


def _shape(stored: Stored, target: TargetShape) -> _Shape:
    """Raises ModelError or IncompatiblePair."""
    config = stored.config
    nested = config.get("transformer_layer_config")
    inner = replace(stored, config=nested if isinstance(nested, Mapping) else config)
    _refuse_others(stored)
    prefix = "midlayer." if "midlayer.hidden_norm.weight" in stored.shapes else "layers.0."
    read = _taps(config, target)
    hidden, joint = stored.matrix("fc.weight")
    if joint % len(read):
        raise ModelError(
            f"In {stored.folder}, fc.weight takes {joint:,} numbers; that is no multiple of the "
            f"{len(read)} hidden states which config.json has it read. Download the head again."
        )
    a = read_layers(
        inner,
        prefix,
        count=1,
        hidden=hidden,
        vocabulary=inner.matrix(_HEAD)[0],
        qk_norm=f"{prefix}self_attn.q_norm.weight" in inner.shapes,
        heads=_ATTENTION,
        context=_CONTEXT,
    )
    shape = _Shape(
        a,
        prefix,
        read,
        _vocabulary(inner),
        # vLLM takes either for granted where config.json does not tell.
        norm_before_residual=bool(config.get("norm_before_residual", nested is not None)),
        norm_before_fc=bool(config.get("norm_before_fc", False)),
        norm_output=bool(config.get("norm_output", False)),
    )
    check_fits(stored, target, hidden=joint // len(read), vocabulary=shape.vocabulary)
    _check_taps(stored, read, target)
    stored.expect(_expected(stored, shape, joint))
    return shape


def _refuse_others(stored: Stored) -> None:
    """Raises ModelError for relatives of EAGLE-3 that compute something else."""
    config, eagle = stored.config, stored.config.get("eagle_config") or {}
    reasons = {
        "more than one layer": any(name.startswith("layers.1.") for name in stored.shapes),
        "a norm for each hidden state (fc_norm, EAGLE 3.1)": config.get("fc_norm"),
        "one hidden state only (use_aux_hidden_state)": not eagle.get("use_aux_hidden_state", True),
    }
    for reason, given in reasons.items():
        if given:
            raise ModelError(
                f"{stored.folder} is no plain EAGLE-3 head: it has {reason}, which is not computed "
                "here. Choose another head for this target."
            )


def _taps(config: Mapping[str, Any], target: TargetShape) -> tuple[Tap, ...]:
    """vLLM's numbers where they stand in config.json itself, SGLang's in its ``eagle_config``."""
    key = "eagle_aux_hidden_state_layer_ids"
    eagle = config.get("eagle_config") or {}
    layers = config.get(key) or [layer + 1 for layer in eagle.get(key) or ()]
    return entering(*(layers or (2, target.layers // 2, target.layers - 3)))


def _check_taps(stored: Stored, read: Sequence[Tap], target: TargetShape) -> None:
    """Raises IncompatiblePair where the target has no such layer."""
    layers = [tap.layer for tap in read]
    if not all(isinstance(layer, int) and 0 <= layer <= target.layers for layer in layers):
        raise IncompatiblePair(
            f"The head {stored.folder.name} was made for another target: it reads what enters layers "
            f"{', '.join(map(str, layers))}, {target.folder.name} has {target.layers} layers. Choose "
            f"a head that was trained for {target.folder.name}."
        )


def _vocabulary(inner: Stored) -> int:
    """Rows of the target's vocabulary, by the tensors if they tell."""
    for name in (_EMBEDDING, _MARKED):
        if name in inner.shapes:
            return inner.shapes[name][0]
    return inner.size("vocab_size")


def _expected(stored: Stored, shape: _Shape, joint: int) -> dict[str, tuple[int, ...]]:
    """All tensors that are read, and the shapes they must have."""
    a = shape.architecture
    shapes: dict[str, tuple[int, ...]] = {
        shape.prefix + name: size for name, size in layer_shapes(a).items()
    }
    for name, heads in (("q", a.heads), ("k", a.kv_heads), ("v", a.kv_heads)):
        wide = heads * a.head_dim, 2 * a.hidden
        shapes[f"{shape.prefix}self_attn.{name}_proj.weight"] = wide
    shapes[f"{shape.prefix}hidden_norm.weight"] = (a.hidden,)
    shapes |= {"norm.weight": (a.hidden,), _HEAD: (a.vocabulary, a.hidden)}
    if shape.norm_before_fc:
        shapes[_FC_NORM] = (joint,)
    if _EMBEDDING in stored.shapes or a.hidden * len(shape.read) != joint:  # of another width
        shapes[_EMBEDDING] = (shape.vocabulary, a.hidden)
    if _TARGETS in stored.shapes or a.vocabulary != shape.vocabulary:
        shapes[_TARGETS] = (a.vocabulary,)
    return shapes
