"""Medusa (Cai et al. 2024, arXiv 2401.10774): heads beside the output head, each a token further on.

Head k reads the target's last hidden state, behind the final norm, passes it through layers
x + SiLU(W x + b), and through an output head of its own. The target's own head predicts the next token;
head k predicts the one k + 1 tokens after that. Heads do not see each other's choices.

The published layout is FasterDecoding's: config.json with ``medusa_num_heads`` and
``medusa_num_layers``, and ``medusa_lm_head.pt`` (or the same tensors as safetensors) with
``{head}.{layer}.linear.weight``, ``.bias`` and ``{head}.{layers}.weight``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from torch import Tensor

from engine.backends.linear_factory import LinearFactory
from engine.backends.operations import Arithmetic, Operations
from engine.drafting.heads.base import HeadPlan, TargetShape
from engine.drafting.heads.stateless import stateless_plan
from engine.drafting.heads.stored import MOST, Stored
from engine.kernels.operands import Tokens
from engine.kernels.torch.linear import Linear
from engine.models.hidden_states import NORMED, AuxLayer


@dataclass(frozen=True, slots=True)
class _Shape:
    """What config.json says."""

    heads: int
    layers: int


@dataclass(frozen=True, slots=True)
class MedusaHead:
    """A ``StatelessHead``. ``heads[k]``: the linear layers of head k, its output head last."""

    heads: Sequence[Sequence[Linear]]

    kind: ClassVar[str] = "medusa"
    spreads: ClassVar[bool] = True

    @property
    def aux_layers(self) -> tuple[AuxLayer, ...]:
        return (NORMED,)

    @property
    def steps(self) -> int:
        return len(self.heads)

    @classmethod
    def plan(cls, stored: Stored, target: TargetShape) -> HeadPlan:
        shape = _Shape(
            stored.size("medusa_num_heads", most=MOST),
            stored.size("medusa_num_layers", 1, most=MOST),
        )
        vocabulary, hidden = stored.matrix(f"0.{shape.layers}.weight")
        tensors: dict[str, tuple[int, ...]] = {}
        for head in range(shape.heads):
            tensors[f"{head}.{shape.layers}.weight"] = (vocabulary, hidden)
            for layer in range(shape.layers):
                tensors[f"{head}.{layer}.linear.weight"] = (hidden, hidden)
                tensors[f"{head}.{layer}.linear.bias"] = (hidden,)
        return stateless_plan(
            cls.kind, stored, target, tensors, hidden=hidden, vocabulary=vocabulary, shape=shape,
            steps=shape.heads,
        )  # fmt: skip

    @classmethod
    def load(cls, plan: HeadPlan, linears: LinearFactory) -> Self:
        stored, shape = plan.stored, plan.shape
        heads = []
        for head in range(shape.heads):
            names = [f"{head}.{layer}.linear" for layer in range(shape.layers)]
            layers = [
                linears.linear(stored(f"{name}.weight"), stored(f"{name}.bias")) for name in names
            ]
            heads.append((*layers, linears.linear(stored(f"{head}.{shape.layers}.weight"))))
        return cls(tuple(heads))

    def draft(self, ops: Operations, chain: Tokens, normed: Tensor) -> Iterator[Tensor]:
        """See ``StatelessHead``; no step reads ``chain``."""
        for *layers, output in self.heads:
            x = normed
            for layer in layers:
                x = residual(ops, layer, x)
            yield ops.linear(output, x)


def residual(ops: Arithmetic, layer: Linear, x: Tensor) -> Tensor:
    """Return x + SiLU(W x + b)."""
    return ops.add(x, ops.activate("silu", ops.linear(layer, x)))
