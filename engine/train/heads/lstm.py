"""Trainer of an LSTM speculator in Arctic's layout; engine.drafting.heads.lstm computes it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from engine.drafting.heads.lstm import GATES, LstmHead
from engine.train.heads.speculator import Affine, SpeculatorShape, SpeculatorTrainer, initialise
from engine.train.trainer import TargetView


class LstmModule(nn.Module):
    """``projs.{0,1}`` hold all gates; the other parameters have their published names."""

    def __init__(self, shape: SpeculatorShape, head: Tensor) -> None:
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
    """See ``Trainer``. The gates share their embedding (``tie_lstm_embs``)."""

    Shape = SpeculatorShape

    def __init__(self, shape: SpeculatorShape, target: TargetView) -> None:
        super().__init__(shape, target)
        self._weights = LstmModule(shape, target.head).to(target.device)
        self.module = self._weights

    def speculator(self) -> LstmHead:
        weights = self._weights
        return LstmHead(
            steps=self._shape.n_predict,
            scaled=self._shape.scale_input,
            projects=list(weights.projs),
            embedding=weights.forget_emb.weight,
            cell_norm=weights.cell_ln.norm,
            state_norm=weights.state_ln.norm,
            head=partial(F.linear, weight=weights.head.weight),
        )

    def config(self) -> Mapping[str, Any]:
        width = str(self._shape.inner_dim)
        return {
            "architectures": ["ArcticLSTMSpeculatorPreTrainedModel"],
            "model_type": "mlp_speculator",
            "method": "sum_lstm",
            "base_model_archs": [self._target.info.architecture],
            "input_hidden_dim": self._target.hidden,
            "inner_dim": width,
            "proj_dim": width,
            "emb_dim": width,
            "tie_lstm_embs": True,
        }

    def tensors(self) -> Mapping[str, Tensor]:
        """Return each gate's projection alone, as ArcticInference reads them."""
        tensors = self.numbered()
        for number in range(2):
            gates = tensors.pop(f"projs.{number}.weight").chunk(len(GATES))
            tensors |= {
                f"{gate}_proj.{number}.weight": rows
                for gate, rows in zip(GATES, gates, strict=True)
            }
        return tensors
