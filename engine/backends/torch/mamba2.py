"""Mamba-2 in torch (Dao and Gu 2024, arXiv 2405.21060), with the gated norm of Granite 4's hybrids.

A linear layer gives each row gates, x, B, C and dt. The last rows' x, B and C are convolved. Each head
has a state S (head_dim, state) that takes in one row after the other:

    S <- exp(dt A) S + dt x B^T;  output = S C + D x

Each row is computed in the shapes of one row, so its bits depend on nothing beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.backends.torch.recurrence import RecurrentState
from engine.models.architecture import Mamba2
from engine.models.weights import Mamba2Weights


@dataclass(frozen=True, slots=True)
class Row:
    """One row's update of the state, float32: enough to apply it to another state again."""

    inputs: Tensor  # (channels,): for the convolution of later rows
    update: Tensor  # (heads, head_dim): dt x
    key: Tensor  # (heads, state): B
    decay: Tensor  # (heads,)


@dataclass(frozen=True, slots=True)
class Memory:
    """The state after some rows. ``past`` (kernel - 1, channels): the convolution's last inputs."""

    past: Tensor
    state: Tensor  # (heads, head_dim, state)

    @classmethod
    def empty(cls, spec: Mamba2, device: torch.device) -> Memory:
        return cls(
            torch.zeros(spec.kernel - 1, spec.channels, device=device),
            torch.zeros(spec.heads, spec.head_dim, spec.state, device=device),
        )

    @property
    def bytes(self) -> int:
        return self.past.nbytes + self.state.nbytes

    def after(self, row: Row) -> Memory:
        """Return the memory after one more row."""
        state = self.state * row.decay[:, None, None] + row.update[:, :, None] * row.key[:, None, :]
        return Memory(torch.cat([self.past[1:], row.inputs[None]]), state)


def mix(
    weights: Mamba2Weights,
    spec: Mamba2,
    x: Tensor,
    state: RecurrentState[Memory],
    epsilon: float,
    *,
    final: bool,
) -> Tensor:
    """Return the mixer's result (rows, hidden) for normed ``x``, and apply its rows to ``state``."""
    parts = [spec.values, spec.channels, spec.heads]
    gates, inputs, steps = weights.inputs(x).float().split(parts, dim=1)
    results = []
    for row in range(len(x)):
        window = torch.cat([state.tip.past, inputs[row : row + 1]])  # (kernel, channels)
        convolved = F.silu((window * weights.convolution).sum(0) + weights.convolution_bias)
        keys = spec.groups * spec.state
        values, key, query = convolved.split([spec.values, keys, keys])
        values = values.view(spec.heads, spec.head_dim)
        key, query = (_by_head(each, spec) for each in (key, query))
        step = F.softplus(steps[row] + weights.step_bias)
        decay = (weights.decay * step).exp()
        state.append(Row(inputs[row], values * step[:, None], key, decay), final=final)
        output = (state.tip.state * query[:, None, :]).sum(-1) + values * weights.skip[:, None]
        gated = (output.flatten() * F.silu(gates[row])).view(spec.groups, -1)
        normed = F.rms_norm(gated, gated.shape[-1:], None, epsilon).flatten()
        results.append(normed * weights.norm)
    return weights.output(torch.stack(results).to(x.dtype))


def _by_head(x: Tensor, spec: Mamba2) -> Tensor:
    """Return what heads of a group share, for each of them: (heads, state)."""
    return x.view(spec.groups, spec.state).repeat_interleave(spec.heads // spec.groups, 0)
