"""The tokenizer and the chat template that a GGUF file's metadata hold.

``metadata`` are GGUF's keys and values (``tokenizer.ggml.tokens``, ...), arrays as lists or numpy
arrays. What is built gives the tokens of the published tokenizer.json, in a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Mapping
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

from engine.models.checkpoints.gguf.tokenizers import sentencepiece
from engine.models.checkpoints.gguf.tokenizers.bpe import listed_merges, make_bpe
from engine.models.checkpoints.gguf.tokenizers.listed_tokens import (
    ListedTokens,
    read_tokens,
    setting,
)
from engine.models.checkpoints.gguf.tokenizers.pre_tokenizer import PreTokenizer
from engine.models.checkpoints.gguf.tokenizers.special_tokens import (
    BYTE_LEVEL,
    GEMMA4,
    SpecialTokens,
    pre_tokenizer_of,
    special_among,
    special_tokens,
)
from engine.models.checkpoints.gguf.tokenizers.token_types import TokenType

__all__ = ["build_tokenizer", "special_tokens", "template_of"]

_PHI3 = "phi3"
_PHI3_KEEPS_SPACES = ("<unk>", "<s>", "<|endoftext|>")
"""All other special tokens of Phi-3 swallow the spaces behind them; no file says so."""


def build_tokenizer(metadata: Mapping[str, Any]) -> Tokenizer:
    """Raises ModelError for a kind of tokenizer or a pre-tokenizer that is not known here, by name,
    and for lists that contradict each other.
    """
    rule = pre_tokenizer_of(metadata)
    tokens = read_tokens(metadata)
    if rule is not None:
        tokenizer = _byte_level(tokens, metadata, rule)
    elif setting(metadata, "model") == GEMMA4:
        tokenizer = sentencepiece.from_merges(tokens, metadata)
    else:
        tokenizer = sentencepiece.from_scores(tokens, metadata)
    special = special_among(tokens, metadata)
    _add(tokenizer, tokens, special, metadata)
    _put_around(tokenizer, special)
    return tokenizer


def template_of(metadata: Mapping[str, Any]) -> str | None:
    """The chat template, in Jinja; None for a model that has none."""
    found = metadata.get("tokenizer.chat_template")
    return str(found) if found else None


def _byte_level(tokens: ListedTokens, metadata: Mapping[str, Any], rule: PreTokenizer) -> Tokenizer:
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
