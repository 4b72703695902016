"""Write a Llama checkpoint as one GGUF file, for llama.cpp and the programs that build on it.

Names and layout are those of llama.cpp's own converter; what it does not compute is refused. Tensors
are read, converted and written one at a time, so that a model larger than the memory can be exported.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from engine.errors import ModelError, NotInstalled
from engine.models.architecture import Rope
from engine.models.checkpoints.checkpoint import Checkpoint, inspect
from engine.models.checkpoints.gguf.names import LAYER_PARTS, OUTER_PARTS
from engine.models.checkpoints.gguf.tokenizers.vocabulary import Vocabulary, read_vocabulary
from engine.models.checkpoints.tensors import Tensors
from engine.models.rope import read_rope, rope_base, rope_settings, scaling_of
from engine.models.rotation import interleave
from engine.models.tensor_shapes import Names
from engine.values import require

if TYPE_CHECKING:
    import gguf

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
    scaling = scaling_of(settings)
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
    settings = rope_settings(checkpoint.text_config)
    if scaling_of(settings) != "llama3":
        return None
    plain = read_rope(checkpoint, checkpoint.context, settings={**settings, "rope_type": "default"})
    default, scaled = (
        torch.tensor(each.frequencies, dtype=torch.float64) for each in (plain, rope)
    )
    return (default / scaled).float()


TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0")
"""Types of matrices; vectors stay in f32, as llama.cpp requires."""


@dataclass(frozen=True, slots=True)
class Exported:
    """The written file. ``notes`` are sentences for users about what the file cannot express."""

    file: Path
    bytes: int
    notes: tuple[str, ...]


def why_not_installed() -> str | None:
    """Return why nothing can be exported here, with the remedy; None if it can."""
    try:
        import gguf  # noqa: F401
    except ImportError:
        return (
            f"Writing GGUF files needs the package gguf. Install it with: {sys.executable} "
            "-m pip install gguf"
        )
    return None


def export(folder: Path, file: Path, kind: str = "f16") -> Exported:
    """Write the model in ``folder`` to ``file``, completely or not at all.

    Raises NotInstalled without the package gguf, InvalidRequest for an unknown ``kind``, ModelError
    for a model that is no Llama or that llama.cpp would compute otherwise.
    """
    reason = why_not_installed()
    if reason is not None:
        raise NotInstalled(reason)
    require(kind in TYPES, "type", f"is {kind!r}; it must be one of {', '.join(TYPES)}.")
    checkpoint = inspect(folder)
    check(checkpoint)
    vocabulary = read_vocabulary(checkpoint)
    rope = read_rope(checkpoint, checkpoint.context)
    _write(checkpoint, vocabulary, rope, file, kind)
    notes = () if vocabulary.splitting.note is None else (vocabulary.splitting.note,)
    return Exported(file, file.stat().st_size, notes)


def _write(
    checkpoint: Checkpoint, vocabulary: Vocabulary, rope: Rope, file: Path, kind: str
) -> None:
    import gguf

    part = file.with_name(file.name + ".part")
    file.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(part, "llama")
    try:
        _describe(writer, checkpoint, kind)
        _list_tokens(writer, vocabulary)
        exported = list(exported_tensors(checkpoint))
        factors = rope_factors(checkpoint, rope)
        if factors is not None:
            writer.add_tensor_info(
                "rope_freqs.weight", tuple(factors.shape), factors.numpy().dtype, factors.nbytes
            )
        types = [_type_of(tensor, kind) for tensor in exported]
        for tensor, dtype in zip(exported, types, strict=True):
            _announce(writer, tensor, dtype)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        if factors is not None:
            writer.write_tensor_data(factors.numpy())
        tensors = Tensors(checkpoint, torch.float32, torch.device("cpu"))
        for tensor, dtype in zip(exported, types, strict=True):
            weight = tensors(tensor.source)
            if tensor.heads is not None:
                weight = interleave(weight, tensor.heads, rope)
            writer.write_tensor_data(gguf.quants.quantize(weight.contiguous().numpy(), dtype))
        writer.close()
        part.replace(file)
    finally:
        writer.close()
        part.unlink(missing_ok=True)


def _describe(writer: gguf.GGUFWriter, checkpoint: Checkpoint, kind: str) -> None:
    import gguf

    config = checkpoint.text_config
    settings = rope_settings(config)
    writer.add_type(gguf.GGUFType.MODEL)
    writer.add_name(checkpoint.path.resolve().name)
    writer.add_file_type(_file_type(kind))
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_vocab_size(checkpoint.vocabulary)
    writer.add_context_length(checkpoint.context)
    writer.add_embedding_length(checkpoint.hidden)
    writer.add_block_count(checkpoint.layers)
    writer.add_feed_forward_length(int(config["intermediate_size"]))
    writer.add_head_count(checkpoint.heads)
    writer.add_head_count_kv(checkpoint.kv_heads)
    writer.add_key_length(checkpoint.head_dim)
    writer.add_value_length(checkpoint.head_dim)
    writer.add_layer_norm_rms_eps(float(config.get("rms_norm_eps", 1e-6)))
    writer.add_rope_dimension_count(checkpoint.head_dim)
    writer.add_rope_freq_base(rope_base(config, settings))
    if scaling_of(settings) == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(float(settings["factor"]))


def _list_tokens(writer: gguf.GGUFWriter, vocabulary: Vocabulary) -> None:
    writer.add_tokenizer_model("gpt2")  # llama.cpp's name of all byte-level BPE
    writer.add_tokenizer_pre(vocabulary.splitting.name)
    writer.add_token_list(vocabulary.tokens)
    writer.add_token_types(vocabulary.types)
    writer.add_token_merges(vocabulary.merges)
    for add, number in (
        (writer.add_bos_token_id, vocabulary.bos),
        (writer.add_eos_token_id, vocabulary.eos),
        (writer.add_pad_token_id, vocabulary.pad),
    ):
        if number is not None:
            add(number)
    writer.add_add_bos_token(vocabulary.adds_bos)
    writer.add_add_eos_token(vocabulary.adds_eos)
    if vocabulary.chat_template is not None:
        writer.add_chat_template(vocabulary.chat_template)


def _type_of(tensor: ExportedTensor, kind: str) -> gguf.GGMLQuantizationType:
    """Return ``kind``, but f32 for vectors, and f16 for rows that do not divide into its blocks."""
    import gguf

    dtype = gguf.GGMLQuantizationType[kind.upper()]
    if len(tensor.shape) == 1:
        return gguf.GGMLQuantizationType.F32
    if tensor.shape[-1] % gguf.GGML_QUANT_SIZES[dtype][0]:
        return gguf.GGMLQuantizationType.F16
    return dtype


def _announce(
    writer: gguf.GGUFWriter, tensor: ExportedTensor, dtype: gguf.GGMLQuantizationType
) -> None:
    """List a tensor with its size in the header, before any tensor's bytes."""
    import gguf
    import numpy as np

    block, size = gguf.GGML_QUANT_SIZES[dtype]
    count = math.prod(tensor.shape) // block * size
    if dtype in (gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16):
        plain: Any = np.float32 if dtype == gguf.GGMLQuantizationType.F32 else np.float16
        writer.add_tensor_info(tensor.name, tensor.shape, np.dtype(plain), count)
        return
    shape = (*tensor.shape[:-1], tensor.shape[-1] // block * size)
    writer.add_tensor_info(tensor.name, shape, np.dtype(np.uint8), count, raw_dtype=dtype)


def _file_type(kind: str) -> int:
    import gguf

    names = {"f32": "ALL_F32"}
    return int(gguf.LlamaFileType[names.get(kind, f"MOSTLY_{kind.upper()}")])
