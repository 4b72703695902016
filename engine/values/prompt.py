"""A prompt: parts of tokens, and parts of other content, such as an image.

Caches of a prompt's prefix compare *keys*, one for each position: a token's id, or the hash of
other content. So two images never share a state because their placeholders are the same token.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain


@dataclass(frozen=True, slots=True)
class TokenPart:
    """Plain tokens, which are their own keys."""

    tokens: tuple[int, ...]

    @property
    def keys(self) -> tuple[int, ...]:
        return self.tokens


@dataclass(frozen=True, slots=True)
class OpaquePart:
    """Content other than text: its placeholder tokens, and the hash of its bytes.

    ``content``: what its rows are computed from, for whoever made the part.
    """

    tokens: tuple[int, ...]
    content_hash: bytes
    content: object = field(default=None, repr=False, compare=False)

    @property
    def keys(self) -> tuple[int, ...]:
        """Keys of the hash and the position in the part; negative, unlike token ids."""
        content = int.from_bytes(b"\1" + self.content_hash, "big") << 32
        return tuple(-(content + place) for place in range(len(self.tokens)))


@dataclass(frozen=True, slots=True)
class Prompt:
    """The parts of a prompt, in order."""

    parts: tuple[TokenPart | OpaquePart, ...]

    @classmethod
    def of(cls, tokens: Iterable[int]) -> Prompt:
        """Return a prompt of plain tokens."""
        return cls((TokenPart(tuple(tokens)),))

    @property
    def tokens(self) -> tuple[int, ...]:
        """The ids of all positions, placeholders among them."""
        return tuple(chain.from_iterable(part.tokens for part in self.parts))

    @property
    def keys(self) -> tuple[int, ...]:
        """The content key of each position."""
        return tuple(chain.from_iterable(part.keys for part in self.parts))
