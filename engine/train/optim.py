"""Muon for the matrices of the layers, AdamW for the rest.

Muon (Keller Jordan, 2024, github.com/KellerJordan/Muon): momentum, then the nearest orthogonal
matrix by Newton-Schulz steps, so that every direction of a matrix learns at the same pace. Weights
of the same size are stacked and orthogonalised together: a few large products for a small CPU.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from engine.train.device import compute_dtype
from engine.train.schema import OptimizerStage

_MOMENTUM = 0.95
_STEPS = 5
_QUINTIC = (3.4445, -4.7750, 2.0315)  # Jordan's coefficients: steepest at zero, ends in [0.7, 1.2]


def orthogonalise(stack: Tensor) -> Tensor:
    """Return about U V^T of each matrix of ``stack`` (count, m, n), with singular values near one."""
    first, second, third = _QUINTIC
    wide = stack if stack.shape[1] <= stack.shape[2] else stack.transpose(1, 2)
    value = wide.to(compute_dtype(stack.device))
    value = value / (value.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(_STEPS):
        square = value @ value.transpose(1, 2)
        value = first * value + (second * square + third * (square @ square)) @ value
    result: Tensor = value if wide is stack else value.transpose(1, 2)
    return result


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised. Only for matrices; each group holds one size.

    Mutates parameters and the momentum in ``state``.
    """

    def __init__(self, params: Iterable[Tensor], lr: float, weight_decay: float) -> None:
        sizes: dict[torch.Size, list[Tensor]] = defaultdict(list)
        for param in params:
            sizes[param.shape].append(param)
        groups = [{"params": members} for members in sizes.values()]
        super().__init__(groups, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            members: list[Tensor] = group["params"]
            rows, columns = members[0].shape
            updates = orthogonalise(torch.stack([self._momentum(param) for param in members]))
            # A tall matrix gets larger steps, so that outputs change by as much as those of a square one.
            rate = group["lr"] * max(1.0, rows / columns) ** 0.5
            for param, update in zip(members, updates, strict=True):
                param.mul_(1 - group["lr"] * group["weight_decay"])
                param.add_(update.to(param.dtype), alpha=-rate)

    def _momentum(self, param: Tensor) -> Tensor:
        assert param.grad is not None
        state = self.state[param]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(param)
        momentum: Tensor = state["momentum"]
        momentum.lerp_(param.grad, 1 - _MOMENTUM)
        return param.grad.lerp(momentum, _MOMENTUM)


class Optimizers:
    """The optimisers of one model, whose rates follow one schedule."""

    def __init__(self, model: Any, stage: OptimizerStage) -> None:
        self._model, self._stage = model, stage
        names = [(name, param) for name, param in model.named_parameters() if param.requires_grad]
        in_layers = [p for name, p in names if p.ndim == 2 and "layers" in name.split(".")]
        matrices = in_layers if stage.method == "muon" else []
        chosen = {id(param) for param in matrices}
        others = [param for _, param in names if id(param) not in chosen]
        groups = [
            {"params": [p for p in others if p.ndim > 1], "weight_decay": stage.weight_decay},
            {"params": [p for p in others if p.ndim <= 1], "weight_decay": 0.0},
        ]
        self._all: list[tuple[torch.optim.Optimizer, float]] = [
            (
                torch.optim.AdamW(groups, lr=stage.learning_rate, betas=(0.9, 0.95), fused=True),
                stage.learning_rate,
            )
        ]
        if matrices:
            rate = stage.matrix_learning_rate
            self._all.append((Muon(matrices, rate, stage.weight_decay), rate))

    def step(self, progress: float) -> float:
        """Update at the rates of ``progress`` (0 to 1), clear the gradients and return their norm."""
        norm = torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._stage.clip)
        factor = schedule(progress, self._stage.warmup, self._stage.decay)
        for optimizer, rate in self._all:
            for group in optimizer.param_groups:
                group["lr"] = rate * factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return float(norm)

    def state_dict(self) -> list[dict[str, Any]]:
        return [optimizer.state_dict() for optimizer, _ in self._all]

    def load_state_dict(self, states: list[dict[str, Any]]) -> None:
        for (optimizer, _), state in zip(self._all, states, strict=True):
            optimizer.load_state_dict(state)


def schedule(progress: float, warmup: float, decay: float) -> float:
    """Return the factor on the peak rate: a linear warm-up, constant, then a linear decay to zero."""
    up = progress / warmup if warmup > 0 else 1.0
    down = (1.0 - progress) / decay if decay > 0 else 1.0
    return max(0.02 if progress < warmup else 0.0, min(1.0, up, down))
