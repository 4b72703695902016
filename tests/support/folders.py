"""Small model folders in transformers' layout, written without torch; their weights are zeros."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

Shapes = dict[str, tuple[int, ...]]


def safetensors_bytes(shapes: Shapes) -> bytes:
    """A safetensors file of F32 zeros."""
    header: dict[str, Any] = {}
    offset = 0
    for name, shape in shapes.items():
        size = 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(offset)


def tokenizer_json(
    tokens: list[str], merges: list[str] | None = None, added: dict[int, str] | None = None
) -> str:
    """A byte-pair tokenizer file; ``added`` are special tokens by id."""
    special = [
        {"id": number, "content": token, "special": True} for number, token in (added or {}).items()
    ]
    model = {
        "type": "BPE",
        "vocab": {token: number for number, token in enumerate(tokens)},
        "merges": merges or [],
    }
    return json.dumps({"version": "1.0", "added_tokens": special, "model": model})


def model_files(
    *,
    vocabulary: int = 32,
    tokens: list[str] | None = None,
    added: dict[int, str] | None = None,
    hidden: int = 8,
    context: int = 256,
    shards: int = 1,
    eos: int = 1,
    config: dict[str, Any] | None = None,
) -> dict[str, bytes]:
    """The files of a one-layer Llama by name. ``config`` overrides and adds keys."""
    settings = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": vocabulary,
        "hidden_size": hidden,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": context,
        "eos_token_id": eos,
        "tie_word_embeddings": True,
        **(config or {}),
    }
    shapes: Shapes = {
        "model.embed_tokens.weight": (vocabulary, hidden),
        "model.layers.0.self_attn.q_proj.weight": (hidden, hidden),
        "model.norm.weight": (hidden,),
    }
    known = tokens if tokens is not None else [f"t{number}" for number in range(vocabulary)]
    files = {
        "config.json": json.dumps(settings).encode(),
        "tokenizer.json": tokenizer_json(known, added=added).encode(),
        "tokenizer_config.json": b'{"chat_template": "{{ messages }}"}',
    }
    return {**files, **_weights(shapes, shards)}


def write_model(folder: Path, **options: Any) -> Path:
    """Write ``model_files(**options)`` into ``folder``."""
    return write_files(folder, model_files(**options))


def write_files(folder: Path, files: dict[str, bytes]) -> Path:
    """Write files by name into ``folder``, made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def _weights(shapes: Shapes, shards: int) -> dict[str, bytes]:
    if shards == 1:
        return {"model.safetensors": safetensors_bytes(shapes)}
    names = list(shapes)
    files: dict[str, bytes] = {}
    weight_map: dict[str, str] = {}
    for number in range(shards):
        file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        part = {name: shapes[name] for name in names[number::shards]}
        files[file] = safetensors_bytes(part)
        weight_map.update(dict.fromkeys(part, file))
    index = {"metadata": {}, "weight_map": weight_map}
    return {**files, "model.safetensors.index.json": json.dumps(index).encode()}
