"""Mixtures of experts for the adapter: a row's bits do not depend on how other rows are routed.

In transformers an expert multiplies all rows that chose it at once, and BLAS takes another path for
another number of rows: a token's logits would depend on the routing of the tokens drafted after it. Here
experts use the own decoder's linear layers, and a row's results are added in the order of its choices.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

from engine.backends.torch.experts import add_chosen
from engine.kernels.torch.linear import make_unpacked

NAME = "row_independent"
"""The name for ``PreTrainedModel.set_experts_implementation``."""


def mix(experts: Any, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
    """Run ``hidden_states (rows, hidden)`` through the experts that each row chose.

    ``experts`` is a module of transformers' ``use_experts_implementation``, which calls this with these
    argument names; choices and their weights are (rows, choices).
    """
    total = add_chosen(partial(_run, experts), hidden_states, top_k_index, top_k_weights)
    return total.to(hidden_states.dtype)


def _run(experts: Any, expert: int, x: Tensor) -> Tensor:
    """Return one expert's result for ``x (rows, hidden)``."""
    if getattr(experts, "has_gate", True):
        x = experts._apply_gate(_linear(experts, "gate_up_proj", expert, x))
    else:
        x = experts.act_fn(_linear(experts, "up_proj", expert, x))
    x = _linear(experts, "down_proj", expert, x)
    if getattr(experts, "has_post_expert_norm", False):
        x = experts.post_expert_norm(x)
    return x


def _linear(experts: Any, name: str, expert: int, x: Tensor) -> Tensor:
    weight = getattr(experts, name)[expert]
    result = make_unpacked(weight.t() if experts.is_transposed else weight)(x)
    return result + getattr(experts, f"{name}_bias")[expert] if experts.has_bias else result


ALL_EXPERTS_FUNCTIONS.register(NAME, mix)
