"""Convert SentencePiece's BPE to merges, which ``tokenizers`` applies in place of its scores.

SentencePiece merges the neighbours whose joint piece has the highest score; the order of merges says
the same if no two pieces have the same score. Pairs are ordered as transformers' own converter does, so
that a text becomes the tokens of the published tokenizer.json. They are found by the tokens' hashes: a
quarter of a million tokens have two million splits, which would take seconds one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, normalizers

from engine.models.checkpoints.gguf.tokenizers.special_tokens import (
    ListedTokens,
    Merge,
    TokenType,
    broken,
    listed_merges,
    listed_numbers,
    make_bpe,
    setting,
)

_BASE = np.uint64(0x9E3779B97F4A7C15)
"""Odd and without a pattern: two of a million texts share a hash with a probability of 1e-7."""

_LONGEST, _MOST_SPLITS = 1024, 20_000_000
"""Characters of a token, each of which takes a pass over all tokens, and splits of all tokens."""

_Ids = NDArray[np.int64]


def splits(whole: Sequence[str], parts: Sequence[str]) -> tuple[_Ids, _Ids]:
    """Return indices into ``parts`` of left and right halves, in the order of ``whole``; the splits of a
    text with the longest left half first.

    The hash of a text is the polynomial of its characters in ``_BASE``, modulo 2 ** 64. Raises ModelError
    if there are too many splits.
    """
    characters, offsets, lengths = _characters(parts)
    hashes = _hashes(characters, offsets, lengths)
    order = np.argsort(hashes)
    table = hashes[order]
    characters, offsets, lengths = _characters(whole)
    total = _hashes(characters, offsets, lengths)
    prefix = np.zeros(len(whole), np.uint64)
    powers = _BASE ** np.arange(int(lengths.max(initial=0)) + 1, dtype=np.uint64)
    rows: list[tuple[_Ids, _Ids, _Ids, _Ids]] = []
    found = 0
    for at in range(1, int(lengths.max(initial=0))):
        longer = np.flatnonzero(lengths > at)
        prefix[longer] = prefix[longer] * _BASE + characters[offsets[longer] + at - 1]
        left, hit = _find(prefix[longer], table)
        texts, left = longer[hit], left[hit]
        right, hit = _find(total[texts] - prefix[texts] * powers[lengths[texts] - at], table)
        texts = texts[hit]
        found += len(texts)
        if found > _MOST_SPLITS:
            raise broken(f"its tokens have more than {_MOST_SPLITS:,} splits into two others")
        rows.append((texts, np.full(len(texts), -at), order[left[hit]], order[right[hit]]))
    if not rows:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    texts, cut, left, right = (np.concatenate(column) for column in zip(*rows, strict=True))
    ordered = np.lexsort((cut, texts))
    return left[ordered], right[ordered]


def _characters(texts: Sequence[str]) -> tuple[NDArray[np.uint64], _Ids, _Ids]:
    """Return all characters in a row, and the start and length of each text."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    joined = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    return joined.astype(np.uint64), np.cumsum(lengths) - lengths, lengths


def _hashes(characters: NDArray[np.uint64], offsets: _Ids, lengths: _Ids) -> NDArray[np.uint64]:
    hashes = np.zeros(len(lengths), np.uint64)
    for at in range(int(lengths.max(initial=0))):
        long = np.flatnonzero(lengths > at)
        hashes[long] = hashes[long] * _BASE + characters[offsets[long] + at]
    return hashes


def _find(hashes: NDArray[np.uint64], table: NDArray[np.uint64]) -> tuple[_Ids, NDArray[np.bool_]]:
    """Return the index of each hash in the sorted ``table``, and whether it is there."""
    at = np.minimum(np.searchsorted(table, hashes), len(table) - 1)
    return at, table[at] == hashes


SPACE = "\u2581"
"""SentencePiece's character for a space."""
_FIRST_BYTE = "<0x00>"


def from_scores(tokens: ListedTokens, metadata: Mapping[str, Any]) -> Tokenizer:
    """Return the tokenizer of a file of the kind ``llama``, without its special tokens.

    Raises ModelError for a token that is too long, and for scores that do not belong to the tokens.
    """
    longest = max(map(len, tokens.texts))
    if longest > _LONGEST:
        raise broken(f"a token has {longest:,} characters, and {_LONGEST:,} are the most")
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
