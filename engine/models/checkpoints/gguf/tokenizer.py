"""The tokenizer and the chat template that a GGUF file's metadata hold.

``metadata`` are GGUF's keys and values (``tokenizer.ggml.tokens``, ...), arrays as lists or numpy
arrays. What is built gives the tokens of the published tokenizer.json, in a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    normalizers,
    pre_tokenizers,
    processors,
)

from engine.errors import ModelError
from engine.models.checkpoints.gguf import sentencepiece
from engine.models.checkpoints.gguf.bpe import listed_merges, make_bpe
from engine.models.checkpoints.gguf.listed_tokens import ListedTokens, read_tokens, setting
from engine.models.checkpoints.gguf.pre_tokenizer import pre_tokenizer_named
from engine.models.checkpoints.gguf.special_tokens import (
    BYTE_LEVEL,
    GEMMA4,
    SENTENCEPIECE,
    SpecialTokens,
    special_among,
    special_tokens,
)
from engine.models.checkpoints.gguf.token_types import TokenType

__all__ = ["build_tokenizer", "special_tokens", "template_of"]

_PHI3 = "phi3"
_PHI3_KEEPS_SPACES = ("<unk>", "<s>", "<|endoftext|>")
"""All other special tokens of Phi-3 swallow the spaces behind them; no file says so."""


def build_tokenizer(metadata: Mapping[str, Any]) -> Tokenizer:
    """Raises ModelError for a kind of tokenizer or a pre-tokenizer that is not known here, by name,
    and for lists that contradict each other.
    """
    check_kind(metadata)
    tokens = read_tokens(metadata)
    tokenizer = _BUILDERS[str(setting(metadata, "model"))](tokens, metadata)
    special = special_among(tokens, metadata)
    _add(tokenizer, tokens, special, metadata)
    _put_around(tokenizer, special)
    return tokenizer


def check_kind(metadata: Mapping[str, Any]) -> None:
    """Raises ModelError for a kind of tokenizer or a pre-tokenizer that is not known here, by name."""
    kind = setting(metadata, "model")
    if str(kind) not in _BUILDERS:
        raise _unknown_kind(kind)
    if kind == BYTE_LEVEL:
        pre_tokenizer_named(str(setting(metadata, "pre") or "default"))


def template_of(metadata: Mapping[str, Any]) -> str | None:
    """The chat template, in Jinja; None for a model that has none."""
    found = metadata.get("tokenizer.chat_template")
    return str(found) if found else None


def _byte_level(tokens: ListedTokens, metadata: Mapping[str, Any]) -> Tokenizer:
    rule = pre_tokenizer_named(str(setting(metadata, "pre") or "default"))
    tokenizer = Tokenizer(
        make_bpe(tokens.ids, listed_merges(metadata), ignore_merges=rule.whole_words)
    )
    if rule.composes:
        tokenizer.normalizer = normalizers.NFC()
    cuts = [pre_tokenizers.Split(Regex(step), "isolated") for step in rule.steps]
    spell = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*cuts, spell])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


_BUILDERS: Mapping[str, Callable[[ListedTokens, Mapping[str, Any]], Tokenizer]] = {
    BYTE_LEVEL: _byte_level,
    SENTENCEPIECE: sentencepiece.from_scores,
    GEMMA4: sentencepiece.from_merges,
}


def _unknown_kind(kind: object) -> ModelError:
    if kind is None:
        return ModelError(
            "The file holds no tokenizer (tokenizer.ggml.model), so text cannot become tokens. Take "
            "another conversion of the model."
        )
    return ModelError(
        f"The file's tokenizer is of the kind {kind!r} (tokenizer.ggml.model), and only "
        f"{', '.join(_BUILDERS)} are known here. Take the model's safetensors instead."
    )


def _add(
    tokenizer: Tokenizer,
    tokens: ListedTokens,
    special: SpecialTokens,
    metadata: Mapping[str, Any],
) -> None:
    """Special and user-defined tokens, which are cut out of a text before all else.

    The ends of a turn are special, and so no text of a reply, whatever type the file gives them.
    """
    pieces = setting(metadata, "model") != BYTE_LEVEL
    strips = pieces and metadata.get("general.architecture") == _PHI3
    ends = {one.id for one in (special.eos, special.eot, special.eom) if one is not None}
    controls = ends.union(tokens.of(TokenType.CONTROL, TokenType.UNKNOWN))
    tokenizer.add_special_tokens(
        [
            AddedToken(
                tokens.texts[number],
                normalized=False,
                special=True,
                rstrip=strips and tokens.texts[number] not in _PHI3_KEEPS_SPACES,
            )
            for number in sorted(controls)
        ]
    )
    defined = [number for number in tokens.of(TokenType.USER_DEFINED) if number not in controls]
    texts = [tokens.texts[number] for number in defined]
    if pieces:
        texts = [sentencepiece.spelled(text) for text in texts]
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in texts])


def _put_around(tokenizer: Tokenizer, special: SpecialTokens) -> None:
    first = special.bos if special.adds_bos else None
    last = special.eos if special.adds_eos else None
    around = [token for token in (first, last) if token is not None]
    if around:
        text = ("$A", *([last.text] if last else ()))
        tokenizer.post_processor = processors.TemplateProcessing(
            single=[*([first.text] if first else ()), *text],
            pair=None,
            special_tokens=[(token.text, token.id) for token in around],
        )
