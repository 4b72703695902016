"""The training pass of block drafters: many blocks, each with the text that it sees.

Parameters have their published names. ``engine.drafting.heads.block`` computes the same for one block.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from engine.train.device import MASKED
from engine.train.heads.modules import Attention, FeedForward, Rotary, apply_rotary, rotary_of
from engine.train.schema import need_sizes


@dataclass(frozen=True, slots=True)
class BlockShape:
    """Keys are those of the published config.json, but for the last two.

    ``target_layer_ids``: the target's layers whose output is read; by default those of EAGLE-3, and the
    last. ``mask_token_id``: by default the target's last token, which it rarely uses.
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

    def __post_init__(self) -> None:
        """Raise RecipeError for sizes below 1."""
        need_sizes(
            self, "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
            "intermediate_size", "anchors",
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class AnchoredBlocks:
    """``anchors`` (rows, count): positions of the pending tokens; ``real``: False for padding."""

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
            nn.init.zeros_(after.weight)  # adds nothing at first
            self.markov_head = nn.ModuleDict({"markov_w1": before, "markov_w2": after})
        steps = torch.arange(0, shape.head_dim, 2) / shape.head_dim
        self.register_buffer("frequencies", shape.rope_theta**-steps, persistent=False)

    def forward(self, read: Tensor, anchors: Tensor, embedded: Tensor) -> Tensor:
        """Return the states behind the last norm, in the shape of ``embedded``.

        embedded (rows, anchors, block, hidden): the blocks' tokens.
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

    def _rotary(self, positions: Tensor) -> Rotary:
        """Return ``rotary`` of shape (..., 1, head_dim): the same for all heads."""
        return rotary_of(positions[..., None], self.get_buffer("frequencies"))


class NormedAttention(Attention):
    """With norms of queries and keys, as in Qwen3."""

    def __init__(
        self, width: int, heads: int, kv_heads: int, head_dim: int, epsilon: float
    ) -> None:
        super().__init__(width, width, heads, kv_heads, head_dim)
        self.q_norm, self.k_norm = (nn.RMSNorm(head_dim, epsilon) for _ in "qk")

    def project(self, name: str, x: Tensor) -> Tensor:
        projected = super().project(name, x)
        return projected if name == "v" else self.get_submodule(f"{name}_norm")(projected)


class BlockLayer(nn.Module):
    """One layer of Qwen3's form, with keys and values of the text's states too."""

    def __init__(self, shape: BlockShape, hidden: int) -> None:
        super().__init__()
        heads, self._kv_heads = shape.num_attention_heads, shape.num_key_value_heads
        self._head_dim, epsilon = shape.head_dim, shape.rms_norm_eps
        self.input_layernorm = nn.RMSNorm(hidden, epsilon)
        self.self_attn = NormedAttention(hidden, heads, self._kv_heads, self._head_dim, epsilon)
        self.post_attention_layernorm = nn.RMSNorm(hidden, epsilon)
        self.mlp = FeedForward(hidden, shape.intermediate_size)

    def forward(
        self, state: Tensor, rotary: Rotary, text: Tensor, text_rotary: Rotary, hidden: Tensor
    ) -> Tensor:
        """Return the layer's output for ``state`` (rows, anchors, block, width).

        ``hidden`` (rows, 1, anchors, 1, length): the text's tokens that a block does not see.
        """
        normed = self.input_layernorm(state)
        query = apply_rotary(self.self_attn.project("q", normed), rotary) * self._head_dim**-0.5
        key, value = self._keys_values(normed, rotary)
        text_key, text_value = self._keys_values(text, text_rotary)
        mixed = self._attend(query, key, value, text_key, text_value, hidden)
        state = state + self.self_attn.o_proj(mixed)
        result: Tensor = state + self.mlp(self.post_attention_layernorm(state))
        return result

    def _keys_values(self, normed: Tensor, rotary: Rotary) -> tuple[Tensor, Tensor]:
        """Return keys and values (..., kv_heads, head_dim)."""
        key = apply_rotary(self.self_attn.project("k", normed), rotary)
        return key, self.self_attn.project("v", normed)

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        text_key: Tensor,
        text_value: Tensor,
        hidden: Tensor,
    ) -> Tensor:
        """Return the attention of all blocks: (rows, anchors, block, heads * head_dim).

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
