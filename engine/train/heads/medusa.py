"""Trains Medusa heads: each names a token further on from one hidden state (arXiv 2401.10774, 2.2).

The first head begins as a copy of the target's own, so that training starts from what the target would
say next. Heads further on count less in the loss, by 0.8 each, as in the paper's Medusa-1.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from engine.backends.torch.eager import EagerArithmetic
from engine.drafting.heads.medusa import residual
from engine.models.hidden_states import NORMED, AuxLayer
from engine.train.data.windows import Window
from engine.train.loop import Loss
from engine.train.losses import head_loss
from engine.train.trainer import Origin

_DECAY = 0.8


@dataclass(frozen=True, slots=True)
class MedusaShape:
    """``heads`` tokens drafted at once; ``layers`` residual layers before each output matrix."""

    heads: int = 3
    layers: int = 1


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
        """(rows, hidden) behind the residual layers: x + SiLU(W x + b)."""
        *layers, _ = self.get_submodule(str(head)).children()
        for layer in layers:
            hidden = residual(EagerArithmetic(), layer.get_submodule("linear"), hidden)
        return hidden

    def output(self, head: int) -> Tensor:
        """(vocabulary, hidden)."""
        *_, last = self.get_submodule(str(head)).children()
        weight: Tensor = last.get_parameter("weight")
        return weight


class MedusaTrainer:
    """See ``Trainer``."""

    Shape = MedusaShape

    def __init__(self, shape: MedusaShape, origin: Origin) -> None:
        self._shape, self._origin = shape, origin
        self.module: nn.Module = MedusaHeads(shape, origin.head).to(origin.device)

    @property
    def aux_layers(self) -> tuple[AuxLayer, ...]:
        return (NORMED,)

    @property
    def depth(self) -> int:
        return self._shape.heads

    def loss(self, window: Window) -> Loss:
        heads = self.module
        assert isinstance(heads, MedusaHeads)
        hidden = window.states[NORMED].flatten(0, 1)
        total, count = hidden.new_zeros(()), 0
        for head in range(self._shape.heads):
            # Head 0 stands where the pending token was chosen, and names the one behind it.
            pairs = window.pairs(ahead=head + 1)
            states = heads.states(head, hidden[pairs.sources])
            goal = self._origin.teacher(window, pairs)
            total = total + _DECAY**head * head_loss(states, heads.output(head), goal)
            count += len(pairs.labels)
        return Loss(total, count)

    def export(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        config = {
            "architectures": ["MedusaModel"],
            "medusa_num_heads": self._shape.heads,
            "medusa_num_layers": self._shape.layers,
            "hidden_size": self._origin.hidden,
            "vocab_size": self._origin.vocabulary,
        }
        text = json.dumps(config, indent=2, sort_keys=True) + "\n"
        (folder / "config.json").write_text(text, encoding="utf-8")
        tensors = {
            name: value.detach().to("cpu", torch.bfloat16).contiguous()
            for name, value in self.module.state_dict().items()
        }
        save_file(tensors, str(folder / "model.safetensors"), metadata={"format": "pt"})
