"""Convert SentencePiece's BPE to merges, which ``tokenizers`` applies in place of its scores.

SentencePiece merges the neighbours whose joint piece has the highest score; the order of merges says
the same if no two pieces have the same score. Pairs are ordered as transformers' own converter does, so
that a text becomes the tokens of the published tokenizer.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, normalizers

from engine.models.checkpoints.gguf.tokenizers.listed_tokens import (
    ListedTokens,
    Merge,
    TokenType,
    broken,
    listed_merges,
    listed_numbers,
    make_bpe,
    setting,
)
from engine.models.checkpoints.gguf.tokenizers.splits import splits

SPACE = "\u2581"
"""SentencePiece's character for a space."""
_FIRST_BYTE = "<0x00>"


def from_scores(tokens: ListedTokens, metadata: Mapping[str, Any]) -> Tokenizer:
    """Return the tokenizer of a file of the kind ``llama``, without its special tokens.

    Raises ModelError for scores that do not belong to the tokens.
    """
    stated = listed_numbers(metadata, "scores")
    scores = np.zeros(0) if stated is None else stated.astype(np.float64)
    if scores.shape != (len(tokens.texts),):
        raise broken(f"it has {len(tokens.texts):,} tokens, but {scores.size:,} scores")
    prefix = setting(metadata, "add_space_prefix")
    ids = _with_published_spaces(tokens)
    merges = _merges(ids, tokens, scores)
    return _character_bpe(ids, merges, tokens, space_prefix=prefix is None or bool(prefix))


def from_merges(tokens: ListedTokens, metadata: Mapping[str, Any]) -> Tokenizer:
    """Return the tokenizer of a file of the kind ``gemma4``, which lists merges and no scores."""
    ids = _with_published_spaces(tokens)
    return _character_bpe(ids, listed_merges(metadata), tokens, space_prefix=False)


def published(text: str) -> str:
    """Return a user-defined token as it was published: for a run of U+2581 the converter wrote spaces."""
    return text if text.strip(" ") else SPACE * len(text)


def _with_published_spaces(tokens: ListedTokens) -> dict[str, int]:
    ids = dict(tokens.ids)
    for number in _space_runs(tokens):
        del ids[tokens.texts[number]]
        ids[published(tokens.texts[number])] = number
    return ids


def _space_runs(tokens: ListedTokens) -> list[int]:
    defined = tokens.of(TokenType.USER_DEFINED)
    return [number for number in defined if not tokens.texts[number].strip(" ")]


def _character_bpe(
    ids: dict[str, int], merges: list[Merge], tokens: ListedTokens, *, space_prefix: bool
) -> Tokenizer:
    """Return BPE over characters, with spaces as U+2581; other characters fall back to byte tokens.

    ``space_prefix``: a space is put before a text, and before what follows a special token.
    """
    unknown = next(iter(tokens.of(TokenType.UNKNOWN)), None)
    tokenizer = Tokenizer(
        make_bpe(
            ids,
            merges,
            unk_token=None if unknown is None else tokens.texts[unknown],
            fuse_unk=True,
            byte_fallback=_FIRST_BYTE in ids,
        )
    )
    normalising: list[normalizers.Normalizer] = [normalizers.Replace(" ", SPACE)]
    decoding = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if space_prefix:
        normalising.insert(0, normalizers.Prepend(SPACE))
        decoding.append(decoders.Strip(" ", 1, 0))
    tokenizer.normalizer = normalizers.Sequence(normalising)
    tokenizer.decoder = decoders.Sequence(decoding)
    return tokenizer


def _merges(ids: dict[str, int], tokens: ListedTokens, scores: NDArray[np.float64]) -> list[Merge]:
    """Return every way to make a piece of two: the best score first, for one piece the longer left part.

    Runs of spaces come before all: SentencePiece matches user-defined pieces before it merges any.
    """
    normal = np.flatnonzero(tokens.types == TokenType.NORMAL)
    order = normal[np.argsort(-scores[normal], kind="stable")].tolist()
    runs = sorted((published(tokens.texts[number]) for number in _space_runs(tokens)), key=len)
    whole = [*reversed(runs), *(tokens.texts[number] for number in order)]
    parts = list(ids)
    left, right = splits(whole, parts)
    name = parts.__getitem__
    return list(zip(map(name, left.tolist()), map(name, right.tolist()), strict=True))
