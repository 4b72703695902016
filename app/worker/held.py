"""What the engine's cache holds, told as changes in blocks of tokens: by these a router knows its worker.

The engine keeps one text, the last it answered (``Session.run`` in ``engine/local/session.py``): while a
prompt is brought in, what it has in common with that; in the end the prompt and the reply, but for the
last token, which was never computed. Whole blocks are told, and only what is certain.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.events import Emitted, Event, Failed, Finished, Prefilled, Started

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
    """Follows the events of all replies, one after the other, as the engine tells them."""

    def __init__(self, tell: Callable[[Change], None]) -> None:
        self._tell = tell
        self._hashes: list[int] = []
        self._tokens: list[int] = []
        self._computed = False

    def hear(self, event: Event) -> None:
        """Takes the next event, in the engine's thread."""
        match event:
            case Started():
                self._tokens, self._computed = list(event.prompt_tokens or ()), False
            case Prefilled():
                self._hold(self._tokens[: event.reused])
            case Emitted():
                self._computed = True  # the whole prompt is there, or no round could have run
                self._tokens += [token.id for token in event.tokens or ()]
            case Finished() if self._computed:
                self._hold(self._tokens[:-1])
            case Failed():
                self._hold([])
            case _:
                pass

    def _hold(self, tokens: Sequence[int]) -> None:
        hashes = block_hashes(tokens)
        alike = 0
        for ours, theirs in zip(self._hashes, hashes, strict=False):
            if ours != theirs:
                break
            alike += 1
        gone, new = self._hashes[alike:], hashes[alike:]
        self._hashes = hashes
        if gone:
            self._tell(Removed(tuple(gone)))
        if new:
            parent = hashes[alike - 1] if alike else None
            self._tell(
                Stored(tuple(tokens[alike * BLOCK : len(hashes) * BLOCK]), tuple(new), parent)
            )
