"""Vision towers as mmproj files, made as llama.cpp's converter makes them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import load_file


def write_mmproj(folder: Path, file: Path, kind: str = "F32") -> Path:
    """The tower of the Qwen3.5 in ``folder``, its matrices in ``kind``."""
    config = json.loads((folder / "config.json").read_text())
    vision, text = config["vision_config"], config["text_config"]
    writer = gguf.GGUFWriter(file, "clip")
    writer.add_type(gguf.GGUFType.MMPROJ)
    writer.add_clip_has_vision_encoder(True)
    writer.add_clip_projector_type(gguf.VisionProjectorType.QWEN3VL)
    writer.add_vision_use_gelu(True)
    writer.add_vision_projection_dim(text["hidden_size"])
    sides = int(vision["num_position_embeddings"] ** 0.5)
    writer.add_vision_image_size(sides * vision["patch_size"])
    writer.add_vision_patch_size(vision["patch_size"])
    writer.add_vision_embedding_length(vision["hidden_size"])
    writer.add_vision_feed_forward_length(vision["intermediate_size"])
    writer.add_vision_block_count(vision["depth"])
    writer.add_vision_head_count(vision["num_heads"])
    writer.add_vision_image_mean([0.5] * 3)
    writer.add_vision_image_std([0.5] * 3)
    writer.add_vision_spatial_merge_size(vision["spatial_merge_size"])
    writer.add_vision_attention_layernorm_eps(text["rms_norm_eps"])
    writer.add_vision_is_deepstack_layers([False] * vision["depth"])
    for name, weight in load_file(folder / "model.safetensors").items():
        if name.startswith("model.visual."):
            for stored, part in _stored(name.removeprefix("model.visual."), weight):
                form = gguf.GGMLQuantizationType[kind if part.ndim == 2 else "F32"]
                writer.add_tensor(stored, gguf.quants.quantize(part, form), raw_dtype=form)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


_RENAMED = {
    "pos_embed.": "v.position_embd.",
    "merger.norm.": "v.post_ln.",
    "merger.linear_fc1.": "mm.0.",
    "merger.linear_fc2.": "mm.2.",
    "blocks.": "v.blk.",
    "norm1": "ln1",
    "norm2": "ln2",
    "attn.qkv": "attn_qkv",
    "attn.proj": "attn_out",
    "mlp.linear_fc1": "ffn_up",
    "mlp.linear_fc2": "ffn_down",
}


def _stored(name: str, weight: np.ndarray[Any, Any]) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """llama.cpp's names of a tensor, or of its parts."""
    if name == "patch_embed.proj.weight":
        yield "v.patch_embd.weight", weight[:, :, 0].copy()
        yield "v.patch_embd.weight.1", weight[:, :, 1].copy()
    elif name == "patch_embed.proj.bias":
        yield "v.patch_embd.bias", weight
    else:
        either = re.compile("|".join(map(re.escape, _RENAMED)))
        yield either.sub(lambda part: _RENAMED[part[0]], name), weight
