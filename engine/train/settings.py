"""What every recipe says: where it computes, what ends it, and how it updates weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Device = Literal["auto", "cpu", "cuda"]


@dataclass(frozen=True, slots=True)
class OptimizerStage:
    """Learning rates are peaks. `warmup` and `decay` are fractions of the run; decay ends at zero."""

    method: Literal["adamw", "muon"] = "muon"
    learning_rate: float = 0.003  # AdamW: embeddings and norms; every weight without Muon
    matrix_learning_rate: float = 0.02  # Muon: the matrices of the layers
    weight_decay: float = 0.05
    warmup: float = 0.01
    decay: float = 0.6
    clip: float = 1.0


@dataclass(frozen=True, slots=True)
class Budget:
    """What ends the run, whichever comes first. `minutes` is time spent training, over resumes."""

    tokens: int | None = None
    minutes: float | None = None
