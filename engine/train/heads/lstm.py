"""Trainer of an LSTM speculator in Arctic's layout; engine.drafting.heads.lstm computes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from engine.drafting.heads.lstm import GATES, LstmHead
from engine.train.heads.speculator import Affine, SpeculatorTrainer, check_sizes, initialise
from engine.train.trainer import TargetView


@dataclass(frozen=True, slots=True)
class LstmShape:
    """Named as in the published config.json. The gates share their embedding (``tie_lstm_embs``)."""

    n_predict: int = 3
    inner_dim: int = 96
    scale_input: bool = True

    def __post_init__(self) -> None:
        check_sizes(self.n_predict, self.inner_dim)


class LstmModule(nn.Module):
    """``projs.{0,1}`` hold all gates; the other parameters have their published names."""

    def __init__(self, shape: LstmShape, head: Tensor) -> None:
        super().__init__()
        (vocabulary, hidden), width = head.shape, shape.inner_dim
        self.forget_emb = nn.Embedding(vocabulary, width)
        self.projs = nn.ModuleList(
            nn.Linear(inputs, len(GATES) * width, bias=False) for inputs in (hidden, width)
        )
        self.cell_ln, self.state_ln = Affine(width), Affine(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        initialise(self, self.head.weight, head)


class LstmTrainer(SpeculatorTrainer):
    """See ``Trainer``."""

    Shape = LstmShape

    def __init__(self, shape: LstmShape, target: TargetView) -> None:
        super().__init__(target, shape.n_predict)
        self._shape = shape
        self._speculator = LstmModule(shape, target.head)
        self.module: nn.Module = self._speculator.to(target.device)

    def recurrence(self) -> LstmHead:
        parts = self._speculator
        return LstmHead(
            projects=list(parts.projs),
            embedding=parts.forget_emb.weight,
            cell_norm=parts.cell_ln.norm,
            state_norm=parts.state_ln.norm,
            output=partial(F.linear, weight=parts.head.weight),
            steps=self._shape.n_predict,
            scaled=self._shape.scale_input,
        )

    def output(self) -> Tensor:
        return self._speculator.head.weight

    def config(self) -> Mapping[str, Any]:
        shape = self._shape
        return {
            "architectures": ["ArcticLSTMSpeculatorPreTrainedModel"],
            "model_type": "mlp_speculator",
            "method": "sum_lstm",
            "base_model_archs": [self._target.info.architecture],
            "input_hidden_dim": self._target.hidden,
            "inner_dim": str(shape.inner_dim),
            "proj_dim": str(shape.inner_dim),
            "emb_dim": str(shape.inner_dim),
            "n_predict": shape.n_predict,
            "n_candidates": shape.n_predict,
            "top_k_tokens_per_head": [1] * shape.n_predict,
            "tie_weights": True,
            "tie_lstm_embs": True,
            "scale_input": shape.scale_input,
            "torch_dtype": "bfloat16",
            "vocab_size": self._target.vocabulary,
        }

    def tensors(self) -> Mapping[str, Tensor]:
        """Each gate's projection alone, as ArcticInference reads them."""
        parts = self._speculator
        tensors = {
            "forget_emb.0.weight": parts.forget_emb.weight,
            "head.0.weight": parts.head.weight,
        }
        for name, norm in (("cell_ln.0", parts.cell_ln), ("state_ln.0", parts.state_ln)):
            tensors |= {f"{name}.weight": norm.weight, f"{name}.bias": norm.bias}
        for number, joined in enumerate(parts.projs):
            for gate, rows in zip(GATES, joined.get_parameter("weight").chunk(4), strict=True):
                tensors[f"{gate}_proj.{number}.weight"] = rows
        return tensors
