"""Multi-token prediction (DeepSeek-AI 2024, arXiv 2412.19437): layers that a checkpoint brings.

As in EAGLE-3, row i stands at the position of token i, reads the embedding of token i + 1 beside a state
of token i, and predicts token i + 2. The state is the target's after its final norm where the target has
read token i, and the layer's own output, normed, where it has not. The layer is like the target's last
one that attends, and is applied again for each further token; embedding and output head are the target's.

Of several layers, each drafts a token: row i of the k-th reads the embedding of token i + 1 beside the
output of the one before it in row i - 1. The last is applied again.

So it is in Qwen3-Next and 3.5 by vLLM's qwen3_5_mtp.py and llama.cpp's qwen35.cpp, in GLM-4.5 and on by
llama.cpp's glm4-moe.cpp (pull request 26534) and SGLang's deepseek_nextn.py, and in MiMo by vLLM's
mimo_mtp.py. GLM's copies of embedding and output head are not read: GLM-4.6 has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from engine.backends.layer_decoder import attention, feed_forward, norm
from engine.backends.linear_factory import LinearFactory
from engine.backends.operations import SUPPORT, Memory, Operations
from engine.drafting.heads.base import HeadPlan, count_parameters
from engine.drafting.heads.layers import load_layers
from engine.drafting.heads.stored import Stored
from engine.kernels.formats.blocks import Weight, widen
from engine.kernels.operands import Candidates, Number, Rows, Tokens
from engine.kernels.torch.linear import Linear
from engine.models.architecture import Architecture, Attention
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.checkpoints.tensors import open_tensors
from engine.models.families import FAMILIES, described
from engine.models.hidden_states import NORMED, AuxLayer
from engine.models.tensor_shapes import layer_shapes
from engine.models.weight_loading import WeightSource, make_norm
from engine.models.weights import Layer, RmsNorm
from engine.values import MAX_DEPTH

_REMEDY = "Download the model again."
_REMEDY_BESIDE = (
    "It is damaged or belongs to another model. Use the file that was published with this model."
)


class LayerNames(NamedTuple):
    """The names of a layer's tensors: the beginning of those that any layer has, and its own."""

    layer: str
    fc: str
    embedding_norm: str
    hidden_norm: str
    norm: str

    @property
    def norms(self) -> tuple[str, ...]:
        return self.embedding_norm, self.hidden_norm, self.norm


_LAYOUTS = (
    LayerNames(
        "mtp.layers.{own}.",
        "mtp.fc.weight",
        "mtp.pre_fc_norm_embedding.weight",
        "mtp.pre_fc_norm_hidden.weight",
        "mtp.norm.weight",
    ),
    LayerNames(
        "model.layers.{after}.",
        *(
            f"model.layers.{{after}}.{name}.weight"
            for name in ("eh_proj", "enorm", "hnorm", "shared_head.norm")
        ),
    ),
    LayerNames(
        "model.mtp_layers.{own}.",
        *(
            f"model.mtp_layers.{{own}}.{name}.weight"
            for name in ("input_proj", "token_layernorm", "hidden_layernorm", "final_layernorm")
        ),
    ),
)
"""Those of Qwen, of GLM, DeepSeek and GGUF files, whose layers are numbered after the model's, and of
MiMo."""
_STATE_FIRST = "input_proj.weight"
"""The end of the name of an ``fc`` that takes the state before the embedding."""


@dataclass(frozen=True, slots=True)
class MtpShape:
    """``architecture``: a decoder of the layers, which are alike; ``eos``: the target's end tokens."""

    architecture: Architecture
    eos: tuple[int, ...]
    names: tuple[LayerNames, ...]
    weight: WeightSource


@dataclass(frozen=True, slots=True, eq=False)
class MtpLayer:
    """A layer's weights."""

    embedding_norm: RmsNorm
    hidden_norm: RmsNorm
    fc: Linear
    layer: Layer
    norm: RmsNorm


@dataclass(frozen=True, slots=True)
class MtpMemory:
    """See ``Memory``. ``outputs`` (context + 1, hidden), of all layers but the last: in row i + 1 that of
    the row at position i."""

    keys_values: Memory
    outputs: tuple[Tensor, ...]

    def reserve(self, rows: int) -> None:
        self.keys_values.reserve(rows)

    def clear(self) -> None:
        self.keys_values.clear()


@dataclass(frozen=True, slots=True, eq=False)
class MtpHead:
    """A ``Head``, see the module."""

    shape: MtpShape
    layers: tuple[MtpLayer, ...]
    device: torch.device

    kind: ClassVar[str] = "mtp"
    targets: ClassVar[None] = None
    steps: ClassVar[int] = MAX_DEPTH

    @property
    def aux_layers(self) -> tuple[AuxLayer, ...]:
        return (NORMED,)

    @classmethod
    def load(cls, plan: HeadPlan, linears: LinearFactory) -> Self:
        shape = plan.shape
        assert isinstance(shape, MtpShape)
        a = shape.architecture
        decoder = load_layers(a, [_within(shape, names, linears) for names in shape.names], linears)
        layers = zip(shape.names, decoder, strict=True)
        return cls(shape, tuple(_layer(shape, *each, linears) for each in layers), linears.device)

    def read(self, ops: Operations, memory: Memory, behind: Tokens, rows: Rows) -> Tensor:
        """Return the layers' outputs (rows, layers * hidden) where the target has read the tokens at
        ``rows``.

        ``behind`` are the tokens one position later. Writes what later rows need of these.
        """
        assert isinstance(memory, MtpMemory)
        state, outputs = ops.aux_hidden_states(NORMED, rows), []
        for index in range(len(self.layers)):
            outputs.append(self._layer(ops, memory, index, behind, 0, state, rows))
            if index + 1 < len(self.layers):
                table = memory.outputs[index]
                ops.keep(outputs[-1], table, replace(rows, offset=rows.offset + 1))
                state = ops.take(table, rows)
        return outputs[0] if len(outputs) == 1 else ops.join(*outputs)

    def draft(
        self,
        ops: Operations,
        memory: Memory,
        end: Number,
        chain: Tokens,
        state: Tensor,
        candidates: Candidates | None = None,
    ) -> Iterator[Tensor]:
        """Yield the logits (1, vocabulary) of each token after ``chain[0]``.

        ``state (1, layers * hidden)`` are the outputs at position ``end - 1``. At later positions a layer
        reads the output of the one before it, the last of all its own once there is no other.
        """
        one, last = Number(1), len(self.layers) - 1
        outputs = dict(enumerate(state.chunk(last + 1, dim=1)))
        for step in range(MAX_DEPTH):
            if step:
                rows = Rows(one, end, step - 1)
                outputs = {
                    index: self._layer(
                        ops, memory, index, chain, step, outputs[max(index - 1, min(outputs))], rows
                    )
                    for index in range(min(step, last), last + 1)
                }
            yield ops.target_logits(outputs[min(step, last)], one, candidates)

    def _layer(
        self,
        ops: Operations,
        memory: Memory,
        index: int,
        tokens: Tokens,
        first: int,
        state: Tensor,
        rows: Rows,
    ) -> Tensor:
        """Return a layer's output for ``state (rows, hidden)`` and the tokens from ``first`` on."""
        assert isinstance(memory, MtpMemory)
        own, spec = self.layers[index], self.shape.architecture.layers[index]
        embedded = norm(ops, own.embedding_norm, ops.embed(None, tokens, first, rows))
        x = ops.linear(own.fc, ops.join(embedded, norm(ops, own.hidden_norm, state)))
        normed = norm(ops, own.layer.mixer_norm, x)
        kept = memory.keys_values
        x = ops.add(x, attention(ops, spec.attention, own.layer, normed, kept, index, rows))
        return norm(ops, own.norm, feed_forward(ops, spec.feed_forward, own.layer, x))

    def new_memory(self, ops: Operations) -> MtpMemory:
        """Return the memory of one sequence."""
        return MtpMemory(
            ops.new_memory(self.shape.architecture, self.device),
            tuple(ops.new_table(NORMED) for _ in self.layers[1:]),
        )

    def on_target(self, logits: Tensor) -> Tensor:
        """Return ``logits``, which are over the target's vocabulary."""
        return logits


def plan_inside(target: Checkpoint, holder: Checkpoint) -> HeadPlan | str | None:
    """Return the plan of the layers for ``target`` that ``holder`` brings; None if it brings none.

    A sentence says why those that are there do not draft. Raises ModelError for tensors that are absent
    or of other shapes.
    """
    names = layers_in(holder, target.layers)
    if not names:
        return None
    if target.architecture not in FAMILIES:
        return _not_used(
            f"{target.architecture} runs through transformers here, which omits these layers."
        )
    described_target = described(target)
    a = None if described_target is None else _like_last(described_target, len(names))
    if a is None:
        return None
    reason = SUPPORT.why_not(a, "fp32")
    if reason is not None:
        return _not_used(reason)
    expected = expected_tensors(a, names)
    weight = _weights(holder)
    shapes = {name: info.shape for name, info in holder.tensors.items()}
    stored = Stored(
        holder.path,
        holder.text_config,
        shapes,
        remedy=_REMEDY if holder is target else _REMEDY_BESIDE,
        fetch=lambda name: widen(weight(name)).float(),
    )
    stored.expect(expected)
    shape, parameters = MtpShape(a, target.eos_ids, names, weight), count_parameters(expected)
    return HeadPlan(
        MtpHead.kind, stored, (NORMED,), parameters, shape, a.attentions, in_folder=False
    )


def layers_in(checkpoint: Checkpoint, layers: int) -> tuple[LayerNames, ...]:
    """Return the names of what ``checkpoint`` brings for a model of so many ``layers``, in order."""

    def numbered(layout: LayerNames, index: int) -> LayerNames:
        numbers = {"own": index, "after": layers + index}
        return LayerNames(*(name.format(**numbers) for name in layout))

    for layout in _LAYOUTS:
        if numbered(layout, 0).fc not in checkpoint.tensors:
            continue
        found = [numbered(layout, 0)]
        for index in count(1):
            names = numbered(layout, index)
            if f"{names.layer}input_layernorm.weight" not in checkpoint.tensors:
                return tuple(found)
            found.append(names)
    return ()


def _not_used(reason: str) -> str:
    return f"The model's own MTP layer is not used. {reason}"


def _like_last(a: Architecture, layers: int) -> Architecture | None:
    """Return a decoder of layers like the target's last one that attends; None if none does."""
    layer = next((spec for spec in reversed(a.layers) if isinstance(spec.mixer, Attention)), None)
    if layer is None:
        return None
    return replace(a, layers=(layer,) * layers, tied=False, logit_cap=None, embedding_scale=1.0)


def expected_tensors(a: Architecture, names: tuple[LayerNames, ...]) -> dict[str, tuple[int, ...]]:
    """Return the tensors that are read, and the shapes they must have."""
    shapes: dict[str, tuple[int, ...]] = {}
    for spec, own in zip(a.layers, names, strict=True):
        shapes |= {own.layer + name: size for name, size in layer_shapes(a, spec).items()}
        shapes |= dict.fromkeys(own.norms, (a.hidden,)) | {own.fc: (a.hidden, 2 * a.hidden)}
    return shapes


def _weights(checkpoint: Checkpoint) -> WeightSource:
    """Return the source of its tensors: matrices as stored, since they are rounded as they are loaded."""

    @cache
    def opened() -> WeightSource:
        device = torch.device("cpu")
        return open_tensors(checkpoint, torch.float32, device, in_file_dtype=True).weight

    def fetch(name: str) -> Weight:
        return opened()(name)

    return fetch


def _within(shape: MtpShape, names: LayerNames, linears: LinearFactory) -> WeightSource:
    """Return the source of a layer's tensors by their names within it."""

    def fetch(name: str) -> Weight:
        weight = shape.weight(names.layer + name)
        vector = isinstance(weight, Tensor) and weight.dim() == 1
        return linears.vector(widen(weight)) if vector else weight

    return fetch


def _layer(shape: MtpShape, names: LayerNames, layer: Layer, linears: LinearFactory) -> MtpLayer:
    def read_norm(name: str) -> RmsNorm:
        return make_norm(shape.architecture, linears.vector(widen(shape.weight(name))))

    fc = shape.weight(names.fc)
    if names.fc.endswith(_STATE_FIRST):
        fc = torch.cat(widen(fc).chunk(2, dim=1)[::-1], dim=1)
    return MtpLayer(
        read_norm(names.embedding_norm),
        read_norm(names.hidden_norm),
        linears.linear(fc),
        layer,
        read_norm(names.norm),
    )
