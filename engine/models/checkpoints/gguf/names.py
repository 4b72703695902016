"""What llama.cpp calls the tensors of each family, and what it did to them; both ways.

It keeps the rows of Llama's queries and keys in the order in which it turns them, pair by pair, and
Gemma's norms as 1 + w. Source: llama.cpp's convert_hf_to_gguf.py and gguf-py's tensor_mapping.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from engine.errors import ModelError

OUTER_PARTS: Mapping[str, str] = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
"""Of every architecture: llama.cpp's names outside the layers -> transformers'."""
ROPE_FACTORS, LONG_FACTORS, SHORT_FACTORS = (
    "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight",
)  # fmt: skip
"""Settings rather than weights: what divides each rotary frequency."""

_ATTENTION = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
}
_MLP = {"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
_HEAD_NORMS = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
_LLAMA = {**_ATTENTION, **_MLP, "ffn_norm": "post_attention_layernorm"}
_GEMMA = {
    **_ATTENTION,
    **_MLP,
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}

LAYER_PARTS: Mapping[str, Mapping[str, str]] = {
    "llama": _LLAMA,
    "qwen2": _LLAMA,
    "qwen3": _LLAMA | _HEAD_NORMS,
    "smollm3": _LLAMA,
    "gemma2": _GEMMA,
    "gemma3": _GEMMA | _HEAD_NORMS,
    "phi3": {
        "attn_norm": "input_layernorm",
        "attn_qkv": "self_attn.qkv_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_norm": "post_attention_layernorm",
        "ffn_up": "mlp.gate_up_proj",
        "ffn_down": "mlp.down_proj",
    },
}
"""Of each architecture: llama.cpp's names within a layer -> transformers'."""

TURNED = ("llama", "smollm3")
"""Architectures whose queries and keys lie pair by pair."""
CENTRED = ("gemma2", "gemma3")
"""Architectures whose norms are written as 1 + w."""


class Known(NamedTuple):
    """A tensor by transformers' name. ``turned``: its rows lie pair by pair, head by head; ``keys``:
    there are as many heads as keys have. ``centred``: 1 was added to it."""

    name: str
    turned: bool = False
    keys: bool = False
    centred: bool = False


def known_tensor(architecture: str, name: str) -> Known | None:
    """What the tensor ``name`` of a file is; None for one that no such model has."""
    stem, _, kind = name.rpartition(".")
    if kind not in ("weight", "bias"):
        return None
    centred = architecture in CENTRED and stem.endswith("norm")
    if stem in OUTER_PARTS:
        return Known(f"{OUTER_PARTS[stem]}.{kind}", centred=centred)
    block, _, rest = stem.partition(".")
    number, _, part = rest.partition(".")
    found = LAYER_PARTS[architecture].get(part)
    if block != "blk" or not number.isdecimal() or found is None:
        return None
    turned = architecture in TURNED and part in ("attn_q", "attn_k")
    return Known(f"model.layers.{number}.{found}.{kind}", turned, part == "attn_k", centred)


def check_architecture(file: object, architecture: object) -> str:
    """The architecture, if it is one that is read. Raises ModelError that names any other."""
    if isinstance(architecture, str) and architecture in LAYER_PARTS:
        return architecture
    if architecture == "clip":
        raise ModelError(
            f"{file} is the part of a model that sees pictures (mmproj), not the model itself. Give the "
            "file that lies beside it."
        )
    raise ModelError(
        f"{file} is a model of the architecture {architecture!r}, which is not run from GGUF here; known "
        f"are {', '.join(LAYER_PARTS)}. Use one of these, or the model's safetensors repository."
    )
