"""Trainers of MLP speculators (arXiv 2404.19124) and of LSTM speculators in Arctic's layout.

Both unroll their steps along the target's replies, with teacher forcing: from every hidden state the
recurrence reads the tokens that the target chose next, which are what an accepted draft has. Each step
learns from the states of the step before, and all have equal weight. engine.drafting.heads computes
them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.backends.torch.eager import EagerArithmetic
from engine.drafting.heads.lstm import GATES, LstmHead
from engine.drafting.heads.mlp import MlpHead, Stage
from engine.drafting.heads.speculator import Norm, Speculator
from engine.drafting.heads.stored import Stored
from engine.models.hidden_states import NORMED
from engine.train.data.batches import Batch
from engine.train.loop import Loss
from engine.train.losses import Teacher, head_loss
from engine.train.schema import need
from engine.train.trainer import TargetView, copy_weights, write_head


@dataclass(frozen=True, slots=True)
class SpeculatorShape:
    """Named as in the published config.json."""

    n_predict: int = 3
    inner_dim: int = 96
    scale_input: bool = True

    def __post_init__(self) -> None:
        """Raise RecipeError for sizes below 1."""
        need(
            self.n_predict > 0,
            "shape.n_predict",
            "must be 1 or more, the tokens drafted in a round",
        )
        need(self.inner_dim > 0, "shape.inner_dim", "must be 1 or more, the width of the state")


class Affine(nn.Module):
    """A norm's scale and shift, under their published names."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    @property
    def norm(self) -> Norm:
        return Norm(self.weight, self.bias)


@dataclass(frozen=True, slots=True)
class _Repeated(Teacher):
    """A teacher that repeats each row ``times`` times in sequence, once for each step."""

    times: int

    @classmethod
    def of(cls, teacher: Teacher, times: int) -> _Repeated:
        labels = teacher.labels.repeat_interleave(times)
        return cls(teacher.hidden, teacher.head, labels, teacher.hard, times)

    def _log_p(self, rows: slice) -> Tensor:
        stop = min(rows.stop, len(self.labels))
        first, behind = rows.start // self.times, -(-stop // self.times)
        log_p = Teacher._log_p(self, slice(first, behind)).repeat_interleave(self.times, dim=0)
        return log_p[rows.start - first * self.times :][: stop - rows.start]


class SpeculatorTrainer(ABC):
    """See ``Trainer``; a kind adds its module, the head that computes with it, and its layout.

    The module's ``head`` is the output matrix of all steps: (vocabulary, width).
    """

    Shape: ClassVar[type[SpeculatorShape]]
    Module: ClassVar[type[nn.Module]]
    module: nn.Module

    def __init__(self, shape: SpeculatorShape, target: TargetView) -> None:
        self._shape, self._target = shape, target
        self.module = self.Module(shape, target.head).to(target.device)
        self.aux_layers, self.depth = (NORMED,), shape.n_predict

    @abstractmethod
    def speculator(self) -> Speculator:
        """Return the head that computes with the module's weights."""

    @abstractmethod
    def config(self) -> Mapping[str, Any]:
        """Return the keys of config.json that are the kind's own."""

    @abstractmethod
    def tensors(self) -> Mapping[str, Tensor]:
        """Return the weights under their published names."""

    def loss(self, batch: Batch) -> Loss:
        steps = self.depth
        pairs = batch.pairs(ahead=steps)  # goals that every step has a place to draft from
        speculator, ops = self.speculator(), EagerArithmetic()
        state = speculator.start(ops, batch.states[NORMED].flatten(0, 1))
        states = []
        for step in range(steps):
            # No goal refers to the tokens that wrap around at the end of a row.
            token = batch.tokens.roll(-(step + 1), dims=1).flatten()
            state = speculator.advance(ops, state, speculator.table(step)[token], step)
            states.append(state[0][pairs.goals - (step + 1)])
        goal = _Repeated.of(self._target.teacher(batch, pairs), steps)
        output = self.module.get_parameter("head.weight")
        total = head_loss(torch.stack(states, dim=1).flatten(0, 1), output, goal)
        return Loss(total, len(goal.labels))

    def export(self, folder: Path) -> None:
        shape = self._shape
        common = {
            "n_predict": shape.n_predict,
            "n_candidates": shape.n_predict,
            "top_k_tokens_per_head": [1] * shape.n_predict,
            "tie_weights": True,
            "scale_input": shape.scale_input,
            "torch_dtype": "bfloat16",
            "vocab_size": self._target.vocabulary,
        }
        write_head(folder, {**common, **self.config()}, self.tensors())

    @classmethod
    def shape_of(cls, config: Mapping[str, Any]) -> SpeculatorShape:
        if not config.get("tie_weights"):
            raise ValueError("its steps have weights of their own")
        width, scaled = int(config["inner_dim"]), bool(config["scale_input"])
        shape: SpeculatorShape = cls.Shape(config["n_predict"], width, scaled)
        return shape

    def restore(self, head: Stored) -> None:
        copy_weights(self.tensors(), head)

    def numbered(self) -> dict[str, Tensor]:
        """Return the module's weights; those that all steps share have the number 0 in their names."""
        return {
            name if name.count(".") > 1 else name.replace(".", ".0."): weight
            for name, weight in self.module.named_parameters()
        }


def initialise(module: nn.Module, output: Tensor, target: Tensor) -> None:
    """Initialise embeddings and matrices as fms-extras does, and ``output`` from the target's head.

    ``output`` (vocabulary, width) is ``target`` (vocabulary, hidden) on its principal directions.
    """
    for part in module.modules():
        if isinstance(part, nn.Embedding | nn.Linear):
            nn.init.normal_(part.weight, 0, min(part.weight.shape) ** -0.5)
    count = min(output.shape[1], target.shape[1])
    directions = torch.linalg.eigh(target.T @ target).eigenvectors[:, -count:]  # weakest first
    with torch.no_grad():
        output[:, :count].copy_(target @ directions)


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

    Shape, Module = MlpShape, MlpModule
    module: MlpModule

    def speculator(self) -> MlpHead:
        weights, steps = self.module, self._shape.n_predict
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

    Shape, Module = SpeculatorShape, LstmModule
    module: LstmModule

    def speculator(self) -> LstmHead:
        weights = self.module
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
