"""Map the tensors of a Llama checkpoint to a GGUF file, and refuse what cannot be exported."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.errors import ModelError
from engine.models.architecture import Rope
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.checkpoints.gguf.names import LAYER_PARTS, OUTER_PARTS
from engine.models.rope import rope_settings
from engine.models.tensor_shapes import Names

ARCHITECTURES = ("LlamaForCausalLM",)
ROPES = ("default", "linear", "llama3")
"""Rope scalings that the file format can express."""
_LAYER = {ours: theirs for theirs, ours in LAYER_PARTS["llama"].items()}
_OUTER = {ours.removeprefix("model."): theirs for theirs, ours in OUTER_PARTS.items()}
_COMPUTED = ".rotary_emb.inv_freq"
"""Early checkpoints store these, which follow from config.json."""


@dataclass(frozen=True, slots=True)
class ExportedTensor:
    """A tensor's name in the checkpoint and in the file, and its shape."""

    source: str
    name: str
    shape: tuple[int, ...]
    heads: int | None  # of queries and keys, whose rotary pairs are interleaved


def check(checkpoint: Checkpoint) -> None:
    """Raise ModelError for a model that llama.cpp's Llama does not compute."""
    config = checkpoint.text_config
    settings = rope_settings(config)
    scaling = scaling_of(checkpoint)
    part = settings.get("partial_rotary_factor") or config.get("partial_rotary_factor") or 1.0
    reason = None
    if checkpoint.architecture not in ARCHITECTURES:
        reason = (
            f"it is {checkpoint.architecture}, and only {', '.join(ARCHITECTURES)} can be exported"
        )
    elif config.get("hidden_act", "silu") != "silu":
        reason = f"its activation is {config['hidden_act']}, and llama.cpp's Llama uses silu"
    elif scaling not in ROPES or part != 1.0:
        reason = (
            f"the file format cannot describe its rotary positions ({scaling}, {part:.0%} "
            "of a head)"
        )
    if reason is not None:
        raise ModelError(
            f"{checkpoint.path} cannot be exported: {reason}. llama.cpp's "
            "convert_hf_to_gguf.py supports more architectures."
        )


def exported_tensors(checkpoint: Checkpoint) -> Iterator[ExportedTensor]:
    """Yield all tensors of the file. Raises ModelError for one that no Llama has."""
    names = Names.among(checkpoint.tensors)
    heads = {"self_attn.q_proj": checkpoint.heads, "self_attn.k_proj": checkpoint.kv_heads}
    for source, info in checkpoint.tensors.items():
        if source.endswith(_COMPUTED) or (source == names.head and checkpoint.repeats_embedding):
            continue
        stem, _, suffix = source.rpartition(".")
        inner = "lm_head" if source == names.head else stem.removeprefix(names.root)
        layer, _, part = inner.removeprefix("layers.").partition(".")
        if inner in _OUTER:
            target = _OUTER[inner]
        elif part in _LAYER:
            target = f"blk.{layer}.{_LAYER[part]}"
        else:
            raise ModelError(
                f"{checkpoint.path} has the tensor {source}, which llama.cpp's Llama does not "
                "have. Ignoring it would change the output. Export the model without it."
            )
        yield ExportedTensor(source, f"{target}.{suffix}", info.shape, heads.get(part))


def rope_factors(checkpoint: Checkpoint, rope: Rope) -> Tensor | None:
    """Return the divisors of llama.cpp's frequencies for Llama 3's rope scaling; None for others."""
    if scaling_of(checkpoint) != "llama3":
        return None
    base, width = rope_base(checkpoint), checkpoint.head_dim
    default = torch.tensor([base ** (-i / width) for i in range(0, width, 2)], dtype=torch.float64)
    scaled = torch.tensor(rope.frequencies, dtype=torch.float64)
    return (default / scaled).float()


def scaling_of(checkpoint: Checkpoint) -> str:
    """Return the kind of rope scaling, in either spelling of config.json."""
    settings = rope_settings(checkpoint.text_config)
    return str(settings.get("rope_type") or settings.get("type") or "default")


def rope_base(checkpoint: Checkpoint) -> float:
    """Return the base of the rotary frequencies (rope_theta)."""
    config = checkpoint.text_config
    return float(rope_settings(config).get("rope_theta") or config.get("rope_theta") or 10000.0)
