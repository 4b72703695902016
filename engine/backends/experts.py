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

from engine.kernels.torch.linear import make_unpacked

NAME = "row_independent"
"""What ``PreTrainedModel.set_experts_implementation`` takes."""


def mix(experts: Any, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
    """``hidden_states (rows, hidden)`` through the experts that each row chose.

    ``experts`` is a module of transformers' ``use_experts_implementation``, which names the arguments;
    choices and their weights are (rows, choices).
    """
    rows, choices = top_k_index.shape
    shares = torch.zeros(
        rows, choices, hidden_states.shape[1], dtype=torch.float32, device=hidden_states.device
    )
    for expert in top_k_index.unique().tolist():
        row, choice = torch.where(top_k_index == expert)
        answer = _run(experts, expert, hidden_states[row]).float()
        shares[row, choice] = answer * top_k_weights[row, choice, None].float()
    total = shares[:, 0]
    for share in shares.unbind(1)[1:]:
        total = total + share
    return total.to(hidden_states.dtype)


def _run(experts: Any, expert: int, x: Tensor) -> Tensor:
    """One expert's answer to ``x (rows, hidden)``."""
    if getattr(experts, "has_gate", True):
        x = experts._apply_gate(_product(experts, "gate_up_proj", expert, x))
    else:
        x = experts.act_fn(_product(experts, "up_proj", expert, x))
    x = _product(experts, "down_proj", expert, x)
    if getattr(experts, "has_post_expert_norm", False):
        x = experts.post_expert_norm(x)
    return x


def _product(experts: Any, name: str, expert: int, x: Tensor) -> Tensor:
    weight = getattr(experts, name)[expert]
    result = make_unpacked(weight.t() if experts.is_transposed else weight)(x)
    return result + getattr(experts, f"{name}_bias")[expert] if experts.has_bias else result


ALL_EXPERTS_FUNCTIONS.register(NAME, mix)
