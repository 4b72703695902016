"""Find all ways to split tokens into two other tokens, by the tokens' hashes.

A quarter of a million tokens have two million splits, which would take seconds one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_BASE = np.uint64(0x9E3779B97F4A7C15)
"""Odd and without a pattern: two of a million texts share a hash with a probability of 1e-7."""

_Ids = NDArray[np.int64]


def splits(whole: Sequence[str], parts: Sequence[str]) -> tuple[_Ids, _Ids]:
    """Return indices into ``parts`` of left and right halves, in the order of ``whole``; the splits of a
    text with the longest left half first.

    The hash of a text is the polynomial of its characters in ``_BASE``, modulo 2 ** 64.
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
    for at in range(1, int(lengths.max(initial=0))):
        longer = np.flatnonzero(lengths > at)
        prefix[longer] = prefix[longer] * _BASE + characters[offsets[longer] + at - 1]
        left, hit = _find(prefix[longer], table)
        texts, left = longer[hit], left[hit]
        right, hit = _find(total[texts] - prefix[texts] * powers[lengths[texts] - at], table)
        texts = texts[hit]
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
