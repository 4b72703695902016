"""The training pass of block drafters: many blocks beside the text that they see.

Parameters have their published names. ``engine.drafting.heads.block`` computes the same for one block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.train.device import MASKED


class Sizes(Protocol):
    """What a recipe says about the network."""

    @property
    def target_layer_ids(self) -> tuple[int, ...]: ...
    @property
    def num_hidden_layers(self) -> int: ...
    @property
    def num_attention_heads(self) -> int: ...
    @property
    def num_key_value_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def intermediate_size(self) -> int: ...
    @property
    def rope_theta(self) -> float: ...
    @property
    def rms_norm_eps(self) -> float: ...
    @property
    def markov_rank(self) -> int: ...


@dataclass(frozen=True, slots=True)
class AnchoredBlocks:
    """``anchors`` (rows, count): positions of the pending tokens; ``real``: not there as filling."""

    anchors: Tensor
    real: Tensor


class BlockNetwork(nn.Module):
    """See the module."""

    def __init__(self, sizes: Sizes, hidden: int, vocabulary: int) -> None:
        super().__init__()
        self.fc = nn.Linear(len(sizes.target_layer_ids) * hidden, hidden, bias=False)
        self.hidden_norm = nn.RMSNorm(hidden, sizes.rms_norm_eps)
        layers = (BlockLayer(sizes, hidden) for _ in range(sizes.num_hidden_layers))
        self.layers = nn.ModuleList(layers)
        self.norm = nn.RMSNorm(hidden, sizes.rms_norm_eps)
        self.markov_head: nn.ModuleDict | None = None
        if sizes.markov_rank:
            before = nn.Embedding(vocabulary, sizes.markov_rank)
            after = nn.Linear(sizes.markov_rank, vocabulary, bias=False)
            nn.init.zeros_(after.weight)  # it begins with nothing to add
            self.markov_head = nn.ModuleDict({"markov_w1": before, "markov_w2": after})
        steps = torch.arange(0, sizes.head_dim, 2) / sizes.head_dim
        self.register_buffer("frequencies", sizes.rope_theta**-steps, persistent=False)

    def forward(self, read: Tensor, anchors: Tensor, embedded: Tensor) -> Tensor:
        """(rows, anchors, block, hidden) behind the last norm, for ``embedded``, which has this shape.

        ``read`` (rows, length, layers * hidden): the target's states of the text.
        """
        length, block = read.shape[1], embedded.shape[2]
        places = torch.arange(length, device=read.device)
        text = self.hidden_norm(self.fc(read))
        text_turns = self._scheduler(places)  # (length, 1, head_dim)
        behind = anchors[:, :, None] + torch.arange(block, device=read.device)
        turns = self._scheduler(behind)  # (rows, anchors, block, 1, head_dim)
        hidden = (places >= anchors[:, :, None])[:, None, :, None]  # (rows, 1, anchors, 1, length)
        state = embedded
        for layer in self.layers:
            state = layer(state, turns, text, text_turns, hidden)
        normed: Tensor = self.norm(state)
        return normed

    def _scheduler(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """(..., 1, head_dim) cosine, and sine with the sign of the rotation in it."""
        angles = positions[..., None, None] * self.get_buffer("frequencies")
        cosine, sine = angles.cos(), angles.sin()
        return torch.cat([cosine, cosine], -1), torch.cat([-sine, sine], -1)


class BlockLayer(nn.Module):
    """One layer of Qwen3's form, whose keys and values come from the text's states, too."""

    def __init__(self, sizes: Sizes, hidden: int) -> None:
        super().__init__()
        self._heads, self._kv_heads = sizes.num_attention_heads, sizes.num_key_value_heads
        self._head_dim = sizes.head_dim
        queries, keys = self._heads * self._head_dim, self._kv_heads * self._head_dim
        width, epsilon = sizes.intermediate_size, sizes.rms_norm_eps
        self.input_layernorm = nn.RMSNorm(hidden, epsilon)
        self.self_attn = nn.ModuleDict(
            {
                "q_proj": nn.Linear(hidden, queries, bias=False),
                "k_proj": nn.Linear(hidden, keys, bias=False),
                "v_proj": nn.Linear(hidden, keys, bias=False),
                "o_proj": nn.Linear(queries, hidden, bias=False),
                "q_norm": nn.RMSNorm(self._head_dim, epsilon),
                "k_norm": nn.RMSNorm(self._head_dim, epsilon),
            }
        )
        self.post_attention_layernorm = nn.RMSNorm(hidden, epsilon)
        self.mlp = nn.ModuleDict(
            {
                "gate_proj": nn.Linear(hidden, width, bias=False),
                "up_proj": nn.Linear(hidden, width, bias=False),
                "down_proj": nn.Linear(width, hidden, bias=False),
            }
        )

    def forward(
        self,
        state: Tensor,
        turns: tuple[Tensor, Tensor],
        text: Tensor,
        text_turns: tuple[Tensor, Tensor],
        hidden: Tensor,
    ) -> Tensor:
        """``hidden`` (rows, 1, anchors, 1, length): what of the text a block does not see."""
        attention, normed = self.self_attn, self.input_layernorm(state)
        query = attention["q_norm"](self._split(attention["q_proj"](normed)))
        query = _turned(query, turns) * self._head_dim**-0.5
        key, value = self._keys_values(normed, turns)
        text_key, text_value = self._keys_values(text, text_turns)
        mixed = self._attend(query, key, value, text_key, text_value, hidden)
        state = state + attention["o_proj"](mixed)
        normed = self.post_attention_layernorm(state)
        gate, up = self.mlp["gate_proj"](normed), self.mlp["up_proj"](normed)
        result: Tensor = state + self.mlp["down_proj"](F.silu(gate) * up)
        return result

    def _keys_values(self, normed: Tensor, turns: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """(..., kv_heads, head_dim) each."""
        attention = self.self_attn
        key = attention["k_norm"](self._split(attention["k_proj"](normed)))
        return _turned(key, turns), self._split(attention["v_proj"](normed))

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], -1, self._head_dim)

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        text_key: Tensor,
        text_value: Tensor,
        hidden: Tensor,
    ) -> Tensor:
        """(rows, anchors, block, heads * head_dim).

        query (rows, anchors, block, heads, head_dim), key and value alike with kv_heads; of the text
        (rows, length, kv_heads, head_dim). Heads that share a key are computed as one taller matrix.
        """
        rows, anchors, block = query.shape[:3]
        grouped = query.unflatten(3, (self._kv_heads, -1)).permute(0, 3, 1, 2, 4, 5)
        grouped = grouped.flatten(3, 4)  # (rows, kv_heads, anchors, block * group, head_dim)
        key, value = (part.permute(0, 3, 1, 2, 4) for part in (key, value))
        text_key, text_value = (part.transpose(1, 2) for part in (text_key, text_value))
        on_text = torch.matmul(grouped.flatten(2, 3), text_key.transpose(2, 3))
        on_text = on_text.unflatten(2, (anchors, -1)).masked_fill(hidden, MASKED)
        on_block = torch.matmul(grouped, key.transpose(3, 4))
        weights = torch.softmax(torch.cat([on_text, on_block], dim=-1), dim=-1)
        of_text, of_block = weights.split([text_key.shape[2], block], dim=-1)
        mixed = torch.matmul(of_text.flatten(2, 3), text_value).unflatten(2, (anchors, -1))
        mixed = mixed + torch.matmul(of_block, value)
        mixed = mixed.unflatten(3, (block, -1)).permute(0, 2, 3, 1, 4, 5)
        joined: Tensor = mixed.reshape(rows, anchors, block, -1)
        return joined


def _turned(x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
    """Rotates pairs that lie half of ``head_dim`` apart."""
    cosine, sine = turns
    half = x.shape[-1] // 2
    return x * cosine + torch.cat([x[..., half:], x[..., :half]], -1) * sine
