"""Trainer of an MLP speculator (arXiv 2404.19124); engine.drafting.heads.mlp computes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from engine.drafting.heads.mlp import MlpHead, Stage
from engine.train.heads.speculator import Affine, SpeculatorShape, SpeculatorTrainer, initialise
from engine.train.trainer import TargetView


@dataclass(frozen=True, slots=True)
class MlpShape(SpeculatorShape):
    """See ``SpeculatorShape``."""

    inner_dim: int = 112


class MlpModule(nn.Module):
    """Parameters of ``emb``, ``proj``, ``head`` and ``ln``: one of each, and a first ``proj``."""

    def __init__(self, shape: MlpShape, head: Tensor) -> None:
        super().__init__()
        (vocabulary, hidden), width = head.shape, shape.inner_dim
        self.emb = nn.Embedding(vocabulary, width)
        self.proj = nn.ModuleList(
            nn.Linear(inputs, width, bias=False)
            for inputs in (hidden, width)[: min(2, shape.n_predict)]
        )
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.ln = Affine(width)
        initialise(self, self.head.weight, head)


class MlpTrainer(SpeculatorTrainer):
    """See ``Trainer``. The steps share their weights (``tie_weights``)."""

    Shape = MlpShape

    def __init__(self, shape: MlpShape, target: TargetView) -> None:
        super().__init__(shape, target)
        self._weights = MlpModule(shape, target.head).to(target.device)
        self.module = self._weights

    def speculator(self) -> MlpHead:
        weights, steps = self._weights, self._shape.n_predict
        table, norm = weights.emb.weight, weights.ln.norm
        output = partial(F.linear, weight=weights.head.weight)
        stages = [Stage(project, table, norm, output) for project in weights.proj]
        stages += stages[-1:] * (steps - len(stages))
        return MlpHead(steps, self._shape.scale_input, stages)

    def config(self) -> Mapping[str, Any]:
        return {
            "architectures": ["MLPSpeculatorPreTrainedModel"],
            "model_type": "mlp_speculator",
            "emb_dim": self._target.hidden,
            "inner_dim": self._shape.inner_dim,
        }

    def tensors(self) -> Mapping[str, Tensor]:
        return {f"speculator.{name}": weight for name, weight in self.numbered().items()}
