"""Trainer of an MLP speculator (arXiv 2404.19124); engine.drafting.heads.mlp computes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from engine.drafting.heads.mlp import MlpHead, Stage
from engine.train.heads.speculator import Affine, SpeculatorTrainer, check_sizes, initialise
from engine.train.trainer import TargetView


@dataclass(frozen=True, slots=True)
class MlpShape:
    """Named as in the published config.json. The steps share their weights (``tie_weights``)."""

    n_predict: int = 3
    inner_dim: int = 112
    scale_input: bool = True

    def __post_init__(self) -> None:
        check_sizes(self.n_predict, self.inner_dim)


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
    """See ``Trainer``."""

    Shape = MlpShape

    def __init__(self, shape: MlpShape, target: TargetView) -> None:
        super().__init__(target, shape.n_predict)
        self._shape = shape
        self._speculator = MlpModule(shape, target.head)
        self.module: nn.Module = self._speculator.to(target.device)

    def recurrence(self) -> MlpHead:
        parts, steps = self._speculator, self._shape.n_predict
        output = partial(F.linear, weight=parts.head.weight)
        stages = [Stage(project, parts.emb.weight, parts.ln.norm, output) for project in parts.proj]
        stages += stages[-1:] * (steps - len(stages))
        return MlpHead(stages, self._shape.scale_input)

    def output(self) -> Tensor:
        return self._speculator.head.weight

    def config(self) -> Mapping[str, Any]:
        shape = self._shape
        return {
            "architectures": ["MLPSpeculatorPreTrainedModel"],
            "model_type": "mlp_speculator",
            "emb_dim": self._target.hidden,
            "inner_dim": shape.inner_dim,
            "n_predict": shape.n_predict,
            "n_candidates": shape.n_predict,
            "top_k_tokens_per_head": [1] * shape.n_predict,
            "tie_weights": True,
            "scale_input": shape.scale_input,
            "torch_dtype": "bfloat16",
            "vocab_size": self._target.vocabulary,
        }

    def tensors(self) -> Mapping[str, Tensor]:
        parts = self._speculator
        tensors = {
            "emb.0.weight": parts.emb.weight,
            "head.0.weight": parts.head.weight,
            "ln.0.weight": parts.ln.weight,
            "ln.0.bias": parts.ln.bias,
        }
        for number, project in enumerate(parts.proj):
            tensors[f"proj.{number}.weight"] = project.get_parameter("weight")
        return {f"speculator.{name}": tensor for name, tensor in tensors.items()}
