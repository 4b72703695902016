"""Models of known shapes with random weights: what a step costs does not depend on the words.

Written as real checkpoints in transformers' layout, a tensor at a time, so that every engine loads
them as it loads any other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

SHARD_BYTES = 500_000_000


@dataclass(frozen=True, slots=True)
class Shape:
    """A Llama with tied embeddings."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    intermediate: int
    vocabulary: int = 128_256
    head_dim: int = 64
    context: int = 2048


LLAMA_1B = Shape(hidden=2048, layers=16, heads=32, kv_heads=8, intermediate=8192)
"""Llama-3.2-1B: 1.24 B parameters."""
DRAFT_60M = Shape(hidden=384, layers=7, heads=6, kv_heads=2, intermediate=1024)
"""60 M parameters, most of them the embedding that it needs for the same vocabulary."""


def write(shape: Shape, folder: Path, seed: int = 0, shard_bytes: int = SHARD_BYTES) -> None:
    """A checkpoint in bf16 with a tokenizer of as many tokens, which are no words."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(_config(shape)))
    (folder / "tokenizer.json").write_text(json.dumps(_tokenizer(shape.vocabulary)))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    weight_map: dict[str, str] = {}
    held: dict[str, Tensor] = {}

    def flush() -> None:
        file = f"model-{len(set(weight_map.values())) + 1:05}.safetensors"
        save_file(held, folder / file, metadata={"format": "pt"})
        weight_map.update(dict.fromkeys(held, file))
        held.clear()

    for name, tensor in _tensors(shape, seed):
        held[name] = tensor
        if sum(one.nbytes for one in held.values()) >= shard_bytes:
            flush()
    if held:
        flush()
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def _tensors(shape: Shape, seed: int) -> Iterator[tuple[str, Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    hidden, width = shape.hidden, shape.intermediate
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim

    def matrix(rows: int, columns: int) -> Tensor:
        values = torch.empty(rows, columns, dtype=torch.bfloat16)
        return values.normal_(std=0.02, generator=generator)

    yield "model.embed_tokens.weight", matrix(shape.vocabulary, hidden)
    for index in range(shape.layers):
        layer = f"model.layers.{index}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"{layer}{norm}.weight", torch.ones(hidden, dtype=torch.bfloat16)
        yield f"{layer}self_attn.q_proj.weight", matrix(queries, hidden)
        yield f"{layer}self_attn.k_proj.weight", matrix(keys, hidden)
        yield f"{layer}self_attn.v_proj.weight", matrix(keys, hidden)
        yield f"{layer}self_attn.o_proj.weight", matrix(hidden, queries)
        yield f"{layer}mlp.gate_proj.weight", matrix(width, hidden)
        yield f"{layer}mlp.up_proj.weight", matrix(width, hidden)
        yield f"{layer}mlp.down_proj.weight", matrix(hidden, width)
    yield "model.norm.weight", torch.ones(hidden, dtype=torch.bfloat16)


def _config(shape: Shape) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "bfloat16",
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "intermediate_size": shape.intermediate,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": shape.context,
        "rope_theta": 500_000.0,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": None,  # nothing ends a reply but its limit
    }


def _tokenizer(vocabulary: int) -> dict[str, Any]:
    from tokenizers import pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    # One merge, since llama.cpp wants a list of them; the rest are numbers that nothing produces.
    tokens = [*letters, "ab", *(f"[{number}]" for number in range(vocabulary))][:vocabulary]
    return {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {
            "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True,
        },
        "decoder": {
            "type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True,
        },
        "model": {
            "type": "BPE",
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": [["a", "b"]],
        },
    }  # fmt: skip
