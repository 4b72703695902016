"""An image of a message: its file's bytes, as somebody sent them. Nothing is decoded here."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

MAX_IMAGE_BYTES = 16 << 20
"""Bytes of an image's file, at most."""
MAX_IMAGES = 32
"""Images of a request, at most."""


@dataclass(frozen=True, slots=True)
class Image:
    """A PNG, JPEG, WebP or GIF file. ``place``: how many characters of the message's text come before."""

    data: bytes = field(repr=False)
    place: int = 0

    @property
    def digest(self) -> bytes:
        """The SHA-256 of the bytes."""
        return hashlib.sha256(self.data).digest()
