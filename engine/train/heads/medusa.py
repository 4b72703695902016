"""Trainer of Medusa heads: each predicts a later token from one hidden state (arXiv 2401.10774, 2.2).

Each head begins as a copy of the target's output head. Later heads have less weight in the loss, by 0.8
each, as in the paper's Medusa-1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from engine.backends.torch.eager import EagerArithmetic
from engine.drafting.heads.medusa import residual
from engine.drafting.heads.stored import Stored
from engine.models.hidden_states import NORMED
from engine.train.data.batches import Batch
from engine.train.loop import Loss
from engine.train.losses import head_loss
from engine.train.schema import need_sizes
from engine.train.trainer import TargetView, copy_weights, write_head

_DECAY = 0.8


@dataclass(frozen=True, slots=True)
class MedusaShape:
    """``heads`` tokens drafted at once; ``layers`` residual layers before each output matrix."""

    heads: int = 3
    layers: int = 1

    def __post_init__(self) -> None:
        """Raise RecipeError for no heads."""
        need_sizes(self, "heads")


class MedusaHeads(nn.Module):
    """Parameters under their published names: ``{head}.{layer}.linear.*``, ``{head}.{layers}.weight``."""

    def __init__(self, shape: MedusaShape, output: Tensor) -> None:
        super().__init__()
        width = output.shape[1]
        for head in range(shape.heads):
            parts: list[nn.Module] = []
            for _ in range(shape.layers):
                layer = nn.Module()
                layer.linear = nn.Linear(width, width)
                nn.init.zeros_(layer.linear.weight)  # the layer begins as the identity
                nn.init.zeros_(layer.linear.bias)
                parts.append(layer)
            last = nn.Linear(width, output.shape[0], bias=False)
            last.weight.data.copy_(output)
            self.add_module(str(head), nn.ModuleList([*parts, last]))

    def states(self, head: int, hidden: Tensor) -> Tensor:
        """Return the states (rows, hidden) behind the residual layers: x + SiLU(W x + b)."""
        *layers, _ = self.get_submodule(str(head)).children()
        for layer in layers:
            hidden = residual(EagerArithmetic(), layer.get_submodule("linear"), hidden)
        return hidden

    def output(self, head: int) -> Tensor:
        """Return the head's output matrix (vocabulary, hidden)."""
        *_, last = self.get_submodule(str(head)).children()
        weight: Tensor = last.get_parameter("weight")
        return weight


class MedusaTrainer:
    """See ``Trainer``."""

    Shape = MedusaShape

    def __init__(self, shape: MedusaShape, target: TargetView) -> None:
        self._shape, self._target = shape, target
        self.module = MedusaHeads(shape, target.head).to(target.device)
        self.aux_layers, self.depth = (NORMED,), shape.heads

    def loss(self, batch: Batch) -> Loss:
        hidden = batch.states[NORMED].flatten(0, 1)
        total, count = hidden.new_zeros(()), 0
        for head in range(self._shape.heads):
            # Head 0 is at the position where the pending token was chosen, and predicts the next one.
            pairs = batch.pairs(ahead=head + 1)
            states = self.module.states(head, hidden[pairs.sources])
            goal = self._target.teacher(batch, pairs)
            total = total + _DECAY**head * head_loss(states, self.module.output(head), goal)
            count += len(pairs.labels)
        return Loss(total, count)

    def export(self, folder: Path) -> None:
        config = {
            "architectures": ["MedusaModel"],
            "medusa_num_heads": self._shape.heads,
            "medusa_num_layers": self._shape.layers,
            "hidden_size": self._target.hidden,
            "vocab_size": self._target.vocabulary,
        }
        write_head(folder, config, self.tensors())

    @classmethod
    def shape_of(cls, config: Mapping[str, Any]) -> MedusaShape:
        return MedusaShape(config["medusa_num_heads"], config.get("medusa_num_layers", 1))

    def tensors(self) -> Mapping[str, Tensor]:
        return self.module.state_dict(keep_vars=True)

    def restore(self, head: Stored) -> None:
        copy_weights(self.tensors(), head)
