"""Mixtures of experts for the adapter: a row's bits do not depend on how other rows are routed.

An expert multiplies the rows that chose it. In transformers that is one product of as many rows as
there happen to be, and BLAS takes another path for another count: a token's logits would depend on
what the tokens drafted behind it, which the model has not accepted yet, chose. Here experts multiply
through the products of the own decoder, and a row's shares are added in the order of its choices.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

from engine.kernels.cpu.linear import make_unpacked

NAME = "row_independent"
"""What ``PreTrainedModel.set_experts_implementation`` takes."""


def mix(experts: Any, rows: Tensor, chosen: Tensor, weight: Tensor) -> Tensor:
    """``rows (rows, hidden)`` through the experts they chose: ``chosen``, ``weight`` (rows, choices).

    ``experts`` is a module of transformers' ``use_experts_implementation``.
    """
    shares = torch.zeros(*chosen.shape, rows.shape[1], device=rows.device)  # float32
    for expert in chosen.unique().tolist():
        row, choice = torch.where(chosen == expert)
        shares[row, choice] = _run(experts, expert, rows[row]).float() * weight[row, choice, None]
    total = shares[:, 0]
    for choice in range(1, chosen.shape[1]):
        total = total + shares[:, choice]
    return total.to(rows.dtype)


def _run(experts: Any, expert: int, x: Tensor) -> Tensor:
    """One expert's answer to ``x (rows, hidden)``."""
    if getattr(experts, "has_gate", True):
        x = experts._apply_gate(_product(experts, "gate_up_proj", expert, x))
    else:
        x = experts.act_fn(_product(experts, "up_proj", expert, x))
    x = _product(experts, "down_proj", expert, x)
    return experts.post_expert_norm(x) if getattr(experts, "has_post_expert_norm", False) else x


def _product(experts: Any, name: str, expert: int, x: Tensor) -> Tensor:
    weight = getattr(experts, name)[expert]
    result = make_unpacked(weight.t() if experts.is_transposed else weight)(x)
    return result + getattr(experts, f"{name}_bias")[expert] if experts.has_bias else result


ALL_EXPERTS_FUNCTIONS.register(NAME, mix)
