"""Rows of a damaged SQLite file, page by page: without its header, its schema or its tables' upper pages.

Pure. Source: sqlite.org/fileformat2.html, 1.6 (b-tree pages), 2.1 (records) and 4.1 (write-ahead log).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress

Value = int | float | str | bytes | None

_MAGIC = b"SQLite format 3\0"
_HEADER = 100
"""Bytes before the first page's own."""
_USUAL_SIZE = 4096
_LEAF, _INTERIOR = 13, 5
"""The first byte of a page with rows of a table, and of one that names such pages."""
_LENGTHS = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)
"""Bytes of NULL, integers, a float, 0 and 1, by their serial types."""
_FLOAT, _ONE = 7, 9


def rows(content: bytes, log: bytes = b"") -> Iterator[tuple[int, tuple[Value, ...]]]:
    """Yield the number and the values of each row, of whichever table, that stands whole on a page.

    Of a row that goes on elsewhere, what is missing there reads as zeros, and a text ends early. Rows of
    pages in use come first: a page that is free may hold an older version of one. ``log`` is the
    write-ahead log.
    """
    size, usable = _sizes(content, log)
    pages = {
        at // size + 1: content[at : at + size].ljust(size, b"\0")
        for at in range(0, len(content), size)
    } | _logged(log, size)
    used = {child for number, page in pages.items() for child in _children(page, number)}
    taken: set[int] = (
        set()
    )  # a page belongs to one row, so what follows goes through each page once
    for number in sorted(pages, key=lambda number: (number not in used, number)):
        page, head = pages[number], _head(number)
        if page[head] != _LEAF:
            continue
        for place in range(_short(page, head + 3)):
            with suppress(IndexError, ValueError, struct.error):  # damaged, or no row at all
                at = _short(page, head + 8 + 2 * place)
                length, at = _varint(page, at)
                row, at = _varint(page, at)
                yield row, _values(_payload(pages, page, at, length, usable, taken))


def _sizes(content: bytes, log: bytes) -> tuple[int, int]:
    """Return the bytes of a page, and how many of them are used."""
    headed = content.startswith(_MAGIC) and len(content) >= _HEADER
    size = _short(content, 16) if headed else int.from_bytes(log[8:12], "big")
    size = 65536 if size == 1 else size
    if size not in {2**power for power in range(9, 17)}:
        size = _USUAL_SIZE
    return size, size - (content[20] if headed else 0)


def _logged(log: bytes, size: int) -> dict[int, bytes]:
    """Return the pages of the log's finished transactions, by their numbers."""
    pages: dict[int, bytes] = {}
    open_: dict[int, bytes] = {}
    for at in range(32, len(log) - size - 23, size + 24):
        if log[at + 8 : at + 16] != log[16:24]:  # from before the log was begun anew
            break
        open_[int.from_bytes(log[at : at + 4], "big")] = log[at + 24 : at + 24 + size]
        if any(log[at + 4 : at + 8]):
            pages |= open_
            open_.clear()
    return pages


def _head(number: int) -> int:
    return _HEADER if number == 1 else 0


def _short(raw: bytes, at: int) -> int:
    return int.from_bytes(raw[at : at + 2], "big")


def _children(page: bytes, number: int) -> Iterator[int]:
    head = _head(number)
    if page[head] != _INTERIOR:
        return
    cells = [_short(page, head + 12 + 2 * each) for each in range(_short(page, head + 3))]
    for at in (head + 8, *cells):
        yield int.from_bytes(page[at : at + 4], "big")


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at ``at``, and where it ends."""
    value = 0
    for end in range(at, at + 8):
        value = value << 7 | raw[end] & 127
        if raw[end] < 128:
            return value, end + 1
    value = value << 8 | raw[at + 8]
    return value - (value >> 63 << 64), at + 9


def _payload(
    pages: dict[int, bytes], page: bytes, at: int, length: int, usable: int, taken: set[int]
) -> bytes:
    """Return the bytes of a row, as far as they are there."""
    most = usable - 35
    if length <= most:
        return page[at : at + length]
    least = (usable - 12) * 32 // 255 - 23
    here = least + (length - least) % (usable - 4)
    here = here if here <= most else least
    parts = [page[at : at + here]]
    following, left = int.from_bytes(page[at + here : at + here + 4], "big"), length - here
    while left > 0 and following in pages and following not in taken:
        taken.add(following)
        parts.append(pages[following][4 : 4 + min(left, usable - 4)])
        left -= usable - 4
        following = int.from_bytes(pages[following][:4], "big")
    return b"".join(parts)


def _values(payload: bytes) -> tuple[Value, ...]:
    """Return what a record holds. Raises ValueError or IndexError where it is none."""
    end, at = _varint(payload, 0)
    kinds = []
    while at < end:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    if at != end:
        raise ValueError("no record")
    values: list[Value] = []
    for kind in kinds:
        length = (kind - 12) // 2 if kind >= 12 else _LENGTHS[kind]
        values.append(_value(kind, payload[end : end + length].ljust(min(length, 8), b"\0")))
        end += length
    return tuple(values)


def _value(kind: int, raw: bytes) -> Value:
    if kind >= 12:
        return raw.decode("utf-8", "replace") if kind % 2 else raw
    if kind == _FLOAT:
        return float(struct.unpack(">d", raw)[0])
    return None if kind == 0 else int(kind == _ONE) or int.from_bytes(raw, "big", signed=True)
