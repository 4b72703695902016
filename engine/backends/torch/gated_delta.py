"""The gated delta net in torch: one formula for prompts, decoding and verification.

Yang, Kautz, Hatamizadeh 2024 (arXiv 2412.06464), with the convolution and the gated norm of Qwen3-Next
and Qwen3.5. Rows update a state S (value_heads, key_dim, value_dim) one after the other:

    S <- exp(g) S;  S <- S + k (beta (v - S^T k))^T;  output = S^T q

Each row is computed in the shapes of one row, so its bits depend on nothing beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.backends.torch.recurrence import RecurrentState
from engine.models.architecture import GatedDeltaNet
from engine.models.weights import GatedDeltaWeights

_L2_EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class Factors:
    """One row's update of the state, float32: enough to apply it to another state again."""

    inputs: Tensor  # (channels,): for the convolution of later rows
    key: Tensor  # (value_heads, key_dim)
    value: Tensor  # (value_heads, value_dim)
    decay: Tensor  # (value_heads,)
    beta: Tensor  # (value_heads,)


@dataclass(frozen=True, slots=True)
class Memory:
    """The state after some rows. ``past`` (channels, kernel - 1): the convolution's last inputs."""

    past: Tensor
    state: Tensor  # (value_heads, key_dim, value_dim)

    @classmethod
    def empty(cls, spec: GatedDeltaNet, device: torch.device) -> Memory:
        return cls(
            torch.zeros(spec.channels, spec.kernel - 1, device=device),
            torch.zeros(spec.value_heads, spec.key_dim, spec.value_dim, device=device),
        )

    @property
    def bytes(self) -> int:
        return self.past.nbytes + self.state.nbytes

    def after(self, row: Factors) -> Memory:
        """Return the memory after one more row."""
        decayed = self.state * row.decay[:, None, None]
        predicted = (decayed * row.key[:, :, None]).sum(1)
        delta = (row.value - predicted) * row.beta[:, None]
        state = decayed + row.key[:, :, None] * delta[:, None, :]
        return Memory(torch.cat([self.past[:, 1:], row.inputs[:, None]], 1), state)


def mix(
    weights: GatedDeltaWeights,
    spec: GatedDeltaNet,
    x: Tensor,
    state: RecurrentState[Memory],
    epsilon: float,
    *,
    final: bool,
) -> Tensor:
    """Return the mixer's result (rows, hidden) for normed ``x``, and apply its rows to ``state``."""
    parts = [spec.channels, spec.values, 2 * spec.value_heads]
    inputs, gates, rates = weights.inputs(x).float().split(parts, dim=1)
    results = []
    for row in range(len(x)):
        alpha, beta = rates[row].chunk(2)
        query, factors = _factors(weights, spec, inputs[row], alpha, beta, state.tip.past)
        state.append(factors, final=final)
        result = (state.tip.state * query[:, :, None]).sum(1)  # (value_heads, value_dim)
        gate = gates[row].view_as(result)
        result = F.rms_norm(result, result.shape[-1:], weights.norm, epsilon) * F.silu(gate)
        results.append(result.flatten())
    return weights.output(torch.stack(results).to(x.dtype))


def _factors(
    weights: GatedDeltaWeights,
    spec: GatedDeltaNet,
    inputs: Tensor,
    alpha: Tensor,
    beta: Tensor,
    past: Tensor,
) -> tuple[Tensor, Factors]:
    """Return the scaled query (value_heads, key_dim) and the factors of one row."""
    window = torch.cat([past, inputs[:, None]], 1)  # (channels, kernel)
    convolved = F.silu((window * weights.convolution.T).sum(1))
    keys = spec.key_heads * spec.key_dim
    query, key, value = convolved.split([keys, keys, spec.values])
    group = spec.value_heads // spec.key_heads
    query, key = (_unit(each.view(spec.key_heads, spec.key_dim)) for each in (query, key))
    if spec.tiled:
        query, key = query.repeat(group, 1), key.repeat(group, 1)
    else:
        query, key = query.repeat_interleave(group, 0), key.repeat_interleave(group, 0)
    decay = (weights.decay * F.softplus(alpha + weights.decay_bias)).exp()
    values = value.view(spec.value_heads, spec.value_dim)
    return query * spec.key_dim**-0.5, Factors(inputs, key, values, decay, beta.sigmoid())


def _unit(x: Tensor) -> Tensor:
    """Return heads ``(heads, width)`` scaled to length one."""
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + _L2_EPSILON)
