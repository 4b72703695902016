"""What the engine's caches hold, told as changes in blocks of tokens: by these a router knows its worker.

The engine keeps a text in each cache (``engine/local/slots.py``): while a prompt is brought in, what it
has in common with that; in the end the prompt and the reply, but for the last token, which was never
computed. Whole blocks are told, and only what is certain.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

BLOCK = 16
"""Tokens of a block, as most engines have them."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Blocks that were added, in order, behind the block ``parent``; None: from the beginning."""

    tokens: tuple[int, ...]
    hashes: tuple[int, ...]
    parent: int | None


@dataclass(frozen=True, slots=True)
class Removed:
    """Blocks that are gone."""

    hashes: tuple[int, ...]


Change = Stored | Removed


def block_hashes(tokens: Sequence[int]) -> list[int]:
    """A number for each whole block, which stands for all tokens up to its end: signed, of 64 bits."""
    hashes, digest = [], b""
    for end in range(BLOCK, len(tokens) + 1, BLOCK):
        words = ",".join(map(str, tokens[end - BLOCK : end])).encode()
        digest = hashlib.blake2b(digest + words, digest_size=8).digest()
        hashes.append(int.from_bytes(digest, signed=True))
    return hashes


class Held:
    """Which blocks are in any of the engine's caches: it is an ``engine.api.CacheListener``, and ``tell``
    hears of each block that comes first or goes last."""

    def __init__(self, tell: Callable[[Change], None]) -> None:
        self._tell = tell
        self._hashes: dict[int, list[int]] = {}  # of each cache, in order

    def __call__(self, cache: int, tokens: Sequence[int]) -> None:
        before, now = self._hashes.pop(cache, []), block_hashes(tokens)
        elsewhere = {one for hashes in self._hashes.values() for one in hashes}
        self._hashes[cache] = now
        kept, known = elsewhere.union(now), elsewhere.union(before)
        gone = tuple(one for one in before if one not in kept)
        # Whoever holds a block holds all before it: what is new to all stands at the end.
        new = tuple(one for one in now if one not in known)
        if gone:
            self._tell(Removed(gone))
        if new:
            first = len(now) - len(new)
            parent = now[first - 1] if first else None
            self._tell(Stored(tuple(tokens[first * BLOCK : len(now) * BLOCK]), new, parent))
