"""EAGLE-3's layer in training: the training-time test, from many positions at once.

See arXiv 2503.01840, section 3.2, figure 6. At step 0 row i has the target's state of token i; at step k
it has its own output of step k - 1, one token further on. It attends to the rows of step 0 up to its own
and to its own later steps, which is what the cache holds in drafting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.train.device import MASKED
from engine.train.heads.rotary import apply_rotary, rotary_of

EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class Starts:
    """Where drafts start: ``place`` in ``row``, both (starts,) int64, row by row.

    Attention takes them as (rows, most in a row), with start ``slot`` of its row.
    """

    row: Tensor
    place: Tensor
    slot: Tensor

    @classmethod
    def where(cls, marked: Tensor) -> Starts:
        """Start where ``marked`` (rows, length) is True."""
        row, place = marked.nonzero(as_tuple=True)
        return cls(row, place, marked.long().cumsum(1)[row, place] - 1)

    def spread(self, x: Tensor) -> Tensor:
        """(starts, heads, dim) -> (rows, heads, most in a row, dim), zeros where there are fewer."""
        size = int(self.row[-1]) + 1, int(self.slot.max()) + 1
        wide = x.new_zeros(*size, *x.shape[1:]).index_put((self.row, self.slot), x)
        return wide.transpose(1, 2)

    def gather(self, wide: Tensor) -> Tensor:
        """(rows, most in a row, width) -> (starts, width)."""
        return wide[self.row, self.slot]

    def past(self, length: int, like: Tensor) -> Tensor:
        """(rows, most in a row, length): 0 up to each start's place, MASKED behind it."""
        places = self.spread(self.place[:, None, None])[:, 0]
        future = torch.arange(length, device=places.device) > places
        return like.new_zeros(future.shape).masked_fill_(future, MASKED)


class Attention(nn.Module):
    """The projections of self-attention whose input is ``2 * width`` wide."""

    def __init__(self, width: int, heads: int, kv_heads: int, head_dim: int) -> None:
        super().__init__()
        self.q_proj = nn.Linear(2 * width, heads * head_dim, bias=False)
        self.k_proj = nn.Linear(2 * width, kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(2 * width, kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(heads * head_dim, width, bias=False)


class FeedForward(nn.Module):
    """The projections of a gated feed-forward layer."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)


class Layer(nn.Module):
    """One decoder layer; its parameters have their published names."""

    def __init__(self, width: int, inner: int, heads: int, kv_heads: int, head_dim: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        self.hidden_norm = nn.RMSNorm(width, EPSILON)
        self.input_layernorm = nn.RMSNorm(width, EPSILON)
        self.post_attention_layernorm = nn.RMSNorm(width, EPSILON)
        self.self_attn = Attention(width, heads, kv_heads, head_dim)
        self.mlp = FeedForward(width, inner)

    def unroll(
        self, embedded: Tensor, state: Tensor, starts: Starts, steps: int, theta: float
    ) -> Iterator[Tensor]:
        """Yield the output at ``starts`` of steps 0, 1, ...: (starts, width).

        embedded (rows, length + steps, width): of token i + 1 at place i. state (rows, length, width)
        of all tokens, in the dtype of the pass.
        """
        length, row, place = state.shape[1], starts.row, starts.place
        frequencies = theta ** -(torch.arange(0, self.head_dim, 2) / self.head_dim)
        cosine, sine = (
            part.to(state) for part in rotary_of(torch.arange(length + steps), frequencies)
        )
        x = self._input(embedded[:, :length], state)
        keys = apply_rotary(self._heads("k", x), (cosine[:length, None], sine[:length, None]))
        values = self._heads("v", x)
        keys, values = keys.transpose(1, 2), values.transpose(1, 2)
        mask = starts.past(length, state)
        x, state = x[row, place], state[row, place]
        own: list[tuple[Tensor, Tensor]] = []
        for step in range(steps):
            rotary = cosine[place + step, None], sine[place + step, None]
            if step:
                x = self._input(embedded[row, place + step], state)
                key, value = apply_rotary(self._heads("k", x), rotary), self._heads("v", x)
                own.append((starts.spread(key), starts.spread(value)))
            query = apply_rotary(self._heads("q", x), rotary) * self.head_dim**-0.5
            seen = starts.gather(attend(starts.spread(query), keys, values, own, mask))
            state = state + _linear(self.self_attn.o_proj, seen)
            normed = _norm(self.post_attention_layernorm, state)
            gate = F.silu(_linear(self.mlp.gate_proj, normed))
            inner = gate * _linear(self.mlp.up_proj, normed)
            state = state + _linear(self.mlp.down_proj, inner)
            yield state

    def _input(self, embedded: Tensor, state: Tensor) -> Tensor:
        """Return the input of the projections: (..., 2 * width)."""
        token = _norm(self.input_layernorm, embedded.to(state.dtype))
        return torch.cat([token, _norm(self.hidden_norm, state)], dim=-1)

    def _heads(self, name: str, x: Tensor) -> Tensor:
        """(..., heads, head_dim)."""
        projection = self.self_attn.get_submodule(f"{name}_proj")
        assert isinstance(projection, nn.Linear)
        parted: Tensor = _linear(projection, x).unflatten(-1, (-1, self.head_dim))
        return parted


def attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    own: Sequence[tuple[Tensor, Tensor]],
    mask: Tensor,
) -> Tensor:
    """Attend from each query to step 0's rows in its past, and to its own later steps.

    query (rows, heads, count, dim), scaled; keys, values (rows, kv heads, length, dim); ``own``: keys
    and values of each later step (rows, kv heads, count, dim); mask (rows, count, length), added.
    Returns (rows, count, heads * dim).
    """
    rows, heads, count, dim = query.shape
    length, shared = keys.shape[2], keys.shape[1]
    grouped = query.reshape(rows, shared, heads // shared, count, dim)
    scores = grouped.flatten(2, 3) @ keys.transpose(2, 3)
    scores = scores.view(rows, shared, -1, count, length) + mask[:, None, None]
    to_own = [(grouped * key[:, :, None]).sum(-1, keepdim=True) for key, _ in own]
    weights = torch.softmax(torch.cat([scores, *to_own], dim=4).float(), dim=4).to(query.dtype)
    mixed = weights[..., :length].flatten(2, 3) @ values
    mixed = mixed.view(rows, shared, -1, count, dim)
    for place, (_, value) in enumerate(own, length):
        mixed = mixed + weights[..., place : place + 1] * value[:, :, None]
    return mixed.permute(0, 3, 1, 2, 4).reshape(rows, count, -1)


def _linear(linear: nn.Linear, x: Tensor) -> Tensor:
    return F.linear(x, linear.weight.to(x.dtype))


def _norm(norm: nn.RMSNorm, x: Tensor) -> Tensor:
    normed: Tensor = norm(x.float())
    return normed.to(x.dtype)
