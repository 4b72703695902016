"""Format quantities and suggestions for people."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


def format_bytes(count: int) -> str:
    """Return a number of bytes in decimal units: '1.5 GB'."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size) < 999.5 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit in ("B", "kB") or size >= 99.95 else f"{size:.1f} {unit}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return '1 token', '1,024 tokens'."""
    return f"1 {noun}" if number == 1 else f"{number:,} {plural or noun + 's'}"


def closest(name: str, known: Iterable[str]) -> str:
    """Return the known name that ``name`` may be a misspelling of, or "". It has the same numbers:
    those of models are sizes and versions."""
    alike = [each for each in known if _NUMBERS.findall(each) == _NUMBERS.findall(name)]
    return next(iter(difflib.get_close_matches(name, alike, n=1)), "")


_NUMBERS = re.compile(r"\d+(?:\.\d+)?")
