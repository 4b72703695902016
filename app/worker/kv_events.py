"""KV cache events: which blocks of tokens the engine's caches hold, so that a router can find its worker.

The engine reports each cache's tokens (``engine/local/slots.py``): the reused prefix when a prompt
begins; in the end the prompt and the reply without its last token, which was never computed. Only whole
blocks are published.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

BLOCK = 16
"""Tokens of a block, as in most engines."""


@dataclass(frozen=True, slots=True)
class BlockStored:
    """Blocks that were added, in order, after the block ``parent``; None: at the beginning."""

    tokens: tuple[int, ...]
    hashes: tuple[int, ...]
    parent: int | None


@dataclass(frozen=True, slots=True)
class BlockRemoved:
    """Blocks that were removed."""

    hashes: tuple[int, ...]


KvEvent = BlockStored | BlockRemoved


def block_hashes(tokens: Sequence[int]) -> list[int]:
    """Return a signed 64-bit hash of each whole block, which covers all tokens up to its end."""
    hashes, digest = [], b""
    for end in range(BLOCK, len(tokens) + 1, BLOCK):
        words = ",".join(map(str, tokens[end - BLOCK : end])).encode()
        digest = hashlib.blake2b(digest + words, digest_size=8).digest()
        hashes.append(int.from_bytes(digest, signed=True))
    return hashes


class KvEventTracker:
    """An ``engine.api.CacheListener`` that publishes blocks when the first cache gets them or the last
    one loses them."""

    def __init__(self, publish: Callable[[KvEvent], None]) -> None:
        self._publish = publish
        self._hashes: dict[int, list[int]] = {}  # by cache, in order

    def __call__(self, cache: int, tokens: Sequence[int]) -> None:
        before, now = self._hashes.pop(cache, []), block_hashes(tokens)
        elsewhere = {one for hashes in self._hashes.values() for one in hashes}
        self._hashes[cache] = now
        remaining, earlier = elsewhere.union(now), elsewhere.union(before)
        removed = tuple(one for one in before if one not in remaining)
        # A cache with a block has all blocks before it, so new blocks are the last ones.
        added = tuple(one for one in now if one not in earlier)
        if removed:
            self._publish(BlockRemoved(removed))
        if added:
            first = len(now) - len(added)
            parent = now[first - 1] if first else None
            self._publish(
                BlockStored(tuple(tokens[first * BLOCK : len(now) * BLOCK]), added, parent)
            )
