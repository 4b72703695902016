"""The own decoder: the Llama architecture, row by row the same bits.

Source of the architecture: Touvron et al. 2023; tensor names are those of transformers' LlamaForCausalLM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.cache import KVCache
from engine.kernels.cpu.attention import causal_bias, choose_attend
from engine.kernels.cpu.linear import Linear, make_linear
from engine.models.base import Cache, ModelInfo
from engine.models.rope import interleave, rotations

PREFILL_ROWS = 128
"""Rows of one prefill step: enough to be limited by arithmetic, few enough for small buffers."""

TensorSource = Callable[[str], Tensor]
"""Fetches a tensor by name, in the dtype and on the device the model computes in."""


@dataclass(frozen=True, slots=True)
class LlamaShape:
    """The sizes in config.json that the forward pass depends on."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    context: int
    epsilon: float
    tied: bool

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> LlamaShape:
        heads = int(config["num_attention_heads"])
        hidden = int(config["hidden_size"])
        return cls(
            layers=int(config["num_hidden_layers"]),
            hidden=hidden,
            heads=heads,
            kv_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=int(config.get("head_dim") or hidden // heads),
            vocabulary=int(config["vocab_size"]),
            context=int(config.get("max_position_embeddings", 2048)),
            epsilon=float(config.get("rms_norm_eps", 1e-6)),
            tied=bool(config.get("tie_word_embeddings", False)),
        )


def tensor_shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The tensors that this decoder reads, and the shapes they must have."""
    shape = LlamaShape.of(config)
    hidden, width = shape.hidden, int(config["intermediate_size"])
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    layer: dict[str, tuple[int, ...]] = {
        "input_layernorm": (hidden,),
        "self_attn.q_proj": (queries, hidden),
        "self_attn.k_proj": (keys, hidden),
        "self_attn.v_proj": (keys, hidden),
        "self_attn.o_proj": (hidden, queries),
        "post_attention_layernorm": (hidden,),
        "mlp.gate_proj": (width, hidden),
        "mlp.up_proj": (width, hidden),
        "mlp.down_proj": (hidden, width),
    }
    shapes = {
        f"model.layers.{index}.{name}.weight": size
        for index in range(shape.layers)
        for name, size in layer.items()
    }
    shapes |= {
        "model.embed_tokens.weight": (shape.vocabulary, hidden),
        "model.norm.weight": (hidden,),
    }
    if not shape.tied:
        shapes["lm_head.weight"] = (shape.vocabulary, hidden)
    return shapes


@dataclass(frozen=True, slots=True)
class Layer:
    """One block's weights, ready to multiply."""

    attention_norm: Tensor
    qkv: Linear  # hidden -> (heads + 2 * kv_heads) * head_dim
    output: Linear
    mlp_norm: Tensor
    gate_up: Linear  # hidden -> 2 * intermediate
    down: Linear


class Llama:
    """A Llama-family decoder for one sequence, up to 16 rows a step, more in prefill."""

    def __init__(self, config: Mapping[str, Any], tensor: TensorSource, info: ModelInfo) -> None:
        self.shape = LlamaShape.of(config)
        self._info = info
        self.embedding = tensor("model.embed_tokens.weight")  # (vocabulary, hidden)
        self.dtype, self.device = self.embedding.dtype, self.embedding.device
        self.layers = [
            _load_layer(self.shape, f"model.layers.{index}.", tensor)
            for index in range(self.shape.layers)
        ]
        self.norm = tensor("model.norm.weight")
        self.head = make_linear(self.embedding if self.shape.tied else tensor("lm_head.weight"))
        self.attend = choose_attend(
            self.shape.heads, self.shape.kv_heads, self.shape.head_dim, self.dtype, self.device
        )
        self.rotation = rotations(config, self.shape.head_dim, info.context).to(self.device)

    @property
    def info(self) -> ModelInfo:
        return self._info

    def new_cache(self, context: int) -> KVCache:
        shape = self.shape
        return KVCache(
            layers=shape.layers,
            kv_heads=shape.kv_heads,
            head_dim=shape.head_dim,
            context=context,
            dtype=self.dtype,
            device=self.device,
        )

    @torch.inference_mode()
    def forward(self, tokens: Sequence[int], cache: Cache, *, last: int) -> Tensor:
        """See ``Model.forward``. Long inputs run in steps of ``PREFILL_ROWS``."""
        assert isinstance(cache, KVCache)
        ids = torch.tensor(tokens, dtype=torch.long, device=self.device)
        hidden = torch.empty(0, self.shape.hidden, dtype=self.dtype, device=self.device)
        kept = []
        for part in ids.split(PREFILL_ROWS):
            hidden = self._step(part, cache)
            cache.length += len(part)
            kept.append(hidden)
        if not last:
            return torch.empty(0, self.shape.vocabulary, device=self.device)
        hidden = (hidden if last <= len(hidden) else torch.cat(kept))[-last:]
        return self.head(self._normed(hidden, self.norm)).float()

    def _step(self, ids: Tensor, cache: KVCache) -> Tensor:
        """Runs the blocks on ``ids (rows,)`` at ``cache.length``; returns hidden (rows, hidden)."""
        start, rows = cache.length, len(ids)
        end = start + rows
        group = self.shape.heads // self.shape.kv_heads
        keys, _ = cache.blocks(0, end)
        bias = causal_bias(start, rows, group, len(keys), keys)
        rotation = self.rotation[start:end, None, :]  # (rows, 1, head_dim / 2)
        x = F.embedding(ids, self.embedding)
        for index, layer in enumerate(self.layers):
            x = x + self._attention(index, layer, x, cache, rotation, bias)
            gate, up = layer.gate_up(self._normed(x, layer.mlp_norm)).chunk(2, dim=-1)
            x = x + layer.down(F.silu(gate) * up)
        return x

    def _attention(
        self, index: int, layer: Layer, x: Tensor, cache: KVCache, rotation: Tensor, bias: Tensor
    ) -> Tensor:
        shape, start = self.shape, cache.length
        rows = x.shape[0]
        rotated = shape.heads + shape.kv_heads
        qkv = layer.qkv(self._normed(x, layer.attention_norm))
        qkv = qkv.view(rows, rotated + shape.kv_heads, shape.head_dim)
        pairs = qkv[:, :rotated].float().view(rows, rotated, shape.head_dim // 2, 2)
        turned = torch.view_as_real(torch.view_as_complex(pairs) * rotation)
        turned = turned.view(rows, rotated, shape.head_dim).to(x.dtype)
        query, key = turned.split((shape.heads, shape.kv_heads), dim=1)
        cache.write(index, start, key, qkv[:, rotated:])
        keys, values = cache.blocks(index, start + rows)
        return layer.output(self.attend(query.contiguous(), keys, values, bias))

    def _normed(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, (self.shape.hidden,), weight, self.shape.epsilon)


def _load_layer(shape: LlamaShape, prefix: str, tensor: TensorSource) -> Layer:
    query = tensor(f"{prefix}self_attn.q_proj.weight")
    query = interleave(query, shape.heads) * shape.head_dim**-0.5
    key = interleave(tensor(f"{prefix}self_attn.k_proj.weight"), shape.kv_heads)
    value = tensor(f"{prefix}self_attn.v_proj.weight")
    gate, up = (tensor(f"{prefix}mlp.{name}_proj.weight") for name in ("gate", "up"))
    return Layer(
        attention_norm=tensor(f"{prefix}input_layernorm.weight"),
        qkv=make_linear(torch.cat([query.to(key.dtype), key, value])),
        output=make_linear(tensor(f"{prefix}self_attn.o_proj.weight")),
        mlp_norm=tensor(f"{prefix}post_attention_layernorm.weight"),
        gate_up=make_linear(torch.cat([gate, up])),
        down=make_linear(tensor(f"{prefix}mlp.down_proj.weight")),
    )
