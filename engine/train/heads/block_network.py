"""The training pass of block drafters: many blocks beside the text that they see.

Parameters have their published names. ``engine.drafting.heads.block`` computes the same for one block.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.train.device import MASKED
from engine.train.heads.rotary import apply_rotary, rotary_of


@dataclass(frozen=True, slots=True)
class BlockShape:
    """Keys are those of the published config.json, but for the last two.

    ``target_layer_ids``: layers of the target by what leaves them; none are those that EAGLE-3 reads, and
    the last. ``mask_token_id``: none is the target's last token, which is seldom one that it says.
    ``anchors``: blocks in a row of a batch, at most.
    """

    target_layer_ids: tuple[int, ...] = ()
    mask_token_id: int | None = None
    block_size: int = 7
    num_hidden_layers: int = 1
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 64
    intermediate_size: int = 384
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-6
    markov_rank: int = 0
    anchors: int = 24
    decay: float = 4.0


@dataclass(frozen=True, slots=True)
class AnchoredBlocks:
    """``anchors`` (rows, count): positions of the pending tokens; ``real``: not there as filling."""

    anchors: Tensor
    real: Tensor


class BlockNetwork(nn.Module):
    """See the module."""

    def __init__(self, shape: BlockShape, hidden: int, vocabulary: int) -> None:
        super().__init__()
        self.fc = nn.Linear(len(shape.target_layer_ids) * hidden, hidden, bias=False)
        self.hidden_norm = nn.RMSNorm(hidden, shape.rms_norm_eps)
        layers = (BlockLayer(shape, hidden) for _ in range(shape.num_hidden_layers))
        self.layers = nn.ModuleList(layers)
        self.norm = nn.RMSNorm(hidden, shape.rms_norm_eps)
        self.markov_head: nn.ModuleDict | None = None
        if shape.markov_rank:
            before = nn.Embedding(vocabulary, shape.markov_rank)
            after = nn.Linear(shape.markov_rank, vocabulary, bias=False)
            nn.init.zeros_(after.weight)  # it begins with nothing to add
            self.markov_head = nn.ModuleDict({"markov_w1": before, "markov_w2": after})
        steps = torch.arange(0, shape.head_dim, 2) / shape.head_dim
        self.register_buffer("frequencies", shape.rope_theta**-steps, persistent=False)

    def forward(self, read: Tensor, anchors: Tensor, embedded: Tensor) -> Tensor:
        """(rows, anchors, block, hidden) behind the last norm, for ``embedded``, which has this shape.

        ``read`` (rows, length, layers * hidden): the target's states of the text.
        """
        length, block = read.shape[1], embedded.shape[2]
        places = torch.arange(length, device=read.device)
        text = self.hidden_norm(self.fc(read))
        text_rotary = self._rotary(places)  # (length, 1, head_dim)
        behind = anchors[:, :, None] + torch.arange(block, device=read.device)
        rotary = self._rotary(behind)  # (rows, anchors, block, 1, head_dim)
        hidden = (places >= anchors[:, :, None])[:, None, :, None]  # (rows, 1, anchors, 1, length)
        state = embedded
        for layer in self.layers:
            state = layer(state, rotary, text, text_rotary, hidden)
        normed: Tensor = self.norm(state)
        return normed

    def _rotary(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``rotary`` of shape (..., 1, head_dim): the same for all heads."""
        return rotary_of(positions[..., None], self.get_buffer("frequencies"))


class BlockLayer(nn.Module):
    """One layer of Qwen3's form, whose keys and values come from the text's states, too."""

    def __init__(self, shape: BlockShape, hidden: int) -> None:
        super().__init__()
        self._heads, self._kv_heads = shape.num_attention_heads, shape.num_key_value_heads
        self._head_dim = shape.head_dim
        queries, keys = self._heads * self._head_dim, self._kv_heads * self._head_dim
        width, epsilon = shape.intermediate_size, shape.rms_norm_eps
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
        rotary: tuple[Tensor, Tensor],
        text: Tensor,
        text_rotary: tuple[Tensor, Tensor],
        hidden: Tensor,
    ) -> Tensor:
        """``hidden`` (rows, 1, anchors, 1, length): what of the text a block does not see."""
        attention, normed = self.self_attn, self.input_layernorm(state)
        query = attention["q_norm"](self._split(attention["q_proj"](normed)))
        query = apply_rotary(query, rotary) * self._head_dim**-0.5
        key, value = self._keys_values(normed, rotary)
        text_key, text_value = self._keys_values(text, text_rotary)
        mixed = self._attend(query, key, value, text_key, text_value, hidden)
        state = state + attention["o_proj"](mixed)
        normed = self.post_attention_layernorm(state)
        gate, up = self.mlp["gate_proj"](normed), self.mlp["up_proj"](normed)
        result: Tensor = state + self.mlp["down_proj"](F.silu(gate) * up)
        return result

    def _keys_values(self, normed: Tensor, rotary: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """(..., kv_heads, head_dim) each."""
        attention = self.self_attn
        key = attention["k_norm"](self._split(attention["k_proj"](normed)))
        return apply_rotary(key, rotary), self._split(attention["v_proj"](normed))

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
