"""EAGLE-3's layer in training: the training-time test, from many positions at once.

See arXiv 2503.01840, section 3.2, figure 6. At step 0 row i has the target's state of token i; at step k
it has its own output of step k - 1, one token further on. It attends to the rows of step 0 up to its own
and to its own later steps, which is what the cache holds in drafting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from engine.train.device import MASKED
from engine.train.heads.modules import Attention, FeedForward, apply_rotary, linear, rotary_of

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
        """Move ``x`` (starts, heads, dim) to (rows, heads, most in a row, dim); zeros are padding."""
        size = int(self.row[-1]) + 1, int(self.slot.max()) + 1
        wide = x.new_zeros(*size, *x.shape[1:]).index_put((self.row, self.slot), x)
        return wide.transpose(1, 2)

    def gather(self, wide: Tensor) -> Tensor:
        """Return the starts of ``wide`` (rows, most in a row, width): (starts, width)."""
        return wide[self.row, self.slot]

    def past(self, length: int, like: Tensor) -> Tensor:
        """Return the mask (rows, most in a row, length): 0 up to each start's place, then MASKED."""
        places = self.spread(self.place[:, None, None])[:, 0]
        future = torch.arange(length, device=places.device) > places
        return like.new_zeros(future.shape).masked_fill_(future, MASKED)


class Layer(nn.Module):
    """One decoder layer, whose attention takes embeddings and states side by side."""

    def __init__(self, width: int, inner: int, heads: int, kv_heads: int, head_dim: int) -> None:
        super().__init__()
        self.head_dim = head_dim
        self.hidden_norm = nn.RMSNorm(width, EPSILON)
        self.input_layernorm = nn.RMSNorm(width, EPSILON)
        self.post_attention_layernorm = nn.RMSNorm(width, EPSILON)
        self.self_attn = Attention(2 * width, width, heads, kv_heads, head_dim)
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
        project = self.self_attn.project
        x = self._input(embedded[:, :length], state)
        keys = apply_rotary(project("k", x), (cosine[:length, None], sine[:length, None]))
        keys, values = keys.transpose(1, 2), project("v", x).transpose(1, 2)
        mask = starts.past(length, state)
        x, state = x[row, place], state[row, place]
        own: list[tuple[Tensor, Tensor]] = []
        for step in range(steps):
            rotary = cosine[place + step, None], sine[place + step, None]
            if step:
                x = self._input(embedded[row, place + step], state)
                key = apply_rotary(project("k", x), rotary)
                own.append((starts.spread(key), starts.spread(project("v", x))))
            query = apply_rotary(project("q", x), rotary) * self.head_dim**-0.5
            seen = starts.gather(attend(starts.spread(query), keys, values, own, mask))
            state = state + linear(self.self_attn.o_proj, seen)
            state = state + self.mlp(_norm(self.post_attention_layernorm, state))
            yield state

    def _input(self, embedded: Tensor, state: Tensor) -> Tensor:
        """Return the input of the projections: (..., 2 * width)."""
        token = _norm(self.input_layernorm, embedded.to(state.dtype))
        return torch.cat([token, _norm(self.hidden_norm, state)], dim=-1)


def attend(
    query: Tensor, keys: Tensor, values: Tensor, own: Sequence[tuple[Tensor, Tensor]], mask: Tensor
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


def _norm(norm: nn.RMSNorm, x: Tensor) -> Tensor:
    normed: Tensor = norm(x.float())
    return normed.to(x.dtype)
