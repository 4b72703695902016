"""Describe a model folder or a GGUF file from its JSON files and headers alone.

A folder in transformers' layout or a file becomes a frozen ``Checkpoint``, in milliseconds and without
reading weights. Errors are ``ModelError`` and say what is wrong, why, and what to do.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from engine.errors import ModelError
from engine.models.checkpoints.config_file import MOST_LAYERS, check_computable, read_config
from engine.models.checkpoints.gguf.description import (
    GgufModel,
    describe,
    is_gguf,
    name_of,
    only_drafts,
)
from engine.models.checkpoints.gguf.header import is_blocks
from engine.models.checkpoints.gguf.tokenizers.special_tokens import special_tokens
from engine.models.checkpoints.gguf.tokenizers.tokenizer import template_of
from engine.models.checkpoints.prequantised import NF4, check_names, check_scheme
from engine.models.checkpoints.tokenizer_files import tokenizer_signature
from engine.models.checkpoints.tokenizer_folder import has_template
from engine.models.checkpoints.weight_files import TensorInfo, read_json, read_tensors
from engine.values import shown

_WRITES_TEXT = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
"""Endings of transformers' classes for text generation."""
_EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "embed_in.weight", "word_embeddings.weight")

_LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers")
_HIDDEN = ("hidden_size", "n_embd", "d_model", "dim")
_HEADS = ("num_attention_heads", "num_heads", "n_head", "n_heads")
_KV_HEADS = ("num_key_value_heads", "n_kv_heads", "num_kv_heads", *_HEADS)
_CONTEXT = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")
_NEEDED = _LAYERS, _HIDDEN, _HEADS, _CONTEXT, ("vocab_size",)

_GEMMA4: Mapping[str, Any] = {
    "num_hidden_layers": 30,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "max_position_embeddings": 131_072,
    "tie_word_embeddings": True,
}
_DELTA_NETS: Mapping[str, Any] = {
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "qwen3_5": _DELTA_NETS,
    "qwen3_5_text": _DELTA_NETS,
    "qwen3_5_moe": _DELTA_NETS,
    "qwen3_5_moe_text": _DELTA_NETS,
    "gemma2": {"head_dim": 256, "sliding_window": 4096, "tie_word_embeddings": True},
    "gemma3_text": {
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 131_072,
        "sliding_window": 4096,
        "tie_word_embeddings": True,
    },
    "gemma4_text": {**_GEMMA4, "sliding_window": 512, "hidden_size_per_layer_input": 256},
    "gemma4_unified_text": {**_GEMMA4, "sliding_window": 1024, "max_position_embeddings": 262_144},
    "cohere2": {"tie_word_embeddings": True, "sliding_window": 4096},
    "ernie4_5": {"head_dim": 128, "rms_norm_eps": 1e-5, "tie_word_embeddings": True},
    "exaone4": {"rms_norm_eps": 1e-5},
    "glm4": {"head_dim": 128, "rms_norm_eps": 1.5625e-7},
    "hunyuan_v1_dense": {"rms_norm_eps": 1e-5},
    "minicpm": {"tie_word_embeddings": True},
    "ministral3": {"head_dim": 128, "rms_norm_eps": 1e-5},
    "olmo2": {"rms_norm_eps": 1e-5},
    "olmo3": {"rms_norm_eps": 1e-5, "sliding_window": 4096},
    "lfm2": {"tie_word_embeddings": True},
    "qwen3": {"head_dim": 128},
    "glm4_moe": {"rms_norm_eps": 1e-5},
    "gpt_oss": {"head_dim": 64, "rms_norm_eps": 1e-5, "sliding_window": 128},
    "lfm2_moe": {"tie_word_embeddings": True},
    "mixtral": {"rms_norm_eps": 1e-5},
    "olmoe": {"rms_norm_eps": 1e-5},
    "qwen3_next": {**_DELTA_NETS, "norm_topk_prob": True},
    "seed_oss": {"head_dim": 128},
    "smollm3": {"tie_word_embeddings": True},
    "starcoder2": {"tie_word_embeddings": True},
}
"""transformers' defaults that published configurations of a ``model_type`` leave out."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One model on disk. A multimodal model is described by its text part, but ``parameters`` and
    ``bytes`` count everything.

    path        a folder, or a GGUF file, of several the first
    vocabulary  embedding rows
    parameters  without an output head that repeats the (tied) embedding
    bytes       of all tensors
    dtype       what people call the whole: F32, BF16, Q4_K_M
    """

    path: Path
    config: Mapping[str, Any]
    architecture: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    context: int
    parameters: int
    bytes: int
    dtype: str
    tensors: Mapping[str, TensorInfo]
    eos_ids: tuple[int, ...]
    has_chat_template: bool

    @property
    def name(self) -> str:
        """The folder's name, or the file's without its suffix."""
        return name_of(self.path)

    @property
    def config_file(self) -> Path:
        """The file that holds ``config``: config.json, or the GGUF file itself."""
        return _config_file(self.path)

    @property
    def config_remedy(self) -> str:
        """A sentence that says what to do if ``config`` is wrong."""
        return _config_remedy(self.path)

    @property
    def is_gguf(self) -> bool:
        return is_gguf(self.path)

    @property
    def block_formats(self) -> frozenset[str]:
        """The formats of blocks that its matrices have, by ``block_formats``; none in a folder."""
        return frozenset(
            info.dtype.lower() for info in self.tensors.values() if is_blocks(info.dtype)
        )

    @property
    def quantised(self) -> bool:
        """True if the weights are stored in bitsandbytes' 4 bits."""
        return any(info.dtype == NF4 for info in self.tensors.values())

    @property
    def has_mtp(self) -> bool:
        """True if it brings layers for multi-token prediction, by the names of known ones."""
        own, ending = ("mtp.", "model.mtp_layers."), ".eh_proj.weight"
        return any(name.startswith(own) or name.endswith(ending) for name in self.tensors)

    @property
    def writes_text(self) -> bool:
        """Return whether the model continues a text."""
        return _continues_text(self.architecture, self.config)

    @property
    def repeats_embedding(self) -> bool:
        """True if the output head is the embedding again."""
        return _is_tied(self.config)

    @property
    def text_config(self) -> Mapping[str, Any]:
        """The part of ``config`` that describes the language model."""
        return _text_part(self.config)


def inspect(path: Path) -> Checkpoint:
    """Describe the model in ``path``, a folder or a GGUF file. Raises ModelError for an unusable one."""
    path = Path(path)
    if is_gguf(path):
        model = describe(path)
        if model.only_drafts:
            raise ModelError(only_drafts(path))
        return _inspect_gguf(model)
    checkpoint = _inspect_folder(path)
    _check_tokenizer(checkpoint)
    return checkpoint


def inspect_drafting(file: Path) -> Checkpoint:
    """Describe a GGUF file that may hold nothing but layers that draft. Raises ModelError."""
    return _inspect_gguf(describe(file))


def _inspect_folder(folder: Path) -> Checkpoint:
    config = read_config(folder)
    for part in (config, _text_part(config)):
        check_scheme(folder, part)
    tensors, tensor_bytes = read_tensors(folder, _text_part(config))
    check_names(folder, tensors)
    return _checkpoint(
        folder,
        config,
        tensors,
        bytes=tensor_bytes,
        dtype=_main_dtype(tensors),
        eos_ids=_eos_ids(folder, _text_part(config)),
        has_chat_template=has_template(folder),
    )


@lru_cache(maxsize=4)
def _inspect_gguf(model: GgufModel) -> Checkpoint:
    """Cached: looking through lists of 150,000 tokens takes a while."""
    tensors = {
        name: TensorInfo(located.header.file, located.entry.shape, located.entry.dtype)
        for name, located in model.tensors.items()
    }
    try:
        ends = special_tokens(model.metadata).ends
    except ModelError as error:
        raise ModelError(f"{model.file} has no usable tokenizer. {error}") from error
    checkpoint = _checkpoint(
        model.file,
        dict(model.config),
        tensors,
        bytes=model.bytes,
        dtype=model.type,
        eos_ids=ends,
        has_chat_template=template_of(model.metadata) is not None,
    )
    tokens = len(model.metadata["tokenizer.ggml.tokens"])
    if tokens != checkpoint.vocabulary:
        raise ModelError(
            f"{model.file} lists {tokens:,} tokens, but its embedding has "
            f"{checkpoint.vocabulary:,} rows. Tokenizer and weights belong to different "
            "models: download the file again."
        )
    return checkpoint


def _checkpoint(
    path: Path, config: dict[str, Any], tensors: dict[str, TensorInfo], **rest: Any
) -> Checkpoint:
    """Return a checkpoint with the sizes of ``config``, checked against the embedding."""
    text = _text_part(config)
    check_computable(_config_file(path), text)
    name = _architecture(path, config)
    if not _continues_text(name, text) and not all(text.keys() & {*keys} for keys in _NEEDED):
        raise ModelError(not_text(path, name))
    hidden, heads = _size(path, text, _HIDDEN), _size(path, text, _HEADS)
    if text.get(drafting := "num_nextn_predict_layers"):
        _size(path, text, (drafting,), most=MOST_LAYERS)
    return Checkpoint(
        path=path,
        config=MappingProxyType(config),
        architecture=name,
        layers=_size(path, text, _LAYERS, most=MOST_LAYERS),
        hidden=hidden,
        heads=heads,
        kv_heads=_size(path, text, _KV_HEADS),
        head_dim=_size(path, text, ("head_dim",), default=hidden // heads),
        vocabulary=_vocabulary(path, text, tensors),
        context=_size(path, text, _CONTEXT),
        parameters=_parameters(tensors, _is_tied(config)),
        tensors=MappingProxyType(tensors),
        **rest,
    )


def _continues_text(name: str, config: Mapping[str, Any]) -> bool:
    """Return whether a model of class ``name`` does: one with an encoder reads something else."""
    return name.endswith(_WRITES_TEXT) and not config.get("is_encoder_decoder")


def not_text(path: Path, name: str) -> str:
    """Return the sentence for a model of class ``name`` that continues no text."""
    return f"{path} is {name}, which cannot continue text. Choose a model for text generation."


def describe_config(path: Path, config: dict[str, Any]) -> Checkpoint:
    """Describe a model by its configuration alone. Raises ModelError for a size that is wrong."""
    return _checkpoint(path, config, {}, bytes=0, dtype="", eos_ids=(), has_chat_template=False)


def fingerprint(path: Path) -> str:
    """Return a name that identifies the model in ``path``, wherever it is stored.

    It is a hash of its small files' contents, and of sizes and some pages of its weights, in which two
    fine-tunes differ; hashing all pages would take minutes.
    """
    digest = hashlib.sha256()
    if is_gguf(path):
        for part in describe(path).parts:
            digest.update(f"{part.digest}\0{part.size}\0".encode() + _some_pages(part.file))
        return digest.hexdigest()[:16]
    for file in sorted(path.glob("*.json")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    for file in sorted(path.glob("*.safetensors")):
        digest.update(f"{file.name}\0{file.stat().st_size}".encode() + _some_pages(file))
    return digest.hexdigest()[:16]


def _some_pages(file: Path) -> bytes:
    """Return some 64 pages of ``file``, spread evenly: all of a small one."""
    size, page = file.stat().st_size, 4096
    with file.open("rb", buffering=0) as stream:
        pages = []
        for at in range(0, size, max(size // 64, page)):
            stream.seek(at)
            pages.append(stream.read(page))
    return b"".join(pages)


def _is_tied(config: Mapping[str, Any]) -> bool:
    key, text = "tie_word_embeddings", _text_part(config)
    # The first is LFM2's name of it.
    return bool(text.get("tie_embedding", text.get(key, config.get(key, False))))


def _text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    text = config.get("text_config")
    part = text if isinstance(text, Mapping) else config
    return {**_DEFAULTS.get(str(part.get("model_type")), {}), **part}


def _config_file(path: Path) -> Path:
    return path if is_gguf(path) else path / "config.json"


def _config_remedy(path: Path) -> str:
    if is_gguf(path):
        return "Download the file again, or use another file of this model."
    return "Use the config.json that was published with the weights."


def _architecture(path: Path, config: Mapping[str, Any]) -> str:
    names = config.get("architectures")
    if isinstance(names, list) and names and isinstance(names[0], str):
        return names[0]
    raise ModelError(
        f"{_config_file(path)} has no 'architectures', so the model cannot be run. "
        f"{_config_remedy(path)}"
    )


def _size(
    path: Path,
    config: Mapping[str, Any],
    keys: tuple[str, ...],
    default: int | None = None,
    most: int | None = None,
) -> int:
    for key in keys:
        value = config.get(key)
        if value is None:
            continue
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= (most or value):
            return value
        raise ModelError(
            f"{_config_file(path)}: key '{key}' is {shown(value)}; it must be a whole "
            f"number above 0{f', at most {most:,}' if most else ''}. {_config_remedy(path)}"
        )
    if default is not None:
        return default
    raise ModelError(
        f"{_config_file(path)} has no key '{keys[0]}': it is not a causal language "
        f"model, or the file is incomplete. {_config_remedy(path)}"
    )


def _eos_ids(folder: Path, config: Mapping[str, Any]) -> tuple[int, ...]:
    file = folder / "generation_config.json"
    generation = read_json(file) if file.is_file() else {}
    value = generation.get("eos_token_id")
    if value is None:
        value = config.get("eos_token_id")
    values = value if isinstance(value, list) else [value]
    return tuple(sorted({item for item in values if isinstance(item, int) and item >= 0}))


def weights_complete(folder: Path, *, head: bool = False) -> bool:
    """Return whether ``folder`` has a configuration, a tokenizer (unless it is of a ``head``) and all its
    weight files, complete."""
    try:
        if not head:
            tokenizer_signature(folder)
        return (folder / "config.json").is_file() and bool(read_tensors(folder)[0])
    except ModelError:
        return False


def _parameters(tensors: Mapping[str, TensorInfo], tied: bool) -> int:
    return sum(
        math.prod(info.shape)
        for name, info in tensors.items()
        if not (tied and name == "lm_head.weight")
    )


def _vocabulary(path: Path, config: Mapping[str, Any], tensors: Mapping[str, TensorInfo]) -> int:
    """Return the number of embedding rows. Raises ModelError if the configuration has another."""
    rows = next(
        (
            info.shape[0]
            for name, info in tensors.items()
            if name.endswith(_EMBEDDINGS) and len(info.shape) == 2
        ),
        None,
    )
    stated = _size(path, config, ("vocab_size",), default=rows)
    if rows is not None and rows != stated:
        raise ModelError(
            f"{_config_file(path)} says {stated:,} tokens (vocab_size), but the embedding "
            f"has {rows:,} rows. Configuration and weights belong to different models: "
            "download both again."
        )
    return stated


def _main_dtype(tensors: Mapping[str, TensorInfo]) -> str:
    """Return the dtype of most tensors."""
    names = [info.dtype for info in tensors.values()]
    return max(sorted(set(names)), key=names.count)


def _check_tokenizer(checkpoint: Checkpoint) -> None:
    """Raise ModelError for a tokenizer that cannot belong to these weights; padding rows are fine."""
    signature = tokenizer_signature(checkpoint.path)
    rows, tokens = checkpoint.vocabulary, signature.tokens
    if signature.highest_id is None:
        return
    if signature.highest_id >= rows or 2 * tokens < rows:
        raise ModelError(
            f"The tokenizer in {checkpoint.path} does not match the model: it has "
            f"{tokens:,} tokens, the model {rows:,}. Use the tokenizer.json that was "
            "published with the weights."
        )
