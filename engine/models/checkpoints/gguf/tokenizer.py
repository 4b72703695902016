"""The tokenizer and the chat template that a GGUF file's metadata hold: byte-level BPE, cut as Qwen 2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from engine.errors import ModelError
from engine.models.checkpoints.gguf.pre_tokenizer import QWEN2

_CONTROL = 3
_CUTS = {"qwen2": QWEN2, "gpt-2": None}


@dataclass(frozen=True, slots=True)
class SpecialToken:
    """One token by number and name."""

    id: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecialTokens:
    """None where the model has no such token. ``ends``: every id that ends a reply."""

    bos: SpecialToken | None
    eos: SpecialToken | None
    ends: tuple[int, ...]


def build_tokenizer(metadata: Mapping[str, Any]) -> Tokenizer:
    """Raises ModelError for a tokenizer of another kind."""
    model, cut = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre")
    if model != "gpt2" or cut not in _CUTS:
        raise ModelError(
            f"The file's tokenizer is of the kind {model!r}, cut as {cut!r}, which is not known here. "
            "Take the model's safetensors instead."
        )
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(pair.split(" ", 1)) for pair in metadata["tokenizer.ggml.merges"]]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(BPE(vocab=vocabulary, merges=merges))
    rule = _CUTS[cut]
    spell = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=rule is None)
    split = [] if rule is None else [pre_tokenizers.Split(Regex(rule), "isolated")]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*split, spell])
    tokenizer.decoder = decoders.ByteLevel()
    kinds = zip(tokens, metadata["tokenizer.ggml.token_type"], strict=True)
    tokenizer.add_special_tokens([AddedToken(name) for name, kind in kinds if kind == _CONTROL])
    return tokenizer


def template_of(metadata: Mapping[str, Any]) -> str | None:
    """The chat template, in Jinja; None for a model that has none."""
    found = metadata.get("tokenizer.chat_template")
    return str(found) if found else None


def special_tokens(metadata: Mapping[str, Any]) -> SpecialTokens:
    """Raises ModelError for a file without tokens."""
    tokens = metadata.get("tokenizer.ggml.tokens")
    if not tokens:
        raise ModelError("The file lists no tokens (tokenizer.ggml.tokens). Download it again.")

    def named(role: str) -> SpecialToken | None:
        number: Any = metadata.get(f"tokenizer.ggml.{role}_token_id")
        return SpecialToken(number, tokens[number]) if number in range(len(tokens)) else None

    eos = named("eos")
    return SpecialTokens(bos=named("bos"), eos=eos, ends=() if eos is None else (eos.id,))
