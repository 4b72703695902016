"""Build the tokenizer and read the chat template in a GGUF file's metadata.

``metadata`` are GGUF's keys and values (``tokenizer.ggml.tokens``, ...), arrays as lists or numpy
arrays. The tokenizer gives the tokens of the published tokenizer.json, and is built in a fraction of a
second.
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
from engine.models.checkpoints.gguf.tokenizers.pre_tokenizer import PreTokenizer
from engine.models.checkpoints.gguf.tokenizers.special_tokens import (
    BYTE_LEVEL,
    GEMMA4,
    ListedTokens,
    SpecialTokens,
    TokenType,
    listed_merges,
    make_bpe,
    pre_tokenizer_of,
    read_tokens,
    setting,
    special_tokens,
)

_PHI3 = "phi3"
_PHI3_KEEPS_SPACES = ("<unk>", "<s>", "<|endoftext|>")
"""All other special tokens of Phi-3 strip the spaces after them; no file says so."""


def build_tokenizer(metadata: Mapping[str, Any]) -> Tokenizer:
    """Return the tokenizer. Raises ModelError as ``pre_tokenizer_of`` and ``read_tokens``."""
    pre_tokenizer = pre_tokenizer_of(metadata)
    tokens = read_tokens(metadata)
    if pre_tokenizer is not None:
        tokenizer = _byte_level(tokens, metadata, pre_tokenizer)
    elif setting(metadata, "model") == GEMMA4:
        tokenizer = sentencepiece.from_merges(tokens, metadata)
    else:
        tokenizer = sentencepiece.from_scores(tokens, metadata)
    special = special_tokens(metadata, tokens)
    _add(tokenizer, tokens, special, metadata)
    _set_post_processor(tokenizer, special)
    return tokenizer


def template_of(metadata: Mapping[str, Any]) -> str | None:
    """Return the chat template, in Jinja; None if the model has none."""
    template = metadata.get("tokenizer.chat_template")
    return str(template) if template else None


def _byte_level(
    tokens: ListedTokens, metadata: Mapping[str, Any], pre_tokenizer: PreTokenizer
) -> Tokenizer:
    tokenizer = Tokenizer(
        make_bpe(tokens.ids, listed_merges(metadata), ignore_merges=pre_tokenizer.whole_words)
    )
    if pre_tokenizer.composes:
        tokenizer.normalizer = normalizers.NFC()
    cuts = [pre_tokenizers.Split(Regex(step), "isolated") for step in pre_tokenizer.steps]
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*cuts, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _add(
    tokenizer: Tokenizer, tokens: ListedTokens, special: SpecialTokens, metadata: Mapping[str, Any]
) -> None:
    """Add special and user-defined tokens, which are cut out of a text before all else.

    Tokens that end a turn are special, whatever type the file gives them, so no reply shows them.
    """
    is_sentencepiece = setting(metadata, "model") != BYTE_LEVEL
    strips = is_sentencepiece and metadata.get("general.architecture") == _PHI3
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
    if is_sentencepiece:
        texts = [sentencepiece.published(text) for text in texts]
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in texts])


def _set_post_processor(tokenizer: Tokenizer, special: SpecialTokens) -> None:
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
