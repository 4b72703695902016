"""Trains an MLP speculator (arXiv 2404.19124); see engine.heads.mlp for what it computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from engine.heads.mlp import MlpHead, Stage
from engine.train.distil.trainer import Origin
from engine.train.distil.unrolled import Affine, UnrolledTrainer, check_sizes, initialise


@dataclass(frozen=True, slots=True)
class MlpShape:
    """Named as in the published config.json; ``tie_weights``: all steps share their weights."""

    n_predict: int = 3
    inner_dim: int = 112
    tie_weights: bool = True
    scale_input: bool = True

    def __post_init__(self) -> None:
        check_sizes(self.n_predict, self.inner_dim)


class MlpModule(nn.Module):
    """Parameters under their published names: ``emb``, ``proj``, ``head`` and ``ln`` ``.{step}``."""

    def __init__(self, shape: MlpShape, vocabulary: int, hidden: int) -> None:
        super().__init__()
        width, own = shape.inner_dim, 1 if shape.tie_weights else shape.n_predict
        projections = min(2, shape.n_predict) if shape.tie_weights else shape.n_predict
        inputs = [hidden, *[width] * (projections - 1)]
        self.emb = nn.ModuleList(nn.Embedding(vocabulary, width) for _ in range(own))
        self.proj = nn.ModuleList(nn.Linear(into, width, bias=False) for into in inputs)
        self.head = nn.ModuleList(nn.Linear(width, vocabulary, bias=False) for _ in range(own))
        self.ln = nn.ModuleList(Affine(width) for _ in range(own))
        initialise(self)

    def output(self, step: int) -> Tensor:
        """(vocabulary, width)."""
        return _of(self.head, step).get_parameter("weight")

    def stage(self, step: int) -> Stage:
        """A step; where steps share their weights, the last there is."""
        norm = _of(self.ln, step)
        assert isinstance(norm, Affine)
        return Stage(
            project=_of(self.proj, step),
            table=_of(self.emb, step).get_parameter("weight"),
            norm=norm.norm,
            output=partial(F.linear, weight=self.output(step)),
        )


class MlpTrainer(UnrolledTrainer):
    """See ``Trainer``."""

    Shape = MlpShape

    def __init__(self, shape: MlpShape, origin: Origin) -> None:
        super().__init__(origin, shape.n_predict)
        self._shape = shape
        self._speculator = MlpModule(shape, origin.vocabulary, origin.hidden)
        self.module: nn.Module = self._speculator.to(origin.head.device)

    def recurrence(self) -> MlpHead:
        stages = [self._speculator.stage(step) for step in range(self._shape.n_predict)]
        return MlpHead(stages, self._shape.scale_input)

    def output(self, step: int) -> Tensor:
        return self._speculator.output(step)

    def config(self) -> Mapping[str, Any]:
        shape = self._shape
        return {
            "architectures": ["MLPSpeculatorPreTrainedModel"],
            "model_type": "mlp_speculator",
            "emb_dim": self._origin.hidden,
            "inner_dim": shape.inner_dim,
            "n_predict": shape.n_predict,
            "n_candidates": shape.n_predict,
            "top_k_tokens_per_head": [1] * shape.n_predict,
            "tie_weights": shape.tie_weights,
            "scale_input": shape.scale_input,
            "torch_dtype": "bfloat16",
            "vocab_size": self._origin.vocabulary,
        }

    def tensors(self) -> Mapping[str, Tensor]:
        return {f"speculator.{name}": value for name, value in self.module.state_dict().items()}


def _of(parts: nn.ModuleList, step: int) -> nn.Module:
    return parts[min(step, len(parts) - 1)]
