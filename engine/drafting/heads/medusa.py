"""Medusa (Cai et al. 2024, arXiv 2401.10774): heads beside the output head, each a token further on.

Head k reads the target's last hidden state, behind the final norm, passes it through blocks
x + SiLU(W x + b), and through an output head of its own. Where the target's own head says what comes
next, head k says what comes k + 1 tokens after that. Heads do not see each other's choices.

The published layout is FasterDecoding's: config.json with ``medusa_num_heads`` and
``medusa_num_layers``, and ``medusa_lm_head.pt`` (or the same tensors as safetensors) with
``{head}.{block}.linear.weight``, ``.bias`` and ``{head}.{blocks}.weight``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.drafting.heads.base import HeadPlan, TargetShape, check_fits
from engine.drafting.heads.products import Products
from engine.drafting.heads.stored import Stored
from engine.kernels.cpu.linear import Linear
from engine.models.hidden_states import NORMED, Tap


@dataclass(frozen=True, slots=True)
class _Shape:
    """What config.json says."""

    heads: int
    blocks: int


@dataclass(frozen=True, slots=True)
class MedusaHead:
    """``heads[k]``: the blocks' products, then that of its output head."""

    heads: Sequence[Sequence[Linear]]

    kind: ClassVar[str] = "medusa"

    @property
    def taps(self) -> tuple[Tap, ...]:
        return (NORMED,)

    @classmethod
    def plan(cls, stored: Stored, target: TargetShape) -> HeadPlan:
        """See ``Head``."""
        shape = _Shape(stored.size("medusa_num_heads"), stored.size("medusa_num_layers", 1))
        first = f"0.{shape.blocks}.weight"
        vocabulary, hidden = stored.matrix(first)
        for head in range(shape.heads):
            stored.expect({f"{head}.{shape.blocks}.weight": (vocabulary, hidden)})
            for block in range(shape.blocks):
                name = f"{head}.{block}.linear"
                stored.expect({f"{name}.weight": (hidden, hidden), f"{name}.bias": (hidden,)})
        check_fits(stored, target, hidden=hidden, vocabulary=vocabulary)
        return HeadPlan(cls.kind, stored, (NORMED,), stored.parameters, shape=shape)

    @classmethod
    def load(cls, plan: HeadPlan, products: Products) -> Self:
        """See ``Head``."""
        stored, shape = plan.stored, plan.shape
        heads = []
        for head in range(shape.heads):
            names = [f"{head}.{block}.linear" for block in range(shape.blocks)]
            blocks = [
                products.linear(stored(f"{name}.weight"), stored(f"{name}.bias")) for name in names
            ]
            heads.append((*blocks, products.linear(stored(f"{head}.{shape.blocks}.weight"))))
        return cls(tuple(heads))

    @torch.inference_mode()
    def __call__(self, normed: Tensor, depth: int) -> Tensor:
        """float32 (depth, vocabulary): logits of the first ``depth`` heads for ``normed (1, hidden)``."""
        rows = []
        for *blocks, output in self.heads[:depth]:
            x = normed
            for block in blocks:
                x = x + F.silu(block(x))
            rows.append(output(x))
        return torch.cat(rows)
