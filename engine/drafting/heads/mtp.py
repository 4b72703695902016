"""Multi-token prediction (DeepSeek-AI 2024, arXiv 2412.19437): a layer that a checkpoint brings.

As in EAGLE-3, row i stands at the position of token i, reads the embedding of token i + 1 beside a state
of token i, and predicts token i + 2. The state is the target's after its final norm where the target has
read token i, and the layer's own output, normed, where it has not. The layer is like those of the target
that attend, and is applied again for each further token; embedding and output head are the target's.

So it is in Qwen3-Next and 3.5, by vLLM's qwen3_5_mtp.py and llama.cpp's qwen35.cpp.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from engine.backends.layer_decoder import attention, feed_forward, norm
from engine.backends.linear_factory import LinearFactory
from engine.backends.operations import SUPPORT, Memory, Operations
from engine.drafting.heads.base import HeadPlan, count_parameters
from engine.drafting.heads.layers import layer_source, load_layers
from engine.drafting.heads.stored import Stored
from engine.kernels.operands import Candidates, Number, Rows, Tokens
from engine.kernels.torch.linear import Linear
from engine.models.architecture import Architecture, Attention
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.checkpoints.tensors import open_tensors
from engine.models.families import described
from engine.models.hidden_states import NORMED, AuxLayer
from engine.models.tensor_shapes import layer_shapes
from engine.models.weights import Layer, RmsNorm, make_norm
from engine.values import MAX_DEPTH

PREFIX = "mtp."
_ARCHITECTURES = ("Qwen3_5", "Qwen3Next")
"""Beginnings of the classes that it is computed for. GLM's layer reads the state before the norm."""
_FC, _LAYER = f"{PREFIX}fc.weight", f"{PREFIX}layers.0."
_NORMS = {
    name: f"{PREFIX}{name}.weight"
    for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm")
}


@dataclass(frozen=True, slots=True)
class MtpShape:
    """``architecture``: a decoder of the one layer; ``eos``: the target's end tokens."""

    architecture: Architecture
    eos: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class MtpHead:
    """See the module."""

    shape: MtpShape
    embedding_norm: RmsNorm
    hidden_norm: RmsNorm
    fc: Linear
    layer: Layer
    norm: RmsNorm
    device: torch.device

    kind: ClassVar[str] = "mtp"
    targets: ClassVar[None] = None
    steps: ClassVar[int] = MAX_DEPTH

    @property
    def aux_layers(self) -> tuple[AuxLayer, ...]:
        return (NORMED,)

    @classmethod
    def load(cls, plan: HeadPlan, linears: LinearFactory) -> Self:
        """See ``Head``."""
        stored, shape = plan.stored, plan.shape
        assert isinstance(shape, MtpShape)
        a = shape.architecture
        (layer,) = load_layers(a, [layer_source(stored, _LAYER, linears)], linears)
        norms = {
            name: make_norm(a, linears.vector(stored(place))) for name, place in _NORMS.items()
        }
        return cls(
            shape=shape,
            embedding_norm=norms["pre_fc_norm_embedding"],
            hidden_norm=norms["pre_fc_norm_hidden"],
            fc=linears.linear(stored(_FC)),
            layer=layer,
            norm=norms["norm"],
            device=linears.device,
        )

    def read(self, ops: Operations, memory: Memory, behind: Tokens, rows: Rows) -> Tensor:
        """Return the normed output (rows, hidden) where the target has read the tokens at ``rows``.

        ``behind`` are the tokens one position later. Writes the rows' keys and values.
        """
        return self._layer(ops, memory, behind, 0, ops.aux_hidden_states(NORMED, rows), rows)

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

        ``state (1, hidden)`` is the output at position ``end - 1``. Later positions read the layer's own
        output.
        """
        one = Number(1)
        for step in range(MAX_DEPTH):
            if step:
                state = self._layer(ops, memory, chain, step, state, Rows(one, end, step - 1))
            yield ops.target_logits(state, one, candidates)

    def _layer(
        self, ops: Operations, memory: Memory, tokens: Tokens, first: int, state: Tensor, rows: Rows
    ) -> Tensor:
        """Return the normed output for ``state (rows, hidden)`` and the tokens from ``first`` on."""
        embedded = norm(ops, self.embedding_norm, ops.embed(None, tokens, first, rows))
        x = ops.linear(self.fc, ops.join(embedded, norm(ops, self.hidden_norm, state)))
        spec, normed = self.shape.architecture.layers[0], norm(ops, self.layer.mixer_norm, x)
        x = ops.add(x, attention(ops, spec.attention, self.layer, normed, memory, 0, rows))
        return norm(ops, self.norm, feed_forward(ops, spec.feed_forward.activation, self.layer, x))

    def new_memory(self, ops: Operations) -> Memory:
        """Return the memory of one sequence's keys and values."""
        return ops.new_memory(self.shape.architecture, self.device)

    def on_target(self, logits: Tensor) -> Tensor:
        """Return ``logits``, which are over the target's vocabulary."""
        return logits


def plan_inside(checkpoint: Checkpoint) -> HeadPlan | str | None:
    """Return the plan of the layer that ``checkpoint`` brings; None if it brings none.

    A sentence says why one that is there does not draft. Raises ModelError for tensors that are absent or
    of other shapes.
    """
    shapes = {
        name: info.shape for name, info in checkpoint.tensors.items() if name.startswith(PREFIX)
    }
    known = checkpoint.has_mtp and checkpoint.architecture.startswith(_ARCHITECTURES)
    target = described(checkpoint) if known else None
    a = None if target is None else _one_layer(target)
    if a is None:
        return None
    reason = SUPPORT.why_not(a, "fp32")
    if any(name.startswith(f"{PREFIX}layers.1.") for name in shapes):
        reason = "It has several layers in a chain, which are not computed here."
    if reason is not None:
        return f"The layer that the model brings to draft for itself (MTP) is not used. {reason}"
    stored = _stored(checkpoint, shapes)
    stored.expect(expected_tensors(a))
    shape, count = MtpShape(a, checkpoint.eos_ids), count_parameters(shapes)
    return HeadPlan(MtpHead.kind, stored, (NORMED,), count, shape, a.attentions, in_folder=False)


def _one_layer(a: Architecture) -> Architecture | None:
    """Return a decoder of one layer, like the target's layers that attend; None if none does."""
    layer = next((spec for spec in a.layers if isinstance(spec.mixer, Attention)), None)
    if layer is None:
        return None
    return replace(a, layers=(layer,), tied=False, logit_cap=None, embedding_scale=1.0)


def expected_tensors(a: Architecture) -> dict[str, tuple[int, ...]]:
    """Return the tensors that are read, and the shapes they must have."""
    shapes = {_LAYER + name: size for name, size in layer_shapes(a, a.layers[0]).items()}
    shapes |= dict.fromkeys(_NORMS.values(), (a.hidden,))
    return shapes | {_FC: (a.hidden, 2 * a.hidden)}


def _stored(checkpoint: Checkpoint, shapes: Mapping[str, tuple[int, ...]]) -> Stored:
    """Return the tensors as floats, whatever the file's type: ``linears`` rounds them again."""

    def fetch(name: str) -> Tensor:
        return open_tensors(checkpoint, torch.float32, torch.device("cpu"))(name)

    return Stored(checkpoint.path, checkpoint.text_config, shapes, fetch=fetch)
