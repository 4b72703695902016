"""SentencePiece's BPE as merges: what ``tokenizers`` runs in place of its scores.

SentencePiece joins the neighbours whose joint piece has the highest score; the order of merges says
the same where no two pieces score alike. Pairs are ordered as transformers' own converter does, so
that a text becomes the tokens of the published tokenizer.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, normalizers

from engine.models.checkpoints.gguf.splits import splits
from engine.models.checkpoints.gguf.tokenizers.bpe import Merge, listed_merges, make_bpe
from engine.models.checkpoints.gguf.tokenizers.listed_tokens import (
    ListedTokens,
    broken,
    listed_numbers,
    setting,
)
from engine.models.checkpoints.gguf.tokenizers.token_types import TokenType

SPACE = "\u2581"
"""What SentencePiece writes for a space."""
_FIRST_BYTE = "<0x00>"


def from_scores(tokens: ListedTokens, metadata: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer of a file of the kind ``llama``, without its special tokens.

    Raises ModelError for scores that do not belong to the tokens.
    """
    stated = listed_numbers(metadata, "scores")
    scores = np.zeros(0) if stated is None else stated.astype(np.float64)
    if scores.shape != (len(tokens.texts),):
        raise broken(f"it has {len(tokens.texts):,} tokens, but {scores.size:,} scores")
    before = setting(metadata, "add_space_prefix")
    ids = _spaces_spelled(tokens)
    merges = _merges(ids, tokens, scores)
    return _over_characters(ids, merges, tokens, space_before=before is None or bool(before))


def from_merges(tokens: ListedTokens, metadata: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer of a file of the kind ``gemma4``, which lists merges and no scores."""
    ids = _spaces_spelled(tokens)
    return _over_characters(ids, listed_merges(metadata), tokens, space_before=False)


def spelled(text: str) -> str:
    """A user-defined token of nothing but spaces as it was published: the converter wrote spaces."""
    return text if text.strip(" ") else SPACE * len(text)


def _spaces_spelled(tokens: ListedTokens) -> dict[str, int]:
    ids = dict(tokens.ids)
    for number in _space_runs(tokens):
        del ids[tokens.texts[number]]
        ids[spelled(tokens.texts[number])] = number
    return ids


def _space_runs(tokens: ListedTokens) -> list[int]:
    defined = tokens.of(TokenType.USER_DEFINED)
    return [number for number in defined if not tokens.texts[number].strip(" ")]


def _over_characters(
    ids: dict[str, int], merges: list[Merge], tokens: ListedTokens, *, space_before: bool
) -> Tokenizer:
    """BPE over characters with spaces as U+2581; bytes of other characters are tokens of their own.

    ``space_before``: a text, and what follows a special token, begins as if a space stood there.
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
    marked: list[normalizers.Normalizer] = [normalizers.Replace(" ", SPACE)]
    ending = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if space_before:
        marked.insert(0, normalizers.Prepend(SPACE))
        ending.append(decoders.Strip(" ", 1, 0))
    tokenizer.normalizer = normalizers.Sequence(marked)
    tokenizer.decoder = decoders.Sequence(ending)
    return tokenizer


def _merges(ids: dict[str, int], tokens: ListedTokens, scores: NDArray[np.float64]) -> list[Merge]:
    """Every way to make a piece of two: the best score first, of one piece the longer left part.

    Runs of spaces come before all: SentencePiece takes user-defined pieces before it joins any.
    """
    normal = np.flatnonzero(tokens.types == TokenType.NORMAL)
    order = normal[np.argsort(-scores[normal], kind="stable")].tolist()
    runs = sorted((spelled(tokens.texts[number]) for number in _space_runs(tokens)), key=len)
    whole = [*reversed(runs), *(tokens.texts[number] for number in order)]
    parts = list(ids)
    left, right = splits(whole, parts)
    name = parts.__getitem__
    return list(zip(map(name, left.tolist()), map(name, right.tolist()), strict=True))
