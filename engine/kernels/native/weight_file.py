"""The file of a model's packed matrices.

It holds their images from its first byte, so that whole huge pages can be mapped, then a table in JSON,
its SHA-256, and its size.
"""

from __future__ import annotations

import ctypes as c
import hashlib
import json
import mmap
import os
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from engine.files import parse_json

LONGEST = 64 << 20
"""Bytes of a table."""
_PAGE = 4096
"""Bytes of which the pieces of an image are multiples, as in memory.h."""
_SIZE, _HASH = 8, 32
_PIECE = 1 << 20
"""Bytes that a check reads at once."""


class Packed(Protocol):
    """A matrix of the compiled library; see ``Matrix``."""

    pointer: int

    @property
    def library(self) -> Any: ...


def write(
    to: int, matrices: dict[str, Packed], sizes: dict[str, int], model: Sequence[str], boot: str
) -> None:
    """Write a file. Raises OSError."""
    held = list(matrices.values())
    pointers = (c.c_void_p * len(held))(*(each.pointer for each in held))
    if not held[0].library.save_images(pointers, len(held), to):
        raise OSError("the disk is full, or refuses")
    places, at = {}, 0
    for key, size in sizes.items():
        places[key] = at, size
        at += size
    with mmap.mmap(to, 0, access=mmap.ACCESS_READ) as pages:
        last = ends(pages, places.values())
    # Read, not through the map: all of the file would count as this process's memory.
    sums = {key: crc(to, at, size) for key, (at, size) in places.items()}
    table = {"files": model, "matrices": places, "ends": last, "boot": boot, "sums": sums}
    text = json.dumps(table).encode()
    os.write(to, text + hashlib.sha256(text).digest() + len(text).to_bytes(_SIZE, "little"))


def read_table(file: Path) -> dict[str, Any] | None:
    """Return the table of a complete file; None of any other. Raises OSError."""
    with file.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(size - _SIZE, 0))
        length = min(int.from_bytes(stream.read(), "little"), LONGEST)
        stream.seek(max(size - _SIZE - _HASH - length, 0))
        text, digest = stream.read(length), stream.read(_HASH)
    if hashlib.sha256(text).digest() != digest:
        return None
    table: dict[str, Any] = parse_json(text)
    if size - length - _SIZE - _HASH != sum(size for _, size in table["matrices"].values()):
        return None
    return table


def crc(descriptor: int, at: int, size: int) -> int:
    """Return the CRC-32 of ``size`` bytes from ``at``. Raises OSError."""
    total = 0
    for done in range(at, at + size, _PIECE):
        total = zlib.crc32(os.pread(descriptor, min(_PIECE, at + size - done), done), total)
    return total


def ends(pages: mmap.mmap, places: Iterable[Sequence[int]]) -> str:
    """Return a hash of the first and last page of every matrix."""
    digest = hashlib.sha256()
    for at, size in places:
        digest.update(pages[at : at + _PAGE])
        digest.update(pages[at + size - _PAGE : at + size])
    return digest.hexdigest()
